//! Of a pod its containers are ended, and never its sandbox.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use isobar::act::{Actuator, Options};
use isobar_core::model::cgroup::{CgroupId, CgroupPath};
use isobar_core::model::decision::OutcomeResult::{Done, Failed};
use isobar_core::model::decision::StepKind::{KillContainers, StopContainers};
use isobar_core::model::decision::{Action, Outcome, Phase, Target, TargetGroup};
use tempfile::TempDir;

use super::files::{CPU, Tree};
use super::place::{Cgroup, Pod, action, actor, actor_of, enforced, mount, options, settle, wait};

#[test]
fn kill_spares_the_sandbox() {
    let id = |id: &str| format!("containerd://{id}");
    let named = || vec![id(Pod::CONTAINER)];
    // The container was started again, and the API names the one before.
    let outdated = || vec![id(&"0a".repeat(32))];
    #[rustfmt::skip]
    let table = [
        // step, containers that the API names
        (StopContainers, vec![]),
        (StopContainers, named()),
        (KillContainers, vec![]),
        (KillContainers, named()),
        (StopContainers, outdated()),
        (KillContainers, outdated()),
        (KillContainers, [named(), outdated()].concat()),
    ];
    for (step, containers) in table {
        let Some(root) = Cgroup::new("pod") else { return };
        let pod = Pod::new(&root);
        let (mut actor, _state) = actor();
        let target = Target { containers: containers.clone(), ..pod.target() };
        let outcome = actor.take(&enforced(step, target));
        assert_eq!(outcome.result, Done, "{step:?} {containers:?} {outcome:?}");
        wait("its container is empty", || pod.container.pids().is_empty());
        assert_eq!(pod.sandbox.pids().len(), 1, "{step:?} {containers:?}");
    }
}

#[test]
fn kill_ends_a_container_that_was_started_again_beside_another() {
    for step in [StopContainers, KillContainers] {
        let Some(root) = Cgroup::new("again") else { return };
        let pod = Pod::new(&root);
        let anew = pod.pod().child(format!("cri-containerd-{}.scope", "0e".repeat(32)));
        anew.spawn("exec sleep 100");
        anew.wait_for(1);
        let (mut actor, _state) = actor();
        // The API names one as it runs, and of the other the one before.
        let named = [Pod::CONTAINER, &"0a".repeat(32)].map(|id| format!("containerd://{id}"));
        let target = Target { containers: named.into(), ..pod.target() };
        let outcome = actor.take(&enforced(step, target));
        assert_eq!(outcome.result, Done, "{step:?} {outcome:?}");
        wait("both are empty", || pod.container.pids().is_empty() && anew.pids().is_empty());
        assert_eq!(pod.sandbox.pids().len(), 1, "{step:?} {outcome:?}");
    }
}

/// Two pods as one candidate, each in a cgroup of its own, which is removed after it.
fn two(root: &Cgroup) -> ([(Pod, Cgroup); 2], Target) {
    let pods = ["one", "other"].map(|name| {
        let above = root.child(name);
        (Pod::new(&above), above)
    });
    let group =
        |(pod, _): &(Pod, Cgroup)| TargetGroup { id: pod.pod().id(), path: pod.pod().path.clone() };
    let groups = pods.iter().map(group).collect();
    (pods, Target { name: "small".into(), groups, ..Target::default() })
}

/// The pod ends, and the kubelet removes its cgroup.
fn take_down(pod: &Pod) {
    [&pod.container, &pod.sandbox, pod.pod()].into_iter().for_each(Cgroup::end);
    assert!(!pod.pod().dir.exists());
}

#[test]
fn kill_a_group() {
    #[rustfmt::skip]
    let table = [
        // it is opened beforehand, pods that the test removed before, result, processes that ended
        (true,  0, Done,   Some(2)),
        (false, 1, Done,   Some(1)),
        (true,  1, Done,   Some(1)),
        (false, 2, Failed, None),
    ];
    for (is_prepared, n_gone, result, ended) in table {
        let Some(root) = Cgroup::new("group") else { return };
        let (pods, target) = two(&root);
        let (mut actor, _state) = actor();
        if is_prepared {
            actor.prepare(std::slice::from_ref(&target));
        }
        let (gone, left) = pods.split_at(n_gone);
        gone.iter().for_each(|(pod, _)| take_down(pod));
        let outcome = actor.take(&enforced(KillContainers, target));
        let outcome = settle(&mut actor, outcome);
        assert_eq!((outcome.result, outcome.ended), (result, ended), "{n_gone} {outcome:?}");
        assert_eq!(outcome.detail.contains("is gone"), n_gone == 2, "{n_gone} {outcome:?}");
        for (pod, _) in left {
            let n_left = (pod.container.pids().len(), pod.sandbox.pids().len());
            assert_eq!(n_left, (0, 1), "{n_gone} {outcome:?}");
        }
    }
}

#[test]
fn stop_of_a_group_is_followed_until_a_later_step_covers_it() {
    #[rustfmt::skip]
    let table = [
        // of two pods that are stopped, the test removes one, one alone is killed; the stop is still followed
        (false, false, false),
        (true,  false, false),
        (true,  true,  false),
        (false, true,  true),
    ];
    for (is_gone, is_alone, is_followed) in table {
        let Some(root) = Cgroup::new("stops") else { return };
        let (pods, target) = two(&root);
        for (pod, _) in &pods {
            pod.container.spawn("trap '' TERM; while :; do sleep 0.1; done");
            wait("it is deaf", || pod.container.pids().len() == 3);
        }
        let (mut actor, _state) = actor();
        let stop = Action { id: 1, ..enforced(StopContainers, target.clone()) };
        assert_eq!(actor.take(&stop).result, Done);
        if is_gone {
            take_down(&pods[1].0);
        }
        let target = if is_alone { pods[0].0.target() } else { target };
        actor.take(&Action { id: 2, ..enforced(KillContainers, target) });
        let of_stop = actor.in_force().iter().find(|entry| entry.action.id == 1).unwrap();
        assert_eq!(of_stop.phase == Phase::Ending, is_followed, "{is_gone} {is_alone}");
    }
}

#[test]
fn squeeze_of_a_group_leaves_out_who_is_gone() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let path = CgroupPath("/gone".into());
    let gone = TargetGroup { id: CgroupId(1), path };
    let Target { cgroup, path, .. } = tree.target();
    let here = TargetGroup { id: cgroup.unwrap(), path: path.unwrap() };
    for (groups, want) in [(vec![gone.clone(), here], Done), (vec![gone], Failed)] {
        let (mut actor, _state) = actor_of(tree.root.path());
        let target = Target { groups, ..Target::default() };
        let outcome = actor.take(&Action { target, ..tree.squeeze(7, CPU, None) });
        let weight = if want == Done { "10" } else { "100" };
        assert_eq!((outcome.result, &*tree.says("cpu.weight")), (want, weight), "{outcome:?}");
        tree.release(&mut actor, 7);
    }
}

#[test]
fn kill_with_a_container_gone() {
    for step in [StopContainers, KillContainers] {
        let Some(root) = Cgroup::new("gone") else { return };
        let pod = Pod::new(&root);
        let deaf = pod.pod().child(format!("cri-containerd-{}.scope", "de".repeat(32)));
        deaf.spawn("trap '' TERM; while :; do sleep 0.1; done");
        wait("it is deaf", || deaf.pids().len() == 2);
        // Whoever looks for what is never touched looks below each container.
        let state = tempfile::tempdir().unwrap();
        let never_touch = vec!["/nobody/of/this/name".parse().unwrap()];
        let options = Options { never_touch, ..options(&mount().unwrap(), state.path()) };
        let mut actor = Actuator::open(options).unwrap();
        let target = pod.target();
        actor.prepare(std::slice::from_ref(&target));
        let first = (step == StopContainers).then(|| actor.take(&enforced(step, target.clone())));
        // It ends, and its runtime removes its cgroup.
        let Pod { container, sandbox, .. } = &pod;
        let dir = container.dir.clone();
        container.end();
        assert!(!dir.exists(), "{step:?}");
        let first = first.unwrap_or_else(|| actor.take(&enforced(step, target)));
        let last = settle(&mut actor, first);
        assert_eq!(last.result, Done, "{step:?} {last:?}");
        assert!(deaf.pids().is_empty(), "{step:?} {last:?}");
        assert_eq!(sandbox.pids().len(), 1, "{step:?} {last:?}");
    }
}

#[test]
fn stop_spares_a_container_that_starts_in_its_grace() {
    let Some(root) = Cgroup::new("grace") else { return };
    let pod = Pod::new(&root);
    let container = |id: &str| pod.pod().child(format!("cri-containerd-{}.scope", id.repeat(32)));
    let deaf = container("de");
    deaf.spawn("trap '' TERM; while :; do sleep 0.1; done");
    wait("it is deaf", || deaf.pids().len() == 2);
    let (mut actor, _state) = actor();
    let first = actor.take(&enforced(StopContainers, pod.target()));
    assert_eq!(first.result, Done, "{first:?}");
    // The kubelet starts the container anew that has ended.
    let new = container("0e");
    new.spawn("exec sleep 100");
    new.wait_for(1);
    let last = settle(&mut actor, first);
    assert!(last.detail.contains("the grace period ended with "), "{last:?}");
    assert!(deaf.pids().is_empty(), "{last:?}");
    assert_eq!(new.pids().len(), 1, "{last:?}");
}

#[test]
fn kill_nothing_like_a_sandbox() {
    let Some(root) = Cgroup::new("lone") else { return };
    let pod = Pod::new(&root);
    let (mut actor, _state) = actor();
    let outcome = actor.take(&enforced(KillContainers, pod.target()));
    settle(&mut actor, outcome);
    let named = Target { containers: vec!["containerd://0123".into()], ..pod.target() };
    for target in [pod.target(), named] {
        let outcome = actor.take(&enforced(KillContainers, target));
        assert_eq!(outcome.result, Failed, "{outcome:?}");
        let why = "all that it has look like sandboxes, or are empty";
        assert!(outcome.detail.ends_with(why), "{outcome:?}");
    }
    assert_eq!(pod.sandbox.pids().len(), 1);
}

/// Where it is told what a container holds: without the memory controller, by its processes alone.
#[derive(Debug, Clone, Copy)]
enum Held {
    Cgroup(u64),
    Processes(u64),
}

/// One container in one pod, of plain files, with one process.
struct Told {
    root: TempDir,
    proc: TempDir,
    child: Child,
    pod: PathBuf,
}

impl Told {
    /// What the kernel says of the process, and what the container holds.
    fn new(class: &str, name: &str, oom_score_adj: i32, held: Held) -> Self {
        let (root, proc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let child = Command::new("sleep").arg("100").spawn().unwrap();
        let pod = Path::new("kubepods").join(class).join("pod0d3a");
        let container = root.path().join(&pod).join(Pod::CONTAINER);
        fs::create_dir_all(&container).unwrap();
        fs::write(container.join("cgroup.procs"), format!("{}\n", child.id())).unwrap();
        fs::write(root.path().join(&pod).join("cgroup.procs"), "").unwrap();
        let pages = match held {
            Held::Cgroup(bytes) => {
                fs::write(container.join("memory.current"), format!("{bytes}\n")).unwrap();
                100
            }
            Held::Processes(bytes) => bytes / 4096,
        };
        let of = proc.path().join(child.id().to_string());
        let random = proc.path().join("sys/kernel/random");
        [&of, &random].into_iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
        fs::write(random.join("boot_id"), "boot\n").unwrap();
        fs::write(
            of.join("stat"),
            format!("1 ({name}) S 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 88123"),
        )
        .unwrap();
        fs::write(of.join("statm"), format!("9000 {pages} 80 1 0 60 0\n")).unwrap();
        fs::write(of.join("oom_score_adj"), format!("{oom_score_adj}\n")).unwrap();
        Self { root, proc, child, pod }
    }

    /// What a dry run says of ending the pod, of which the API names these containers.
    fn kill(&self, named: &[&str]) -> Outcome {
        let state = tempfile::tempdir().unwrap();
        let options =
            Options { proc: self.proc.path().into(), ..options(self.root.path(), state.path()) };
        let containers = named.iter().map(|id| (*id).to_owned()).collect();
        let target = Target { containers, ..self.target() };
        Actuator::open(options).unwrap().take(&action(KillContainers, target))
    }

    fn target(&self) -> Target {
        let id = fs::metadata(self.root.path().join(&self.pod)).unwrap().ino();
        let path = CgroupPath(format!("/{}", self.pod.display()).into());
        Target {
            name: "hog".into(),
            cgroup: Some(CgroupId(id)),
            path: Some(path),
            ..Target::default()
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kill_in_part_is_followed() {
    let told = Told::new("besteffort", "work", 1000, Held::Cgroup(1));
    let pod = told.root.path().join(&told.pod);
    let other = pod.join("de".repeat(32));
    fs::create_dir(&other).unwrap();
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    fs::write(other.join("cgroup.procs"), format!("{}\n", child.id())).unwrap();
    let state = tempfile::tempdir().unwrap();
    let mut actor = Actuator::open(options(told.root.path(), state.path())).unwrap();
    let target = told.target();
    actor.prepare(std::slice::from_ref(&target));
    // From now on this one cannot be ended.
    fs::remove_file(other.join("cgroup.procs")).unwrap();
    let outcome = actor.take(&enforced(KillContainers, target));
    assert!(outcome.detail.contains("SIGKILL to each, but "), "{outcome:?}");
    assert!(outcome.detail.contains("cgroup.procs is not there"), "{outcome:?}");
    let phases: Vec<_> = actor.in_force().iter().map(|entry| entry.phase).collect();
    assert!(actor.is_busy() && phases == [Phase::Ending], "{phases:?}: {outcome:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn kill_refuses_critical_pods() {
    let critical = "-997, which the kubelet gives to pods that are critical to the node";
    let done = "would end 1 process";
    #[rustfmt::skip]
    let table = [
        // class, oom_score_adj, the API names its container; result, told
        ("besteffort", 1000, false, Done,   done),
        ("burstable",  -996, false, Done,   done),
        ("burstable",  -997, false, Failed, critical),
        ("besteffort", -997, false, Failed, critical),
        // The policy knows its priority, and a process may have lowered its score.
        ("burstable",  -997, true,  Done,   done),
        // A Guaranteed pod has it for its class.
        ("",           -997, false, Done,   done),
    ];
    for (class, adjusted, is_named, result, told) in table {
        let named: &[&str] = if is_named { &[Pod::CONTAINER] } else { &[] };
        let outcome = Told::new(class, "work", adjusted, Held::Cgroup(1)).kill(named);
        assert_eq!(outcome.result, result, "{class} {adjusted} {outcome:?}");
        assert!(outcome.detail.contains(told), "{class} {adjusted} {outcome:?}");
    }
}

#[test]
fn kill_false_sandbox() {
    #[rustfmt::skip]
    let table = [
        // name, oom_score_adj, held, result
        ("pause",  1000, Held::Processes(700 << 10), Failed),
        ("pause",  1000, Held::Processes(16 << 20),  Done), // the memory controller is on v1
        ("pause",  1000, Held::Cgroup(700 << 10),    Failed),
        ("pause",  1000, Held::Cgroup(16 << 20),     Done),
        ("conmon", 1000, Held::Cgroup(1 << 30),      Done),
        // This is nobody's to choose.
        ("pause",  -998, Held::Cgroup(1 << 30),      Failed),
        ("work",   1000, Held::Cgroup(1),            Done),
    ];
    for (name, adjusted, held, result) in table {
        let outcome = Told::new("besteffort", name, adjusted, held).kill(&[]);
        assert_eq!(outcome.result, result, "{name} {adjusted} {held:?} {outcome:?}");
    }
}
