//! Reads artefacts back as their readers do: every digest and size along an image, what is in its
//! layer, what is in a package.

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::{Context as _, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;

use super::digest::sha256;
use super::oci::{INDEX, MANIFEST, PROGRAM};

/// The images of a layout, each as its architecture and its binary. `read` gives the file at a path
/// of the layout.
pub(super) fn image(
    read: impl Fn(&str) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let file = |path: &str| read(path)?.with_context(|| format!("the image has no {path}"));
    let layout: Value = serde_json::from_slice(&file("oci-layout")?)?;
    ensure!(layout["imageLayoutVersion"] == "1.0.0", "the image is of another layout: {layout}");
    let blob = |descriptor: &Value| -> Result<Vec<u8>> {
        let digest = descriptor["digest"].as_str().context("a descriptor has no digest")?;
        let hex =
            digest.strip_prefix("sha256:").with_context(|| format!("{digest} is no SHA-256"))?;
        let content = file(&format!("blobs/sha256/{hex}"))?;
        ensure!(
            sha256(&content) == hex,
            "blob {digest} does not have the digest that it is named by"
        );
        ensure!(
            descriptor["size"] == content.len(),
            "blob {digest} is not as long as it is said to be"
        );
        Ok(content)
    };
    let mut open = vec![serde_json::from_slice::<Value>(&file("index.json")?)?];
    let mut images = Vec::new();
    while let Some(index) = open.pop() {
        for named in index["manifests"].as_array().context("an index has no manifests")? {
            let manifest: Value = serde_json::from_slice(&blob(named)?)?;
            match named["mediaType"].as_str() {
                Some(INDEX) => open.push(manifest),
                Some(MANIFEST) => images.push(one(&manifest, blob)?),
                other => bail!("an index names {other:?}, which is no image"),
            }
        }
    }
    Ok(images)
}

fn one(manifest: &Value, blob: impl Fn(&Value) -> Result<Vec<u8>>) -> Result<(String, Vec<u8>)> {
    let config: Value = serde_json::from_slice(&blob(&manifest["config"])?)?;
    let layers = manifest["layers"].as_array().map(Vec::as_slice);
    let Some([layer]) = layers else { bail!("an image does not have one layer") };
    let tar = gunzip(&blob(layer)?)?;
    let diff = format!("sha256:{}", sha256(&tar));
    ensure!(config["rootfs"]["diff_ids"] == serde_json::json!([diff]), "the layer is not {diff}");
    let mut files = entries(&tar)?;
    let binary = files.remove(PROGRAM).with_context(|| format!("the layer has no {PROGRAM}"))?;
    ensure!(files.is_empty(), "the layer holds more than {PROGRAM}: {:?}", files.keys());
    let arch = config["architecture"].as_str().context("an image has no architecture")?;
    Ok((arch.to_owned(), binary))
}

/// The member `name` of an `ar` archive.
pub(super) fn member<'a>(ar: &'a [u8], name: &str) -> Result<&'a [u8]> {
    let mut rest = ar.strip_prefix(b"!<arch>\n").context("this is no ar archive")?;
    while let Some((header, after)) = rest.split_at_checked(60) {
        let text = std::str::from_utf8(header)?;
        let size: usize = text[48..58].trim().parse()?;
        let content = after.get(..size).with_context(|| format!("{name} is cut off"))?;
        if text[..16].trim() == name {
            return Ok(content);
        }
        rest = after.get(size.next_multiple_of(2)..).unwrap_or_default();
    }
    bail!("the archive has no {name}")
}

/// The files in a compressed tar archive.
pub(super) fn unpacked(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    entries(&gunzip(archive)?)
}

/// The files in a tar archive, by the name that they have there.
pub(super) fn entries(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() {
            let name = String::from_utf8(entry.path_bytes().into_owned())?;
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            files.insert(name, content);
        }
    }
    Ok(files)
}

fn gunzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain)?;
    Ok(plain)
}
