//! `isobar top` on a terminal: how it leaves the terminal, and what it writes to a dumb one.

use std::env::temp_dir;
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::cli::made_up_agent;
use crate::program::isobar;
use crate::watching::refusing_agent;

const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// A terminal of script(1), with what a shell runs on it.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    written: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// `$TOP` in `commands` is `isobar top` that asks this agent.
    fn run(agent: &str, commands: &str) -> Self {
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
        script.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().unwrap();
        let (keys, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let (to, written) = channel();
        thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut some) {
                let _ = to.send(some[..n].to_vec());
            }
        });
        Self { script, keys, written, seen: String::new() }
    }

    /// Waits for `text` and forgets what came before it.
    fn until(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let more = self.written.recv_timeout(Duration::from_secs(20));
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
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
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let end = format!("(sleep 2; kill -{signal} $(cat $PID))");
        let run = "sh -c 'echo $$ >$PID; exec $TOP'";
        let file = temp_dir().join(format!("isobar-{}-{signal}", process::id()));
        let commands = format!("PID={}; export PID; {end} & {run}; {IS_COOKED}", file.display());
        let mut terminal = Terminal::run(&agent, &commands);
        for text in [TAKEN, GIVEN_BACK, "cooked"] {
            terminal.until(text);
        }
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn top_gives_the_terminal_back_while_it_is_stopped() {
    let agent = made_up_agent().to_string();
    // Of a shell with job control, which goes on when `top` has stopped.
    let run = format!("set -m; $TOP; {IS_COOKED}; fg");
    // It stops its own job, by its number.
    let run_and_stop =
        format!("set -m; (sleep 2; kill -TSTP $(pgrep -f -x \"$TOP\")) & $TOP; {IS_COOKED}; fg");
    for (commands, keys) in [(run, "\x1a"), (run_and_stop, "")] {
        let mut terminal = Terminal::run(&agent, &commands);
        terminal.until(TAKEN);
        terminal.press(keys);
        for text in [GIVEN_BACK, "cooked", TAKEN, "quit"] {
            terminal.until(text);
        }
        terminal.press("q");
        terminal.until(GIVEN_BACK);
    }
}

#[test]
fn top_follows_a_terminal_that_learns_its_size_later() {
    // script(1) makes a terminal of 0 columns and 0 lines where its own input is none.
    let agent = made_up_agent().to_string();
    let mut terminal = Terminal::run(&agent, "(sleep 2; stty rows 40 cols 120 </dev/tty) & $TOP");
    terminal.until("\x1b[24;1H");
    terminal.until("\x1b[40;1H");
    terminal.press("q");
    terminal.until(GIVEN_BACK);
}

#[test]
fn top_writes_text_alone_to_a_dumb_terminal() {
    let agent = made_up_agent().to_string();
    for arguments in ["", "-o wide"] {
        let mut terminal =
            Terminal::run(&agent, &format!("TERM=dumb; export TERM; $TOP {arguments}"));
        for _ in 0..2 {
            terminal.until("AGGRESSOR");
            assert!(!terminal.seen.contains('\x1b'), "{arguments}: {:?}", terminal.seen);
        }
    }
}

#[test]
fn top_ends_where_the_agent_refuses() {
    let agent = refusing_agent().to_string();
    let mut terminal = Terminal::run(&agent, "$TOP; echo code $?");
    for text in [TAKEN, GIVEN_BACK, "it answers with 403", "code 3"] {
        terminal.until(text);
    }
}
