//! What following context switches may cost, on the real kernel: above that it is left off, and
//! when it is taken up again nothing from before is mixed with what comes.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use crate::host::{Agent, Group, alone, last_cpu, skip};
use isobar::clock;
use isobar::source::kernel::{Kernel, Options, Probes};
use isobar::source::{Roots, Sampler};
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::sample::Cause;
use isobar_core::model::stall::{GroupStall, KernelStalls};
use isobar_core::model::units::{Nanos, Percent};

/// Later than the first rest ends.
const LATER: Nanos = Nanos(31 * 1_000_000_000);
/// Ticks until the programs were metered twice: the first time two seconds after the first tick.
const METERED: usize = 60;
/// Two processes that wake each other all the time, more often than a build beside them switches.
const RESTLESS: &str = r#"exec perl -e '
    pipe A, B; pipe C, D;
    if (fork) { close A; close D; while (syswrite B, "x") { sysread C, $_, 1 or last } }
    else { close B; close C; while (sysread A, $_, 1) { syswrite D, "x" } }'"#;

/// The kernel side of this machine, tick by tick, with a clock that can be put forward.
struct Node {
    sources: Sampler,
    kernel: Kernel,
    tick: u64,
    ahead: Nanos,
}

impl Node {
    /// `None`, with the reason printed, where context switches cannot be followed.
    fn allowing(budget: Percent) -> Option<Self> {
        let sources = Sampler::open(&Roots::default()).unwrap();
        let options = Options { probes: Probes::All, max_cgroups: 1024, budget };
        let kernel = Kernel::attach(options, sources.host());
        let kernel = kernel.inspect_err(|why| skip(&why.to_string())).ok()?;
        if !kernel.follows_waits() {
            skip("context switches cannot be followed");
            return None;
        }
        Some(Self { sources, kernel, tick: 0, ahead: Nanos(0) })
    }

    fn tick(&mut self) -> KernelStalls {
        sleep(Duration::from_millis(100));
        self.tick += 1;
        let counters = self.kernel.read().unwrap();
        let sample = self.sources.sample(self.tick, Cause::Timer, &counters.awake);
        let stalls = self.kernel.fold(&counters, &sample.cgroups, &sample.places());
        self.kernel.cost(clock::now().boot.plus(self.ahead));
        stalls
    }

    fn switch(&self) -> Capability {
        self.told("sched_switch")
    }

    fn told(&self, program: &str) -> Capability {
        let all = self.kernel.capabilities();
        all.into_iter().find(|one| one.name == program).unwrap()
    }
}

fn of(stalls: &KernelStalls, group: CgroupId) -> Arc<GroupStall> {
    stalls.groups.get(&group).cloned().unwrap_or_default()
}

#[test]
fn budget_exceeded() {
    let _alone = alone();
    let Some(mut group) = Group::make("budget") else { return };
    let Some(mut node) = Node::allowing(Percent(0)) else { return };
    for _ in 0..2 {
        group.spin(last_cpu());
    }
    group.run(RESTLESS);
    let id = group.id();

    let followed =
        (0..METERED).map(|_| node.tick()).take_while(|stalls| stalls.covers.waits).last();
    let before = of(&followed.expect("the first ticks are followed"), id);
    assert!(before.wait > Nanos(100_000_000), "two want one CPU: {:?}", before.wait);
    assert_eq!(node.switch().state, CapabilityState::Off);
    let detail = node.switch().detail;
    assert!(detail.starts_with("left off for 30 s") && detail.contains("0.00 % is"), "{detail}");
    let restless = format!("; {} was switched to most often, ", group.path());
    assert!(detail.contains(&restless), "{detail}");
    assert_eq!(node.told("sched_process_exit").state, CapabilityState::Attached, "it is rare");
    let meanwhile = node.tick();
    assert!(!meanwhile.covers.waits && !meanwhile.covers.throttling);
    assert_eq!(of(&meanwhile, id).wait, Nanos(0), "nothing old is shown as if it were new");

    node.ahead = LATER;
    let begun = clock::now().boot;
    // Not in the tick that ends a metering.
    let is_back = (0..3).any(|_| {
        node.tick();
        node.switch().state == CapabilityState::Attached
    });
    assert!(is_back, "{:?}", node.switch());
    let first = node.tick();
    let second = node.tick();
    let past = clock::now().boot.since(begun);
    assert!(first.covers.waits && second.covers.waits);
    let (first, second) = (of(&first, id), of(&second, id));
    assert!(first.wait > Nanos(0) && second.wait > first.wait, "{first:?} {second:?}");
    // Four want it, so three at most wait at a time.
    let most = Nanos(past.0 * 3);
    assert!(second.wait < most, "{:?} within {past:?}: from before", second.wait);
}

#[test]
fn budget_kept() {
    let _alone = alone();
    let Some(mut node) = Node::allowing(Percent::FULL) else { return };
    let all_followed = (0..METERED).all(|_| node.tick().covers.waits);
    assert!(all_followed, "{:?}", node.switch());
}

#[test]
fn budget_is_explained() {
    let _alone = alone();
    let Some(mut group) = Group::make("dear") else { return };
    group.run(RESTLESS);
    let mut agent = Agent::start(&["--probe-budget", "0"]);
    if !agent.sees_waits() {
        return;
    }
    let snapshot = agent.wait_for("waits left off", |s| s["covers"]["waits"] == false);
    assert!(snapshot["whole"]["contention"].is_null(), "unknown, and not 0: {snapshot:#}");
    let ready = agent.get("/readyz?verbose").unwrap();
    assert!(ready.contains("[-]sched_switch off"), "{ready}");
    assert_eq!(agent.stop().code(), Some(0));
    let told = agent.stderr();
    assert!(told.contains("waits for CPUs are not followed: left off for 30 s"), "{told}");
}
