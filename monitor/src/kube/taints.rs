//! A node's taints with isobar's own in them. The list is atomic: who writes it writes all of it, so
//! it is made out of what the node's object says, and written under its resource version.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;

use isobar_core::model::decision;
use isobar_core::model::settings::TaintEffect;

/// The list that is to be written; `None` if it is as it should be. Of taints with other keys than
/// `own` none is touched.
pub(super) fn merged(
    live: &[Taint],
    own: &BTreeSet<String>,
    wanted: &[decision::Taint],
) -> Option<Vec<Taint>> {
    let is_wanted = |taint: &Taint| {
        wanted.iter().any(|one| one.key == taint.key && effect(one.effect) == taint.effect)
    };
    let kept = live.iter().filter(|taint| !own.contains(&taint.key) || is_wanted(taint));
    let is_there = |one: &&decision::Taint| {
        live.iter().any(|taint| taint.key == one.key && taint.effect == effect(one.effect))
    };
    let new = wanted.iter().filter(|one| !is_there(one)).map(|one| Taint {
        key: one.key.clone(),
        effect: effect(one.effect).into(),
        ..Taint::default()
    });
    let list: Vec<Taint> = kept.cloned().chain(new).collect();
    (list != live).then_some(list)
}

fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaintEffect::{NoSchedule, PreferNoSchedule};

    #[test]
    fn merged_touches_own_keys_only() {
        type Row<'a> = (
            &'a [(&'a str, &'a str)],
            &'a [(&'a str, TaintEffect)],
            Option<&'a [(&'a str, &'a str)]>,
        );
        #[rustfmt::skip]
        let table: &[Row<'_>] = &[
            // live, wanted, written
            (&[],                                            &[],                          None),
            (&[],                                            &[("own/cpu", NoSchedule)],   Some(&[("own/cpu", "NoSchedule")])),
            (&[("own/cpu", "NoSchedule")],                   &[("own/cpu", NoSchedule)],   None),
            (&[("own/cpu", "NoSchedule")],                   &[],                          Some(&[])),
            (&[("other", "NoExecute")],                      &[],                          None),
            (&[("other", "NoExecute")],                      &[("own/mem", NoSchedule)],   Some(&[("other", "NoExecute"), ("own/mem", "NoSchedule")])),
            (&[("own/cpu", "NoSchedule"), ("other", "NoSchedule")], &[],                   Some(&[("other", "NoSchedule")])),
            // Another effect of an own key is one of an earlier configuration.
            (&[("own/cpu", "NoSchedule")],                   &[("own/cpu", PreferNoSchedule)], Some(&[("own/cpu", "PreferNoSchedule")])),
        ];
        let own = ["own/cpu".to_owned(), "own/mem".to_owned()].into();
        for (live, wanted, want) in table {
            let taint = |(key, effect): &(&str, &str)| Taint {
                key: (*key).into(),
                effect: (*effect).into(),
                value: Some("kept".into()),
                ..Taint::default()
            };
            let live: Vec<Taint> = live.iter().map(taint).collect();
            let wanted = wanted.iter().map(|(key, effect)| decision::Taint {
                key: (*key).into(),
                effect: *effect,
                because: Vec::new(),
            });
            let got = merged(&live, &own, &wanted.collect::<Vec<_>>());
            let got = got.map(|list| {
                list.into_iter().map(|taint| (taint.key, taint.effect)).collect::<Vec<_>>()
            });
            let want = want.map(|list| {
                list.iter().map(|(k, e)| ((*k).to_owned(), (*e).to_owned())).collect::<Vec<_>>()
            });
            assert_eq!(got, want, "{live:?}");
        }
    }
}
