// What the agent keeps of the last hour and day, asked again while time goes on.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Cgroups, Condition, History, HistoryEvents, Maybe, Moment, Percent, Recording, Rules, Series, Settings, Snapshot, Span, Trigger } from "./api";
import { type Film, isFollowing, momentQuery, useFilm, usePast } from "./film";
import type { Route } from "./route";
import { useLive } from "./stream";
import { clock, SECOND } from "./words";

const AGAIN = 10_000; // milliseconds
const RETRY = 2_000; // milliseconds, where no answer came
const HOUR = 3_600; // seconds
const MINUTE = 60; // seconds
/** Points that a chart of a thousand pixels can show. */
const POINTS = 400;

export interface Answer<T> {
  data: T | null;
  /** Why there is none, in the agent's words. */
  error: string | null;
}

const PAUSED = "the page is paused, and this agent, which keeps no recording, can tell of the present alone";

/** A document of the agent, asked again every so many milliseconds; 0: once. Of a recording it is that
 * of the moment that is shown, and until it has come, that of the moment before, but never that of the
 * present. While the page is paused it is of that moment, or what was there already. */
export function useDocument<T>(asked: string, live: number): Answer<T> {
  const [film, whole] = [usePast(), useFilm()];
  const isHeld = useLive().link === "paused" && film === null;
  const of = whole && !isFollowing(whole) ? `past ${asked}` : asked;
  const moment = momentQuery(film);
  const again = film === null ? live : film.recording.isWhole ? 0 : RETRY;
  const [answer, set] = useState<Answer<T> & { of: string }>({ of, data: null, error: null });
  const path = moment ? `${asked}${asked.includes("?") ? "&" : "?"}${moment}` : asked;
  const known = useEarliest(path, film?.recording.isLive ? film.recording.knownSince?.boot : undefined);
  useEffect(() => {
    if (isHeld) return set((known) => (known.of === of && known.data ? known : { of, data: null, error: PAUSED }));
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const ask = async () => {
      const wait = (await answered()) ? again : RETRY;
      if (wait > 0 && !end.signal.aborted) timer = setTimeout(ask, wait);
    };
    const answered = async () => {
      try {
        const response = await fetch(path, { signal: end.signal });
        const body = await response.json();
        if (response.ok) set({ of, data: body, error: null });
        else set({ of, data: null, error: body.message });
        // It has another question to answer first, or no sample yet.
        return response.status !== 503;
      } catch {
        // The agent does not answer: the header says so, and what was known stays.
        return false;
      }
    };
    void ask();
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [path, again, isHeld, of, known]);
  return answer.of === of ? answer : { data: null, error: null };
}

/** The earliest time since which the agent knew all while this page asked for `path`. It gets earlier once an
 * agent that was started again has read its recording back: then it knows more of the same moment. It gets
 * later with each event that a full ring drops, which changes no answer that has come. */
function useEarliest(path: string, since: number | undefined): number {
  const least = useRef({ path, since: Infinity });
  if (least.current.path !== path) least.current = { path, since: Infinity };
  least.current.since = Math.min(least.current.since, since ?? Infinity);
  return least.current.since;
}

/** The steps that the agent keeps: a second within the last hour, else ten. */
export function stepOf(span: number): number {
  const step = Math.ceil(span / POINTS);
  return step <= 1 ? 1 : Math.ceil(step / 10) * 10;
}

function range({ end, span }: Route): string {
  return end === null ? `begin=-${span}s` : `begin=${Math.max(0, end - span)}&end=${end}`;
}

/** Of a recording no longer than there is something before the moment, but a minute at least. */
function known(route: Route, film: Film | null): Route {
  const [begin, shown] = [film?.recording.begin, film?.shown];
  if (!begin || !shown || route.end !== null) return route;
  const seconds = Math.ceil((shown.at.wall - begin.wall) / SECOND / MINUTE) * MINUTE;
  return { ...route, span: Math.min(route.span, Math.max(MINUTE, seconds)) };
}

export function useHistory(asked: Route, series: string): Answer<History> {
  const film = usePast();
  const route = known(asked, film);
  // Before the last hour the agent keeps steps of ten seconds only, and so of a recording.
  const isFine = film === null || film.recording.isLive ? route.end === null && !isOld(film, route) : lengthOf(film.recording) < HOUR;
  const step = isFine ? stepOf(route.span) : Math.max(10, stepOf(route.span));
  const path = `api/v1/history?${range(route)}&step=${step}s&series=${series}`;
  return useDocument(path, route.end === null ? AGAIN : 0);
}

/** The last hour of a cgroup, or that before the moment that is shown: each answer is read from the
 * recording, so it is asked for seldom. */
export function useHistoryOf(cgroup: string, { end }: Route): Answer<History> {
  const route = known({ view: "cgroups", end, span: HOUR }, usePast());
  const path = `api/v1/history?${range(route)}&step=${stepOf(route.span)}s&cgroup=${encodeURIComponent(cgroup)}`;
  return useDocument(path, end === null ? 6 * AGAIN : 0);
}

export function useEvents(route: Route): Answer<HistoryEvents> {
  const film = usePast();
  return useDocument(`api/v1/history/events?${range(known(route, film))}`, route.end === null ? AGAIN / 2 : 0);
}

export function useCgroups(): Answer<Cgroups> {
  return useDocument("api/v1/cgroups", AGAIN / 5);
}

/** The settings in force; null until they are known. */
export function useRules(): Maybe<Rules> {
  return useDocument<Settings>("api/v1/settings", 6 * AGAIN).data?.settings;
}

export interface Threshold {
  share: Percent;
  label: string;
}

/** What is drawn across the chart of a resource: where its condition begins, and where a signal by
 * which pods are ended is met. */
export function thresholds(rules: Maybe<Rules>, scope: string, resource: string | undefined, condition: Maybe<Condition>): Threshold[] {
  const of = resource === "io" ? "disk" : (resource ?? "");
  const own = condition ? [{ share: condition.threshold, label: "condition" }] : [];
  const signals = rules?.eviction.pressure.filter((one) => one.scope === scope) ?? [];
  return [...own, ...signals.flatMap(({ on: { [of]: share } }) => (share === undefined ? [] : [{ share, label: `${scope}.${of}.pressure` }]))];
}

/** Since when a series has been at or above a line without a break; null if its newest step is not. */
export function risen(history: History | null, name: string, line: number): { from: Moment; isWhole: boolean } | null {
  const values = history?.series[name]?.values;
  if (!history || !values) return null;
  const last = values.length - 1;
  let first = last;
  while (first >= 0 && (values[first] ?? -1) >= line) first--;
  if (first === last) return null;
  const ago = (first + 1) * history.step;
  const from = { boot: history.begin.boot + ago, wall: history.begin.wall + ago };
  return { from, isWhole: first >= 0 && values[first] != null };
}

const TOLD = { spans: "Which conditions and thresholds held", events: "What happened", minutes: "Which cgroups made others wait" };

/** What the agent does not know of the time that was asked for, as a sentence; empty: it knows all. */
export function unknownOf(events: HistoryEvents | null, of: keyof typeof TOLD): string {
  if (!events) return "There is no answer yet.";
  const { begin, end, knownSince: { [of]: since } } = events;
  if (!since || since.boot >= end.boot) return `${TOLD[of]} in this time is not known.`;
  return since.boot > begin.boot ? `${TOLD[of]} before ${clock(since.wall, end.wall)} is not known.` : "";
}

/** What holds at the end of the time that was asked for. */
export const openSpans = (events: HistoryEvents | null) => events?.spans.filter(({ end, state }) => end == null && state !== "Unknown") ?? [];

export interface MetNow {
  name: string;
  state: "met" | "due";
  begin: Moment;
}

/** The name of a threshold, as the agent has it. */
function nameOf(threshold: Trigger): string {
  if ("eviction" in threshold) return threshold.eviction.signal;
  const { scope, on } = threshold.pressure;
  const of = Object.keys(on)[0] ?? "";
  return of === "exhaustion" || of === "refaults" ? `${scope}.memory.${of}` : `${scope}.${of}.pressure`;
}

/** The thresholds that are met, from the tick itself: the history may not reach back to it. */
export function metNow({ at, decision }: Snapshot, events: HistoryEvents | null): MetNow[] {
  return decision.assessment.met.map(({ threshold, since, isDue }) => {
    const [name, state] = [nameOf(threshold), isDue ? "due" : "met"] as const;
    const { grace } = "eviction" in threshold ? threshold.eviction : threshold.pressure;
    const boot = Math.min(at.boot, since + (isDue ? grace : 0));
    const known = openSpans(events).find((span) => span.name === name && span.state === state);
    return { name, state, begin: known?.begin ?? { boot, wall: at.wall - (at.boot - boot) } };
  });
}

/** What to shade of a chart of the node: whenever a condition of its resource was True, and when its
 * own was Unknown. */
export function shaded(events: HistoryEvents | null, own: string | undefined, all: string[]): Span[] {
  const isWorth = ({ name, state }: Span) =>
    (state === "True" && all.includes(name)) || (state === "Unknown" && name === own);
  return events?.spans.filter((span) => span.kind === "condition" && isWorth(span)) ?? [];
}

/** The time shown begins more than an hour before an agent's newest tick. */
function isOld(film: Film | null, { span }: Route): boolean {
  const [end, shown] = [film?.recording.end, film?.shown];
  return end != null && shown != null && (end.wall - shown.at.wall) / SECOND + span >= HOUR - MINUTE;
}

/** Seconds. */
const lengthOf = ({ begin, end }: Recording) => ((end?.wall ?? 0) - (begin?.wall ?? 0)) / SECOND;

/** At least so much of the last hour is drawn, in seconds. */
const LEAST = 600;

/** Without the time before the first figure, which is that before the agent or its recording began. */
export function sinceKnown(history: History | null): History | null {
  if (!history) return null;
  const of = Object.values(history.series).map(({ values }) => values);
  const length = Math.max(0, ...of.map((values) => values.length));
  const firsts = of.map((values) => values.findIndex((value) => value != null)).filter((first) => first >= 0);
  const cut = Math.max(0, Math.min(length, ...firsts, length - Math.ceil((LEAST * SECOND) / history.step)));
  const begin = { boot: history.begin.boot + cut * history.step, wall: history.begin.wall + cut * history.step };
  const cutOff = (one: Series): Series => ({ ...one, values: one.values.slice(cut), ...(one.peaks && { peaks: one.peaks.slice(cut) }) });
  const series = Object.entries(history.series).map(([name, one]) => [name, cutOff(one)]);
  return { ...history, begin, series: Object.fromEntries(series) };
}
