//! Static pods by their manifests: the files in the directory that the kubelet reads, and the uid that
//! the kubelet gave each, which no manifest has and the name of its log directory tells.
//! Source: kubelet `pkg/kubelet/config/file.go`, `extractFromDir`; `common.go`, `applyDefaults`;
//! `pkg/kubelet/kuberuntime/helpers.go`, `BuildPodLogsDirectory`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use isobar_core::model::workload::Pod;
use isobar_core::policy::assess::critical::SOURCE;
use isobar_kubelet::admitted::admitted;

use super::input;

/// The pods whose manifests are in `dir`, as the kubelet of `node` runs them. What is no manifest, and
/// a pod that has not run on this node, is left out with a warning: the kubelet goes on, too.
pub(super) fn read(dir: &Path, logs: &Path, node: &str) -> Result<Vec<Pod>> {
    let mut pods = Vec::new();
    for file in files(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let manifest = match input::pods(&file) {
            Ok((_, manifest)) => manifest,
            Err(why) => {
                tracing::warn!("ignoring {}: {why:#}", file.display());
                continue;
            }
        };
        for written in &manifest.pods {
            let pod = of_kubelet(written, node);
            match uid(logs, &pod) {
                Some(uid) => pods.push(Pod { uid, ..pod }),
                None => tracing::warn!(
                    "ignoring {}: {} has no directory in {}, which would tell its uid",
                    file.display(),
                    pod.full_name(),
                    logs.display()
                ),
            }
        }
    }
    Ok(pods)
}

/// Sorted by name; hidden files and directories are none of the kubelet's.
fn files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    let is_hidden = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
    };
    let paths = entries.into_iter().map(|entry| entry.path());
    let mut files: Vec<_> = paths.filter(|path| !is_hidden(path) && path.is_file()).collect();
    files.sort_unstable();
    Ok(files)
}

fn of_kubelet(written: &Pod, node: &str) -> Pod {
    let mut pod = admitted(written);
    pod.name = format!("{}-{}", pod.name, node.to_lowercase());
    if pod.namespace.is_empty() {
        "default".clone_into(&mut pod.namespace);
    }
    pod.annotations.insert(SOURCE.into(), "file".into());
    pod
}

/// Of the newest directory: a manifest that was changed gives a pod with another uid.
fn uid(logs: &Path, pod: &Pod) -> Option<String> {
    let begin = format!("{}_{}_", pod.namespace, pod.name);
    let uids = fs::read_dir(logs).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let uid = entry.file_name().to_str()?.strip_prefix(&begin)?.to_owned();
        let changed = entry.metadata().map(|it| (it.mtime(), it.mtime_nsec()));
        Some((changed.unwrap_or_default(), uid))
    });
    uids.max().map(|(_, uid)| uid).filter(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::policy::assess::critical;
    use rustix::fs::{Timespec, Timestamps, futimens};

    #[test]
    fn read_gives_each_static_pod_the_uid_of_its_logs() {
        let root = tempfile::tempdir().unwrap();
        let (dir, logs) = (root.path().join("manifests"), root.path().join("logs"));
        fs::create_dir_all(dir.join("directory.yaml")).unwrap();
        let manifest = |name: &str, namespace: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{namespace}}}\nspec:\n  \
                 containers: [{{name: a, resources: {{limits: {{memory: 64Mi}}}}}}]\n"
            )
        };
        #[rustfmt::skip]
        let written = [
            // file, text
            ("etcd.yaml",    manifest("etcd", ", namespace: kube-system")),
            ("plain.yaml",   manifest("plain", "")),
            ("new.yaml",     manifest("new", "")), // has not run yet
            (".hidden.yaml", manifest("hidden", "")),
            ("broken.yaml",  "kind: [".to_owned()),
            ("notes.txt",    "not a manifest".to_owned()),
        ];
        for (file, text) in written {
            fs::write(dir.join(file), text).unwrap();
        }
        // A pod of the API whose name begins alike, and an earlier one of the same manifest.
        for name in [
            "kube-system_etcd-n1_old",
            "kube-system_etcd-n1-2_x",
            "default_plain-n1_fd3546a9480ff98357cddf7deaea096d",
            "default_hidden-n1_u",
        ] {
            fs::create_dir_all(logs.join(name)).unwrap();
        }
        let old = fs::File::open(logs.join("kube-system_etcd-n1_old")).unwrap();
        let long_ago = Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        futimens(&old, &times).unwrap();
        fs::create_dir(logs.join("kube-system_etcd-n1_9cf5aacb94861a319d7714edecde1e11")).unwrap();
        let pods = read(&dir, &logs, "N1").unwrap();
        let told: Vec<_> = pods.iter().map(|pod| (pod.full_name(), &*pod.uid)).collect();
        #[rustfmt::skip]
        assert_eq!(told, [
            ("kube-system/etcd-n1".into(), "9cf5aacb94861a319d7714edecde1e11"),
            ("default/plain-n1".into(),    "fd3546a9480ff98357cddf7deaea096d"),
        ]);
        assert!(pods.iter().all(critical::is_critical), "they are never candidates");
        let why = read(&root.path().join("gone"), &logs, "n1").unwrap_err();
        assert!(format!("{why:#}").contains("gone: No such file"), "{why:#}");
    }
}
