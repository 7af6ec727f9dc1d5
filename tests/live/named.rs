//! Who makes others wait is told within three seconds, everywhere by the same name and figures.

use std::time::Duration;

use isobar::clock;
use isobar_core::model::units::Nanos;
use serde_json::Value;

use crate::host::{Agent, Group, alone, last_cpu};
use crate::program::{isobar, text};

const WITHIN: Nanos = Nanos(3 * Nanos::SECOND.0);
/// Ticks come once a second, so a look just after one is a second late.
const LOOK: Duration = Duration::from_millis(50);

/// The CPU time and the waits of a cgroup, by its path, in a snapshot or in what `top` prints.
fn figures(view: &Value, path: &str) -> Option<[Value; 2]> {
    let scope = view["scopes"].as_object()?.values().find(|scope| scope["path"] == path)?;
    Some([scope["cpuUsage"].clone(), scope["cpu"]["wait"].clone()])
}

/// Where the aggressor must be named.
const READERS: [&str; 4] = ["the page", "top", "/metrics", "explain"];

#[test]
fn aggressor_is_named_within_three_seconds() {
    let _alone = alone();
    let agent = Agent::start(&[]);
    if !agent.sees_waits() {
        return;
    }
    let address = agent.address().to_string();
    let last = last_cpu();
    for is_busy in [false, true] {
        let make = |name: &str| Group::make(&format!("{name}-{is_busy}"));
        let (Some(mut victim), Some(mut aggressor), Some(mut crowd)) =
            (make("victim"), make("aggressor"), make("crowd"))
        else {
            return;
        };
        if is_busy {
            // All other CPUs are busy, too.
            (0..last).for_each(|cpu| _ = crowd.spin(cpu));
        }
        let mut begun = clock::now().boot;
        let patience = begun.plus(Nanos(20 * WITHIN.0));
        victim.run(&format!("exec nice -n 5 taskset -c {last} sh -c 'while :; do :; done'"));
        aggressor.spin(last);
        let name = aggressor.path().rsplit('/').next().unwrap().to_owned();
        let sufferer = victim.path().rsplit('/').next().unwrap().to_owned();
        let is_named = |headline: &str| {
            headline.contains(&format!("{sufferer} loses most by waiting"))
                && headline.contains(&format!("mostly while {name}"))
        };
        let ask = |verb: &[&str]| {
            text(&isobar(&[verb, &["--agent", &address]].concat()).output().unwrap().stdout)
        };
        // Whether it is named first but for other work of this machine, and what is told.
        let look = |reader: &str| match reader {
            "the page" => {
                let sent = agent.snapshot();
                let mut pairs = sent["aggressions"].as_array().unwrap().iter();
                let first = pairs.find(|pair| pair["aggressorPath"] != "/").unwrap_or(&Value::Null);
                let is_first = first["victimPath"] == victim.path()
                    && first["aggressorPath"] == aggressor.path();
                (is_first, sent["aggressions"].to_string())
            }
            "top" => {
                let top = ask(&["top", "--once"]);
                let pairs = top.lines().skip_while(|line| !line.starts_with("SUFFERER")).skip(1);
                let first = { pairs }.find(|line| !line.contains("the root cgroup"));
                let is_first = first.is_some_and(|line| {
                    line.starts_with(victim.path()) && line.contains(aggressor.path())
                });
                (is_first, top)
            }
            "/metrics" => {
                let metrics = agent.get("/metrics").unwrap();
                let has_lost = metrics.lines().any(|line| {
                    line.starts_with("isobar_aggression_loss_seconds_total{")
                        && line.contains(victim.path())
                        && line.contains(aggressor.path())
                        && !line.ends_with(" 0.0")
                });
                (has_lost, metrics)
            }
            _ => {
                let explained = ask(&["explain"]);
                (explained.lines().next().is_some_and(is_named), explained)
            }
        };
        let mut unnamed = READERS.to_vec();
        while !unnamed.is_empty() {
            let told = unnamed.into_iter().map(|reader| (reader, look(reader)));
            let (named, rest): (Vec<_>, Vec<_>) = told.partition(|(_, (is_named, _))| *is_named);
            let took = clock::now().boot.since(begun);
            for (reader, _) in named {
                println!("busy {is_busy}: named by {reader} after {took:?}");
            }
            // Other work of this machine takes more than the aggressor: not what is asked here.
            let headline = agent.snapshot()["headline"].to_string();
            if headline.contains("mostly while the root cgroup") && begun < patience {
                begun = clock::now().boot;
            } else {
                assert!(rest.is_empty() || took < WITHIN, "busy {is_busy}: {rest:?}");
            }
            unnamed = rest.into_iter().map(|(reader, _)| reader).collect();
            std::thread::sleep(LOOK);
        }

        // The same tick is told in the same figures.
        let same = (0..20).any(|_| {
            let top = isobar(&["top", "--once", "-o", "json", "--agent", &address]);
            let top: Value = serde_json::from_slice(&{ top }.output().unwrap().stdout).unwrap();
            let page = agent.snapshot();
            if top["tick"] != page["tick"] {
                return false;
            }
            assert_eq!(top["headline"], page["headline"]);
            assert_eq!(top["aggressions"], page["aggressions"]);
            for path in [aggressor.path(), victim.path()] {
                let figures = [&top, &page].map(|view| figures(view, path));
                assert!(figures[0].is_some() && figures[0] == figures[1], "{path}: {figures:?}");
            }
            true
        });
        assert!(same, "no tick was seen twice");
    }
}
