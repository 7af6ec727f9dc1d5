//! The deny list: cgroups and processes that no step may touch, whatever was decided. The
//! configuration can add to it and take nothing away.

use std::fs;
use std::path::Path;

use super::cgroup::CgroupDir;
use super::error::{ActError, Rule};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::pattern::PathPattern;
use isobar_core::model::pod::Place;

/// The cgroups and processes that no step may touch.
#[derive(Debug)]
pub(super) struct DenyList {
    /// The cgroup that this process runs in.
    own: Option<CgroupPath>,
    configured: Vec<PathPattern>,
}

impl DenyList {
    pub(super) fn new(proc: &Path, configured: Vec<PathPattern>) -> Self {
        let mut deny = Self { own: None, configured };
        deny.find_own(proc);
        deny
    }

    /// Looks where this process runs: it may have been moved.
    pub(super) fn find_own(&mut self, proc: &Path) {
        let text = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        let own = text.lines().find_map(|line| line.strip_prefix("0::"));
        self.own = own.map(|path| CgroupPath(path.into())).or(self.own.take());
    }

    /// Whether anything may be done to this cgroup.
    pub(super) fn allows(&self, group: &CgroupDir) -> Result<(), ActError> {
        let path = &group.path;
        match self.rule(path, group.n_names_of_root(), &group.place()) {
            None => Ok(()),
            Some(rule) => Err(ActError::Guarded { path: path.clone(), rule }),
        }
    }

    fn rule(&self, path: &CgroupPath, n_of_root: usize, place: &Place) -> Option<Rule> {
        let own = self.own.as_ref().is_some_and(|own| own.is_within(path));
        match place {
            Place::Node => return Some(Rule::Node),
            Place::Kubepods | Place::Qos { .. } => return Some(Rule::AllPods),
            _ if own => return Some(Rule::Own),
            _ => {}
        }
        if path.segments().next() == Some("init.scope") {
            return Some(Rule::Init);
        }
        let mut above = CgroupPath::root();
        path.segments().find_map(|segment| {
            above = above.child(segment);
            self.configured_for(&above, n_of_root)
        })
    }

    /// Whether everything in and below `group` may be ended or held back: what is done to a
    /// cgroup is done to all that lies below it. Of more cgroups than are looked through, those that are.
    pub(super) fn allows_below(&self, group: &CgroupDir) -> Result<(), ActError> {
        if self.configured.is_empty() {
            return Ok(());
        }
        group
            .each_below(|below| {
                let rule = self.configured_for(&below.path, below.n_names_of_root());
                let path = || below.path.clone();
                rule.map_or(Ok(()), |rule| Err(ActError::Guarded { path: path(), rule }))
            })
            .map(drop)
    }

    fn configured_for(&self, path: &CgroupPath, n_of_root: usize) -> Option<Rule> {
        let mut all = self.configured.iter();
        all.find(|pattern| pattern.fits_names(path, n_of_root)).cloned().map(Rule::Configured)
    }

    /// Whether these processes may be ended or held back.
    pub(super) fn allows_pids(&self, path: &CgroupPath, pids: &[u32]) -> Result<(), ActError> {
        let rule = match pids {
            pids if pids.contains(&std::process::id()) => Rule::Own,
            pids if pids.contains(&1) => Rule::Init,
            _ => return Ok(()),
        };
        Err(ActError::Guarded { path: path.clone(), rule })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0d3a-1";

    fn rule(path: &str, own: &str) -> Option<Rule> {
        let patterns = ["/system.slice/ssh*.service", "/**/backup.service"];
        let configured = patterns.map(|pattern| pattern.parse().unwrap()).to_vec();
        let deny = DenyList { own: Some(CgroupPath(own.into())), configured };
        let path = CgroupPath(path.into());
        deny.rule(&path, 2, &Place::of(&path))
    }

    #[test]
    fn deny_list_refuses_its_rules() {
        let ssh = || Rule::Configured("/system.slice/ssh*.service".parse().unwrap());
        let backup = || Rule::Configured("/**/backup.service".parse().unwrap());
        let own = "/isobar.slice/isobar.service";
        let pod = format!("/kubepods/burstable/pod{UID}");
        #[rustfmt::skip]
        let table = [
            // path, rule
            ("/".to_owned(),                                   Some(Rule::Node)),
            ("/kubepods".into(),                               Some(Rule::AllPods)),
            ("/kubepods.slice".into(),                         Some(Rule::AllPods)),
            ("/kubepods.slice/kubepods-besteffort.slice".into(), Some(Rule::AllPods)),
            ("/kubelet.slice/kubelet-kubepods.slice".into(),   Some(Rule::AllPods)),
            (pod.clone(),                                      None),
            (format!("{pod}/{}", "a".repeat(64)),              None),
            ("/init.scope".into(),                             Some(Rule::Init)),
            ("/init.scope/x".into(),                           Some(Rule::Init)),
            ("/isobar.slice".into(),                           Some(Rule::Own)),
            (own.into(),                                       Some(Rule::Own)),
            ("/isobar.slice/isobar.service.d".into(),          None),
            ("/isobar.slice/other.service".into(),             None),
            ("/system.slice/sshd.service".into(),              Some(ssh())),
            ("/system.slice/sshd.service/below".into(),        Some(ssh())),
            ("/system.slice/cron.service".into(),              None),
            ("/system.slice/backup.service".into(),            Some(backup())),
            ("/system.slice/cron.service/backup.service".into(), None), // a tenant named it
        ];
        for (path, want) in table {
            assert_eq!(rule(&path, own), want, "{path}");
        }
    }

    #[test]
    fn deny_list_spares_the_own_pod_and_those_above() {
        let own = format!("/kubepods/besteffort/pod{UID}/{}", "b".repeat(64));
        let pod = format!("/kubepods/besteffort/pod{UID}");
        assert_eq!(rule(&pod, &own), Some(Rule::Own));
        assert_eq!(rule(&own, &own), Some(Rule::Own));
        assert_eq!(rule("/kubepods/besteffort/podother", &own), None);
        // Where isobar runs in the root, that is above nothing but itself.
        assert_eq!(rule("/work", "/"), None);
    }

    #[test]
    fn deny_list_spares_process_1_and_isobar() {
        let deny = DenyList { own: None, configured: Vec::new() };
        let path = CgroupPath("/work".into());
        let own = std::process::id();
        for (pids, want) in
            [(vec![1, 7], Some(Rule::Init)), (vec![7, own], Some(Rule::Own)), (vec![7], None)]
        {
            let refused = deny.allows_pids(&path, &pids).err();
            let want = want.map(|rule| ActError::Guarded { path: path.clone(), rule });
            assert_eq!(refused, want, "{pids:?}");
        }
    }
}
