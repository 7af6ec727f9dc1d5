//! The kubelet's eviction message, word for word, and the annotations of its event.
//! Source: kubelet `pkg/kubelet/eviction/helpers.go`, `evictionMessage`.

use std::collections::BTreeMap;

use crate::model::quantity::Quantity;

/// Usage and request of a container or pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    pub name: String,
    pub usage: Quantity,
    pub request: Quantity,
}

/// What the message of an eviction reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shortage {
    /// The kubelet's word: `memory`, `ephemeral-storage`, `inodes`, `pids`.
    pub resource: String,
    /// The threshold and the available amount.
    pub amounts: Option<(Quantity, Quantity)>,
    /// The pod, if it has a pod-level request for the resource.
    pub pod: Option<Consumer>,
    /// Its containers in the order of their statistics, without ephemeral ones.
    pub containers: Vec<Consumer>,
}

/// Every sentence ends with a full stop and a space, as the kubelet's does.
pub fn message(shortage: &Shortage) -> String {
    let resource = &shortage.resource;
    let mut text = format!("The node was low on resource: {resource}. ");
    if let Some((threshold, available)) = &shortage.amounts {
        text += &format!("Threshold quantity: {threshold}, available: {available}. ");
    }
    // The kubelet names the pod even if its usage is below its request.
    let pod = shortage.pod.iter().map(|pod| ("Pod", pod));
    for (kind, who) in pod.chain(shortage.offending().map(|container| ("Container", container))) {
        let Consumer { name, usage, request } = who;
        text += &format!(
            "{kind} {name} was using {usage}, request is {request}, has larger consumption of \
             {resource}. "
        );
    }
    text
}

/// The annotations of the eviction's event.
pub fn annotations(shortage: &Shortage) -> BTreeMap<String, String> {
    let list = |of: &dyn Fn(&Consumer) -> String| {
        shortage.offending().map(of).collect::<Vec<_>>().join(",")
    };
    let mut all = BTreeMap::from([
        ("offending_containers".to_owned(), list(&|container| container.name.clone())),
        ("offending_containers_usage".to_owned(), list(&|container| container.usage.to_string())),
        ("starved_resource".to_owned(), shortage.resource.clone()),
    ]);
    if let Some(pod) = &shortage.pod {
        all.insert("offending_pod".into(), pod.name.clone());
        all.insert("offending_pod_usage".into(), pod.usage.to_string());
    }
    all
}

impl Shortage {
    /// Containers whose usage exceeds their request.
    fn offending(&self) -> impl Iterator<Item = &Consumer> {
        self.containers.iter().filter(|container| container.usage > container.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(name: &str, usage: &str, request: &str) -> Consumer {
        let quantity = |text: &str| text.parse().unwrap();
        Consumer { name: name.into(), usage: quantity(usage), request: quantity(request) }
    }

    /// Name, usage and request of each.
    type Consumers = &'static [(&'static str, &'static str, &'static str)];
    /// Resource, threshold and available, the pod, containers, what follows the first piece.
    type Row =
        (&'static str, Option<(&'static str, &'static str)>, Consumers, Consumers, &'static str);

    #[test]
    fn message_of_evictions() {
        #[rustfmt::skip]
        let table: &[Row] = &[
            ("memory", None, &[], &[("init1", "150Mi", "100Mi")],
             "Container init1 was using 150Mi, request is 100Mi, has larger consumption of memory. "),
            ("memory", None, &[], &[("sidecar", "250Mi", "200Mi"), ("main", "100Mi", "100Mi")],
             "Container sidecar was using 250Mi, request is 200Mi, has larger consumption of memory. "),
            ("memory", None, &[], &[("restartable-init1", "250Mi", "0"), ("regular1", "200Mi", "0")],
             "Container restartable-init1 was using 250Mi, request is 0, has larger consumption of memory. \
              Container regular1 was using 200Mi, request is 0, has larger consumption of memory. "),
            ("memory", None, &[("pod-eviction-message", "600Mi", "250Mi")], &[("a", "250Mi", "0"), ("b", "350Mi", "0")],
             "Pod pod-eviction-message was using 600Mi, request is 250Mi, has larger consumption of memory. \
              Container a was using 250Mi, request is 0, has larger consumption of memory. \
              Container b was using 350Mi, request is 0, has larger consumption of memory. "),
            ("memory", None, &[("modest", "100Mi", "250Mi")], &[],
             "Pod modest was using 100Mi, request is 250Mi, has larger consumption of memory. "),
            ("ephemeral-storage", Some(("2Gi", "1536Mi")), &[], &[("above-requests", "700Mi", "100Mi")],
             "Threshold quantity: 2Gi, available: 1536Mi. \
              Container above-requests was using 700Mi, request is 100Mi, has larger consumption of ephemeral-storage. "),
            ("pids", Some(("1k", "900")), &[], &[], "Threshold quantity: 1k, available: 900. "),
        ];
        for (resource, amounts, pod, containers, want) in table {
            let quantity = |text: &str| text.parse().unwrap();
            let all = |of: Consumers| of.iter().map(|(n, u, r)| consumer(n, u, r)).collect();
            let pods: Vec<Consumer> = all(pod);
            let shortage = Shortage {
                resource: (*resource).into(),
                amounts: amounts.map(|(a, b)| (quantity(a), quantity(b))),
                pod: pods.into_iter().next(),
                containers: all(containers),
            };
            let want = format!("The node was low on resource: {resource}. {want}");
            assert_eq!(message(&shortage), want);
        }
    }

    #[test]
    fn message_lists_offenders() {
        let shortage = Shortage {
            resource: "memory".into(),
            pod: Some(consumer("pod", "600Mi", "250Mi")),
            containers: vec![
                consumer("restartable-init1", "250Mi", "0"),
                consumer("modest", "1Mi", "2Mi"),
                consumer("regular1", "200Mi", "0"),
            ],
            amounts: None,
        };
        let want = [
            ("offending_containers", "restartable-init1,regular1"),
            ("offending_containers_usage", "250Mi,200Mi"),
            ("offending_pod", "pod"),
            ("offending_pod_usage", "600Mi"),
            ("starved_resource", "memory"),
        ];
        let want = want.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(annotations(&shortage), BTreeMap::from(want));
    }
}
