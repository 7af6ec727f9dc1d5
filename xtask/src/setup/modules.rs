//! The few kernel modules that a guest needs, out of the thousands that a kernel has.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// What the guest loads, in this order: the checksum that ext4 asks for by name, swap in memory
/// with its compressors, a disk. One that a kernel lacks is built in or not needed there.
const WANTED: [&str; 10] = [
    "crc32c_generic",
    "crc32c_intel",
    "libcrc32c",
    "lzo",
    "lzo_rle",
    "lz4",
    "zram",
    "virtio_pci",
    "virtio_blk",
    "ext4",
];

/// One module, unpacked.
struct Module {
    bytes: Vec<u8>,
    needs: Vec<String>,
}

/// Copies the wanted modules of `tree` and all that they depend on to the flat directory `into`,
/// with `modules.dep` for modprobe and `load`, the wanted ones in order.
pub(super) fn pick(tree: &Path, into: &Path) -> Result<()> {
    let mut files = BTreeMap::new();
    list(tree, &mut files)?;
    let mut picked = BTreeMap::new();
    let mut open: Vec<String> = WANTED.map(str::to_owned).into();
    while let Some(name) = open.pop() {
        let Some(file) = files.get(&name) else { continue };
        if picked.contains_key(&name) {
            continue;
        }
        let bytes = unpacked(file)?;
        let needs = needs(&bytes);
        open.extend(needs.clone());
        picked.insert(name, Module { bytes, needs });
    }
    // Without swap in memory no scenario of memory pressure runs: then the tree was misread.
    if !picked.contains_key("zram") {
        bail!("no zram module below {}", tree.display());
    }
    fs::create_dir_all(into)?;
    let mut dep = String::new();
    for (name, module) in &picked {
        fs::write(into.join(format!("{name}.ko")), &module.bytes)?;
        let mut after = Vec::new();
        follow(&picked, name, &mut after);
        let after: Vec<String> = after.iter().map(|need| format!(" {need}.ko")).collect();
        dep += &format!("{name}.ko:{}\n", after.concat());
    }
    fs::write(into.join("modules.dep"), dep)?;
    let load: Vec<&str> = WANTED.into_iter().filter(|name| picked.contains_key(*name)).collect();
    fs::write(into.join("load"), load.join("\n") + "\n")?;
    Ok(())
}

/// All that `name` depends on, each before what it depends on itself: modprobe loads from the end.
fn follow(picked: &BTreeMap<String, Module>, name: &str, after: &mut Vec<String>) {
    let Some(module) = picked.get(name) else { return };
    for need in module.needs.iter().filter(|need| picked.contains_key(*need)) {
        after.retain(|known| known != need);
        after.push(need.clone());
        follow(picked, need, after);
    }
}

fn list(dir: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            list(&path, files)?;
            continue;
        }
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some((stem, _)) = name.split_once(".ko") {
            files.insert(stem.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn unpacked(file: &Path) -> Result<Vec<u8>> {
    let program = match file.extension().and_then(|e| e.to_str()) {
        Some("ko") => return Ok(fs::read(file)?),
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => bail!("{}: packed in an unknown way", file.display()),
    };
    let out = Command::new(program).args(["-d", "-c"]).arg(file).output();
    let out = out.with_context(|| format!("cannot start {program} to unpack kernel modules"))?;
    if !out.status.success() {
        bail!("{program} cannot unpack {}", file.display());
    }
    Ok(out.stdout)
}

/// The modules that a module's own `.modinfo` names: strings that end in NUL.
fn needs(module: &[u8]) -> Vec<String> {
    let names = module.split(|byte| *byte == 0).filter_map(|text| text.strip_prefix(b"depends="));
    let names = names.flat_map(|list| list.split(|byte| *byte == b','));
    let names = names.map(|name| String::from_utf8_lossy(name).replace('-', "_"));
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_with_all_that_it_depends_on() {
        let root = std::env::temp_dir().join(format!("isobar-modules-{}", std::process::id()));
        let (tree, into) = (root.join("tree"), root.join("into"));
        fs::create_dir_all(tree.join("kernel/fs")).unwrap();
        let files: [(&str, &[u8]); 5] = [
            ("zram.ko", b"\x7fELF\0license=GPL\0depends=zsmalloc,lz4_compress\0"),
            ("zsmalloc.ko", b"depends=\0"),
            ("lz4-compress.ko", b"name=x\0depends=zsmalloc\0"),
            ("fs/ext4.ko", b"depends=built_in\0"),
            ("fs/unwanted.ko", b"depends=zram\0"),
        ];
        for (name, bytes) in files {
            fs::write(tree.join("kernel").join(name), bytes).unwrap();
        }
        pick(&tree, &into).unwrap();
        assert_eq!(
            fs::read_to_string(into.join("modules.dep")).unwrap(),
            "ext4.ko:\nlz4_compress.ko: zsmalloc.ko\nzram.ko: lz4_compress.ko zsmalloc.ko\n\
             zsmalloc.ko:\n"
        );
        assert_eq!(fs::read_to_string(into.join("load")).unwrap(), "zram\next4\n");
        fs::remove_dir_all(root).unwrap();
    }
}
