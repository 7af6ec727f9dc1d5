//! Pods for tests, in a line each.

use isobar_core::model::quantity::ResourceList;
use isobar_core::model::workload::{Container, ContainerKind, Pod, Resources};

/// A pod from a text as `pod r 1/1Gi; init; main r 100m/100Mi l -/200Mi`: after `;` each container
/// by its kind (`init`, `sidecar`, `main`, `debug`), or `pod` for resources of the pod as a whole;
/// then requests and limits as CPU/memory or CPU/memory/huge pages, `-` for none. Containers are named by kind and place.
#[track_caller]
pub(crate) fn pod(text: &str) -> Pod {
    let mut pod = Pod::default();
    for (i, part) in text.split(';').map(str::trim).filter(|part| !part.is_empty()).enumerate() {
        let mut words = part.split_whitespace();
        let name = words.next().unwrap();
        let mut resources = Resources::default();
        while let Some(which) = words.next() {
            let list = list(words.next().unwrap());
            match which {
                "r" => resources.requests = list,
                "l" => resources.limits = list,
                other => panic!("{other:?} in {text:?}"),
            }
        }
        let kind = match name {
            "pod" => {
                pod.resources = Some(resources);
                continue;
            }
            "main" => ContainerKind::Regular,
            "init" => ContainerKind::Init,
            "sidecar" => ContainerKind::Sidecar,
            "debug" => ContainerKind::Ephemeral,
            other => panic!("{other:?} in {text:?}"),
        };
        pod.containers.push(Container {
            name: format!("{name}{i}"),
            kind,
            resources,
            ..Container::default()
        });
    }
    pod
}

fn list(text: &str) -> ResourceList {
    let names = ["cpu", "memory", "hugepages-2Mi"];
    let set = names.into_iter().zip(text.split('/')).filter(|(_, text)| *text != "-");
    set.map(|(name, text)| (name.to_owned(), text.parse().unwrap())).collect()
}
