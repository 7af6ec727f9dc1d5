//! An incident of disks names who does the IO.

use isobar::record::incident::Incident;
use isobar::record::incident::account::Account;
use isobar_core::model::cgroup::{Cgroup, CgroupId, CgroupPath, IoStat};
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::sample::Sample;
use isobar_core::model::units::{Bytes, Percent};
use isobar_core::policy::engine::{Engine, Standing};

use super::{at, settings};

/// `backup.service` has read 40 MiB a second, `web.service` 1.
fn sample(second: u64, share: Percent) -> Sample {
    let mut sample = Sample { tick: second, at: at(second), ..Sample::default() };
    let line = Line { avg10: share, avg60: share, ..Line::default() };
    sample.node.pressure.io = Some(Pressure { some: Some(line), full: Some(line) });
    let cgroups = [("/", None, 0), ("/backup.service", Some(1), 40), ("/web.service", Some(1), 1)];
    for (id, (path, parent, mib)) in (1..).zip(cgroups) {
        let read = Bytes((second * mib) << 20);
        let io = Some(IoStat { read, reads: second * mib, ..IoStat::default() });
        let (path, parent) = (CgroupPath(path.into()), parent.map(CgroupId));
        let io = io.filter(|_| parent.is_some());
        sample
            .cgroups
            .insert(CgroupId(id), Cgroup { path, parent, io, ..Cgroup::default() }.into());
    }
    sample
}

#[test]
fn account_names_who_did_the_io_where_disks_were_short() {
    let told = "When tasks waited most for IO: backup.service reads 40Mi/s of the node's 41Mi/s";
    #[rustfmt::skip]
    let table = [
        // part of the time in which tasks waited, whether it is told
        (Percent(90_00), true),
        (Percent(30_00), false), // below the threshold
    ];
    for (share, is_told) in table {
        let mut engine = Engine::new(settings(), Standing::new(4));
        let mut account = Account::default();
        for second in 1..=4 {
            let sample = sample(second, if second == 3 { share } else { Percent(1_00) });
            account.tick(&sample, &engine.step(sample.clone()));
        }
        let incident = account.close(Incident::default());
        assert_eq!(incident.moved.is_some(), is_told, "{incident:?}");
        assert_eq!(incident.summary.contains(told), is_told, "{}", incident.summary);
    }
}
