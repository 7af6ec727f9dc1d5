// A recording, moment by moment: which one is shown, and how it goes on. A moment is a parameter of
// each request, so what one page does changes nothing for another.

import { useEffect, useState } from "preact/hooks";
import type { KeptIncident, Moment, Recording, Snapshot, Ticks } from "./api";
import { momentOf, pin } from "./route";
import { tell } from "./stream";
import { SECOND, showUtc } from "./words";

const READING = 2_000; // milliseconds from one look at what was read of the recording to the next
const BEAT = 500; // milliseconds between two moments that are played, where ticks are passed over
const MILLI = 1e6;

/** How fast a recording is played: seconds in a second. 1: tick by tick, one in a second. */
export const SPEEDS = [1, 10, 60] as const;

export interface Film {
  recording: Recording;
  incidents: KeptIncident[];
  /** The tick that is shown. */
  shown: { tick: number; at: Moment } | null;
  isPlaying: boolean;
  speed: number;
  /** Why the last moment could not be shown. */
  problem: string | null;
}

/** null: an agent is asked. */
let film: Film | null = null;
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

function change(next: Partial<Film>) {
  if (!film) return;
  film = { ...film, ...next };
  for (const reader of readers) reader(film);
}

/** The first whole millisecond after a tick: times in links are whole milliseconds, ticks are not. */
const after = ({ wall }: Moment) => Math.floor(wall / MILLI) + 1;

const iso = (at: number) => new Date(at).toISOString();

/** The parameter that asks for the moment that is shown; empty where an agent is asked. */
export const momentQuery = (of: Film | null) => (of?.shown ? `at=${iso(after(of.shown.at))}` : "");

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await fetch(path, signal ? { signal } : {});
  const body = await response.json();
  if (!response.ok) throw new Error(body.message);
  return body;
}

/** Shows the last tick before `at`, or the one beside it; true if it is another than before. */
async function show(at: number, then?: "next" | "previous"): Promise<boolean> {
  asked?.abort();
  const own = new AbortController();
  asked = own;
  try {
    const beside = then ? `&then=${then}` : "";
    const view = await get<Snapshot>(`api/v1/snapshot?at=${iso(at)}${beside}`, own.signal);
    const { ticks } = await get<Ticks>(`api/v1/recording/ticks?at=${iso(after(view.at))}`, own.signal);
    const past = ticks.map(({ at, ...tick }) => ({ ...tick, wall: at.wall }));
    const isOther = film?.shown?.at.wall !== view.at.wall;
    pin(after(view.at));
    change({ shown: { tick: view.tick, at: view.at }, problem: null });
    tell({ view, past, link: "recorded" });
    return isOther;
  } catch (why) {
    if (own.signal.aborted) return false;
    change({ problem: why instanceof TypeError ? "isobar replay does not answer: it may have ended." : String(why), isPlaying: false });
    return false;
  }
}

/** Goes to a time, in milliseconds since 1970. */
export function seek(at: number, then?: "next" | "previous") {
  if (!film?.recording.begin || !film.recording.end) return;
  const [least, most] = [after(film.recording.begin), after(film.recording.end)];
  return show(Math.min(most, Math.max(least, at)), then);
}

export function step(to: "next" | "previous") {
  play(false);
  if (film?.shown) void seek(after(film.shown.at), to);
}

export function toEnd(which: "begin" | "end") {
  play(false);
  const at = film?.recording[which];
  if (at) void seek(after(at));
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
  const shown = film?.shown;
  if (!film || !shown) return;
  const [from, tick] = [shown.at.wall, shown.tick];
  const others = marked(film.recording).filter((event) => event.tick !== tick);
  const next = others.find(({ at, tick: own }) => at.wall > from || (at.wall === from && own > tick));
  // The tick that told of an OOM kill is after it.
  const before = others.filter(({ at, kind }) => at.wall < from - (kind === "oomKill" ? SECOND : 0));
  const found = to === "next" ? next : before.at(-1);
  if (found) void goTo(found);
}

export function setSpeed(speed: number) {
  change({ speed });
}

export function play(isPlaying: boolean) {
  if (!film || film.isPlaying === isPlaying) return;
  change({ isPlaying });
  if (isPlaying) void beat();
}

async function beat() {
  const began = performance.now();
  if (!film?.isPlaying || !film.shown) return;
  const [at, ticks] = [after(film.shown.at), film.speed === 1];
  const isOther = (!ticks && (await show(at + film.speed * BEAT))) || (film.isPlaying && (await show(at, "next")));
  if (!film.isPlaying) return;
  if (!isOther) return play(false);
  setTimeout(() => void beat(), Math.max(0, (ticks ? 1_000 : BEAT) - (performance.now() - began)));
}

async function read() {
  try {
    const recording = await get<Recording>("api/v1/recording");
    change({ recording });
  } catch {
    // What is shown says so with the next moment.
  }
  if (!film?.recording.isWhole) setTimeout(() => void read(), READING);
}

/** Begins to show a recording, at the moment in the link; false if this is an agent. */
export async function startFilm(): Promise<boolean> {
  const recording = await get<Recording>("api/v1/recording").catch(() => null);
  if (!recording?.isServed) return false;
  showUtc();
  film = { recording, incidents: [], shown: null, isPlaying: false, speed: 1, problem: null };
  change({});
  if (!recording.isWhole) void read();
  const of = get<{ incidents: KeptIncident[] }>("api/v1/incidents");
  void of.then(({ incidents }) => change({ incidents }), () => {});
  addEventListener("hashchange", () => {
    const at = momentOf(location.hash);
    if (at !== null && film?.shown && at !== after(film.shown.at)) void seek(at);
  });
  await seek(momentOf(location.hash) ?? Math.floor((recording.at ?? 0) / MILLI) + 1);
  return true;
}
