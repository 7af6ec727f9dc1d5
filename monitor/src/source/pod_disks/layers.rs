//! Writable layers of containers: the `upperdir` of their overlay mounts on the node.
//! From the node's own table, because a container may make the one that its processes see.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::super::gap::{ReadError, read};
use super::super::mounts::unescape;
use super::Places;

/// By container id.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layers(BTreeMap<String, PathBuf>);

impl Layers {
    /// Of process 1, whose mounts are the node's; where it may not be asked, of this process.
    pub(super) fn read(places: &Places) -> Result<Self, ReadError> {
        let table = |of: &str| places.proc.join(of).join("mountinfo");
        let parsed = |text: &[u8]| Ok::<_, String>(Self::parse(text, &places.host));
        read(&table("1"), parsed).or_else(|_| read(&table("self"), parsed))
    }

    pub(super) fn of(&self, id: &str) -> Option<&Path> {
        self.0.get(id).map(PathBuf::as_path)
    }

    /// containerd and docker mount a container's root at a path that holds its id.
    fn parse(mountinfo: &[u8], host: &Path) -> Self {
        let lines = mountinfo.split(|byte| *byte == b'\n');
        let of = |line| {
            let (point, options) = overlay(line)?;
            let id = point.components().rev().find_map(container_id)?;
            let upper = options.split(|byte| *byte == b',');
            let upper = unescape(upper.filter_map(|o| o.strip_prefix(b"upperdir=")).next()?);
            Some((id, host.join(upper.strip_prefix("/").ok()?)))
        };
        Self(lines.filter_map(of).collect())
    }
}

/// Mount point and the file system's own options of an overlay mount.
/// Source: `show_mountinfo`, fs/proc_namespace.c.
fn overlay(line: &[u8]) -> Option<(PathBuf, &[u8])> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = fields.nth(4)?;
    fields.find(|field| *field == b"-")?;
    let is_overlay = fields.next()? == b"overlay";
    let options = fields.nth(1)?;
    is_overlay.then(|| (unescape(point), options))
}

fn container_id(part: Component<'_>) -> Option<String> {
    let Component::Normal(name) = part else { return None };
    let is_id =
        |name: &OsStr| name.len() == 64 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
    is_id(name).then(|| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_finds_the_upper_directory_of_a_container() {
        let id = "c0".repeat(32);
        let run = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
        let upper = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs";
        let options = format!("rw,lowerdir=/l/1:/l/2,upperdir={upper},workdir=/w,index=off");
        let line = |point: &str, kind: &str, options: &str| {
            format!("900 30 0:77 / {point} rw,relatime shared:300 - {kind} overlay {options}\n")
        };
        let point = format!("{run}/{id}/rootfs");
        #[rustfmt::skip]
        let table = [
            // line, the node's paths begin at, its layer
            (line(&point, "overlay", &options),                            "/",     Some(upper.to_owned())),
            (line(&point, "overlay", &options),                            "/host", Some(format!("/host{upper}"))),
            (line(&point, "overlay", "rw,upperdir=/a\\040b,workdir=/w"),   "/",     Some("/a b".into())),
            (line(&point, "overlay", "ro,lowerdir=/l/1"),                  "/",     None),
            (line(&point, "overlay", "rw,upperdir=relative"),              "/",     None),
            (line(&point, "ext4", &options),                               "/",     None),
            (line(&format!("{run}/short/rootfs"), "overlay", &options),    "/",     None),
            ("900 30\n".into(),                                            "/",     None),
        ];
        for (text, host, want) in table {
            let layers = Layers::parse(text.as_bytes(), Path::new(host));
            assert_eq!(layers.of(&id), want.as_deref().map(Path::new), "{text}");
        }
    }
}
