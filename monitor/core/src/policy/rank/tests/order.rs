//! What holds of every list: one order, whatever comes in which order.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use QosClass::{BestEffort, Burstable, Guaranteed};

fn any_amount() -> impl Strategy<Value = Option<Quantity>> {
    prop_oneof![
        1 => Just(None),
        // Few values, so that many are equal and later keys decide.
        6 => (0_u64..4).prop_map(|n| Some(Quantity::bytes(n << 20))),
        2 => any::<u64>().prop_map(|n| Some(Quantity::count(n))),
    ]
}

fn any_harm() -> impl Strategy<Value = Option<Harm>> {
    let time = || prop_oneof![Just(0), 0..3_000_000_u64, any::<u64>()].prop_map(Nanos);
    proptest::option::of((time(), time()).prop_map(|(others, own)| Harm { others, own }))
}

fn any_spared() -> impl Strategy<Value = Option<SparedReason>> {
    use SparedReason::{Critical, Isobar, Mirror, OptedOut, Static};
    prop_oneof![
        6 => Just(None),
        1 => select(vec![Static, Mirror, Critical, Isobar, OptedOut]).prop_map(Some),
    ]
}

prop_compose! {
    fn any_pod()(
        class in select(vec![BestEffort, Burstable, Guaranteed]),
        priority in prop_oneof![-1..2, any::<i32>()],
        request in any_amount(),
        usage in any_amount(),
        harm in any_harm(),
        started in proptest::option::of(prop_oneof![0..3_i64, any::<i64>()]),
        spared in any_spared(),
        owner in proptest::option::of(select(vec!["a", "b"])),
    ) -> Contender {
        let owner = owner.map(|name| Owner { name: name.into(), ..Owner::default() });
        let new = Contender::unknown("", class);
        Contender { priority, request, usage, harm, started, spared, owner, ..new }
    }
}

/// Pods with uids of their own, in an order that tells nothing.
fn any_pods() -> impl Strategy<Value = Vec<Contender>> {
    let pods = proptest::collection::vec(any_pod(), 0..40).prop_map(|mut pods| {
        for (i, pod) in pods.iter_mut().enumerate() {
            pod.uid = format!("{:02}", (i * 7) % 41);
            pod.name = pod.uid.clone();
        }
        pods
    });
    pods.prop_shuffle()
}

fn any_order() -> impl Strategy<Value = Order> {
    select(vec![Order::Qos, Order::Kubelet])
}

fn any_purpose() -> impl Strategy<Value = Purpose> {
    select(Purpose::all().collect::<Vec<_>>())
}

/// Without groups, so that there is one candidate to a pod.
fn alone() -> settings::Ranking {
    settings::Ranking { group_below: Bytes(0), ..Default::default() }
}

proptest! {
    #[test]
    fn rank_ignores_input_order(
        (pods, shuffled) in any_pods().prop_flat_map(|p| (Just(p.clone()), Just(p).prop_shuffle())),
        order in any_order(),
        purpose in any_purpose(),
    ) {
        for rules in [alone(), settings::Ranking::default()] {
            let (one, other) =
                [&pods, &shuffled].map(|pods| rank_all(pods, purpose, order, &rules)).into();
            prop_assert_eq!(one, other);
        }
    }

    /// Antisymmetric and transitive: of any two the same goes first alone as among all.
    #[test]
    fn rank_is_transitive(
        pods in any_pods(), order in any_order(), purpose in any_purpose(),
    ) {
        // The keys tell whether a pod lacks statistics; the order must not depend on that.
        let all = rank_all(&pods, purpose, order, &alone());
        let place = |uid: &str| all.candidates.iter().position(|c| c.uid == uid);
        for a in &pods {
            for b in &pods {
                let (Some(at), Some(bt)) = (place(&a.uid), place(&b.uid)) else { continue };
                let two = rank_all(&[a.clone(), b.clone()], purpose, order, &alone());
                let first = if at <= bt { a } else { b };
                prop_assert_eq!(&two.candidates[0].uid, &first.uid);
            }
        }
    }

    #[test]
    fn rank_of_a_doubled_list(
        pods in any_pods(), order in any_order(), purpose in any_purpose(),
    ) {
        let once = rank_all(&pods, purpose, order, &alone());
        let doubled: Vec<_> = pods.iter().chain(&pods).cloned().collect();
        let twice = rank_all(&doubled, purpose, order, &alone());
        let each_twice: Vec<_> = once.candidates.iter().flat_map(|c| [c, c]).cloned().collect();
        prop_assert_eq!(twice.candidates, each_twice);
        prop_assert_eq!(twice.n_spared, 2 * once.n_spared);
    }

    #[test]
    fn rank_head_begins_rank_all(
        pods in any_pods(), order in any_order(), purpose in any_purpose(),
    ) {
        let rules = settings::Ranking::default();
        let head = rank(&pods, purpose, order, &rules);
        let mut all = rank_all(&pods, purpose, order, &rules);
        prop_assert_eq!(all.candidates.len(), all.n_candidates);
        prop_assert_eq!(all.spared.len(), all.n_spared);
        all.candidates.truncate(HEAD);
        all.spared.truncate(HEAD);
        prop_assert_eq!(head, all);
    }

    /// Each pod is a candidate, a member of a group, or spared, and only one of these.
    #[test]
    fn rank_loses_nobody(
        pods in any_pods(), order in any_order(), purpose in any_purpose(),
    ) {
        let got = rank_all(&pods, purpose, order, &settings::Ranking::default());
        let alone = got.candidates.iter().filter(|c| c.members.is_empty()).map(|c| &c.uid);
        let members = got.candidates.iter().flat_map(|c| &c.members);
        let spared: Vec<_> = got.spared.iter().map(|s| &s.uid).collect();
        let mut told: Vec<_> = alone.chain(members).chain(spared.iter().copied()).collect();
        told.sort();
        let mut uids: Vec<_> = pods.iter().map(|pod| &pod.uid).collect();
        uids.sort();
        prop_assert_eq!(told, uids);
        for pod in pods.iter().filter(|pod| pod.spared.is_some()) {
            prop_assert!(spared.contains(&&pod.uid));
        }
    }

    /// Values tell the order: going down the list, the first key that differs got no better.
    #[test]
    fn rank_neighbours_differ_in_a_key(
        pods in any_pods(), order in any_order(), purpose in any_purpose(),
    ) {
        let got = rank_all(&pods, purpose, order, &alone());
        for pair in got.candidates.windows(2) {
            prop_assert!(why_before(&pair[0], &pair[1]).is_some(), "{:?}", pair);
        }
    }

    #[test]
    fn ranking_json_round_trip(
        pods in any_pods(), order in any_order(), purpose in any_purpose(),
    ) {
        let got = rank(&pods, purpose, order, &settings::Ranking::default());
        let json = serde_json::to_string(&got).unwrap();
        prop_assert_eq!(serde_json::from_str::<Ranking>(&json).unwrap(), got);
    }
}
