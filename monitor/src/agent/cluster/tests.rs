use std::sync::Arc;

use super::*;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::made;
use isobar_core::model::stall::OomKill;
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Bytes, Percent};

fn action(step: StepKind) -> Action {
    let reason = made::pressed(PressureSignal::Memory(Percent(60_00)));
    let (name, namespace, uid) = ("web".into(), "shop".into(), "u1".into());
    let target = Target { name, namespace, uid, ..Target::default() };
    Action { target, message: "low on memory".into(), ..made::action(step, reason) }
}

fn told(notes: Vec<Note>) -> Vec<String> {
    let one = |note: Note| match note.about {
        About::Node => note.reason,
        About::Pod { name, .. } => format!("{} {name}: {}", note.reason, note.text),
    };
    notes.into_iter().map(one).collect()
}

#[test]
fn oom_kill_names_the_pod() {
    let kill = OomKill { victim: CgroupId(7), limit_known: true, ..OomKill::default() };
    let path = || Some(CgroupPath("/kubepods/podu1".into()));
    #[rustfmt::skip]
    let table = [
        // victim, path, subject
        (Some("shop/web"), path(), "shop/web"),
        (None,             path(), "/kubepods/podu1"),
        (None,             None,   "a cgroup that is gone"),
    ];
    for (victim, path, subject) in table {
        let victim = victim.map(str::to_owned);
        let record = OomRecord::of(&kill, Moment::default(), victim, |_| path.clone());
        let note = oom_kill(&record, Moment::default());
        let text = format!("{} because the node was out of memory", record.sentence());
        assert_eq!((&*note.subject, note.text), (subject, text));
        assert!(record.sentence().ends_with(subject), "{}", record.sentence());
    }
}

/// A sample with pods of these uids.
fn known(uids: &[&str]) -> Sample {
    let pod = |uid: &&str| {
        let name = if *uid == "u1" { "web".into() } else { format!("web-{uid}") };
        let pod = Pod { uid: (*uid).into(), name, namespace: "shop".into(), ..Pod::default() };
        ((*uid).to_owned(), pod)
    };
    let pods = Some(Arc::new(uids.iter().map(pod).collect()));
    Sample { pods, ..Sample::default() }
}

#[test]
fn begun_tells_each_pod_of_a_group() {
    let mut stop = action(StepKind::StopContainers);
    stop.target.name = "ReplicaSet/web".into();
    stop.target.members = ["u1", "u2", "u3"].map(Into::into).into();
    let pods = pods(&stop.target, &known(&["u1", "u2"]));
    let want = ["Relief", "Killing web: low on memory", "Killing web-u2: low on memory"];
    assert_eq!(told(begun(&(stop, pods), Moment::default())), want);
}

#[test]
fn came_to_tells_the_pod_of_an_eviction_that_happened() {
    use OutcomeResult::{Done, Failed, Refused};
    use StepKind::{Evict, KillContainers, Squeeze};
    type Row<'a> = (StepKind, OutcomeResult, Option<u64>, &'a [&'a str], &'a [&'a str]);
    #[rustfmt::skip]
    let table: &[Row<'_>] = &[
        // step, result, processes that ended, told when it begins, told when it ends
        (Squeeze,        Done,    None,    &["Relief"],                               &[]),
        (Evict,          Done,    Some(0), &["Relief"],                               &[]), // asked
        (Evict,          Done,    Some(2), &["Relief"],                               &["ReliefDone", "Evicted web: low on memory"]),
        (Evict,          Refused, Some(0), &["Relief"],                               &["ReliefRefused"]),
        (Evict,          Failed,  Some(0), &["Relief"],                               &["ReliefFailed"]),
        (KillContainers, Done,    Some(2), &["Relief", "Killing web: low on memory"], &["ReliefDone"]),
    ];
    for (step, result, ended, begins, ends) in table {
        let ending = (action(*step), pods(&action(*step).target, &known(&["u1"])));
        let freed = ended.filter(|n| *n > 0).map(|_| Bytes(1));
        let outcome = Outcome { freed, ended: *ended, ..made::outcome(1, *result) };
        assert_eq!(told(begun(&ending, Moment::default())), *begins, "{step:?}");
        let got = came_to(&outcome, &ending, Moment::default());
        let of_step = |note: &Note| note.subject == format!("{} u1", step.name());
        assert!(got.first().is_none_or(of_step), "what came of another step is another series");
        let got = told(got);
        assert_eq!(got, *ends, "{step:?} {result:?} {ended:?}");
    }
}
