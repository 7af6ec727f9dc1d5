//! Because of whom: who does the IO, and which processes are named.

use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, MemoryFiles, MemoryStat};
use isobar_core::model::decision::{Decision, Loss, Order, Ranking, Taker};
use isobar_core::model::psi::{Line, Pressure, Pressures};
use isobar_core::model::sample::{Resident, Runner};
use isobar_core::model::snapshot::{Blame, IoRate, Scope, Snapshot};
use isobar_core::model::stall::Coverage;
use isobar_core::model::units::{Bytes, MilliCpu, Nanos, Percent};

use serde_json::Value;

use crate::made_up;
use crate::page::browser;
use crate::server::Server;
use crate::views::find;

const MIB: u64 = 1 << 20;

fn pressures(cpu: u16, memory: u16, io: u16) -> Pressures {
    let file = |avg10| {
        let line = Line { avg10: Percent(avg10), ..Line::default() };
        Some(Pressure { some: Some(line), full: None })
    };
    Pressures { cpu: file(cpu), memory: file(memory), io: file(io), irq: None }
}

fn runner(pid: u32, name: &str, cgroup: Option<u64>) -> Runner {
    Runner {
        pid,
        name: name.into(),
        used: MilliCpu(1_930),
        cgroup: cgroup.map(CgroupId),
        is_of_machine: cgroup.is_none(),
        ..Runner::default()
    }
}

/// A service reads nearly all that is read, and one has no io file.
fn io_is_short(tick: u64) -> Snapshot {
    let mut snapshot = made_up::snapshot(tick);
    let moves = |read: u64, written: u64| {
        let (read, written) = (Bytes(read * MIB), Bytes(written * MIB));
        Some(IoRate { read, written, reads: read.0 / MIB, writes: written.0 / MIB })
    };
    let whole = &mut snapshot.whole;
    (whole.pressure, whole.contention, whole.shortage) = (pressures(10, 10, 62_00), None, None);
    whole.io = moves(182, 18);
    for (id, io) in [(22, moves(176, 4)), (13, moves(0, 12)), (21, moves(0, 0))] {
        snapshot.scopes.get_mut(&CgroupId(id)).unwrap().io = io;
    }
    snapshot.runners =
        vec![Runner { io: Some(Bytes(170 * MIB)), ..runner(51, "pg_dump", Some(22)) }];
    snapshot
}

/// No kernel side, and no controllers.
fn nothing_by_cgroup(tick: u64) -> Snapshot {
    let mut snapshot = made_up::snapshot(tick);
    let bare = |scope: &Scope| Scope {
        path: scope.path.clone(),
        place: scope.place.clone(),
        parent: scope.parent,
        ..Scope::default()
    };
    snapshot.scopes.values_mut().for_each(|scope| *scope = bare(scope));
    snapshot.whole = Scope { pressure: pressures(86_00, 60_00, 20_00), ..bare(&snapshot.whole) };
    (snapshot.covers, snapshot.aggressions) = (Coverage::default(), Vec::new());
    let memory = Some(Resident { held: Bytes(1_229 * MIB), growth: Bytes(60 * MIB) });
    snapshot.runners = vec![
        runner(4_711, "spin", None),
        Runner { memory, ..runner(4_712, "leak", None) },
        Runner { io: Some(Bytes(90 * MIB)), ..runner(4_713, "dd", None) },
    ];
    snapshot
}

/// All IO is that of the root cgroup, and so is a process that takes memory.
fn root_is_busy(tick: u64) -> Snapshot {
    let mut snapshot = io_is_short(tick);
    let idle = Some(IoRate::default());
    snapshot.scopes.values_mut().for_each(|scope| scope.io = idle);
    let own = |pid, name| Runner { is_of_machine: false, ..runner(pid, name, None) };
    let memory = Some(Resident { held: Bytes(700 * MIB), growth: Bytes(40 * MIB) });
    snapshot.runners = vec![
        Runner { memory, ..own(61, "restore") },
        Runner { io: Some(Bytes(190 * MIB)), ..own(62, "rsync") },
    ];
    snapshot
}

/// Work waits for memory, and a process in the root cgroup has more than any cgroup.
fn root_has_memory(tick: u64) -> Snapshot {
    let mut snapshot = root_is_busy(tick);
    (snapshot.whole.pressure, snapshot.covers) = (pressures(10, 62_00, 10), Coverage::default());
    for scope in snapshot.scopes.values_mut() {
        let stat = MemoryStat { anon: Bytes(60 * MIB), ..MemoryStat::default() };
        let memory = MemoryFiles { stat: Some(stat), ..MemoryFiles::default() };
        scope.files = Some(Cgroup { memory, ..Cgroup::default() }.into());
    }
    snapshot
}

/// What the kernel, or a process in the root cgroup, took.
fn taken_by_no_cgroup() -> Decision {
    let taker = Taker { uid: "/small.service".into(), taken: Bytes(9 * MIB), ..Taker::default() };
    let loss = Loss {
        lost: Bytes(309 * MIB),
        over: Nanos(10 * Nanos::SECOND.0),
        takers: vec![taker],
        unattributed: Bytes(300 * MIB),
    };
    let ranking = Ranking {
        signal: "memory.available".into(),
        order: Order::Cause,
        loss: Some(loss),
        ..Ranking::default()
    };
    Decision { ranking: Some(ranking), ..Decision::default() }
}

#[test]
fn because_names_who_uses_what_is_short() {
    let Some(browser) = browser() else { return };
    let (io, bare) = (Server::of(io_is_short), Server::of(nothing_by_cgroup));
    let held = Server::of(root_has_memory);
    let (root, kernel) = (
        Server::deciding(root_is_busy, taken_by_no_cgroup()),
        Server::deciding(io_is_short, taken_by_no_cgroup()),
    );
    #[rustfmt::skip]
    let table = [
        // node, view, panel, words
        (&io,   "now",     "headline",   "reads and writes 180Mi/s of the node's 200Mi/s (by usage, not by harm)"),
        (&io,   "now",     "headline",   "(most of all pg_dump, pid 51)"),
        (&io,   "now",     "aggressors", "of the node's 200Mi in 200 requests"),
        (&io,   "now",     "aggressors", "most of all pg_dump, pid 51180Mi/s"),
        (&io,   "now",     "aggressors", "12Mi/s"),
        (&io,   "cgroups", "tree",       "180Mi/s"),
        (&bare, "now",     "headline",   "The process that takes or has most memory: leak, pid 4712: 1.2Gi, growing by 60Mi/s"),
        (&bare, "now",     "aggressors", "spinpid 47111.93 CPUs"),
        (&bare, "now",     "aggressors", "No cgroup's memory is accounted for. Processes that take or have most:leakpid 47121.2Gi, growing by 60Mi/s"),
        (&bare, "now",     "aggressors", "No cgroup's IO is accounted for. Processes that do most:ddpid 471390Mi/s"),
        (&bare, "now",     "sufferers",  "Which pod or service waits was not measured: see Health."),
        (&root, "now",     "headline",   "300Mi belong to no cgroup of the 309Mi that were lost in 10s. Most of all restore, pid 61"),
        (&root, "now",     "aggressors", "no cgroupmost of all restore, pid 61: 700Mi, growing by 40Mi/s300Mi/small.service9.0Mi"),
        (&root, "now",     "aggressors", "Processes in the root cgroup, which does more than any of them:rsyncpid 62190Mi/s"),
        (&held, "now",     "headline",   "The root cgroup (most of all restore, pid 61: 700Mi, growing by 40Mi/s) has more memory than any pod or service."),
        (&held, "now",     "aggressors", "Processes in the root cgroup:restorepid 61700Mi, growing by 40Mi/s"),
        (&kernel, "now",   "aggressors", "no cgroupthe kernel's own, or of cgroups that cannot be read300Mi"),
    ];
    for (server, view, panel, words) in table {
        find(&browser, &server.url(), view, panel, words);
    }
    // Who is not known to read is not told to read nothing.
    let listed = "return document.querySelector('#aggressors ol')?.children.length";
    browser.open(&format!("{}#now", io.url()));
    browser.wait_until(&format!("{listed} === 2"));
}

/// A pod's container waits long for another of the same pod, and another pod less long for a service.
fn waits_for_its_own(tick: u64) -> Snapshot {
    let mut snapshot = made_up::snapshot(tick);
    let path_of = |id| snapshot.scopes[&CgroupId(id)].path.clone();
    let beside = CgroupPath(format!("{}/beside", path_of(11).0).into());
    let blame = |victim, aggressor, path: &CgroupPath, ms: u64| Blame {
        victim: CgroupId(victim),
        victim_path: Some(path_of(victim)),
        aggressor: CgroupId(aggressor),
        aggressor_path: Some(path.clone()),
        time: Nanos(ms * 1_000_000),
        ..Blame::default()
    };
    let pairs = vec![blame(12, 31, &beside, 1_400), blame(14, 22, &path_of(22), 300)];
    snapshot.aggressions = pairs;
    snapshot
}

#[test]
fn sufferers_lose_nothing_to_their_own_containers() {
    let Some(browser) = browser() else { return };
    let server = Server::of(waits_for_its_own);
    find(&browser, &server.url(), "now", "sufferers", "What it lost per second");
    let rows = |panel: &str| {
        let rows =
            format!("return [...document.querySelectorAll('#{panel} li')].map(e => e.textContent)");
        browser.run(&rows).as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>()
    };
    let lost = rows("sufferers");
    assert!(lost[0].contains("pod 0a7c44de"), "first who lost to another: {lost:?}");
    let own = lost.iter().find(|row| row.contains(&made_up::POD_A[..8])).unwrap();
    assert!(own.ends_with("IO0\""), "this one lost nothing: {own}");
    let because = rows("aggressors");
    assert!(
        because[0].contains("backup-nightly"),
        "nor is one blamed for its own pod: {because:?}"
    );
}
