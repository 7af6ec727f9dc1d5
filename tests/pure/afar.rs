//! A running agent is asked for its past and for its incidents: the same as of its files.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::thread;

use isobar::record::incident::shelf::Shelf;
use isobar::record::incident::{Incident, State};
use isobar::serve::film::Film;
use isobar::serve::replaying;
use serde_json::Value;

use crate::http::{get, text as body};
use crate::kept::keep;
use crate::program::{isobar, text};
use crate::recorded::{leak, served};

/// A server of the leak's recording and of incidents, for as long as the tests last.
fn serving(incidents: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let shelf = Arc::new(Shelf::in_dir(incidents.into()));
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let film = Film::open(&leak(), None, Some(shelf)).unwrap().unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, replaying(film)).await.unwrap();
        });
    });
    address
}

fn of(arguments: &[&str], source: [&str; 2]) -> Output {
    isobar(arguments).args(source).output().unwrap()
}

#[test]
fn past_of_an_agent_is_that_of_its_recording() {
    let dir = tempfile::tempdir().unwrap();
    let address = serving(&dir.path().join("incidents")).to_string();
    let file = leak();
    let (here, afar) = (["-f", file.to_str().unwrap()], ["--agent", &*address]);
    let (begin, end) = ("2026-11-22T10:13:40Z", "2026-11-22T10:13:55Z");
    #[rustfmt::skip]
    let table: [(&[&str], i32); 22] = [
        // arguments, code
        (&["status", "--at", "2026-11-22T10:13:50Z"],                 10),
        (&["status", "--at", "2026-11-22T10:13:32Z"],                 0),
        (&["status", "--at", "2026-11-22T11:00:00Z"],                 10), // nothing is recorded then
        (&["explain", "--at", "2026-11-22T10:13:50Z", "-o", "json"],  0),
        (&["top", "--once", "--at", "2026-11-22T10:13:50Z"],          0),
        (&["top", "--once", "--at", "2026-11-22T10:13:50Z", "-o", "json"], 0),
        (&["rank", "--at", "2026-11-22T10:13:50Z"],                   0),
        (&["rank", "--at", "2026-11-22T10:13:50Z", "-o", "json"],     0),
        (&["rank", "--at", "2026-11-22T10:13:32Z", "--signal", "kubepods.cpu.pressure"], 0),
        (&["rank", "--at", "2026-11-22T11:00:00Z", "-o", "wide"],     0), // nothing is recorded then
        (&["status", "--begin", begin, "--end", end],                 10),
        (&["status", "--end", end, "-o", "ndjson"],                   10),
        (&["status", "--begin", begin],                               10),
        (&["explain", "--begin", begin, "--end", "2026-11-22T10:13:42Z"], 0), // no outcomes yet
        (&["top", "--end", end, "-o", "json"],                         0),
        (&["status", "--begin", "2026-11-22T11:00:00Z"],              3),
        // From the end of a file, and by the clock of an agent, here that of its recording.
        (&["status", "--at", "now"],                                  10),
        (&["status", "--at", "-20s"],                                 0),
        (&["explain", "--at", "20 s ago"],                            0),
        (&["rank", "--at", "-20s"],                                   0),
        (&["status", "--begin", "-20s", "--end", "-5s"],              10),
        (&["status", "--begin", "-5s", "--end", "now"],               10),
    ];
    for (arguments, code) in table {
        let (here, afar) = (of(arguments, here), of(arguments, afar));
        let codes = (here.status.code(), afar.status.code());
        assert_eq!(codes, (Some(code), Some(code)), "{arguments:?}: {}", text(&afar.stderr));
        assert_eq!(text(&afar.stdout), text(&here.stdout), "{arguments:?}");
        // Errors name where was looked.
        if code != 3 {
            assert_eq!(text(&afar.stderr), text(&here.stderr), "{arguments:?}");
        }
    }
    #[rustfmt::skip]
    let table: [(&[&str], i32, &str); 10] = [
        // arguments, code, what stderr says
        (&["status", "--at", "2026-11-22T10:00:00Z"],     3, "the recording begins later, at 2026-11-22T10:13:28"),
        (&["status", "--begin", "2026-11-22T11:00:00Z"],  3, "has no tick of these times"),
        (&["explain", "--at", "10:00", "--no-agent"],     2, "cannot be used with"),
        (&["status", "--at", "10:00", "-f", "recording"], 2, "cannot be used with"),
        (&["rank", "--at", "2026-11-22T10:00:00Z"],       3, "no tick of this time or before it"),
        (&["rank", "--begin", "2026-11-22T10:00:00Z"],    2, "an agent ranks for one moment"),
        (&["rank", "--signal", "memory.available"],       2, "add --at now"),
        (&["rank", "--at", "now", "-f", "recording"],     2, "cannot be used with"),
        (&["rank", "--config", "other"],                  2, "leave --config out"),
        (&["rank", "--at", "now", "--order", "qos"],      2, "cannot be used with"),
    ];
    for (arguments, code, said) in table {
        let got = of(arguments, afar);
        let stderr = text(&got.stderr);
        assert_eq!(got.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said) && got.stdout.is_empty(), "{arguments:?}: {stderr}");
    }
}

#[test]
fn export_of_an_agent_is_that_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let kept = keep(&leak(), dir.path());
    let incidents = dir.path().join("incidents");
    let shelf = Shelf::in_dir(incidents.clone());
    let open = Incident { name: "2027-open".into(), state: State::Open, ..Incident::default() };
    let lost = Incident { name: "2028-lost".into(), state: State::Frozen, ..Incident::default() };
    shelf.note(&open).unwrap();
    shelf.note(&lost).unwrap();
    let address = serving(&incidents).to_string();
    let (here, afar) = (["--dir", dir.path().to_str().unwrap()], ["--agent", &*address]);
    let export = |name: &str, more: &[&str], source, to: &str| {
        let to = dir.path().join(to);
        let arguments = [&["incidents", "export", name, "-o", to.to_str().unwrap()], more].concat();
        (of(&arguments, source), fs::read(&to).unwrap_or_default())
    };
    for (n, more) in
        [&[][..], &["--html"], &["--redact"], &["--html", "--redact"]].into_iter().enumerate()
    {
        let (got, files) = export(&kept.name, more, here, &format!("here-{n}"));
        assert_eq!(got.status.code(), Some(0), "{more:?}: {}", text(&got.stderr));
        let (got, agents) = export(&kept.name, more, afar, &format!("afar-{n}"));
        assert_eq!(got.status.code(), Some(0), "{more:?}: {}", text(&got.stderr));
        assert!(files == agents && !files.is_empty(), "{more:?}: {} bytes", agents.len());
    }
    #[rustfmt::skip]
    let table = [
        // name, code, what is said
        ("2027-open", 3, "2027-open is not over"),
        ("2028-lost", 3, "the ticks of 2028-lost could not be kept"),
        ("2029",      3, "there is no incident"),
    ];
    for (name, code, said) in table {
        let (got, written) = export(name, &[], afar, name);
        let stderr = text(&got.stderr);
        assert_eq!(got.status.code(), Some(code), "{name}: {stderr}");
        assert!(stderr.contains(said) && written.is_empty(), "{name}: {stderr}");
    }
}

#[tokio::test]
async fn file_of_an_incident_is_served_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let kept = keep(&leak(), dir.path());
    let shelf = || Shelf::in_dir(dir.path().join("incidents"));
    let open = Incident { name: "2027-open".into(), state: State::Open, ..Incident::default() };
    shelf().note(&open).unwrap();
    let router = served(Some(shelf())).await;
    let answer = get(&router, &format!("/api/v1/incidents/{}/file", kept.name)).await;
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(
        (answer.status().as_u16(), header("content-type"), header("content-length")),
        (200, "application/zstd".into(), kept.size.to_string())
    );
    let save_as = format!("attachment; filename=\"{}.isobar\"", kept.name);
    assert_eq!(header("content-disposition"), save_as);
    let file = fs::read(dir.path().join(format!("incidents/{}.isobar", kept.name))).unwrap();
    let whole = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    assert!(whole == file, "{} bytes of {}", whole.len(), file.len());
    #[rustfmt::skip]
    let table = [
        // name, what is said
        ("2027-open",                  "is not over"),
        ("2028-none",                  "there is no incident"),
        ("..%2F..%2Fetc%2Fpasswd",     "there is no incident"),
        ("%2e%2e",                     "there is no incident"),
    ];
    for (name, said) in table {
        let answer = get(&router, &format!("/api/v1/incidents/{name}/file")).await;
        assert_eq!(answer.status(), 404, "{name}");
        let status: Value = serde_json::from_str(&body(answer).await).unwrap();
        assert!(status["message"].as_str().unwrap().contains(said), "{name}: {status}");
    }
}
