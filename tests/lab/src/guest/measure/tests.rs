use isobar_core::model::cgroup::{Cgroup, CgroupId};
use isobar_core::model::condition::{Condition, ConditionName, Measure, Phase, Status};
use isobar_core::model::limit::{LimitResult, LimitState, LimitWrite};
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::sample::Moment;
use isobar_core::model::settings::WrittenLimit;
use isobar_core::model::snapshot::{Blame, CpuWait, MemoryCauseWait, MemoryWait, Waited};
use isobar_core::model::stall::{MemoryCause, OomKill};

use super::*;

const MS: u64 = 1_000_000;

fn path(text: &str) -> CgroupPath {
    CgroupPath(text.into())
}

fn waited(total_ms: u64) -> Waited {
    Waited { now: Nanos(0), total: Nanos(total_ms * MS) }
}

/// `/a` waits, `/b` makes it wait, and what the kernel killed by then.
fn view(second: u64, wait_ms: u64, harm: Option<u64>, kills: &[u32]) -> View {
    let mut view = View::default();
    let cpu = CpuWait {
        wait: waited(wait_ms),
        throttled_own: Some(waited(wait_ms / 2)),
        ..CpuWait::default()
    };
    let limit = MemoryCauseWait { union: waited(wait_ms), ..MemoryCauseWait::default() };
    let memory =
        MemoryWait { any: waited(wait_ms), causes: [(MemoryCause::OwnLimit, limit)].into() };
    let mut files = Cgroup::default();
    files.cpu.throttled = Some(Micros(wait_ms * 250));
    files.cpu.usage = Some(Micros(second * 500_000));
    let union = Union { avg10: Percent(12_50), total: Nanos(wait_ms * MS), ..Union::default() };
    let a = Scope {
        path: path("/a"),
        cpu: Some(cpu),
        memory: Some(memory),
        files: Some(files.into()),
        contention: Some(union),
        ..Scope::default()
    };
    view.snapshot.scopes = [(CgroupId(5), a)].into();
    view.snapshot.at.boot = Nanos(second * 1_000 * MS);
    let line = Line { total: Micros(wait_ms * 1_000), ..Line::default() };
    view.snapshot.whole.pressure.cpu = Some(Pressure { some: Some(line), full: None });
    view.snapshot.whole.contention_per_cpu = vec![Percent(0), Percent(98_00)];
    view.snapshot.aggressions.extend(harm.map(|ms| Blame {
        victim_path: Some(path("/a")),
        aggressor_path: Some(path("/b")),
        time: Nanos(ms * MS),
        ..Blame::default()
    }));
    view.recent_oom_kills = kills.iter().map(|pid| kill(*pid)).collect();
    view.limits = vec![LimitState {
        write: LimitWrite {
            what: WrittenLimit::Allocatable,
            cgroup: path("/a"),
            file: "memory.max".into(),
            value: "max".into(),
        },
        before: None,
        live: None,
        result: LimitResult::Drifted,
        detail: String::new(),
    }];
    let status = if second > 10 { Status::True } else { Status::False };
    view.decision.assessment.conditions = vec![Condition {
        name: ConditionName::ALL[3],
        kind: ConditionName::ALL[3].name().into(),
        status,
        phase: Phase::Calm,
        measure: Measure::Contention,
        threshold: Percent(40_00),
        avg10: None,
        avg60: None,
        seen: None,
        since: Moment::default(),
        judged: None,
        why: None,
    }];
    view
}

fn kill(pid: u32) -> OomRecord {
    OomRecord {
        victim: None,
        wall: Nanos(0),
        victim_path: Some(path("/a")),
        limit_path: Some(path("/a")),
        trigger_path: Some(path("/a")),
        kill: OomKill {
            more: 0,
            at: Nanos(u64::from(pid)),
            victim: CgroupId(5),
            victim_pid: Some(pid),
            victim_comm: None,
            limit: Some(CgroupId(5)),
            limit_known: true,
            trigger: CgroupId(5),
        },
    }
}

fn claim(text: &str) -> Claim {
    #[derive(serde::Deserialize)]
    struct One {
        claim: Claim,
    }
    toml::from_str::<One>(&format!("claim = {{ {text} }}"))
        .unwrap_or_else(|why| panic!("{text}: {why}"))
        .claim
}

#[test]
fn claims_are_read_and_compared_on_both_their_numbers() {
    let views = [
        view(10, 500, None, &[1]),
        view(11, 900, Some(400), &[2, 1]),
        view(12, 1500, None, &[3, 2, 1]),
    ];
    let seen = Seen { views: &views, mount: Path::new("/nowhere") };
    #[rustfmt::skip]
    let table = [
        // claim, figure, `of`, holds
        (r#"figure = "wall", equals = "2s""#, Some(2e9), None, true),
        (r#"figure = { cpu_wait = "/a" }, about = "50%", of = "wall", within = "1%""#, Some(1e9), Some(2e9), true),
        (r#"figure = { cpu_wait = "/a" }, about = "600ms", within = "399ms""#, Some(1e9), None, false),
        (r#"figure = { throttled_share = "/a" }, equals = "50%""#, Some(0.5), None, true),
        (r#"figure = { throttled_share_by_files = { of = "/a", threads = 2 } }, below = "20%""#, Some(0.5 / 3.0), None, true),
        (r#"figure = { psi_cpu = "node" }, below = "1s""#, Some(1e9), None, false),
        (r#"figure = { memory_stall_by = { of = "/a", cause = "ownLimit" } }, equals = "100%", of = { memory_stall = "/a" }"#, Some(1e9), Some(1e9), true),
        (r#"figure = { memory_stall_by = { of = "/a", cause = "global" } }, equals = "0ms""#, Some(0.0), None, true),
        (r#"figure = { contention_avg10 = "/a" }, above = "12%""#, Some(0.125), None, true),
        (r#"figure = { contention_on_cpu = 1 }, above = "97%""#, Some(0.98), None, true),
        (r#"figure = { cpu_contention = "/a" }, unknown = true"#, None, None, true),
        (r#"figure = { cpu_contention = "/a" }, below = "1s""#, None, None, false),
        (r#"figure = { cpu_contention = "/a" }, below = "1%", of = { cpu_contention = "/a" }"#, None, None, false),
        (r#"figure = { cpu_wait = "/a" }, unknown = true"#, Some(1e9), None, false),
        (r#"figure = { harm = { by = "/b", to = "/a" } }, above = "50%", of = { cpu_wait = "/a" }"#, Some(4e8), Some(1e9), false),
        (r#"figure = { sum = [{ harm = { by = "/b", to = "/a" } }, { harm = { by = "/a", to = "/b" } }] }, equals = "400ms""#, Some(4e8), None, true),
        (r#"figure = { oom_kills = { of = "/a" } }, equals = "2""#, Some(2.0), None, true),
        (r#"figure = { oom_kills = { of = "/a", limit = "/a", trigger = "/a" } }, equals = "2""#, Some(2.0), None, true),
        (r#"figure = { oom_kills = { of = "/a", limit = "node" } }, equals = "0""#, Some(0.0), None, true),
        (r#"figure = { oom_kills = { of = "/a", trigger = "/b" } }, equals = "0""#, Some(0.0), None, true),
        (r#"figure = { condition = { name = "KubepodsCPUContentionPressure", status = "True" } }, equals = "2""#, Some(2.0), None, true),
        (r#"figure = { actions = {} }, equals = "0""#, Some(0.0), None, true),
        (r#"figure = { limits = "drifted" }, equals = "1""#, Some(1.0), None, true),
        (r#"figure = "lost_cgroups", above = "0""#, Some(0.0), None, false),
    ];
    for (text, figure, of, holds) in table {
        let claim = claim(text);
        let got = read(&claim, &seen);
        assert_eq!(got, Reading { figure, of, error: None }, "{text}");
        assert_eq!(claim.holds(figure, of.unwrap_or(1.0)), holds, "{text}");
    }
}

#[test]
fn claims_that_cannot_be_read_say_why() {
    let views = [view(1, 0, None, &[]), view(2, 0, None, &[])];
    let seen = Seen { views: &views, mount: Path::new("/nowhere") };
    #[rustfmt::skip]
    let table = [
        (r#"figure = { cpu_wait = "/x" }, below = "1s""#,                                   "the agent does not see cgroup /x"),
        (r#"figure = { throttled_share = "/a" }, below = "1%""#,                            "a share of nothing"),
        (r#"figure = { file = { cgroup = "/a", name = "cpu.weight" } }, equals = "1""#,     "/nowhere/a/cpu.weight"),
    ];
    for (text, want) in table {
        let why = read(&claim(text), &seen).error.unwrap_or_default();
        assert!(why.contains(want), "{text}: {why}");
    }
}
