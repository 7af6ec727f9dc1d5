//! When several takers are one candidate.

use super::*;
use crate::model::decision::Loss;
use crate::policy::decide::joint::joint;

/// A pod: MiB that it took, `None` if it is a candidate for what it holds; MiB of its processes, and of
/// its tmpfs; whether the API tells of it.
type Of = (Option<u64>, u64, u64, bool);

#[test]
fn joint_of_those_that_suffice_together() {
    let pod: fn(u64, u64) -> Of = |taken, anon| (Some(taken), anon, 0, true);
    let holds = (None, 200, 0, true);
    #[rustfmt::skip]
    let table: [(u64, u64, [Of; 3], Option<&str>); 10] = [
        // MiB lost in a second, MiB that were lost; the pods; who ends together
        (30, 30,  [pod(10, 200), pod(10, 200), pod(10, 200)],         None), // one suffices
        (60, 60,  [pod(20, 200), pod(20, 200), pod(20, 200)],         Some("a b")),
        (60, 60,  [pod(20, 50), pod(20, 50), pod(20, 50)],            Some("a b c")),
        (60, 60,  [pod(40, 50), pod(10, 150), pod(10, 50)],           Some("a b")),
        (60, 200, [pod(20, 50), pod(20, 50), pod(20, 50)],            None), // another party took most
        (60, 60,  [pod(20, 50), pod(20, 0), pod(20, 50)],             None), // b frees nothing, and goes on
        (30, 60,  [pod(20, 90), pod(20, 0), pod(20, 90)],             Some("a c")),
        (30, 60,  [pod(20, 90), (Some(20), 90, 0, false), pod(20, 90)], Some("a c")),
        (60, 60,  [holds, holds, holds],                              None),
        (60, 60,  [(Some(20), 10, 400, true), pod(20, 50), pod(20, 50)], None), // it is evicted
    ];
    for (growth, lost, pods, want) in table {
        let mut node = Node::new();
        let loss = Loss { lost: Bytes(lost * MIB), ..Loss::default() };
        node.ranking.loss = Some(loss);
        for (at, (taken, anon, shmem, is_known)) in pods.into_iter().enumerate() {
            let group = node.sample.cgroups.get_mut(&CgroupId(at as u64 + 10)).unwrap();
            let (anon, shmem) = (Bytes(anon * MIB), Bytes(shmem * MIB));
            let stat = MemoryStat { anon, file: shmem, shmem, ..MemoryStat::default() };
            Arc::make_mut(group).memory.stat = Some(stat);
            let candidate = &mut node.ranking.candidates[at];
            let value = taken.map(|taken| KeyValue::Quantity(Quantity::bytes(taken * MIB)));
            candidate.keys =
                value.map(|value| MeritKey { key: Key::Taken, value }).into_iter().collect();
            let known = Arc::make_mut(node.sample.pods.as_mut().unwrap());
            known.retain(|uid, _| is_known || *uid != candidate.uid);
        }
        node.loses(growth);
        let trigger = pressure(PressureSignal::Exhaustion(seconds(10)));
        let short_of = Met { measured: seconds(5).0, ..met(trigger) };
        let all = node.ranking.candidates.clone();
        let mut ask = |ended: Option<&str>| {
            node.standing.takers = ended.map(|uid| (uid.into(), "x".into())).into_iter().collect();
            node.ask(1, &[short_of], |question, standing| {
                joint(question, standing, &short_of, &all).map(|one| one.members.join(" "))
            })
        };
        assert_eq!(ask(Some("before")).as_deref(), want, "{growth} {lost} {pods:?}");
        assert_eq!(ask(None), None, "the first end is that of one");
    }
}
