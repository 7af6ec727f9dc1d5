// A recording, moment by moment: which one is shown, and how it goes on. It is one that was opened, or
// an agent's own, which the page leaves for the present at any time. A moment is a parameter of each
// request, so what one page does changes nothing for another.

import { useEffect, useState } from "preact/hooks";
import type { KeptIncident, Moment, Recording, Snapshot, Ticks } from "./api";
import { momentOf, pin } from "./route";
import { newestView, type Past, pause, prepend, shownView, start, tell, useLive } from "./stream";
import { SECOND, showUtc } from "./words";

const READING = 2_000; // milliseconds from one look at what was read of the recording to the next
const BEAT = 500; // milliseconds between two moments that are played, where ticks are passed over
const AGAIN = 10_000; // milliseconds: what an agent has recorded meanwhile
const TRIES = 5; // while an agent is busy
const LONGEST = 10; // seconds from one try to the next, whatever the agent says
const MILLI = 1e6;

/** How fast a recording is played: seconds in a second. 1: tick by tick, one in a second. */
export const SPEEDS = [1, 10, 60] as const;

export interface Film {
  recording: Recording;
  incidents: KeptIncident[];
  /** The tick that is shown; null while an agent is followed. */
  shown: { tick: number; at: Moment } | null;
  /** Seconds that the line spans; 0: all. */
  reach: number;
  isPlaying: boolean;
  /** Another moment was asked for and has not come yet. */
  isReading: boolean;
  /** The agent reads other moments, and the page asks again. */
  isBusy: boolean;
  speed: number;
  /** Why the last moment could not be shown. */
  problem: string | null;
}

/** null: there is no recording. */
let film: Film | null = null;
let absent: string | null = null;
let asked: AbortController | null = null;
const readers = new Set<(film: Film | null) => void>();

export function useFilm(): Film | null {
  const [now, set] = useState(film);
  useEffect(() => {
    readers.add(set);
    set(film);
    return () => void readers.delete(set);
  }, []);
  return now;
}

/** The recording where a moment of it is shown, also that at which the page is paused; null while an
 * agent is followed. */
export function usePast(): Film | null {
  const film = useFilm();
  const { link, view } = useLive();
  if (!film || !isFollowing(film)) return film;
  return link === "paused" && view ? { ...film, shown: view } : null;
}

/** Why an agent cannot show earlier moments, in its words. */
export const whyAbsent = () => absent;

export const isFollowing = ({ recording, shown }: Film) => recording.isLive && !shown;

/** The newest moment that can be shown. */
export function endOf({ recording }: Film): Moment | null {
  const newest = recording.isLive ? newestView()?.at : null;
  return newest ?? recording.end ?? null;
}

/** From when on all is known that happened, on the wall clock as it goes now: while an agent's node was up
 * it may have been set. Infinity: nothing is known. */
export function knownFrom({ isLive, end, knownSince }: Recording): number {
  if (!knownSince) return Infinity;
  return isLive && end ? Math.min(knownSince.wall, end.wall - (end.boot - knownSince.boot)) : knownSince.wall;
}

/** Where the line may begin, on the wall clock. */
export function beginOf({ recording }: Film): number | null {
  return recording.begin ? Math.min(recording.begin.wall, knownFrom(recording)) : null;
}

function change(next: Partial<Film>) {
  if (!film) return;
  film = { ...film, ...next };
  for (const reader of readers) reader(film);
}

/** The first whole millisecond after a tick: times in links are whole milliseconds, ticks are not. */
export const after = ({ wall }: Pick<Moment, "wall">) => Math.floor(wall / MILLI) + 1;

const iso = (at: number) => new Date(at).toISOString();

/** The parameter that asks for the moment that is shown; empty where an agent is asked. */
export const momentQuery = (of: Film | null) => (of?.shown ? `at=${iso(after(of.shown.at))}` : "");

/** It has other moments to read first, which says nothing of what it has recorded. */
class Busy extends Error {}

async function get<T>(path: string, signal?: AbortSignal, tries = TRIES): Promise<T> {
  const response = await fetch(path, signal ? { signal } : {});
  const body = await response.json();
  if (response.ok) return body;
  if (response.status !== 503) throw new Error(body.message);
  if (tries <= 1) throw new Busy(body.message);
  change({ isBusy: true });
  const seconds = Math.min(LONGEST, Math.max(1, Number(response.headers.get("retry-after")) || 1));
  await new Promise((done) => setTimeout(done, seconds * 1_000));
  return get<T>(path, signal, tries - 1).finally(() => change({ isBusy: false }));
}

/** The last minute before a moment, tick by tick. */
async function ticksBefore(at: Moment, signal?: AbortSignal): Promise<Past[]> {
  const { ticks } = await get<Ticks>(`api/v1/recording/ticks?at=${iso(after(at))}`, signal);
  return ticks.map(({ at, ...tick }) => ({ ...tick, wall: at.wall }));
}

let isFilled = false;

/** Takes what this page has not seen of the last minute from the agent's recording, once. */
async function fill() {
  const view = newestView();
  if (!view || isFilled) return;
  isFilled = true;
  try {
    prepend(await ticksBefore(view.at));
  } catch {
    // The minute fills by itself.
    isFilled = false;
  }
}

/** For a view that sums up the last minute. */
export function useLastMinute() {
  const film = useFilm();
  const isToFill = film !== null && isFollowing(film) && newestView() !== null;
  useEffect(() => {
    if (isToFill) void fill();
  }, [isToFill]);
}

/** Shows the last tick before `at`, or the one beside it; whether it is another than before, and null if
 * another moment was asked for meanwhile. */
async function show(at: number, then?: "next" | "previous"): Promise<boolean | null> {
  asked?.abort();
  const own = new AbortController();
  asked = own;
  change({ isReading: true });
  try {
    const beside = then ? `&then=${then}` : "";
    const view = await get<Snapshot>(`api/v1/snapshot?at=${iso(at)}${beside}`, own.signal);
    const past = await ticksBefore(view.at, own.signal);
    if (own.signal.aborted) return null;
    const isOther = film?.shown?.at.wall !== view.at.wall;
    pin(after(view.at));
    change({ shown: { tick: view.tick, at: view.at }, isReading: false, problem: null });
    tell({ view, past, link: "recorded" });
    return isOther;
  } catch (why) {
    if (own.signal.aborted) return null;
    change({ problem: why instanceof TypeError ? (film?.recording.isLive ? "The agent does not answer." : "isobar replay does not answer: it may have ended.") : String(why), isPlaying: false, isReading: false });
    return false;
  }
}

/** Goes to a time, in milliseconds since 1970. */
export function seek(at: number, then?: "next" | "previous") {
  const [wall, end] = [film && beginOf(film), film && endOf(film)];
  if (wall === null || !end) return;
  return show(Math.min(after(end), Math.max(after({ wall }), at)), then);
}

/** Follows the agent again. */
export function toLive() {
  play(false);
  asked?.abort();
  pin(null);
  change({ shown: null, isReading: false, problem: null });
  pause(false);
}

/** Where a step begins: the tick that is shown. */
function from(): { tick: number; at: Moment } | null {
  return film?.shown ?? shownView();
}

export function step(to: "next" | "previous") {
  play(false);
  const own = from();
  if (own && (film?.shown || to === "previous")) void seek(after(own.at), to);
}

export function toEnd(which: "begin" | "end") {
  if (which === "end" && film?.recording.isLive) return toLive();
  play(false);
  const at = film?.recording[which];
  if (at) void seek(after(at));
}

export function setReach(reach: number) {
  change({ reach });
}

/** What is worth a look: not that an average has seen enough to judge by. */
export const marked = ({ events }: Recording) => events.filter(({ reason }) => reason !== "PressureKnown");

/** Goes to an event; that of an OOM kill is before the tick that tells of it. */
export function goTo({ at, kind }: { at: Moment; kind: string }) {
  play(false);
  return seek(after(at), kind === "oomKill" ? "next" : undefined);
}

/** Goes to the nearest event after or before what is shown. */
export function jump(to: "next" | "previous") {
  const shown = from();
  if (!film || !shown) return;
  const [wall, tick] = [shown.at.wall, shown.tick];
  const others = marked(film.recording).filter((event) => event.tick !== tick || event.at.wall < wall - SECOND);
  const next = others.find(({ at, tick: own }) => at.wall > wall || (at.wall === wall && own > tick));
  // The tick that told of an OOM kill is after it.
  const before = others.filter(({ at, kind }) => at.wall < wall - (kind === "oomKill" ? SECOND : 0));
  const found = to === "next" ? next : before.at(-1);
  if (found) void goTo(found);
}

export function setSpeed(speed: number) {
  change({ speed });
}

export function play(isPlaying: boolean) {
  if (!film || film.isPlaying === isPlaying || (isPlaying && !film.shown)) return;
  change({ isPlaying });
  if (isPlaying) void beat();
}

async function beat() {
  const began = performance.now();
  if (!film?.isPlaying || !film.shown) return;
  const [at, ticks] = [after(film.shown.at), film.speed === 1];
  let isOther = ticks ? false : await show(at + film.speed * BEAT);
  if (isOther === false && film.isPlaying) isOther = await show(at, "next");
  // A reader has gone elsewhere, or has stopped it.
  if (isOther === null || !film.isPlaying) return;
  if (!isOther) return film.recording.isLive ? toLive() : play(false);
  setTimeout(() => void beat(), Math.max(0, (ticks ? 1_000 : BEAT) - (performance.now() - began)));
}

async function readIncidents() {
  try {
    const { incidents } = await get<{ incidents: KeptIncident[] }>("api/v1/incidents");
    change({ incidents });
  } catch {
    // They are marks on the line only: it is there without them.
  }
}

const BUSY = "the agent is reading other moments, and this page asks it again";

async function read() {
  try {
    const recording = await get<Recording>("api/v1/recording");
    if (film) change({ recording });
    else if (recording.isServed) await begin(recording);
    absent = recording.isServed ? null : (recording.problem ?? null);
    if (recording.isLive) await readIncidents();
  } catch (why) {
    // Of what is shown already the next moment says it.
    if (why instanceof Busy) absent = BUSY;
  }
  const isLive = !film || film.recording.isLive;
  if (isLive || !film?.recording.isWhole) setTimeout(() => void read(), isLive ? AGAIN : READING);
}

async function begin(recording: Recording) {
  const { isLive } = recording;
  if (!isLive) showUtc();
  const reach = isLive ? 3_600 : 0;
  film = { recording, incidents: [], shown: null, isPlaying: false, isReading: false, isBusy: false, speed: 1, reach, problem: null };
  change({});
  void readIncidents();
  addEventListener("hashchange", ({ oldURL, newURL }) => {
    // Not the link of now: the moment that came last may have been put into it meanwhile.
    const [before, at] = [momentOf(oldURL), momentOf(newURL)];
    if (at !== null && at !== before && (!film?.shown || at !== after(film.shown.at))) {
      play(false);
      void seek(at);
    } else if (at === null && isLive && film?.shown) toLive();
  });
  const at = momentOf(location.hash) ?? (isLive ? null : Math.floor((recording.at ?? 0) / MILLI) + 1);
  if (at !== null) await seek(at);
}

/** Shows a recording, at the moment in the link, or follows an agent, and goes back in what it has
 * recorded as a reader asks for it. */
export async function startFilm() {
  // The present waits for a busy agent no longer than that takes to say so, which is 5 s.
  const recording = await get<Recording>("api/v1/recording", undefined, 1).catch((why) => {
    if (why instanceof Busy) absent = BUSY;
    return null;
  });
  const isLive = recording?.isLive ?? true;
  if (recording?.isServed === false) absent = recording.problem ?? null;
  if (isLive) start();
  if (!recording) return void read();
  if (recording.isServed) await begin(recording);
  if (isLive || !recording.isWhole) setTimeout(() => void read(), isLive ? AGAIN : READING);
}
