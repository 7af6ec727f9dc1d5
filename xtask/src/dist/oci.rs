//! A container image FROM scratch as an OCI image layout: a directory of blobs named by their
//! digest, and the same in one tar. One layer holds the binary and an empty /tmp. There are no
//! certificates: the API server's authority is mounted with the service account.
//! Rules: the OCI image specification: image-layout.md, image-index.md, manifest.md, config.md.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::digest::sha256;
use super::release::{DESCRIPTION, LICENCE, Release};
use super::target::Target;
use super::tree::{Tree, gzip};

pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Where the program is in the image: on the path, for `kubectl exec POD -- isobar`.
pub(super) const PROGRAM: &str = "usr/local/bin/isobar";

/// The files of a layout, by their path in it.
pub(super) struct Layout(BTreeMap<String, Vec<u8>>);

impl Layout {
    /// The layout of an image of each of `binaries`.
    pub(super) fn of(binaries: &[(Target, Vec<u8>)], release: &Release) -> Result<Self> {
        let mut layout = Self(BTreeMap::new());
        layout
            .0
            .insert("oci-layout".into(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into());
        let mut images = Vec::new();
        for (target, binary) in binaries {
            images.push(layout.image(*target, binary, release)?);
        }
        // One image is named itself: not every reader follows an index to a single manifest.
        let mut named = match images.as_slice() {
            [only] => only.clone(),
            several => {
                let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": several});
                layout.blob(INDEX, index.to_string().into_bytes())
            }
        };
        named["annotations"] = json!({
            "org.opencontainers.image.ref.name": release.version,
            "io.containerd.image.name": format!("docker.io/library/isobar:{}", release.version),
        });
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]});
        layout.0.insert("index.json".into(), index.to_string().into_bytes());
        Ok(layout)
    }

    /// Adds the blobs of one image and returns the descriptor of its manifest.
    fn image(&mut self, target: Target, binary: &[u8], release: &Release) -> Result<Value> {
        let mut root = Tree::default();
        root.file(PROGRAM, 0o755, binary);
        root.dir("tmp", 0o1777);
        let tar = root.tar("", release.epoch)?;
        let created = release.time()?;
        let config = json!({
            "created": created,
            "architecture": target.debian(),
            "os": "linux",
            "config": {
                "Entrypoint": [format!("/{PROGRAM}")],
                "Cmd": ["run"],
                "Env": ["PATH=/usr/local/bin"],
                "WorkingDir": "/",
                "Labels": {
                    "org.opencontainers.image.title": "isobar",
                    "org.opencontainers.image.description": DESCRIPTION,
                    "org.opencontainers.image.version": release.version,
                    "org.opencontainers.image.revision": release.commit,
                    "org.opencontainers.image.created": created,
                    "org.opencontainers.image.licenses": LICENCE,
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&tar))]},
            "history": [{"created": created, "created_by": "cargo xtask dist"}],
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob(CONFIG, config.to_string().into_bytes()),
            "layers": [self.blob(LAYER, gzip(&tar)?)],
        });
        let mut named = self.blob(MANIFEST, manifest.to_string().into_bytes());
        named["platform"] = json!({"architecture": target.debian(), "os": "linux"});
        Ok(named)
    }

    /// Adds a blob and returns its descriptor.
    fn blob(&mut self, media_type: &str, content: Vec<u8>) -> Value {
        let digest = sha256(&content);
        let size = content.len();
        self.0.insert(format!("blobs/sha256/{digest}"), content);
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
    }

    /// Path and content of each file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(path, content)| (path.as_str(), content.as_slice()))
    }

    /// The layout in one tar: for `podman load`, `ctr images import`, skopeo's `oci-archive:`.
    pub(super) fn tar(&self, release: &Release) -> Result<Vec<u8>> {
        let mut tree = Tree::default();
        self.files().for_each(|(path, content)| tree.file(path, 0o644, content));
        tree.tar("", release.epoch)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::readback::image;
    use super::*;

    fn layout(binaries: &[(Target, Vec<u8>)]) -> Layout {
        Layout::of(binaries, &Release::made_up()).unwrap()
    }

    #[test]
    fn layout_of_one_or_both_architectures_reads_back() {
        let (x86, arm) = ((Target::X86, b"for x86".to_vec()), (Target::Arm, b"for arm".to_vec()));
        for binaries in [vec![x86.clone()], vec![arm.clone()], vec![x86, arm]] {
            let layout = layout(&binaries);
            let read = image(|path| Ok(layout.0.get(path).cloned())).unwrap();
            let want: Vec<(String, Vec<u8>)> =
                binaries.into_iter().map(|(t, bytes)| (t.debian().to_owned(), bytes)).collect();
            assert_eq!(read, want);
        }
    }

    #[test]
    fn layout_has_the_program_where_the_containerfile_puts_it() {
        let containerfile = fs::read_to_string("../deploy/Containerfile").unwrap();
        let entrypoint = format!("ENTRYPOINT [\"/{PROGRAM}\"]");
        assert!(containerfile.lines().any(|line| line == entrypoint), "{entrypoint}");
        // `kubectl exec POD -- isobar` looks for it there.
        let Layout(files) = layout(&[(Target::X86, b"binary".to_vec())]);
        let configs = files.values().filter_map(|blob| serde_json::from_slice::<Value>(blob).ok());
        let configs: Vec<Value> = configs.filter(|blob| blob["config"]["Env"].is_array()).collect();
        let [config] = &*configs else { panic!("{configs:?}") };
        assert_eq!(config["config"]["Entrypoint"], json!([format!("/{PROGRAM}")]));
        let (dir, _) = PROGRAM.rsplit_once('/').unwrap();
        assert_eq!(config["config"]["Env"], json!([format!("PATH=/{dir}")]));
    }

    #[test]
    fn layout_with_a_changed_blob_is_refused() {
        let Layout(files) = layout(&[(Target::X86, b"binary".to_vec())]);
        let blobs: Vec<String> =
            files.keys().filter(|path| path.starts_with("blobs/")).cloned().collect();
        assert_eq!(blobs.len(), 3, "{blobs:?}");
        for changed in blobs {
            let read = image(|path| {
                let mut content = files.get(path).cloned();
                if path == changed {
                    content.iter_mut().for_each(|content| content[10] ^= 1);
                }
                Ok(content)
            });
            let why = read.unwrap_err().to_string();
            assert!(why.contains("does not have the digest"), "{changed}: {why}");
        }
    }

    #[test]
    fn layout_of_the_same_binaries_is_the_same_bytes() {
        let tar = || layout(&[(Target::X86, b"binary".to_vec())]).tar(&Release::made_up()).unwrap();
        assert_eq!(tar(), tar());
    }
}
