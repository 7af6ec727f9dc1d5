//! An incident as one HTML file that needs nothing else: no request, no script, no isobar.
//! In: the incident and its ticks. Out: what happened, who did it, who suffered, what was done and
//! what came of it, with pictures and the numbers behind them.

mod answers;
mod chart;
mod figure;
mod markup;
mod series;

use anyhow::Result;
use isobar::record::incident::words::{clock, time};
use isobar::record::incident::{Held, Incident, Kind, Score, Trigger, Wait};
use isobar::record::reader::Recording;
use isobar::record::replay::Replay;
use isobar_core::model::decision::Decision;
use isobar_core::model::units::{Moment, Nanos};
use isobar_core::policy::explain::{explain, relief};

use self::answers::answers;
use self::chart::{Mark, draw};
use self::markup::Markup;
use self::series::{Story, story};
use super::print;

const STYLE: &str = include_str!("page/page.css");
/// Nothing is loaded and nothing runs; the style sheet is the page's own.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The page of `incident`, whose ticks `recording` holds.
pub(super) fn page(incident: &Incident, recording: Recording) -> Result<String> {
    let story = story(Replay::new(recording, None), incident)?;
    let mut out = Markup::default();
    out.own("<!doctype html>\n");
    out.within("html", &[("lang", "en")], |out| {
        out.within("head", &[], |out| about(out, incident));
        out.within("body", &[], |out| {
            out.within("header", &[], |out| head(out, incident, &story));
            answers(out, incident, &story);
            course(out, incident);
            charts(out, incident, &story);
            waits(out, incident);
            limits(out, incident);
            decisions(out, &story);
            kills(out, incident);
        });
    });
    out.own("\n");
    Ok(out.into_text())
}

fn about(out: &mut Markup, incident: &Incident) {
    out.open("meta", &[("charset", "utf-8")]);
    out.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
    out.open("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    out.open("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    out.leaf("title", &[], &format!("isobar incident {}", incident.name));
    out.within("style", &[], |out| out.own(STYLE));
}

fn head(out: &mut Markup, incident: &Incident, story: &Story) {
    let facts = &story.facts;
    let first = incident.triggers.first();
    out.leaf("h1", &[], first.map_or("An incident", |first| &first.text));
    let node = if incident.node.is_empty() { &facts.name } else { &incident.node };
    let (kinds, lasted) = (print::kinds(&incident.kinds), print::how_long(incident));
    let span = time(incident.to.boot.since(incident.from.boot));
    let shown = match incident.ticks.saturating_sub(story.n_ticks) {
        0 => format!("{span} in {} ticks", story.n_ticks),
        lost => format!("{} of {} ticks: {lost} cannot be read", story.n_ticks, incident.ticks),
    };
    let line = format!(
        "Node {node} ({} CPUs, kernel {}), {}, {lasted}. Kept because of: {kinds}. This page shows \
         {shown}.",
        facts.n_cpus,
        facts.kernel,
        clock(incident.begin.wall),
    );
    out.leaf("p", &[("class", "quiet")], &line);
    out.leaf("p", &[], &incident.summary);
}

/// Everything that happened, in order.
fn course(out: &mut Markup, incident: &Incident) {
    let mut all: Vec<(Moment, &'static str, String)> = Vec::new();
    // What was done and killed is told below in more words.
    let told = |kind| !matches!(kind, Kind::Kill | Kind::Action | Kind::OomKill);
    let triggers = incident.triggers.iter().filter(|trigger| told(trigger.kind));
    all.extend(triggers.map(|Trigger { at, text, .. }| (*at, "trigger", text.clone())));
    for held in &incident.conditions {
        let lasted = |to: Moment| time(to.boot.since(held.from.boot));
        let or_more = if held.is_older(incident.from) { " or more" } else { "" };
        let over = |to: Moment| format!("{} was over, after {}{or_more}", held.name, lasted(to));
        all.extend(held.to.map(|to| (to, "over", over(to))));
    }
    let is_told = |held: &Held| {
        incident.triggers.iter().any(|one| one.at == held.from && one.who == held.name)
    };
    all.extend(incident.conditions.iter().filter(|held| !is_told(held)).map(|held| {
        let was = if held.is_older(incident.from) { "was True already" } else { "became True" };
        (held.from, "trigger", format!("{} {was}", held.name))
    }));
    all.extend(incident.kills.iter().map(|kill| (kill.at, "kill", killed(kill))));
    all.extend(incident.deeds.iter().map(|deed| {
        let only = if deed.is_enforced { "" } else { " (only observed)" };
        (deed.at, "deed", format!("isobar: {}{only}", deed.text))
    }));
    all.sort_by_key(|(at, ..)| at.boot);
    let item = |out: &mut Markup, (at, class, text): &(Moment, &'static str, String)| {
        out.within("li", &[("class", class)], |out| {
            out.leaf("time", &[], &clock(at.wall));
            out.leaf("b", &[], &offset(*at, incident.begin));
            out.leaf("span", &[], &sentence(text));
        });
    };
    out.section("What happened, in order", |out| {
        out.within("ol", &[("class", "course")], |out| all.iter().for_each(|one| item(out, one)));
    });
}

fn offset(at: Moment, begin: Moment) -> String {
    match at.boot < begin.boot {
        true => format!("-{}", time(begin.boot.since(at.boot))),
        false => format!("+{}", time(at.boot.since(begin.boot))),
    }
}

fn killed(kill: &Score) -> String {
    format!("the kernel's OOM killer killed {} of {}", kill.process(), kill.victim)
}

fn charts(out: &mut Markup, incident: &Incident, story: &Story) {
    let mark = |at, class, text| Mark { slot: story.axis.slot(at), class, text };
    let mut marks = vec![mark(incident.begin, "begin", "the incident begins".to_owned())];
    for decision in &story.decisions {
        let steps = decision.relief.actions.iter();
        marks.extend(
            steps.map(|step| mark(decision.at, "deed", relief::action(step, decision.at.boot))),
        );
    }
    marks.extend(incident.kills.iter().map(|kill| mark(kill.at, "kill", killed(kill))));
    out.section("How it went", |out| {
        out.within("ul", &[("class", "legend")], |out| {
            out.leaf("li", &[("class", "begin")], "the incident begins");
            if marks.iter().any(|mark| mark.class == "deed") {
                out.leaf("li", &[("class", "deed")], "isobar decides on a step");
            }
            if !incident.kills.is_empty() {
                out.leaf("li", &[("class", "kill")], "the kernel's OOM killer kills");
            }
            out.leaf("li", &[("class", "quiet")], "times are UTC");
        });
        story.charts.iter().for_each(|chart| draw(out, chart, story.axis, &marks));
    });
}

fn waits(out: &mut Markup, incident: &Incident) {
    let most = incident.waits.iter().map(|wait| wait.loss).max().unwrap_or(Nanos(1));
    let row = |out: &mut Markup, wait: &Wait| {
        out.cells([&wait.sufferer, &wait.aggressor, &time(wait.time)]);
        let share = u128::from(wait.loss.0) * 100 / u128::from(most.0.max(1));
        let share = share.to_string();
        out.within("td", &[], |out| {
            out.leaf("meter", &[("max", "100"), ("value", &share)], &format!("{share} %"));
        });
    };
    out.section("Who made others wait for a CPU", |out| {
        if incident.waits.is_empty() {
            out.leaf("p", &[("class", "quiet")], "No such wait was measured in this record.");
            return;
        }
        let note = "Summed over tasks, so it may exceed the time that passed. Lost is a wait \
                    weighed by its share of the time in which the sufferer wanted to run.";
        out.leaf("p", &[("class", "quiet")], note);
        let heads =
            ["sufferer", "aggressor, which ran meanwhile", "waited", "share of the greatest loss"];
        out.table(&heads, |out| {
            incident.waits.iter().for_each(|wait| out.within("tr", &[], |out| row(out, wait)));
        });
    });
}

/// Limits of those concerned, and what the agent could not see or do.
fn limits(out: &mut Markup, incident: &Incident) {
    if !incident.limits.is_empty() {
        let heads = ["pod or service", "memory.max", "memory.high", "CPUs by cpu.max"];
        out.section("Their limits", |out| {
            out.table(&heads, |out| {
                incident.limits.iter().for_each(|of| out.row(print::limits(of)));
            });
        });
    }
    let lacking = print::lacking(incident);
    if lacking.is_empty() {
        return;
    }
    let items =
        lacking.iter().map(|(from, what)| format!("{}: {}", clock(from.wall), sentence(what)));
    out.section("What the agent lacked", |out| out.list(items));
}

fn decisions(out: &mut Markup, story: &Story) {
    out.section("What isobar decided, and why", |out| {
        if story.decisions.is_empty() {
            let nothing = "There was nothing to decide: no threshold was due.";
            out.leaf("p", &[("class", "quiet")], nothing);
        }
        for (n, decision) in story.decisions.iter().enumerate() {
            let attributes: &[_] = if n == 0 { &[("open", "")] } else { &[] };
            out.within("details", attributes, |out| decided(out, decision));
        }
    });
}

fn decided(out: &mut Markup, decision: &Decision) {
    let told = explain(decision);
    let first = told.verdict.first().map_or("no action", |first| first);
    out.within("summary", &[], |out| {
        out.leaf("time", &[], &clock(decision.at.wall));
        out.text(&format!(" {}", sentence(first)));
    });
    for (title, sentences) in [
        ("Why", &told.why),
        ("Verdict", &told.verdict),
        ("Candidates and spared, first to go first", &told.candidates),
        ("What would have changed it", &told.otherwise),
    ] {
        if !sentences.is_empty() {
            out.leaf("h3", &[], title);
            out.list(sentences.iter().map(|one| sentence(one)));
        }
    }
}

fn kills(out: &mut Markup, incident: &Incident) {
    if incident.kills.is_empty() {
        return;
    }
    let cells = |score: &Score| {
        let Score { at, victim, limit, foreseen, why, .. } = score;
        let foreseen = match foreseen {
            Some(for_) => format!("{} before", time(*for_)),
            None if limit.is_some() => "no: no shortage of the node was seen".into(),
            None => "no".into(),
        };
        [clock(at.wall), victim.clone(), score.process(), foreseen, why.clone()]
    };
    let heads = ["time", "victim", "killed", "foreseen by isobar", "why isobar did not prevent it"];
    out.section("OOM kills by the kernel", |out| {
        out.table(&heads, |out| incident.kills.iter().for_each(|one| out.row(cells(one))));
    });
}

/// With a full stop. A capital letter would change a name that stands first.
fn sentence(text: &str) -> String {
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{text}{end}")
}
