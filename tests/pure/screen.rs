//! `isobar top` on a terminal: how it leaves the terminal, and what it writes to a dumb one.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use isobar::clock;
use isobar_core::model::units::Nanos;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cli::made_up_agent;
use crate::program::isobar;
use crate::watching::refusing_agent;

const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// For one text of the screen.
const PATIENCE: Nanos = Nanos(20 * Nanos::SECOND.0);

/// A terminal of script(1), with what a shell runs on it.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    written: Receiver<Vec<u8>>,
    seen: String,
    /// Holds the process id of `TOP`.
    dir: TempDir,
}

/// `isobar top`, which the test can signal.
const TOP: &str = "sh -c 'echo $$ >$PID; exec $TOP'";

impl Terminal {
    /// `$TOP` in `commands` is `isobar top` that asks this agent. `None` where there is no script(1).
    fn run(agent: &str, commands: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let top = isobar(&["top", "--agent", agent]);
        let mut script = Command::new("script");
        for (name, value) in top.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let words = [top.get_program()].into_iter().chain(top.get_args());
        let words = words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ");
        script.args(["-qfc", commands, "/dev/null"]).env("TOP", words).env("SHELL", "/bin/sh");
        script.env("TERM", "xterm").env("PID", dir.path().join("pid"));
        let mut script = match script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Err(why) if why.kind() == ErrorKind::NotFound => {
                println!("skipped: script is not here");
                return None;
            }
            script => script.unwrap(),
        };
        let (keys, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let (to, written) = channel();
        thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut some) {
                let _ = to.send(some[..n].to_vec());
            }
        });
        Some(Self { script, keys, written, seen: String::new(), dir })
    }

    /// Waits for `text`, and tells what came before it since the last call.
    fn until(&mut self, text: &str) -> String {
        let begun = clock::now().boot;
        loop {
            if let Some((before, after)) = self.seen.split_once(text) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.seen = after;
                return before;
            }
            // Pieces go on coming: the clock is drawn twice a second.
            let left = PATIENCE.since(clock::now().boot.since(begun));
            let more = self.written.recv_timeout(Duration::from_nanos(left.0));
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// The process of [`TOP`], which has drawn already.
    fn top(&self) -> Pid {
        let pid = fs::read_to_string(self.dir.path().join("pid")).unwrap();
        Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
    }

    /// Sets the size of the terminal.
    fn resize(&self, lines: u16, columns: u16) {
        let terminal = format!("/proc/{}/fd/0", self.top().as_raw_nonzero());
        let mut stty = Command::new("stty");
        stty.args(["-F", &terminal, "rows", &lines.to_string(), "cols", &columns.to_string()]);
        assert!(stty.status().unwrap().success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail only if it has ended already; its terminal hangs up, which ends what runs there.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The terminal that the shell finds: cooked, and not the alternate screen.
const IS_COOKED: &str = "stty -a | grep -q ' icanon.* echo ' && echo coo''ked";

#[test]
fn top_gives_the_terminal_back_when_it_ends() {
    let agent = made_up_agent().to_string();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let commands = format!("{TOP}; {IS_COOKED}");
        let Some(mut terminal) = Terminal::run(&agent, &commands) else { return };
        terminal.until(TAKEN);
        kill_process(terminal.top(), signal).unwrap();
        for text in [GIVEN_BACK, "cooked"] {
            terminal.until(text);
        }
    }
}

#[test]
fn top_gives_the_terminal_back_while_it_is_stopped() {
    let agent = made_up_agent().to_string();
    // Of a shell with job control, which goes on when `top` has stopped.
    let commands = format!("set -m; {TOP}; {IS_COOKED}; fg; echo en''ded");
    for stop in [None, Some(Signal::TSTP)] {
        let Some(mut terminal) = Terminal::run(&agent, &commands) else { return };
        terminal.until(TAKEN);
        match stop {
            None => terminal.press("\x1a"),
            Some(signal) => kill_process(terminal.top(), signal).unwrap(),
        }
        for text in [GIVEN_BACK, "cooked"] {
            terminal.until(text);
        }
        let mut after = [TAKEN, "quit"].map(|text| terminal.until(text)).concat();
        terminal.press("q");
        after += &terminal.until("ended");
        assert_eq!(after.matches(GIVEN_BACK).count(), 1, "{stop:?}: {after:?}");
    }
}

#[test]
fn top_follows_a_terminal_that_learns_its_size_later() {
    // script(1) makes a terminal of 0 columns and 0 lines where its own input is none.
    let agent = made_up_agent().to_string();
    // At once, maybe before `top` hears of sizes, and after the first picture.
    for drawn in [TAKEN, "\x1b[24;1H"] {
        let Some(mut terminal) = Terminal::run(&agent, TOP) else { return };
        terminal.until(drawn);
        terminal.resize(40, 120);
        terminal.until("\x1b[40;1H");
        terminal.press("q");
        terminal.until(GIVEN_BACK);
    }
}

#[test]
fn top_writes_text_alone_to_a_dumb_terminal() {
    let agent = made_up_agent().to_string();
    for arguments in ["", "-o wide"] {
        let commands = format!("TERM=dumb; export TERM; $TOP {arguments}");
        let Some(mut terminal) = Terminal::run(&agent, &commands) else { return };
        for _ in 0..2 {
            terminal.until("AGGRESSOR");
            assert!(!terminal.seen.contains('\x1b'), "{arguments}: {:?}", terminal.seen);
        }
    }
}

#[test]
fn top_ends_where_the_agent_refuses() {
    let agent = refusing_agent().to_string();
    let Some(mut terminal) = Terminal::run(&agent, "$TOP; echo code $?") else { return };
    for text in [TAKEN, GIVEN_BACK, "it answers with 403", "code 3"] {
        terminal.until(text);
    }
}
