use super::*;
use isobar_core::model::capability::CapabilityState;
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::pod::Place;
use isobar_core::model::sample::Moment;

#[test]
fn change_keeps_figures_alone() {
    #[rustfmt::skip]
    let table = [
        // of a drift, what is kept
        ("/a/memory.max: another writer changed 911527936 to \"max\"; it was written again; systemd writes it",
         Some("another writer changed 911527936 to max; it was written again")),
        ("/a/cpuset.cpus: another writer changed 0-3,7 to \"0\", and that stays", Some("another writer changed 0-3,7 to 0")),
        ("/a/cpuset.cpus: another writer changed 0-3,7 to \"0\"", Some("another writer changed 0-3,7 to 0")),
        ("/a/pids.max is not 9: another writer changed 9 to \"max\", 3 times within six hours and is left to them: it may be systemd",
         Some("another writer changed 9 to max, 3 times within six hours and is left to them")),
        ("/a/pids.max: another writer changed 9 to \"8\"; without writeLimits it stays so",
         Some("another writer changed 9 to 8; without writeLimits it stays so")),
        ("/a/memory.max: another writer changed 5 to \"shop\"", None),
        ("/a/memory.max: cannot read it", None),
    ];
    for (text, want) in table {
        assert_eq!(change(text).as_deref(), want, "{text}");
    }
}

const UUID: &str = "3f2a77b0-1c9d-4a10-9c52-1f00aa00bb00";

/// An id of the same form that ends with this digit.
fn other(id: &str, digit: u8) -> String {
    let zeros = id.replace(|c: char| c.is_ascii_hexdigit(), "0");
    format!("{}{digit}", &zeros[..zeros.len() - 1])
}

#[test]
fn text_replaces_names_and_keeps_what_joins() {
    let id = "6d7765a8f3644da8".repeat(4);
    let slices = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod";
    let uid = UUID.replace('-', "_");
    #[rustfmt::skip]
    let table = [
        // before, after
        ("web".to_owned(),                       "name1".to_owned()),
        ("shop/web".into(),                      "name1/name2".into()),
        ("acme.example/keep".into(),             "name1/name2".into()),
        ("acme.example/".into(),                 "name1/".into()),
        ("acme/SystemCPUContentionPressure".into(), "name1/SystemCPUContentionPressure".into()),
        ("memory.available".into(),              "memory.available".into()),
        ("/".into(),                             "/".into()),
        ("/proc/pressure/irq".into(),            "/proc/pressure/irq".into()),
        ("/system.slice/pay.service".into(),     "/system.slice/name1.service".into()),
        ("/system.slice/sshd@7-acme.service".into(), "/system.slice/sshd@name1.service".into()),
        ("/system.slice/getty@acme.service".into(), "/system.slice/name1.service".into()),
        ("/acme.slice/acme-batch.slice".into(),  "/name1.slice/name1-name2.slice".into()),
        ("/acme.slice/*".into(),                 "/name1.slice/*".into()),
        ("/acme-*.service".into(),               "/name1.service".into()),
        (format!("{slices}{uid}.slice/cri-containerd-{id}.scope"),
         format!("{slices}{}.slice/cri-containerd-{}.scope", other(&uid, 1), other(&id, 2))),
        (format!("/kubepods/pod{UUID}/{id}"),    format!("/kubepods/pod{}/{}", other(UUID, 1), other(&id, 2))),
        (format!("/kubepods/podacme/kata_{id}"), format!("/kubepods/podname1/name2{}", other(&id, 3))),
        (format!("{UUID}/web"),                  format!("{}/name2", other(UUID, 1))), // a namespace
        (format!("{slices}acme_web.slice"),      format!("{slices}name1.slice")),
        ("/acme.slice/acme-kubepods.slice".into(), "/name1.slice/name1-kubepods.slice".into()),
        ("pod".repeat(60_000) + "acme",          "pod".repeat(60_000) + "name1"),
        ("kubepods-acme".into(),                 "name1".into()),
        (UUID.into(),                            other(UUID, 1)),
    ];
    for (before, want) in table {
        let mut names = Names::default();
        assert_eq!(names.text(&before), want, "{before}");
        assert_eq!(names.text(&before), want, "{before}, again");
    }
}

#[test]
fn incident_keeps_that_it_was_cut_and_what_could_be_measured() {
    let (name, detail) = ("pods".to_owned(), "acme-api does not answer".to_owned());
    let state = CapabilityState::Off;
    let pods = Capability { name, state, detail, remedy: Some("ask acme".into()) };
    let change = Change { at: Moment::default(), capability: pods.clone() };
    let (capabilities, changes) = (vec![pods], vec![change]);
    let whole = Incident { is_cut: true, capabilities, changes, ..Incident::default() };
    let told = Names::default().incident(whole);
    let bare =
        |one: &Capability| (one.name.clone(), one.state, one.detail.len(), one.remedy.is_none());
    let want = ("pods".to_owned(), state, 0, true);
    assert_eq!(bare(&told.capabilities[0]), want);
    assert_eq!(bare(&told.changes[0].capability), want);
    assert!(told.is_cut);
}

#[test]
fn who_renames_a_container_and_its_pod() {
    #[rustfmt::skip]
    let table = [
        ("container front of shop/web",              "container name1 of name2/name3"),
        ("a container of shop/web (id 3f2a91c47d1e)", "a container of name1/name2 (id name3)"),
        ("shop/web",                                 "name1/name2"),
    ];
    for (before, want) in table {
        assert_eq!(Names::default().who(before), want, "{before}");
    }
}

/// A pod of a manifest may have any text as its uid, and is joined to its cgroup by it.
#[test]
fn text_keeps_a_place() {
    let id = "6d7765a8f3644da8".repeat(4);
    for uid in [UUID, "pay-frontend", "podium", "kubepods"] {
        let spelled = uid.replace('-', "_");
        for path in [
            format!("/kubepods/burstable/pod{uid}/{id}"),
            format!("/kubepods.slice/kubepods-pod{spelled}.slice/crio-{id}.scope"),
        ] {
            let mut names = Names::default();
            let renamed = Place::of(&CgroupPath(names.text(&path).into()));
            let Place::Container { pod, id: kept, .. } = renamed else {
                panic!("{path}: {renamed:?}")
            };
            assert_eq!((&*pod, &*kept), (&*names.text(uid), &*names.text(&id)), "{path}");
        }
    }
}

#[test]
fn of_refuses_names_that_take_too_much_memory() {
    const MIB: usize = 1 << 20;
    #[rustfmt::skip]
    let table = [
        // bytes held before, names, bytes of each, are they replaced?
        (0,               1_000, 100,     true),
        (LARGEST - 1_000, 3,     100,     true),
        (LARGEST - 1_000, 5,     100,     false), // each takes more than its text
        (LARGEST - 1_000, 1,     1_000,   false),
        (0,               17,    4 * MIB, false), // lines of a file may have 64 MiB
    ];
    for (held, n, size, want) in table {
        let mut names = Names { held, ..Names::default() };
        let each = |i: usize| format!("{i}{}", "x".repeat(size));
        let refused = (0..n).map(|i| names.of(&each(i))).find_map(Result::err);
        assert_eq!(refused.is_none(), want, "{held} {n} {size}: {refused:?}");
        let kept: usize = names.others.iter().map(|(name, other)| name.len() + other.len()).sum();
        assert!(held + kept <= LARGEST, "{held} {n} {size}: {kept}");
        let Some(refused) = refused else { continue };
        assert!(refused.to_string().contains("without --redact"), "{refused}");
        assert!(names.of(&"web".to_owned()).is_err(), "it stays refused");
    }
}
