// Figures over time, below one cursor: pressure raw and measured, waits, stalls, memory left.

import type { Series, Snapshot } from "../api";
import { Chart, type Drawn } from "../chart";
import { usePast } from "../film";
import { shaded, thresholds, useEvents, useHistory, useRules } from "../history";
import { Panel } from "../parts";
import { go, link, type Route } from "../route";
import { causeName, percent, SECOND, sentence } from "../words";

export const SPANS = [
  [600, "10 min"],
  [3_600, "1 h"],
  [21_600, "6 h"],
  [86_400, "24 h"],
] as const;

/** Of all that is known of a series. */
const total = (series: Series | undefined) => series?.values.reduce<number>((sum, one) => sum + (one ?? 0), 0) ?? 0;

/** Which time is shown: how long, and whether it goes on. */
export function Range({ route }: { route: Route }) {
  const shown = usePast()?.shown;
  const now = shown ? shown.at.wall / SECOND : Date.now() / 1_000;
  const choices: (readonly [number, string])[] = SPANS.some(([span]) => span === route.span)
    ? [...SPANS]
    : [[route.span, `${Math.round(route.span / 60)} min`], ...SPANS];
  return (
    <div class="tools" role="group" aria-label="Time shown">
      <label>
        Length{" "}
        <select
          value={route.span}
          onChange={(event) => go({ ...route, span: Number(event.currentTarget.value) })}
        >
          {choices.map(([span, label]) => (
            <option key={span} value={span}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <button type="button" onClick={() => go({ ...route, end: (route.end ?? now) - route.span / 2 })}>
        Earlier
      </button>
      <button
        type="button"
        disabled={route.end === null}
        onClick={() => {
          const end = (route.end ?? now) + route.span / 2;
          go({ ...route, end: end >= now ? null : end });
        }}
      >
        Later
      </button>
      <button type="button" aria-pressed={route.end === null} onClick={() => go({ ...route, end: route.end === null ? now : null })}>
        {route.end === null ? "Following" : "Follow"}
      </button>
    </div>
  );
}

/** Why the agent gave no figures, and from a time that it refuses the way to now. */
export function Refused({ error, route }: { error: string | null; route: Route }) {
  if (error === null) return null;
  return (
    <p class="notice refused" role="alert">
      {sentence(error)}{" "}
      {route.end !== null && <a href={link({ ...route, end: null })}>Show the time up to now</a>}
    </p>
  );
}

const COLOURS = ["others", "own", "above", "third", "fourth", "raw"];
const CAUSES = [
  "global", "allocatableLimit", "ownLimit", "ownHigh", "ancestorLimit", "someLimit", "refault", "swapIn", "compaction",
  "kernelThread", "other",
];

interface Plan {
  title: string;
  about: string;
  series: [name: string, label: string, isDashed?: boolean][];
  resource?: "cpu" | "memory" | "disk";
  isLog?: boolean;
}

const PLANS: Plan[] = [
  {
    title: "CPU pressure",
    about: "Contention counts only waits for a CPU that another task used.",
    series: [["cpu.contention", "contention"], ["cpu.some", "raw PSI some", true]],
    resource: "cpu",
  },
  {
    title: "Waits for a CPU",
    about: "Length of waits on the run queue, rounded up to a power of two.",
    series: [["cpu.wait.p50", "half are shorter"], ["cpu.wait.p99", "99 % are shorter"]],
    isLog: true,
  },
  {
    title: "Memory pressure",
    about: "Shortage counts only stalls that the node or the limit of all pods causes.",
    series: [["memory.shortage", "shortage"], ["memory.some", "raw PSI some", true], ["memory.full", "raw PSI full", true]],
    resource: "memory",
  },
  {
    title: "Memory left",
    about: "As the kubelet computes it, and by the kernel (MemAvailable), with the highest eviction threshold.",
    series: [["memory.available", "available"], ["memory.memAvailable", "by the kernel"], ["memory.threshold", "threshold", true]],
  },
  {
    title: "Time until memory runs out",
    about: "At the growth of the last seconds; no line: it is not running out.",
    series: [["memory.lasts", "lasts"]],
    isLog: true,
  },
  {
    title: "IO pressure",
    about: "Raw PSI.",
    series: [["io.full", "raw PSI full"], ["io.some", "raw PSI some", true]],
    resource: "disk",
  },
];

export function Time({ view, route, isDark }: { view: Snapshot; route: Route; isDark: boolean }) {
  const { data: history, error } = useHistory(route, "system,kubepods");
  const events = useEvents(route).data;
  const rules = useRules();
  const scopes = (["system", "kubepods"] as const).filter((scope) => {
    const all = Object.entries(history?.series ?? {});
    return scope === "system" || all.some(([name, { values }]) => name.startsWith(scope) && values.some((one) => one !== null));
  });
  const chart = (scope: "system" | "kubepods", { title, about, series, resource, isLog }: Plan) => {
    const conditions = view.decision.assessment.conditions.filter((one) => one.scope === scope && one.resource === resource);
    const known = series.filter(([name]) => !history || `${scope}.${name}` in history.series);
    const drawn: Drawn[] = known.map(([name, label, isDashed], at) => ({
      name: `${scope}.${name}`,
      label,
      colour: isDashed ? "raw" : (COLOURS[at] ?? "raw"),
      isDashed: isDashed ?? false,
    }));
    return (
      <Chart
        key={title}
        {...{ title, about, history, isDark }}
        series={drawn}
        thresholds={thresholds(rules, scope, resource, conditions[0])}
        spans={shaded(events, conditions[0]?.type, conditions.map(({ type }) => type))}
        isLog={isLog ?? false}
        cursor="time"
        onSelect={(begin, end) => go({ ...route, end: Math.ceil(end), span: Math.max(30, Math.round(end - begin)) })}
      />
    );
  };
  const stalls = (scope: string): Plan => ({
    title: "Memory stall by cause",
    about: "Share of time in which a task stalled for this cause: the five greatest of those that occurred.",
    series: CAUSES.map((cause) => ({ cause, sum: total(history?.series[`${scope}.memory.stall.${cause}`]) }))
      .filter(({ sum }) => sum > 0)
      .sort((a, b) => b.sum - a.sum)
      .slice(0, 5)
      .map(({ cause }) => [`memory.stall.${cause}`, causeName(cause)]),
  });
  return (
    <>
      <Refused error={error} route={route} />
      {scopes.map((scope) => (
        <Panel
          key={scope}
          title={scope === "system" ? "The node over time" : "All pods over time"}
          id={`time-${scope}`}
          aside={scope === "system" ? <Range route={route} /> : undefined}
        >
          {error === null && <p class="why">Drag over a part to look closer. Dashed across: the thresholds of the condition and of a signal by which pods are ended. Red: the condition was True. Grey stripes: Unknown. A gap was not measured.</p>}
          {error === null && (
            <div class="charts">
              {PLANS.slice(0, 3).map((plan) => chart(scope, plan))}
              {stalls(scope).series.length > 0 && chart(scope, stalls(scope))}
              {PLANS.slice(3).map((plan) => chart(scope, plan))}
            </div>
          )}
        </Panel>
      ))}
      <Panel title="Contention on each CPU, last second" id="cpus">
        {view.whole.contentionPerCpu.length === 0 && <p class="why">Not measured: see Health.</p>}
        <ul class="cpus">
          {view.whole.contentionPerCpu.map((share, cpu) => (
            <li key={cpu}>
              <span>cpu{cpu}</span> <span>{percent(share)}</span>
              <span class="meter" aria-hidden="true">
                <i class="others" style={{ width: `${share}%` }} />
              </span>
            </li>
          ))}
        </ul>
      </Panel>
    </>
  );
}
