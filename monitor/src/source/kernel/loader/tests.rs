use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc;
use std::thread;

use super::super::layout::{self, Host};
use super::super::programs::PLANS;
use super::*;

/// The object with room for one cgroup and `programs` attached; `None`, with the reason
/// printed, if that is not possible.
fn loaded(programs: &[&str]) -> Option<Loader> {
    let try_load = || -> Result<Loader, String> {
        let btf = fs::read("/sys/kernel/btf/vmlinux").map_err(|error| error.to_string())?;
        let host = Host { cpu_on_v2: false, memory_on_v1: false, psi: true, own_cgroup: None };
        let layout = layout::read(&btf, host).map_err(|error| error.to_string())?;
        let sizes = Sizes { cgroups: 1, pairs: 1 };
        let mut loader = Loader::new(&layout, sizes).map_err(|error| error.to_string())?;
        for plan in PLANS.iter().filter(|plan| programs.contains(&plan.program)) {
            loader.attach(plan).map_err(|error| error.to_string())?;
        }
        Ok(loader)
    };
    try_load().inspect_err(|why| println!("skipped: {why}")).ok()
}

fn fill_groups(loader: &mut Loader) {
    for cpu in 0..nr_cpus().unwrap() as u64 {
        loader.groups.insert(OnCpu { cgroup: u64::MAX, cpu }, Group::default(), 0).unwrap();
    }
}

#[test]
fn sizes_bound_entries_by_cpu() {
    #[rustfmt::skip]
    let table = [
        // cgroups, possible CPUs, entries
        (2_048,   4,     8_192),
        (2_048,   256,   38_912), // what 19 MiB hold
        (100_000, 256,   100_000), // one for each cgroup in any case
    ];
    for (cgroups, n_cpus, want) in table {
        assert_eq!(Sizes { cgroups, pairs: 1 }.groups(n_cpus), want, "{cgroups} {n_cpus}");
    }
}

#[test]
fn switch_forgets_io_sleepers_whose_wait_is_lost() {
    let Some(mut loader) = loaded(&[]) else { return };
    fill_groups(&mut loader);
    let switch = PLANS.iter().find(|plan| plan.program == "switch").unwrap();
    loader.attach(switch).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let writes = (0..50).map(|n| {
        let path = dir.path().join(n.to_string());
        thread::spawn(move || {
            let mut file = File::create(path).unwrap();
            file.write_all(&[1; 4096]).unwrap();
            file.sync_all().unwrap();
        })
    });
    writes.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    loader.detach("switch");
    let cpus = loader.cpus().unwrap();
    assert_ne!(cpus.iter().map(|cpu| cpu.lost_groups).sum::<u64>(), 0, "the map was full");
    let kept = loader.io_sleepers.keys().count();
    assert!(kept < 25, "{kept} of 50 threads that wrote to a disk are left over");
}

#[test]
fn exit_forgets_an_io_sleeper() {
    let Some(mut loader) = loaded(&["exit"]) else { return };
    let (tell_tid, tid) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        tell_tid.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        ended.recv().unwrap_err();
    });
    let tid = tid.recv().unwrap().cast_unsigned();
    loader.io_sleepers.insert(tid, 1, 0).unwrap();
    drop(end);
    thread.join().unwrap();
    assert!(matches!(loader.io_sleepers.get(&tid, 0), Err(MapError::KeyNotFound)), "{tid}");
}
