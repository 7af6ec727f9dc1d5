//! Holding back and taking back, on plain files: what is written, over what, and what is put back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use isobar::act::Actuator;
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::OutcomeResult::{Done, Failed};
use isobar_core::model::decision::{Action, Outcome, Release, ReleaseReason, StepKind, Target};
use isobar_core::model::threshold::PressureSignal;
use isobar_core::model::units::{Bytes, Nanos, Percent};
use tempfile::TempDir;

use super::place::{actor_of, against, options, settle};

const MIB: u64 = 1 << 20;
pub(super) const CPU: PressureSignal = PressureSignal::Cpu(Percent(40_00));
pub(super) const DISK: PressureSignal = PressureSignal::Disk(Percent(40_00));
const MEMORY: PressureSignal = PressureSignal::Memory(Percent(40_00));

/// A cgroup of plain files.
pub(super) struct Tree {
    pub(super) root: TempDir,
    pub(super) dir: PathBuf,
}

impl Tree {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("busy");
        fs::create_dir(&dir).unwrap();
        for (file, text) in [("cgroup.procs", "")].iter().chain(files) {
            fs::write(dir.join(file), format!("{text}\n")).unwrap();
        }
        Self { root, dir }
    }

    pub(super) fn target(&self) -> Target {
        let id = CgroupId(fs::metadata(&self.dir).unwrap().ino());
        let path = CgroupPath("/busy".into());
        Target { name: "/busy".into(), cgroup: Some(id), path: Some(path), ..Target::default() }
    }

    pub(super) fn says(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join(file)).unwrap().trim_end().into()
    }

    pub(super) fn squeeze(&self, id: u64, on: PressureSignal, want: Option<u64>) -> Action {
        let action = against(on, StepKind::Squeeze, self.target());
        Action { id, want: want.map(Bytes), is_enforced: true, ..action }
    }

    pub(super) fn release(&self, actor: &mut Actuator, action: u64) -> Outcome {
        let why = ReleaseReason::Over;
        let release = Release {
            action,
            step: StepKind::Squeeze,
            target: self.target(),
            why,
            is_enforced: true,
        };
        actor.release(&release).expect("a release that fails anew, or not at all, is reported")
    }
}

#[test]
fn squeeze_memory_by_an_eighth() {
    #[rustfmt::skip]
    let table = [
        // current, wanted, memory.low, memory.min, memory.high before, written
        (80 * MIB, None,           "0",        "0",        "max",       Some(70 * MIB)),
        (80 * MIB, Some(50 * MIB), "0",        "0",        "max",       Some(70 * MIB)),
        (80 * MIB, Some(4 * MIB),  "0",        "0",        "max",       Some(76 * MIB)),
        (80 * MIB, None,           "75497472", "0",        "max",       Some(72 * MIB)),
        (80 * MIB, None,           "0",        "75497472", "max",       Some(72 * MIB)),
        (80 * MIB, None,           "0",        "0",        "104857600", Some(70 * MIB)),
        (80 * MIB + 9, None,       "0",        "0",        "max",       Some(70 * MIB)),
        (80 * MIB, None,           "max",      "0",        "max",       None),
        (80 * MIB, None,           "0",        "83886080", "max",       None),
        (80 * MIB, None,           "0",        "0",        "41943040",  None),
        (0,        None,           "0",        "0",        "max",       None),
    ];
    for row in table {
        let (current, want, low, min, high, written) = row;
        let tree = Tree::new(&[
            ("memory.current", &current.to_string()),
            ("memory.low", low),
            ("memory.min", min),
            ("memory.high", high),
        ]);
        let (mut actor, state) = actor_of(tree.root.path());
        let outcome = actor.take(&tree.squeeze(7, MEMORY, want));
        let result = if written.is_some() { Done } else { Failed };
        assert_eq!(outcome.result, result, "{row:?} {outcome:?}");
        let stands = written.map_or(high.to_owned(), |written| written.to_string());
        assert_eq!(tree.says("memory.high"), stands, "{row:?} {outcome:?}");
        let ledger = fs::read_to_string(state.path().join("ledger.json")).unwrap();
        let is_remembered = ledger.contains("/busy");
        assert_eq!(is_remembered, written.is_some(), "{row:?}");
        let outcome = tree.release(&mut actor, 7);
        assert_eq!((outcome.result, tree.says("memory.high").as_str()), (Done, high), "{row:?}");
    }
}

#[test]
fn squeeze_weight_by_a_tenth() {
    #[rustfmt::skip]
    let table = [
        // because of, cpu.weight, io.weight, written: cpu.weight, io.weight
        (CPU,  "100",   Some("default 100"),           "10",  Some("default 100")),
        (CPU,  "39",    None,                          "3",   None),
        (CPU,  "5",     None,                          "1",   None),
        (DISK, "100",   None,                          "10",  None),
        (DISK, "10000", Some("default 200\n8:0 50"),   "1000", Some("default 20")),
        (DISK, "1",     Some("default 100"),           "1",   Some("default 10")), // as a BestEffort pod's
        (DISK, "1",     None,                          "1",   None),
        (DISK, "1",     Some("default 1"),             "1",   Some("default 1")),
        (CPU,  "1",     Some("default 100"),           "1",   Some("default 100")),
    ];
    let rows = ["io.weight", "io.bfq.weight"].map(|file| table.map(|row| (file, row)));
    for (file, row) in rows.concat() {
        let (on, cpu, io, cpu_cut, io_cut) = row;
        let tree = Tree::new(&[("cpu.weight", cpu)]);
        if let Some(io) = io {
            fs::write(tree.dir.join(file), io).unwrap();
        }
        let (mut actor, _state) = actor_of(tree.root.path());
        let outcome = actor.take(&tree.squeeze(7, on, None));
        let want = if (cpu_cut, io_cut) == (cpu, io) { Failed } else { Done };
        assert_eq!(outcome.result, want, "{row:?} {outcome:?}");
        assert_eq!(tree.says("cpu.weight"), cpu_cut, "{row:?} {outcome:?}");
        assert_eq!(io.map(|_| tree.says(file)).as_deref(), io_cut, "{row:?} {outcome:?}");
        tree.release(&mut actor, 7);
        assert_eq!(tree.says("cpu.weight"), cpu, "{row:?}");
        if let Some(io) = io {
            assert_eq!(tree.says(file).lines().next(), io.lines().next(), "{row:?}");
        }
    }
}

#[test]
fn squeeze_after_a_crash() {
    let tree =
        Tree::new(&[("cpu.weight", "100"), ("memory.high", "max"), ("memory.current", "8388608")]);
    let (mut first, state) = actor_of(tree.root.path());
    assert_eq!(first.take(&tree.squeeze(7, CPU, None)).result, Done);
    assert_eq!(first.take(&tree.squeeze(8, MEMORY, None)).result, Done);
    // What a crash leaves.
    drop(first);
    let mut next = Actuator::open(options(tree.root.path(), state.path())).unwrap();
    assert_eq!(in_force(&next), [7, 8]);
    assert!(next.release_all().iter().all(|outcome| outcome.result == Done));
    assert_eq!((tree.says("cpu.weight"), tree.says("memory.high")), ("100".into(), "max".into()));
    assert!(in_force(&next).is_empty());
    let again = Actuator::open(options(tree.root.path(), state.path())).unwrap();
    assert!(in_force(&again).is_empty());
}

#[test]
fn squeeze_for_two_reasons() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let (mut actor, _state) = actor_of(tree.root.path());
    assert_eq!(actor.take(&tree.squeeze(7, CPU, None)).result, Done);
    let second = actor.take(&tree.squeeze(8, CPU, None));
    assert_eq!((second.result, tree.says("cpu.weight").as_str()), (Done, "10"), "{second:?}");
    assert!(second.detail.contains("is at 10 already"), "{second:?}");
    let outcome = tree.release(&mut actor, 7);
    assert!(outcome.detail.contains("still serves action 8"), "{outcome:?}");
    assert_eq!(tree.says("cpu.weight"), "10");
    assert_eq!(tree.release(&mut actor, 8).result, Done);
    assert_eq!(tree.says("cpu.weight"), "100");
    let outcome = tree.release(&mut actor, 8);
    assert!(outcome.detail.starts_with("no limit of action 8"), "{outcome:?}");
}

/// The actions of the ledger.
pub(super) fn in_force(actor: &Actuator) -> Vec<u64> {
    actor.in_force().iter().map(|entry| entry.action.id).collect()
}

#[test]
fn squeeze_dry_run() {
    let tree =
        Tree::new(&[("cpu.weight", "100"), ("memory.reclaim", ""), ("memory.current", "8388608")]);
    let (mut actor, state) = actor_of(tree.root.path());
    for (step, want) in [
        (StepKind::Squeeze, "would write /busy/cpu.weight from 100 to 10"),
        (StepKind::Reclaim, "would take 1Mi back from /busy"),
    ] {
        let outcome = actor.take(&against(CPU, step, tree.target()));
        assert_eq!((outcome.result, outcome.detail.as_str()), (Done, want));
    }
    let dry = Release {
        action: 7,
        step: StepKind::Squeeze,
        target: tree.target(),
        why: ReleaseReason::Over,
        is_enforced: false,
    };
    actor.take(&tree.squeeze(7, CPU, None));
    let outcome = actor.release(&dry).unwrap();
    assert_eq!(outcome.detail, "would write /busy/cpu.weight from 10 back to 100");
    assert_eq!((tree.says("cpu.weight"), tree.says("memory.reclaim")), ("10".into(), "".into()));
    assert!(state.path().join("ledger.json").exists());
}

#[test]
fn squeeze_refused() {
    let full = [("memory.current", "8388608"), ("memory.high", "max"), ("cpu.weight", "100")];
    #[rustfmt::skip]
    let table = [
        // step, because of, file that is missing or a directory, it is missing, why
        (StepKind::Squeeze, MEMORY, "memory.high",    true,  "/busy/memory.high is not there: the memory controller is off"),
        (StepKind::Squeeze, MEMORY, "memory.current", true,  "/busy/memory.current is not there: the memory controller is off"),
        (StepKind::Squeeze, CPU,    "cpu.weight",     true,  "/busy/cpu.weight is not there: the cpu controller is off"),
        (StepKind::Reclaim, MEMORY, "memory.reclaim", true,  "/busy/memory.reclaim is not there: the memory controller is off, or Linux is older than 5.19"),
        (StepKind::Squeeze, CPU,    "cpu.weight",     false, "cannot read /busy/cpu.weight: Is a directory"),
        (StepKind::Reclaim, MEMORY, "memory.reclaim", false, "cannot write \"1048576\" to /busy/memory.reclaim: Is a directory"),
    ];
    for (step, on, file, is_missing, why) in table {
        let tree = Tree::new(&full);
        let _ = fs::remove_file(tree.dir.join(file));
        if !is_missing {
            fs::create_dir(tree.dir.join(file)).unwrap();
            // It is listed as a cgroup below.
            fs::write(tree.dir.join(file).join("cgroup.procs"), "").unwrap();
        }
        let (mut actor, state) = actor_of(tree.root.path());
        let outcome = actor.take(&Action { step, ..tree.squeeze(7, on, None) });
        let outcome = settle(&mut actor, outcome);
        assert_eq!(outcome.result, Failed, "{outcome:?}");
        assert!(outcome.detail.contains(why), "{why:?} {outcome:?}");
        let ledger = fs::read_to_string(state.path().join("ledger.json")).unwrap_or_default();
        assert!(!ledger.contains("/busy"), "{file}: {ledger}");
    }
}

#[test]
fn squeeze_only_if_undoable() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let (mut actor, state) = actor_of(tree.root.path());
    // The directory's place is taken by a file.
    fs::remove_dir(state.path()).unwrap();
    fs::write(state.path(), "").unwrap();
    let outcome = actor.take(&tree.squeeze(7, CPU, None));
    assert_eq!((outcome.result, tree.says("cpu.weight").as_str()), (Failed, "100"), "{outcome:?}");
    assert!(outcome.detail.starts_with("nothing was written, because it could"), "{outcome:?}");
    fs::remove_file(state.path()).unwrap();
    fs::create_dir(state.path()).unwrap();
    assert_eq!(actor.take(&tree.squeeze(7, CPU, None)).result, Done);
}

#[test]
fn squeeze_release_fails() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let (mut actor, _state) = actor_of(tree.root.path());
    actor.take(&tree.squeeze(7, CPU, None));
    let (file, aside) = (tree.dir.join("cpu.weight"), tree.dir.join("aside"));
    fs::rename(&file, &aside).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(tree.release(&mut actor, 7).result, Failed);
    let (why, target) = (ReleaseReason::Over, tree.target());
    let release = Release { action: 7, step: StepKind::Squeeze, target, why, is_enforced: true };
    assert_eq!(actor.release(&release), None, "the same again");
    assert_eq!(in_force(&actor), [7]);
    assert_eq!(actor.release_all().len(), 1, "but told again when the agent leaves");
    fs::remove_dir(&file).unwrap();
    fs::rename(&aside, &file).unwrap();
    assert_eq!(actor.release(&release).unwrap().result, Done);
    assert_eq!((tree.says("cpu.weight"), in_force(&actor)), ("100".into(), vec![]));
}

#[test]
fn squeeze_controller_gone() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let (mut actor, _state) = actor_of(tree.root.path());
    actor.take(&tree.squeeze(7, CPU, None));
    fs::remove_file(tree.dir.join("cpu.weight")).unwrap();
    assert_eq!(tree.release(&mut actor, 7).result, Done);
    assert!(in_force(&actor).is_empty());
}

#[test]
fn squeeze_cgroup_gone() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let (mut actor, state) = actor_of(tree.root.path());
    actor.take(&tree.squeeze(7, CPU, None));
    let target = tree.target();
    fs::remove_dir_all(&tree.dir).unwrap();
    let release = Release {
        action: 7,
        step: StepKind::Squeeze,
        target,
        why: ReleaseReason::Over,
        is_enforced: true,
    };
    let outcome = actor.release(&release).unwrap();
    assert_eq!((outcome.result, outcome.detail.as_str()), (Done, "cgroup /busy is gone"));
    let text = fs::read_to_string(state.path().join("ledger.json")).unwrap();
    assert!(!text.contains("/busy"), "{text}");
}

#[test]
fn means_of_files() {
    #[rustfmt::skip]
    let table = [
        // the file that is there, step, it can be taken
        ("memory.high",    StepKind::Squeeze, true),
        ("cpu.weight",     StepKind::Squeeze, true),
        ("memory.current", StepKind::Squeeze, false),
        ("memory.reclaim", StepKind::Reclaim, true),
        ("memory.current", StepKind::Reclaim, false),
    ];
    for (file, step, want) in table {
        let tree = Tree::new(&[(file, "1")]);
        let (actor, _state) = actor_of(tree.root.path());
        let means = actor.available_steps();
        assert_eq!(means.allowed.contains(&step), want, "{file} {step:?} {means:?}");
        assert_eq!(means.known.contains(&step), want, "{file} {step:?} {means:?}");
        assert!(!means.known.contains(&StepKind::Evict), "{means:?}");
    }
}

#[test]
fn reclaim_in_pieces() {
    #[rustfmt::skip]
    let table = [
        // wanted in MiB, time in ms, how it ends
        (10, 60_000, "/busy: 10Mi asked, 0 came back"),
        (10, 0,      "/busy: 10Mi asked, 0 came back; the time was over"),
    ];
    for (want, time, detail) in table {
        let tree = Tree::new(&[("memory.current", "83886080"), ("memory.reclaim", "")]);
        let (mut actor, _state) = actor_of(tree.root.path());
        let deadline = isobar::clock::now().boot.plus(Nanos(time * 1_000_000));
        let step = StepKind::Reclaim;
        let action = Action { step, deadline, ..tree.squeeze(7, MEMORY, Some(want * MIB)) };
        let outcome = actor.take(&action);
        let outcome = settle(&mut actor, outcome);
        assert_eq!((outcome.result, outcome.detail.as_str()), (Done, detail));
        // The first piece is four MiB, the last what is left of ten.
        let last = if time > 0 { 2 } else { 4 };
        assert_eq!(tree.says("memory.reclaim"), (last * MIB).to_string(), "{detail}");
        assert_eq!(outcome.freed, Some(Bytes(0)));
    }
}

#[test]
fn kill_outcome_after_stop() {
    for is_prepared in [false, true] {
        let tree = Tree::new(&[("memory.current", &(100 * MIB).to_string()), ("cgroup.kill", "")]);
        let (mut actor, _state) = actor_of(tree.root.path());
        if is_prepared {
            actor.prepare(&[tree.target()]);
        }
        fs::write(tree.dir.join("memory.current"), "4096\n").unwrap();
        let kill = against(MEMORY, StepKind::KillContainers, tree.target());
        let outcome = actor.take(&Action { is_enforced: true, ..kill });
        assert_eq!((outcome.result, outcome.freed), (Done, Some(Bytes(0))), "{outcome:?}");
    }
}
