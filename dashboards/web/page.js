// The page: shows api/v1/stream, one event each second: a view first, then what has changed in it.
// Text from the node is untrusted (any user can choose the name of a cgroup), so this code never
// writes markup: text is inserted as text.

import { blameRows, called, cpuWait, memoryCauses, mode, nameOf, patched, shown, worstShare } from "./words.js";

const STALE_AFTER = 3; // seconds: one lost tick is normal
const HISTORY = 300; // samples in a spark line
const RETRY = 2_000; // milliseconds

const $ = (id) => document.getElementById(id);

/** A new element with text and attributes. */
function make(tag, text = "", attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Sets text only if it changed, so that selections and the position of screen readers survive. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replaces children, keeping those that are equal to new ones. */
function fill(parent, children) {
  children.forEach((child, i) => {
    const old = parent.children[i];
    if (!old) parent.append(child);
    else if (!old.isEqualNode(child)) old.replaceWith(child);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

const percent = (share) => (share == null ? "–" : `${share.toFixed(share < 10 ? 2 : 1)} %`);
const mebibytes = (bytes) => (bytes == null ? "unknown" : `${(bytes / 1_048_576).toFixed(1)} MiB`);

function time(nanos) {
  if (nanos == null) return "–";
  if (nanos < 1_000) return `${nanos} ns`;
  if (nanos < 1_000_000) return `${(nanos / 1_000).toFixed(0)} µs`;
  return `${(nanos / 1_000_000).toFixed(nanos < 10_000_000 ? 1 : 0)} ms`;
}

// ---- tables -------------------------------------------------------------------------------

/** Fills a table; a cell is a text, or an element to put inside. */
function table(id, rows, nothing) {
  const heads = [...$(id).tHead.rows[0].cells];
  const body = $(id).tBodies[0];
  const line = (cells) => {
    const tr = make("tr", "", { role: "row" });
    cells.forEach((cell, i) => {
      const role = i === 0 ? { role: "rowheader", scope: "row" } : { role: "cell" };
      const td = make(i === 0 ? "th" : "td", "", { ...role, "data-label": heads[i].textContent });
      if (heads[i].className) td.className = heads[i].className;
      td.append(cell);
      tr.append(td);
    });
    return tr;
  };
  const empty = () => {
    const tr = make("tr", "", { role: "row", class: "empty" });
    tr.append(make("td", nothing, { role: "cell", colspan: String(heads.length) }));
    return tr;
  };
  fill(body, rows.length ? rows.map(line) : [empty()]);
}

/** A name with a second line below. */
function named({ name, sub }, title) {
  const box = make("span", "", title ? { title } : {});
  box.append(make("span", name, { class: "name" }));
  if (sub) box.append(make("span", sub, { class: "sub" }));
  return box;
}

/** A bar of parts, each `[class, 0..1]`. Decoration: the numbers are printed beside it. */
function meter(parts) {
  const bar = make("span", "", { class: "meter", "aria-hidden": "true" });
  for (const [kind, share] of parts) {
    const part = make("i", "", { class: kind });
    part.style.width = `${(Math.min(1, share) * 100).toFixed(1)}%`;
    bar.append(part);
  }
  return bar;
}

// ---- sections -----------------------------------------------------------------------------

const RESOURCE = { cpu: "CPU", memory: "Memory", io: "IO" };
let moods = "";

function verdict(view) {
  say($("headline"), view.headline);
  fill($("verdicts"), view.verdict.map(({ resource, mood, text }) => {
    const li = make("li");
    li.append(make("b", RESOURCE[resource]), make("span", mood, { class: "mood", "data-mood": mood }), make("span", text));
    return li;
  }));
  // Announced only when a word changes: the numbers change every second.
  const now = view.verdict.map(({ resource, mood }) => `${RESOURCE[resource]} ${mood}`).join(", ");
  if (now !== moods) say($("announce"), `${now}. ${view.headline}`);
  moods = now;
}

const past = { cpu: [], memory: [], io: [] };

function resources(view) {
  const { pressure, contention, shortage } = view.whole;
  const cards = [
    ["cpu", "contention", contention, pressure.cpu],
    ["memory", "shortage", shortage, pressure.memory],
    ["io", null, null, pressure.io],
  ];
  fill($("resources"), cards.map(([key, word, measure, raw]) => {
    const main = measure ?? raw?.some;
    past[key].push([measure ? measure.avg10 : null, raw?.some?.avg10 ?? null]);
    if (past[key].length > HISTORY) past[key].shift();

    const card = make("div", "", { class: "card" });
    const top = make("div", "", { class: "top" });
    const big = make("span", main ? percent(main.avg10) : "unknown", { class: "big" });
    big.append(make("small", ` ${measure ? word : "raw PSI some"}, 10 s`));
    top.append(make("span", RESOURCE[key], { class: "name" }), big);
    card.append(top, spark(past[key]), windows(word, measure, raw));
    return card;
  }));
}

function windows(word, measure, raw) {
  const grid = make("table");
  const row = (tag, cells) => {
    const tr = make("tr");
    cells.forEach((cell, i) => {
      const scope = i === 0 ? "row" : "col";
      const isHead = tag === "th" || i === 0;
      tr.append(make(isHead ? "th" : "td", cell, { class: i ? "number" : "", ...(isHead ? { scope } : {}) }));
    });
    grid.append(tr);
  };
  row("th", ["", "now", "10 s", "1 min", "5 min"]);
  if (word) row("td", [word, ...["now", "avg10", "avg60", "avg300"].map((key) => percent(measure?.[key]))]);
  for (const kind of ["some", "full"]) {
    row("td", [`raw PSI ${kind}`, "", ...["avg10", "avg60", "avg300"].map((key) => percent(raw?.[kind]?.[key]))]);
  }
  return grid;
}

/** Up to five minutes: the measure as a line, raw PSI dashed. The table below has the numbers. */
function spark(points) {
  const SVG = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(SVG, "svg");
  const set = (element, attributes) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  set(svg, { class: "spark", viewBox: `0 0 ${HISTORY - 1} 100`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [i, kind] of [[1, "raw"], [0, "measure"]]) {
    let pen = "M";
    let d = "";
    points.forEach((point, x) => {
      if (point[i] == null) { pen = "M"; return; }
      d += `${pen}${HISTORY - points.length + x} ${(98 - point[i] * 0.96).toFixed(1)}`;
      pen = "L";
    });
    if (d) svg.append(set(document.createElementNS(SVG, "path"), { class: kind, d }));
  }
  return svg;
}

function cpus(view) {
  const shares = view.whole.contentionPerCpu;
  if (!shares.length) return fill($("cpus"), [make("li", "not measured")]);
  fill($("cpus"), shares.map((share, i) => {
    const li = make("li");
    li.append(make("span", `cpu${i}`), make("b", `${share.toFixed(0)} %`), meter([["others", share / 100]]));
    return li;
  }));
}

function waiting(view) {
  const all = shown(view, $("level").value);
  const scale = Math.max(1e9, ...all.map((scope) => scope.cpu?.wait.now ?? 0));
  table("waiting", all.slice(0, 25).map((scope) => {
    const wait = make("span");
    const parts = cpuWait(scope);
    wait.append(meter(parts.map(({ kind, nanos }) => [kind, nanos / scale])));
    const texts = parts.filter(({ nanos }) => nanos > 0).map(({ words, nanos }) => `${time(nanos)} ${words}`);
    wait.append(make("span", scope.cpu ? texts.join(", ") || "none" : "not measured", { class: "sub" }));

    const memory = make("span");
    memory.append(make("span", percent(scope.pressure.memory?.some?.avg10)));
    const causes = memoryCauses(scope);
    if (causes) memory.append(make("span", causes, { class: "sub" }));

    const used = scope.cpuUsage == null ? "–" : (scope.cpuUsage / 1_000).toFixed(2);
    const contended = percent(scope.contention?.avg10);
    return [named(nameOf(scope), scope.path), percent(worstShare(scope)), used, contended, wait, memory, percent(scope.pressure.io?.some?.avg10)];
  }), "No cgroup waits.");
}

function blame(view) {
  table("blame", blameRows(view).map(({ victim, aggressor, nanos, share }) => [
    named(victim), named(aggressor), time(nanos), `${(share * 100).toFixed(0)} %`,
  ]), view.whole.cpu ? "No cgroup waited for another one in the last interval." : "Not measured: see Capabilities.");
}

function judgement(view) {
  say($("mode"), `Mode: ${mode(view)}.`);
  table("conditions", view.decision.assessment.conditions.map(({ type, status, phase, threshold, avg10, avg60 }) => [
    type,
    make("span", status, { class: "state", "data-condition": status, title: phase }),
    percent(avg10), percent(avg60), percent(threshold),
  ]), "No condition is enabled.");
  const { why, verdict, candidates, otherwise } = view.explanation;
  fill($("judgement"), [...why, ...verdict, ...candidates, ...otherwise].map((sentence) => make("li", sentence)));
}

function oomKills(view) {
  table("oom", view.recentOomKills.map(({ wall, victimPath, limitPath, triggerPath, kill }) => {
    const node = { name: kill.limitKnown ? "the node's memory" : "unknown", sub: "" };
    const victim = called(view, kill.victim, victimPath);
    return [
      new Date(wall / 1e6).toLocaleString(),
      named({ ...victim, sub: `process ${kill.victimPid}. ${victim.sub}` }),
      named(kill.limit == null ? node : called(view, kill.limit, limitPath)),
      named(called(view, kill.trigger, triggerPath)),
    ];
  }), "No OOM kill since the agent started.");
}

function sight(view) {
  const states = { attached: 3, off: 2, absent: 1, blind: 0 };
  const known = [...view.capabilities].sort((a, b) => states[a.state] - states[b.state]);
  const gaps = view.gaps.map(({ object, detail }) => ({ name: object, state: "absent", detail }));
  table("sight", [...gaps, ...known].map(({ name, state, detail, remedy }) => [
    name,
    make("span", state, { class: "state", "data-state": state }),
    named({ name: "", sub: remedy ? `${detail}. Remedy: ${remedy}` : detail }),
  ]), "The agent reported no capability.");
}

function cost(view) {
  const { cpu, resident, tick, kernel } = view.cost;
  const perSecond = kernel.programs.reduce((sum, program) => sum + program.perSecond, 0);
  const pairs = [
    ["Agent, CPU", cpu == null ? "unknown" : `${(cpu / 10).toFixed(1)} % of one core`],
    ["Agent, memory", mebibytes(resident)],
    ["One sample", time(tick)],
    ["eBPF programs", kernel.programs.length ? `${time(perSecond)} per second, over all CPUs` : "not metered"],
    ["eBPF maps", mebibytes(kernel.mapBytes)],
  ];
  fill($("cost"), pairs.flatMap(([dt, dd]) => [make("dt", dt), make("dd", dd)]));
  table("programs", kernel.programs.map(({ name, runs, perRun, perSecond }) => [
    name, String(runs), time(perRun), time(perSecond),
  ]), "Not metered: BPF statistics are off, or no program is attached.");
}

function show(view) {
  document.title = `${view.facts.name} · isobar`;
  say($("node"), view.facts.name);
  say($("facts"), `Linux ${view.facts.kernel}, ${view.facts.nCpus} CPUs, tick ${view.tick}`);
  for (const section of [verdict, judgement, resources, cpus, waiting, blame, oomKills, sight, cost]) section(view);
}

// ---- the stream ---------------------------------------------------------------------------

let newest = null;
let arrived = null; // performance.now(): independent of the wall clock
let paused = false;

function link() {
  const age = arrived == null ? null : Math.floor((performance.now() - arrived) / 1_000);
  const stale = age != null && age >= STALE_AFTER;
  const state = paused ? "paused" : age == null ? "opening" : stale ? "stale" : "live";
  const text = { paused: "paused", opening: "connecting", live: "live", stale: `stale for ${age} s, reconnecting` };
  $("link").dataset.link = state;
  say($("link"), text[state]);
  document.body.classList.toggle("stale", stale && !paused);
}

function open() {
  const stream = new EventSource("api/v1/stream?delta=1");
  const take = (view) => {
    newest = view;
    arrived = performance.now();
    if (!paused) show(newest);
    link();
  };
  stream.addEventListener("sample", ({ data }) => take(JSON.parse(data)));
  stream.addEventListener("delta", ({ data }) => take(patched(newest, JSON.parse(data))));
  stream.addEventListener("error", () => {
    // A browser reconnects by itself after a broken connection, but not after a 503, nor always
    // after a refused connection: closing and reopening works for all of them.
    stream.close();
    setTimeout(open, RETRY);
  });
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  say($("pause"), paused ? "Resume" : "Pause");
  if (!paused && newest) show(newest);
  link();
});
$("level").addEventListener("change", () => newest && waiting(newest));
setInterval(link, 1_000);
open();
