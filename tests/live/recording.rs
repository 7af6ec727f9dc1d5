//! The recording of an agent that is killed, and of one whose disk takes no more.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::host::{Agent, Mounted};
use crate::program::{isobar, text};
use rustix::process::Signal;
use serde_json::Value;

fn recording(snapshot: &Value) -> String {
    let all = snapshot["capabilities"].as_array().unwrap().iter();
    let mut of = all.filter(|one| one["name"] == "recording");
    of.next().map(|one| format!("{}: {}", one["state"], one["detail"])).unwrap_or_default()
}

fn record_to(dir: &Path) -> String {
    format!("--record={}/", dir.display())
}

#[test]
fn recording_loses_at_most_the_last_tick_to_a_kill() {
    let kept = tempfile::tempdir().unwrap();
    for n in [3, 7] {
        let dir = kept.path().join(n.to_string());
        let mut agent = Agent::start(&["--probes=none", &record_to(&dir)]);
        let seen = agent.wait_for("some ticks", |now| now["tick"].as_u64() >= Some(n));
        agent.end_by(Signal::KILL);
        let last = isobar(&["status", "-f", dir.to_str().unwrap(), "-o", "json"]).output().unwrap();
        // 10: this machine may be under pressure.
        assert!(matches!(last.status.code(), Some(0 | 10)), "{}", text(&last.stderr));
        let last: Value = serde_json::from_slice(&last.stdout).unwrap();
        let [seen, last] = [&seen, &last].map(|one| one["tick"].as_u64().unwrap());
        assert!(last + 1 >= seen, "tick {seen} was shown, and {last} is the last that is kept");
    }
}

#[test]
fn recording_on_a_full_disk_goes_on_in_memory_and_then_in_files() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::at(root.path(), "size=4m") else { return };
    let dir = disk.path().join("recording");
    let mut agent = Agent::start(&["--probes=none", &record_to(&dir)]);
    let before = agent.wait_for("a recording", |now| recording(now).contains("attached"));
    let other = disk.path().join("other");
    let filled = fs::write(&other, vec![1; 8 << 20]);
    assert!(filled.is_err(), "the disk should be full");
    let full =
        agent.wait_for("the trouble", |now| recording(now).contains("in memory, ten minutes"));
    assert!(recording(&full).contains("No space left"), "{}", recording(&full));
    let address = agent.address().to_string();
    #[rustfmt::skip]
    let told = [
        (&["status", "-o", "wide"][..], "recording"),
        (&["doctor"],                   "No space left on device"),
    ];
    for (verb, want) in told {
        let told = isobar(verb).args(["--agent", &address]).output().unwrap();
        let told = text(&told.stdout);
        assert!(told.contains(want), "{verb:?}: {told}");
    }
    // What happened before is kept, and what happens now is there as long as the agent lives.
    let past = agent.get("/api/v1/recording").unwrap();
    assert!(past.contains("begin"), "{past}");

    // Files are tried again every minute.
    fs::remove_file(other).unwrap();
    let mut later = (0..90).map(|_| {
        sleep(Duration::from_secs(1));
        agent.snapshot()
    });
    let free = later.find(|now| recording(now).contains("attached"));
    let free = free.unwrap_or_else(|| panic!("it stays in memory: {}", agent.stderr()));
    // One tick a second, whatever the disk does.
    let numbers = |of: &Value| [&of["tick"], &of["at"]["boot"]].map(|n| n.as_u64().unwrap());
    let ([tick, boot], [end, at]) = (numbers(&before), numbers(&free));
    let (ticks, seconds) = (end - tick, (at - boot) / 1_000_000_000);
    assert!(ticks + 1 >= seconds, "{ticks} ticks in {seconds} s");
    let last = agent.next(&free)["tick"].as_u64().unwrap();
    assert!(agent.stop().success());
    let file = dir.join("recording");
    let checked = isobar(&["replay", file.to_str().unwrap(), "--check"]).output().unwrap();
    let told = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{told}");
    let n: u64 = told.split(' ').next().unwrap().parse().unwrap();
    // The tick that could not be written, and the next, which came without the engine's standing.
    assert!(n + 2 >= last, "{n} of {last} ticks are in the files: {}", text(&checked.stderr));
}

#[test]
fn recording_is_refused_by_a_disk_that_only_reads() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::at(root.path(), "ro") else { return };
    let refused = isobar(&[
        "run",
        "--probes=none",
        "--listen=127.0.0.1:0",
        &record_to(&disk.path().join("recording")),
    ]);
    let refused = { refused }.output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("Read-only file system") && said.contains("recording"), "{said}");

    // By default, where nobody asked for files, memory will do.
    let agent = Agent::start_over(
        "unset ISOBAR_NO_RECORD && mount -t tmpfs -o ro none /var/lib",
        &["--probes=none"],
    );
    let now = agent.snapshot();
    let told = recording(&now);
    assert!(told.contains("in memory, ten minutes") && told.contains("Read-only"), "{told}");
}
