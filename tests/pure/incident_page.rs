//! The page of an incident: complete, small, and safe whatever a cgroup or a pod is called.

use std::path::Path;
use std::sync::Arc;

use crate::busy;
use crate::kept::keep;
use crate::made_up::HOSTILE;
use crate::program::{self, text};
use crate::sampling::data;
use isobar::record::journal::{Bounds, Journal, Start};
use isobar_core::model::cgroup::CgroupPath;
use isobar_core::model::condition::Measure;
use isobar_core::model::psi::{Line, Pressure};
use isobar_core::model::settings::{ConditionRule, Settings};
use isobar_core::model::units::Percent;
use isobar_core::policy::engine::{Engine, Standing};
use tempfile::TempDir;

/// The page of the only incident in `dir`.
fn page(dir: &Path, more: &[&str]) -> String {
    let mut command = program::isobar(&["incidents", "export", "latest", "--html", "-o", "-"]);
    let got = command.args(more).arg("--dir").arg(dir).output().unwrap();
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    text(&got.stdout)
}

#[test]
fn page_answers_who_did_what() {
    let dir = TempDir::new().unwrap();
    let incident = keep(&data("recordings/judged-leak-6.12.isobar"), dir.path());
    let page = page(dir.path(), &[]);
    assert!(incident.conditions.iter().any(|held| held.name == "MemoryPressure"));
    let taken = incident.taken.unwrap();
    assert!(incident.summary.contains(&taken), "{taken}");
    #[rustfmt::skip]
    let table = [
        // what a reader looks for
        &format!("<dt>Who did it</dt><dd><p>Memory: {taken}."),
        "<dt>Who suffered</dt><dd><p>shop/leak: the kernel&#39;s OOM killer",
        "<dt>What isobar did</dt><dd><p>would raise the OOM score of shop/leak because",
        "would stop the containers of shop/leak because",
        "isobar only observed: nothing was changed on the node.",
        "OOM kills by the kernel: 1; isobar had foreseen 1.",
        "first to go: shop/leak",
        "<li class=\"c1 threshold\">its threshold, 48 MiB</li>",
        "<td>9s before</td>",
    ];
    for want in table {
        assert!(page.contains(want), "{want}");
    }
}

#[test]
fn page_counts_the_ticks_that_it_has() {
    let dir = TempDir::new().unwrap();
    let incident = keep(&data("recordings/judged-leak-6.12.isobar"), dir.path());
    let whole = page(dir.path(), &[]);
    assert!(whole.contains(&format!("in {} ticks.", incident.ticks)));
    let file = dir.path().join(format!("incidents/{}.isobar", incident.name));
    let half = std::fs::metadata(&file).unwrap().len() / 2;
    let ticks = std::fs::File::options().write(true).open(file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&ticks, &[0xA5; 8], half).unwrap();
    let mut command = program::isobar(&["incidents", "export", "latest", "--html", "-o", "-"]);
    let got = command.arg("--dir").arg(dir.path()).output().unwrap();
    assert!(text(&got.stderr).contains(".isobar: a damaged frame"), "{}", text(&got.stderr));
    let told = format!(" of {} ticks: ", incident.ticks);
    let (page, told) = (text(&got.stdout), told.as_str());
    assert!(page.contains(told) && page.contains(" cannot be read.</p>"), "{told}");
}

#[test]
fn summary_of_a_shortage_names_who_waited() {
    let dir = TempDir::new().unwrap();
    let incident = keep(&data("recordings/judged-shortage-6.12.isobar"), dir.path());
    insta::assert_snapshot!(incident.summary);
}

#[test]
fn page_redacted_has_no_name() {
    let dir = TempDir::new().unwrap();
    keep(&data("recordings/judged-leak-6.12.isobar"), dir.path());
    let page = page(dir.path(), &["--redact"]);
    for name in ["shop", "leak", "worker-1"] {
        assert!(!page.contains(name), "{name}");
    }
    assert!(page.contains("Memory: name"), "and it still tells who did it");
}

/// Five minutes of 500 cgroups; CPUs are short from the hundredth second on.
fn busy_recording(path: &Path, rename: &str) {
    let mut settings = Settings::default();
    for rule in settings.conditions.rules.values_mut() {
        *rule = ConditionRule { measure: Measure::RawSome, threshold: Percent(60_00) };
    }
    let mut node = busy::Node::new(busy::Load::Fifth);
    let standing = Standing::new(8);
    let mut engine = Engine::new(settings.clone(), standing.clone());
    let start = Start { settings, standing, ..Start::default() };
    let mut journal = Journal::create(path, start, Bounds::default()).unwrap();
    for second in 0..300 {
        let mut sample = node.tick();
        let share = Percent(if second >= 100 { 90_00 } else { 5_00 });
        let line = Line { avg10: share, avg60: share, ..Line::default() };
        sample.node.pressure.cpu = Some(Pressure { some: Some(line), full: None });
        let busy = sample
            .cgroups
            .values_mut()
            .map(Arc::make_mut)
            .filter(|one| one.path.0.contains("/some-"));
        busy.for_each(|one| one.path = CgroupPath(one.path.0.replace("some-", rename).into()));
        let decision = engine.step(sample.clone()).decision;
        journal.write(&sample, &decision, engine.standing()).unwrap();
    }
}

#[test]
fn page_is_small_and_safe() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording");
    let hostile =
        format!("{}</script></style><script>alert(1)</script>", HOSTILE.trim_start_matches('/'));
    busy_recording(&path, &hostile.replace('/', "\u{2215}"));
    let incident = keep(&path, dir.path());
    assert!(incident.ticks >= 200, "{}", incident.ticks);
    let page = page(dir.path(), &[]);
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "the name is shown");
    #[rustfmt::skip]
    let table = [
        // what would load or run something
        "<script", "<img", "<link", "<iframe", "javascript:", "http:", "https:", "url(", "@import",
    ];
    for bad in table {
        assert!(!page.contains(bad), "{bad}");
    }
}
