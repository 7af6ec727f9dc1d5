//! The built binary as a user meets it: what it prints where, and how it ends.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, pipe};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::thread;

use crate::kept::keep;
use crate::machine::output;
use crate::made_up;
use crate::program::{isobar, text};
use crate::recorded::leak;
use crate::sampling::data;
use isobar::serve::address::{Listener, listen_on};
use isobar::serve::listen::Server;
use isobar_core::policy::engine::Step;
use serde_json::{Value, json};

/// An agent that answers with a made-up node, for as long as the tests last.
pub(crate) fn made_up_agent() -> SocketAddr {
    agent_at(made_up::step(made_up::snapshot(3)))
}

/// An agent that answers with one tick, for as long as the tests last.
pub(crate) fn agent_at(step: Step) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let (mut publisher, latest) = made_up::publisher();
            made_up::publish_step(&mut publisher, step);
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, isobar::serve::router(latest)).await.unwrap();
        });
    });
    address
}

#[test]
fn verbs_exit_codes() {
    let made_up = made_up_agent().to_string();
    #[rustfmt::skip]
    let table: &[(&[&str], i32, &str)] = &[
        // arguments, code, what stderr says
        (&["--help"],                             0, ""),
        (&["version"],                            0, ""),
        (&["version", "-o", "json"],              0, ""),
        (&["completion", "bash"],                 0, ""),
        (&["man"],                                0, ""),
        (&["man", "config", "check"],             0, ""),
        (&["man", "evict"],                       2, "no page for \"evict\""),
        (&["config", "schema"],                   0, ""),
        (&["manifest"],                           0, ""),
        (&["status", "--agent", &made_up],       10, ""), // it prints PRESSED
        (&["incidents", "ls", "--agent", &made_up], 0, ""),
        (&["incidents", "show", "2026", "--agent", &made_up, "-o", "json"], 0, ""),
        (&["incidents", "show", "2027", "--agent", &made_up], 3, "there is no incident \"2027\""),
        (&["incidents", "ls", "--agent", "127.0.0.1:1"], 1, "no agent listens on 127.0.0.1:1"),
        (&["incidents", "ls", "--agent", &made_up, "--dir", "."], 2, "cannot be used with"),
        (&["top", "--once", "-d", "5s", "--agent", &made_up], 2, "cannot be used with"),
        (&["top", "--once", "-n", "1", "-o", "json", "--agent", &made_up], 2, "--rows is for tables"),
        (&["top", "--all", "-o", "ndjson", "--agent", &made_up], 2, "--all is for tables"),
        (&["top", "-f", "x.isobar", "-d", "2s"],  2, "--interval is for a screen"),
        (&[],                                     2, "Usage"),
    ];
    for (arguments, code, told) in table {
        let got = output(arguments);
        let stderr = text(&got.stderr);
        assert_eq!(got.status.code(), Some(*code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
        // Data on stdout if it went well, nothing if not, and no colour without a terminal.
        let has_data = matches!(code, 0 | 10);
        assert_eq!(got.stdout.is_empty(), !has_data, "{arguments:?}: {}", text(&got.stdout));
        assert!(!got.stdout.contains(&0x1b), "{arguments:?}: {}", text(&got.stdout));
    }
}

#[test]
fn listen_warns_where_other_hosts_may_connect() {
    let recording = data("recordings/judged-throttled-6.1.isobar");
    let replay = ["replay", recording.to_str().unwrap()];
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = taken.local_addr().unwrap().to_string();
    let elsewhere = "192.0.2.1:1";
    for verb in [&["run"][..], &replay] {
        for (address, is_warned) in [(elsewhere, true), (&local, false)] {
            let got = output(&[verb, &["--listen", address]].concat());
            let stderr = text(&got.stderr);
            assert_eq!(got.status.code(), Some(1), "{verb:?} {address}: {stderr}");
            assert!(stderr.contains("choose another address with --listen"), "{stderr}");
            assert_eq!(stderr.contains("have no authentication"), is_warned, "{stderr}");
        }
    }
}

#[test]
fn environment_gives_way_to_the_command_line() {
    let recording = data("recordings/judged-throttled-6.1.isobar");
    let recording = recording.to_str().unwrap();
    let nobody = ("ISOBAR_AGENT", "127.0.0.1:1");
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        // arguments, what stderr must not say
        (&["explain", "-f", recording],                 "--agent"),
        (&["explain", "--no-agent", "--probes", "none"], "no agent listens"),
    ];
    for (arguments, unwanted) in table {
        let got = isobar(arguments).env(nobody.0, nobody.1).output().unwrap();
        let stderr = text(&got.stderr);
        assert!(!stderr.contains("cannot be used with"), "{arguments:?}: {stderr}");
        assert!(!stderr.contains(unwanted), "{arguments:?}: {stderr}");
    }
}

#[test]
fn man_pages_of_every_verb() {
    let dir = tempfile::tempdir().unwrap();
    let got = output(&["man", "--dir", dir.path().to_str().unwrap()]);
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    #[rustfmt::skip]
    let table: &[(&str, &[&str])] = &[
        // page, parts of it
        ("isobar.1",              &["isobar\\-status(1)", ".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", "NO_COLOR"]),
        ("isobar-run.1",          &["ISOBAR_LISTEN", "/var/lib/isobar/recording", "/etc/isobar/config.yaml"]),
        ("isobar-status.1",       &["\\fB10\\fR", "ISOBAR_AGENT", "/sys/fs/cgroup"]),
        ("isobar-doctor.1",       &["\\fB5\\fR"]),
        ("isobar-config-check.1", &["\\fB3\\fR", "ISOBAR_LOG"]),
        ("isobar-qos.1",          &[".SH NOTES"]),
    ];
    for (name, parts) in table {
        let text = page(name);
        for part in *parts {
            assert!(text.contains(part), "{name} lacks {part}: {text}");
        }
    }
    assert!(!dir.path().join("isobar-help.1").exists());
    assert!(fs::read_dir(dir.path()).unwrap().count() > 20);
}

#[test]
fn color_by_option_and_environment() {
    let agent = made_up_agent().to_string();
    #[rustfmt::skip]
    let table: &[(&str, &[&str], bool)] = &[
        // --color, environment, whether a pipe gets colour
        ("auto",   &[],                                 false),
        ("auto",   &["CLICOLOR=1"],                     false),
        ("auto",   &["CLICOLOR_FORCE=1"],               true),
        ("auto",   &["CLICOLOR_FORCE=1", "NO_COLOR=1"], false),
        ("always", &["NO_COLOR=1", "CLICOLOR=0"],       true),
        ("never",  &["CLICOLOR_FORCE=1"],               false),
    ];
    for (option, environment, want) in table {
        // The second ends with a message of clap.
        for more in ["--agent", "--agents"] {
            let mut isobar = isobar(&["status", "--color", option, more, &agent]);
            for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
                isobar.env_remove(name);
            }
            let got = isobar
                .envs(environment.iter().filter_map(|pair| pair.split_once('=')))
                .output()
                .unwrap();
            let printed = [got.stdout, got.stderr].concat();
            assert_eq!(
                printed.contains(&0x1b),
                *want,
                "{option} {environment:?}: {}",
                text(&printed)
            );
        }
    }
}

#[test]
fn version_names_what_is_in_the_binary() {
    let printed = |format| text(&output(&["version", "-o", format]).stdout);
    let version: Value = serde_json::from_str(&printed("json")).unwrap();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    #[rustfmt::skip]
    let table = [
        ("kind",         json!("Version")),
        ("version",      json!(env!("CARGO_PKG_VERSION"))),
        ("architecture", json!(std::env::consts::ARCH)),
        ("kernel",       json!(kernel.trim())),
    ];
    for (key, want) in table {
        assert_eq!(version[key], want, "{key}");
    }
    // Tests are no optimised builds, which alone know it.
    assert!(version.as_object().unwrap().contains_key("commit"), "{version}");
    let object = &version["ebpfObject"];
    let wide = printed("wide");
    match object["size"].as_u64() {
        Some(size) => {
            let sum = object["sha256"].as_str().unwrap();
            assert_eq!(sum.len(), 64, "{sum}");
            let want = format!("{size} bytes, GPL-2.0-only OR MIT, sha256 {sum}");
            assert!(wide.contains(&want), "{wide}");
        }
        None => assert!(object.is_null() && wide.contains("not built"), "{wide}"),
    }
}

#[test]
fn output_formats_agree() {
    let made_up = made_up_agent().to_string();
    let dir = tempfile::tempdir().unwrap();
    keep(&leak(), dir.path());
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().display().to_string();
    let (kept, recording) = (dir.path().display().to_string(), leak().display().to_string());
    let pods = data("kubernetes/api-pods.json").display().to_string();
    let state = data("kubernetes/cpu_manager_state").display().to_string();
    let other = data("../pure/sessions/replay.in/other.yaml").display().to_string();
    #[rustfmt::skip]
    let table: &[&[&str]] = &[
        &["allocatable", "--advise", "-f", &recording],
        &["allocatable", "--capacity", "cpu=4,memory=8Gi"],
        &["allocatable", "--capacity", "cpu=4,memory=8Gi", "-f", &pods],
        &["config", "check"],
        &["config", "schema"],
        &["config", "view"],
        &["cpus", "--online", "0-7"],
        &["cpus", "--online", "0-7", "-f", &state],
        &["doctor", "--agent", &made_up],
        &["explain", "--agent", &made_up],
        &["explain", "-f", &recording],
        &["incidents", "ls", "--dir", &empty],
        &["incidents", "ls", "-f", &kept],
        &["incidents", "show", "latest", "-f", &kept],
        &["qos", "-f", &pods],
        &["rank", "-f", &pods],
        &["rank", "-f", &recording],
        &["replay", &recording, "--check"],
        &["replay", "-f", &recording],
        &["replay", "-f", &recording, "--config", &other],
        &["status", "--agent", &made_up],
        &["status", "-f", &recording],
        &["top", "--once", "-f", &recording],
        &["version"],
    ];
    for arguments in table {
        let printed = |format| text(&output(&[*arguments, &["-o", format]].concat()).stdout);
        let json: Value = serde_json::from_str(&printed("json"))
            .unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
        let lines = printed("ndjson");
        let lines = lines.lines().map(serde_json::from_str::<Value>);
        let lines: Vec<_> = lines.map(Result::unwrap).collect();
        match json["items"].as_array() {
            // Which differ, not what came of it.
            _ if json["kind"] == "WhatIf" => assert_eq!(lines[0]["kind"], "Difference"),
            Some(items) => assert_eq!(&lines, items, "{arguments:?}"),
            None => assert_eq!(lines, std::slice::from_ref(&json), "{arguments:?}"),
        }
        // The configuration is a file here, with more in it than thresholds.
        if !arguments.starts_with(&["config", "view"]) {
            let yaml = serde_saphyr::from_str::<Value>(&printed("yaml")).unwrap();
            assert_eq!(yaml, json, "{arguments:?}");
        }
        assert!(printed("wide").len() >= printed("table").len(), "{arguments:?}");
    }
}

#[tokio::test]
async fn agent_on_a_socket_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.sock");
    let address = format!("unix:{}", path.display());
    let ask = |verb: &str| output(&[verb, "-o", "json", "--agent", &address]);
    assert!(text(&ask("status").stderr).contains("no agent listens on unix:/"));

    let (mut publisher, latest) = made_up::publisher();
    made_up::publish(&mut publisher, 3);
    let listener = Listener::Unix(listen_on(&path).unwrap());
    let _server = Server::begin(listener, isobar::serve::router(latest)).unwrap();
    for (verb, code, kind) in [("status", 10, "Status"), ("explain", 0, "Explanation")] {
        let got = ask(verb);
        assert_eq!(got.status.code(), Some(code), "{verb}: {}", text(&got.stderr));
        let document: Value = serde_json::from_slice(&got.stdout).unwrap();
        assert_eq!(document["kind"], kind, "{verb}");
    }
}

#[test]
fn status_of_something_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1_024]);
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    let got = output(&["status", "--agent", &address]);
    let stderr = text(&got.stderr);
    assert_eq!(got.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("no isobar snapshot"), "{stderr}");
}

#[test]
fn names_on_stderr_drive_no_terminal() {
    let name = "gone\u{1b}[2J\u{9b}31m\u{202e}\u{1f402}";
    let socket = format!("unix:/{name}");
    #[rustfmt::skip]
    let table: [&[&str]; 4] = [
        &["replay", name],
        &["config", "check", "-f", name],
        &["status", "--agent", &socket],
        &["cpus", "--config", name],
    ];
    for arguments in table {
        let stderr = text(&output(arguments).stderr);
        let told = "gone\u{fffd}[2J\u{fffd}31m\u{fffd}\u{1f402}";
        assert!(stderr.contains(told) && !stderr.contains('\u{1b}'), "{arguments:?}: {stderr:?}");
    }
}

#[test]
fn top_reader_leaves() {
    let agent = made_up_agent().to_string();
    let mut top = isobar(&["top", "-o", "ndjson", "--agent", &agent])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    // As `head -1` does: one line, then the pipe is closed.
    BufReader::new(top.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let ended = top.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), String::new()));
}

#[test]
fn output_into_a_closed_pipe() {
    let made_up = made_up_agent().to_string();
    #[rustfmt::skip]
    let table: &[(&[&str], i32)] = &[
        // arguments, code
        (&["status", "--agent", &made_up],                      0),
        (&["explain", "--agent", &made_up],                     0),
        (&["doctor", "--agent", &made_up],                      0),
        (&["top", "--once", "--agent", &made_up],               0),
        (&["allocatable", "--capacity", "cpu=4,memory=8Gi"],    0),
        (&["config", "view"],                                   0),
        (&["cpus", "--online", "0-7"],                          0),
        (&["version"],                                          0),
        (&["status", "--agent", "127.0.0.1:1"],                 1), // and its message is lost
        (&["status", "--agent", &made_up, "--wait", "nothing"], 2),
    ];
    for (arguments, code) in table {
        for format in ["table", "wide", "json", "yaml", "ndjson"] {
            let (reader, writer) = pipe().unwrap();
            drop(reader);
            let mut command = isobar(&[*arguments, &["-o", format]].concat());
            let ended = command.stdout(writer.try_clone().unwrap()).stderr(writer).status();
            assert_eq!(ended.unwrap().code(), Some(*code), "{arguments:?} -o {format}");
        }
    }
}

#[test]
fn doctor_findings() {
    let agent = made_up_agent().to_string();
    let got = output(&["doctor", "-o", "json", "--agent", &agent]);
    let diagnosis: Value = serde_json::from_slice(&got.stdout).unwrap();
    let findings = diagnosis["findings"].as_array().unwrap();
    let is_in = |findings: &[Value], name: &str| findings.iter().any(|f| f["name"] == name);
    for name in ["kernel", "BTF", "PSI", "cgroup v2", "port"] {
        assert!(is_in(findings, name), "{name} is not looked at");
    }
    // What the agent may do is in its capabilities, whatever this process may.
    let own = output(&["doctor", "-o", "json", "--no-agent", "--probes", "none"]);
    let own: Value = serde_json::from_slice(&own.stdout).unwrap();
    for name in ["CAP_BPF", "CAP_PERFMON", "RLIMIT_NOFILE"] {
        let looked_at = [own["findings"].as_array().unwrap(), findings].map(|all| is_in(all, name));
        assert_eq!(looked_at, [true, false], "{name}");
    }
    assert_eq!(diagnosis["capabilities"].as_array().unwrap().len(), 6);
    // To which `status` points.
    assert_eq!(diagnosis["unread"][0]["object"], "/proc/pressure/irq");
    for finding in findings.iter().filter(|finding| finding["state"] == "missing") {
        assert!(finding["remedy"].is_string(), "no way out: {finding}");
    }
    let summary = |key: &str| diagnosis["summary"][key].as_array().unwrap().len();
    let code = got.status.code().unwrap();
    // The made-up agent lacks programs.
    assert!(summary("absent") > 0, "{diagnosis}");
    assert_eq!(code == 1, summary("missing") == 0, "{code}: {diagnosis}");
    assert!([1, 4, 5].contains(&code), "{diagnosis}");
}
