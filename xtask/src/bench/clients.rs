//! What readers cost the agent: fifty streams, some of which do not read, and a scraper, for minutes,
//! beside an agent without any.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;

use super::agent::{Cpu, Memory, USER_HZ, of_thread};
use super::median;
use super::rig::Rig;
use super::running::Agent;
use super::tree::{Cpus, Tree};
use isobar_lab::clock::Since;
use isobar_lab::table::{against, table};

const CGROUPS: usize = 500;
/// Clients that read what comes, that read a line in ten seconds, and that never read.
const READERS: usize = 40;
const SLOW: usize = 5;
const DEAD: usize = 5;
/// Scrapes that are timed, and what one may take.
const SCRAPES: usize = 15;
const MOST_MS: f64 = 2.0;
/// Between two ticks: the next one comes in the second after.
const MOST_GAP_MS: f64 = 2_000.0;
/// Of resident memory that the clients leave: what the agent has beyond one that had none.
const MOST_KEPT_MIB: f64 = 5.0;
/// Of resident memory, while the same clients stay: from the second minute to the last.
const MOST_GROWN_MIB: f64 = 1.0;
/// Seconds of which one figure of resident memory is.
const READ_EACH: usize = 30;
const LOADED: Duration = Duration::from_secs(300);
/// Before the clients come, and after they went: the agent gives memory back once a minute.
const ALONE: Duration = Duration::from_secs(30);
const AFTER: Duration = Duration::from_secs(120);

/// What the agent took before, with, and after its clients.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    phases: Vec<Phase>,
    /// What the thread that serves takes for a scrape, before the other clients come; the middle of
    /// all, one a second, so that each is made anew.
    scrape_ms: f64,
    /// Of the readers: the fewest, and how many ticks there were.
    events: u64,
    ticks: u64,
    scrapes: u64,
    failed_scrapes: u64,
    /// Streams that the agent closed: of those that read, slowly or not, and never.
    closed: [usize; 3],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Phase {
    name: &'static str,
    cpu_percent: f64,
    /// Of each [`READ_EACH`] seconds the mean: each second's sways by some MiB.
    rss_mib: Vec<f64>,
    /// Of the agent without clients, in the last of these.
    alone_mib: f64,
    longest_gap_ms: f64,
}

impl Phase {
    fn last_rss(&self) -> f64 {
        self.rss_mib.last().copied().unwrap_or_default()
    }
}

/// Seconds that this should take.
pub(super) fn expected() -> f64 {
    (LOADED + ALONE + AFTER).as_secs_f64() + SCRAPES as f64 + 10.0
}

pub(super) fn measure(rig: &mut Rig) -> Result<Figures> {
    let n = READERS + SLOW + DEAD;
    rig.progress.step(&format!("clients: {n} streams, {CGROUPS} cgroups"), expected());
    let _tree = Tree::grow(rig, CGROUPS, Cpus::Calm)?;
    let mut agent = rig.agent()?;
    let alone = rig.agent_with("alone", &[])?;
    rig.pause(Duration::from_secs(6))?;
    let before = phase(rig, &mut agent, &alone, "before", ALONE, || Ok(()))?;
    let (http, url) = (agent.http(), format!("http://{}/metrics", agent.address()));
    let scrape_ms =
        scrape(rig, agent.pid(), || Ok(http.get(&url).call()?.body_mut().read_to_vec()?))?;

    let end = Arc::new(AtomicBool::new(false));
    let open = |pace: Pace| Client::open(agent.address(), pace, Arc::clone(&end));
    let groups = [(READERS, Pace::Reads), (SLOW, Pace::Slow), (DEAD, Pace::Never)];
    let clients = groups.map(|(n, pace)| (0..n).map(|_| open(pace)).collect::<Result<Vec<_>>>());
    let [readers, slow, dead] = clients;
    let (readers, slow, dead) = (readers?, slow?, dead?);
    let first = agent.snapshot()?["tick"].as_u64().unwrap_or_default();
    let (mut scrapes, mut failed_scrapes) = (0, 0);
    let during = phase(rig, &mut agent, &alone, "with clients", LOADED, || {
        scrapes += 1;
        failed_scrapes += u64::from(http.get(&url).call().is_err());
        Ok(())
    })?;
    let ticks = agent.snapshot()?["tick"].as_u64().unwrap_or_default() - first;
    end.store(true, Ordering::Relaxed);
    let ended =
        |clients: Vec<Client>| clients.into_iter().map(Client::end).collect::<Result<Vec<_>>>();
    let (readers, slow, dead) = (ended(readers)?, ended(slow)?, ended(dead)?);
    let after = phase(rig, &mut agent, &alone, "after", AFTER, || Ok(()))?;
    let closed = |all: &[Told]| all.iter().filter(|told| told.was_closed).count();
    Ok(Figures {
        phases: vec![before, during, after],
        scrape_ms,
        events: readers.iter().map(|told| told.events).min().unwrap_or_default(),
        ticks,
        scrapes,
        failed_scrapes,
        closed: [closed(&readers), closed(&slow), closed(&dead)],
    })
}

/// Milliseconds of CPU that the agent takes to serve a scrape.
fn scrape(rig: &Rig, pid: u32, scrape: impl Fn() -> Result<Vec<u8>>) -> Result<f64> {
    let served = || of_thread(pid, "server")?.context("no thread serves");
    let mut each = Vec::new();
    for _ in 0..SCRAPES {
        rig.pause(Duration::from_secs(1))?;
        let before = served()?;
        scrape()?;
        each.push((served()? - before) * 1e3);
    }
    median(each).context("no scrapes")
}

/// Measures both agents for some time, and calls `each_second`.
fn phase(
    rig: &Rig,
    agent: &mut Agent,
    alone: &Agent,
    name: &'static str,
    time: Duration,
    mut each_second: impl FnMut() -> Result<()>,
) -> Result<Phase> {
    let (before, since) = (Cpu::of(agent.pid())?, Since::now());
    let (mut rss, mut others) = (Vec::new(), Vec::new());
    while since.within(time) {
        rig.pause(Duration::from_secs(1))?;
        each_second()?;
        rss.push(Memory::of(agent.pid())?.now);
        others.push(Memory::of(alone.pid())?.now);
    }
    let (after, took) = (Cpu::of(agent.pid())?, since.elapsed().as_secs_f64());
    let ticks = (after.user - before.user + after.system - before.system) as f64;
    // A rest of less is that of a phase which took a little longer.
    let means = |rss: &[f64]| -> Vec<f64> {
        let parts = rss.chunks_exact(READ_EACH.min(rss.len()));
        parts.map(|of| of.iter().sum::<f64>() / of.len() as f64).collect()
    };
    let rss_mib = means(&rss);
    let alone_mib = means(&others).last().copied().unwrap_or_default();
    let gap = agent.snapshot()?["cost"]["longestGap"].as_f64().context("no longest gap")?;
    let cpu_percent = 100.0 * ticks / USER_HZ / took;
    Ok(Phase { name, cpu_percent, rss_mib, alone_mib, longest_gap_ms: gap / 1e6 })
}

/// By how much resident memory grew from the second minute on: from the median of the first three
/// readings to that of the last three. The first minute fills buffers.
fn grown(rss_mib: &[f64]) -> Option<f64> {
    let steady = rss_mib.get(60 / READ_EACH - 1..)?;
    let [first, last] = [steady.first_chunk::<3>()?, steady.last_chunk::<3>()?];
    Some(median(last.to_vec())? - median(first.to_vec())?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Reads,
    Slow,
    Never,
}

/// One stream.
struct Client(JoinHandle<Result<Told>>);

struct Told {
    events: u64,
    was_closed: bool,
}

impl Client {
    fn open(address: &str, pace: Pace, end: Arc<AtomicBool>) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let ask = format!("GET /api/v1/stream?delta=1 HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(ask.as_bytes())?;
        Ok(Self(thread::spawn(move || listen(stream, pace, &end))))
    }

    fn end(self) -> Result<Told> {
        self.0.join().map_err(|_| anyhow!("a client has panicked"))?
    }
}

fn listen(stream: TcpStream, pace: Pace, end: &AtomicBool) -> Result<Told> {
    let (mut from, mut line) = (BufReader::new(stream), Vec::new());
    let mut told = Told { events: 0, was_closed: false };
    while !end.load(Ordering::Relaxed) {
        match pace {
            Pace::Reads => {}
            Pace::Slow => thread::sleep(Duration::from_secs(10)),
            Pace::Never => {
                thread::sleep(Duration::from_secs(1));
                continue;
            }
        }
        // After a timeout the line goes on.
        match from.read_until(b'\n', &mut line) {
            Ok(0) => told.was_closed = true,
            Ok(_) if line.starts_with(b"data:") => told.events += 1,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => told.was_closed = true,
        }
        if told.was_closed {
            break;
        }
        line.clear();
    }
    if pace == Pace::Never {
        // What was sent in the end is an end, or lies unread in front of it.
        let mut rest = Vec::new();
        told.was_closed = std::io::Read::read_to_end(&mut from, &mut rest).is_ok();
    }
    Ok(told)
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = READERS + SLOW + DEAD;
        let seconds = LOADED.as_secs();
        writeln!(f, "The agent with {n} streams and a scrape a second for {seconds} s.\n")?;
        let rows: Vec<_> = self.phases.iter().map(row).collect();
        let head = ["", "CPU %", "RSS MiB", "without clients", "longest gap ms so far"];
        writeln!(f, "{}", table(&head, &rows))?;
        let Self { scrape_ms, events, ticks, scrapes, failed_scrapes, closed, .. } = self;
        let [reading, slow, dead] = closed;
        let [_, during, after] = self.phases.as_slice() else { return Err(fmt::Error) };
        let readings: Vec<_> = during.rss_mib.iter().map(|mib| format!("{mib:.1}")).collect();
        writeln!(f, "RSS with clients, means of {READ_EACH} s: {} MiB", readings.join(", "))?;
        let grown = grown(&during.rss_mib).ok_or(fmt::Error)?;
        let kept = after.last_rss() - after.alone_mib;
        let budgets = [
            ("a scrape", "ms of CPU", *scrape_ms, MOST_MS),
            ("longest gap", "ms", after.longest_gap_ms, MOST_GAP_MS),
            ("growth with clients", "MiB", grown, MOST_GROWN_MIB),
            ("kept after the clients", "MiB", kept, MOST_KEPT_MIB),
        ];
        for (name, unit, figure, limit) in budgets {
            let verdict = against(figure, limit);
            writeln!(f, "budget, {name}: {figure:.2} {unit}, at most {limit} {unit}: {verdict}")?;
        }
        writeln!(f, "readers had at least {events} events of {ticks} ticks")?;
        writeln!(f, "{failed_scrapes} of {scrapes} scrapes failed")?;
        writeln!(
            f,
            "closed by the agent: {reading} of {READERS} that read, {slow} of {SLOW} that read \
             slowly, {dead} of {DEAD} that never read"
        )
    }
}

fn row(phase: &Phase) -> Vec<String> {
    let Phase { name, cpu_percent, alone_mib, longest_gap_ms, .. } = phase;
    vec![
        (*name).into(),
        format!("{cpu_percent:.2}"),
        format!("{:.1}", phase.last_rss()),
        format!("{alone_mib:.1}"),
        format!("{longest_gap_ms:.0}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grown_compares_the_second_minute_with_the_last() {
        #[rustfmt::skip]
        let table = [
            // resident memory every 30 s, by how much it grew
            (&[20.0, 30.0, 31.0, 30.0, 30.0, 30.0][..],       Some(0.0)), // buffers of the first minute
            (&[20.0, 30.0, 31.0, 32.0, 33.0, 34.0][..],       Some(2.0)),
            (&[20.0, 30.0, 30.0, 30.0, 30.0, 60.0, 30.0][..], Some(0.0)), // one reading
            (&[20.0, 30.0, 30.0][..],                         None),
        ];
        for (rss_mib, want) in table {
            assert_eq!(grown(rss_mib), want, "{rss_mib:?}");
        }
    }
}
