//! One chart as SVG, and the table behind it. Integers only: a picture needs no more.

use std::iter;

use isobar::record::incident::words::{clock, time};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::Percent;

use super::figure::{Axis, Chart, Unit};
use super::markup::Markup;

const WIDTH: u64 = 1_000;
const HEIGHT: u64 = 190;
/// Room for the scale at the left and the times below.
const LEFT: u64 = 64;
const BOTTOM: u64 = 22;
const TOP: u64 = 14;
/// Slots without a reading that a line goes across: ticks are not exactly a second apart.
const BRIDGED: usize = 2;

/// A moment that every chart marks.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) slot: usize,
    /// What it is: the style sheet knows it.
    pub(super) class: &'static str,
    pub(super) text: String,
}

pub(super) fn draw(out: &mut Markup, chart: &Chart, axis: Axis, marks: &[Mark]) {
    out.within("figure", &[], |out| match (chart.is_measured(), chart.is_calm()) {
        (false, _) => caption(out, "figcaption", chart, "not measured in this record"),
        (true, true) => out.within("details", &[], |out| {
            caption(out, "summary", chart, "calm: below half of the threshold all the time");
            drawn(out, chart, axis, marks);
        }),
        (true, false) => {
            caption(out, "figcaption", chart, &chart.note);
            drawn(out, chart, axis, marks);
        }
    });
}

fn caption(out: &mut Markup, tag: &'static str, chart: &Chart, note: &str) {
    out.within(tag, &[], |out| {
        out.leaf("b", &[], chart.title);
        out.leaf("span", &[("class", "quiet")], &format!(" {note}"));
    });
}

fn drawn(out: &mut Markup, chart: &Chart, axis: Axis, marks: &[Mark]) {
    let size = format!("0 0 {WIDTH} {HEIGHT}");
    let label = format!("{}: the table below has its figures", chart.title);
    let of_picture = [("viewBox", &*size), ("role", "img"), ("aria-label", &label)];
    out.within("svg", &of_picture, |out| picture(out, chart, Scale::of(chart, axis), marks));
    out.within("ul", &[("class", "legend")], |out| legend(out, chart));
    table(out, chart, axis);
}

/// From slots and values to places in the picture.
#[derive(Debug, Clone, Copy)]
struct Scale {
    axis: Axis,
    top: u64,
    unit: Unit,
}

impl Scale {
    fn of(chart: &Chart, axis: Axis) -> Self {
        let values =
            chart.lines.iter().flat_map(|line| line.points.iter().flatten().chain(&line.threshold));
        let highest = values.copied().max().unwrap_or(0);
        let top = match chart.unit {
            Unit::Percent => Percent::FULL.0.into(),
            _ => round_up(highest.max(1), chart.unit),
        };
        Self { axis, top, unit: chart.unit }
    }

    fn x(self, slot: usize) -> u64 {
        let last = self.axis.n.saturating_sub(1).max(1) as u64;
        LEFT + (WIDTH - LEFT) * slot as u64 / last
    }

    fn y(self, value: u64) -> u64 {
        let room = HEIGHT - BOTTOM - TOP;
        let height = u128::from(room) * u128::from(value.min(self.top)) / u128::from(self.top);
        TOP + room - u64::try_from(height).unwrap_or(room)
    }
}

/// The next value that is easily read: 1, 2 or 5 times a power of ten, or a power of two bytes.
fn round_up(value: u64, unit: Unit) -> u64 {
    if unit == Unit::Bytes {
        let power = value.checked_next_power_of_two().unwrap_or(u64::MAX);
        return if power / 4 * 3 >= value { power / 4 * 3 } else { power };
    }
    let tens = iter::successors(Some(1_u64), |ten| ten.checked_mul(10));
    let steps = tens.flat_map(|ten| [1, 2, 5].map(|n| ten.saturating_mul(n)));
    steps.into_iter().find(|step| *step >= value).unwrap_or(value)
}

fn picture(out: &mut Markup, chart: &Chart, scale: Scale, marks: &[Mark]) {
    held(out, chart, scale);
    for part in 0..=2 {
        let value = scale.top / 2 * part;
        let y = scale.y(value).to_string();
        let (left, right) = (LEFT.to_string(), WIDTH.to_string());
        line(out, "grid", [&left, &y, &right, &y]);
        let (x, y) = ((LEFT - 8).to_string(), (scale.y(value) + 4).to_string());
        let at = [("x", x.as_str()), ("y", &y), ("text-anchor", "end")];
        out.leaf("text", &at, &shown(value, scale.unit));
    }
    for part in 0..=4 {
        let slot = (scale.axis.n - 1) * part / 4;
        let anchor = ["start", "middle", "middle", "middle", "end"][part];
        let (x, y) = (scale.x(slot).to_string(), (HEIGHT - 5).to_string());
        let wall = clock(scale.axis.wall(slot));
        let of_day = wall.split(' ').next_back().unwrap_or(&wall).trim_end_matches('Z').to_owned();
        out.leaf("text", &[("x", &x), ("y", &y), ("text-anchor", anchor)], &of_day);
    }
    for (n, one) in chart.lines.iter().enumerate() {
        if let Some(threshold) = one.threshold {
            let (left, right) = (LEFT.to_string(), WIDTH.to_string());
            let (class, y) = (format!("threshold c{n}"), scale.y(threshold).to_string());
            line(out, &class, [&left, &y, &right, &y]);
        }
        let class = format!("line c{n}");
        let path = path(&one.points, scale);
        out.leaf("path", &[("class", &class), ("d", &path)], "");
    }
    for mark in marks {
        let x = scale.x(mark.slot).to_string();
        out.within("g", &[("class", mark.class)], |out| {
            out.leaf("title", &[], &mark.text);
            line(out, "mark", [&x, &TOP.to_string(), &x, &(HEIGHT - BOTTOM).to_string()]);
        });
    }
}

fn line(out: &mut Markup, class: &str, [x1, y1, x2, y2]: [&str; 4]) {
    let place = [("class", class), ("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)];
    out.leaf("line", &place, "");
}

/// Shades the slots in which a condition was True.
fn held(out: &mut Markup, chart: &Chart, scale: Scale) {
    let mut begin = None;
    for (slot, is_held) in chart.held.iter().copied().chain([false]).enumerate() {
        match (begin, is_held) {
            (None, true) => begin = Some(slot),
            (Some(from), false) => {
                let x = scale.x(from);
                let width = (scale.x(slot.min(scale.axis.n - 1)) - x).max(2).to_string();
                let (x, y, height) = (x.to_string(), TOP.to_string(), HEIGHT - BOTTOM - TOP);
                let height = height.to_string();
                let place = [("x", x.as_str()), ("y", &y), ("width", &width), ("height", &height)];
                out.leaf("rect", &[&[("class", "held")], &place[..]].concat(), "");
                begin = None;
            }
            _ => {}
        }
    }
}

fn path(points: &[Option<u64>], scale: Scale) -> String {
    let (mut path, mut last) = (String::new(), None);
    for (slot, value) in points.iter().enumerate() {
        let Some(value) = value else { continue };
        let goes_on = last.is_some_and(|last| slot - last <= BRIDGED + 1);
        let verb = if goes_on { 'L' } else { 'M' };
        path.push_str(&format!("{verb}{} {}", scale.x(slot), scale.y(*value)));
        // A reading that stands alone would be no line.
        if !goes_on {
            path.push_str("h1");
        }
        last = Some(slot);
    }
    path
}

fn legend(out: &mut Markup, chart: &Chart) {
    for (n, one) in chart.lines.iter().enumerate() {
        let points = || one.points.iter().flatten().copied();
        let (lowest, highest) = (points().min().unwrap_or(0), points().max().unwrap_or(0));
        let (lowest, highest) = (shown(lowest, chart.unit), shown(highest, chart.unit));
        let class = format!("c{n}");
        let text = format!("{}: {lowest} to {highest}", one.name);
        out.leaf("li", &[("class", &class)], &text);
        if let Some(threshold) = one.threshold {
            let text = format!("its threshold, {}", shown(threshold, chart.unit));
            out.leaf("li", &[("class", &format!("{class} threshold"))], &text);
        }
    }
    if chart.held.contains(&true) {
        out.leaf("li", &[("class", "held")], "a condition was True");
    }
}

fn table(out: &mut Markup, chart: &Chart, axis: Axis) {
    let from = format!("from, each {}", time(axis.slot));
    let heads: Vec<&str> =
        iter::once(&*from).chain(chart.lines.iter().map(|line| &*line.name)).collect();
    let known =
        (0..axis.n).filter(|slot| chart.lines.iter().any(|line| line.points[*slot].is_some()));
    let cell =
        |value: Option<u64>| value.map_or_else(|| "-".into(), |value| shown(value, chart.unit));
    let cells = |slot: usize| {
        let values = chart.lines.iter().map(move |line| cell(line.points[slot]));
        iter::once(clock(axis.wall(slot))).chain(values)
    };
    out.within("details", &[], |out| {
        out.leaf("summary", &[], &format!("Table: {}", chart.title));
        out.within("div", &[("class", "scroll")], |out| {
            out.table(&heads, |out| known.for_each(|slot| out.row(cells(slot))));
        });
    });
}

fn shown(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Percent => {
            let share = Percent(u16::try_from(value).unwrap_or(u16::MAX));
            format!("{} %", share.to_string().trim_end_matches('0').trim_end_matches('.'))
        }
        Unit::Bytes => bytes(value),
        Unit::MilliCpu => Quantity::milli(value).to_string(),
    }
}

/// With one decimal: what a picture shows has no more.
pub(super) fn bytes(value: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((name, power)) = units.into_iter().find(|(_, power)| value >> power > 0) else {
        return value.to_string();
    };
    let tenths = (u128::from(value) * 10) >> power;
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        tenth => format!("{}.{tenth} {name}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_one_decimal() {
        #[rustfmt::skip]
        let table = [
            // bytes, shown
            (0,              "0"),
            (1_023,          "1023"),
            (1 << 10,        "1 KiB"),
            (1_610_612_736,  "1.5 GiB"),
            (u64::MAX,       "17179869183.9 GiB"),
        ];
        for (value, want) in table {
            assert_eq!(bytes(value), want);
        }
    }

    #[test]
    fn round_up_to_readable() {
        #[rustfmt::skip]
        let table = [
            // value, unit, top
            (1,         Unit::MilliCpu, 1),
            (1_100,     Unit::MilliCpu, 2_000),
            (8_000,     Unit::MilliCpu, 10_000),
            (u64::MAX,  Unit::MilliCpu, u64::MAX),
            (700 << 20, Unit::Bytes,    768 << 20),
            (800 << 20, Unit::Bytes,    1 << 30),
        ];
        for (value, unit, want) in table {
            assert_eq!(round_up(value, unit), want, "{value} {unit:?}");
        }
    }
}
