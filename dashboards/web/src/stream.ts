// The live stream: the newest view, whether it is stale, and what the last minutes of it were.

import { useEffect, useState } from "preact/hooks";
import type { Blame, Nanos, Percent, Snapshot } from "./api";
import { worstShare } from "./waits";

const STALE_AFTER = 3; // seconds: one lost tick is normal
const RETRY = 2_000; // milliseconds
const KEPT = 60; // ticks

export type Link = "opening" | "live" | "stale" | "paused" | "recorded";

/** One tick that has passed while this page was open. */
export interface Past {
  tick: number;
  wall: Nanos;
  interval: Nanos;
  aggressions: Blame[];
  /** The largest share of time in which a cgroup waited, by its id. */
  waits: Record<string, Percent | null>;
}

export interface Live {
  view: Snapshot | null;
  link: Link;
  /** Seconds since the newest view came. */
  age: number;
  /** Oldest first; of this agent alone. */
  past: Past[];
  /** Ticks that the agent did not send, because this page or the network was too slow. */
  missed: number;
}

let newest: Snapshot | null = null;
let arrived = 0; // performance.now(): independent of the wall clock
let past: Past[] = [];
let missed = 0;
let stream: EventSource | null = null;
let retry = 0; // the timer of the next attempt
let live: Live = { view: null, link: "opening", age: 0, past, missed };
const readers = new Set<(live: Live) => void>();

/** A view with its changes, a JSON Merge Patch (RFC 7396). What does not change is shared. */
function patched(view: unknown, changes: unknown): unknown {
  if (changes === null || typeof changes !== "object" || Array.isArray(changes)) return changes;
  const isObject = view !== null && typeof view === "object" && !Array.isArray(view);
  const next: Record<string, unknown> = isObject ? { ...view } : {};
  for (const [name, change] of Object.entries(changes)) {
    if (change === null) delete next[name];
    else next[name] = patched(next[name], change);
  }
  return next;
}

export function tell(next: Partial<Live>) {
  live = { ...live, ...next };
  for (const reader of readers) reader(live);
}

function remember(view: Snapshot) {
  const isOther = newest !== null && newest.started.wall !== view.started.wall;
  const waits = Object.fromEntries(Object.entries(view.scopes).map(([id, scope]) => [id, worstShare(scope)]));
  const { tick, interval, aggressions, at } = view;
  past = [...(isOther ? [] : past), { tick, interval, aggressions, wall: at.wall, waits }].slice(-KEPT);
}

/** Adds ticks from before this page was opened. */
export function prepend(earlier: Past[]) {
  const first = past[0]?.wall ?? 0;
  past = [...earlier.filter(({ wall }) => wall < first), ...past].slice(-KEPT);
  if (!isHeld()) tell({ past });
}

/** Another view than the newest is shown. */
const isHeld = () => live.link === "paused" || live.link === "recorded";

/** The newest view of the stream, also while another one is shown. */
export const newestView = () => newest;

/** What is shown: while the page is paused, the view of then. */
export const shownView = () => live.view;

function take(view: Snapshot) {
  remember(view);
  newest = view;
  arrived = performance.now();
  if (isHeld()) return;
  tell({ view, past, link: "live", age: 0 });
}

function close() {
  clearTimeout(retry);
  stream?.close();
}

/** Opens the only stream: an attempt that was due while the page was away would be a second one. */
function open() {
  close();
  // What came between is told as a gap, also by another agent.
  const after = newest ? `&last=${newest.tick}` : "";
  const own = new EventSource(`api/v1/stream?delta=1${after}`);
  stream = own;
  own.addEventListener("sample", ({ data }) => take(JSON.parse(data)));
  own.addEventListener("delta", ({ data }) => {
    if (newest) take(patched(newest, JSON.parse(data)) as Snapshot);
  });
  own.addEventListener("gap", ({ data }) => {
    const { from, to } = JSON.parse(data);
    missed += to - from + 1;
    tell({ missed });
  });
  own.addEventListener("error", () => {
    // A browser reconnects by itself after a broken connection, but not after a 503, nor always
    // after a refused connection: closing and reopening works for all of them.
    own.close();
    if (own === stream) retry = setTimeout(open, RETRY);
  });
}

function look() {
  if (newest === null || isHeld()) return;
  const age = Math.floor((performance.now() - arrived) / 1_000);
  const link = age >= STALE_AFTER ? "stale" : "live";
  if (link !== live.link || age !== live.age) tell({ link, age });
}

/** Opens the stream, for as long as the page lives. */
export function start() {
  open();
  setInterval(look, 1_000);
  // A browser may keep a page that was left. With its stream open it would take one of six connections
  // that the browser has to this server, and one of the agent's streams.
  addEventListener("pagehide", close);
  addEventListener("pageshow", ({ persisted }) => persisted && open());
}

export function pause(isPaused: boolean) {
  if (isPaused) return tell({ link: "paused" });
  tell({ link: newest ? "live" : "opening", view: newest, past });
  look();
}

export function useLive(): Live {
  const [now, set] = useState(live);
  useEffect(() => {
    readers.add(set);
    set(live);
    return () => void readers.delete(set);
  }, []);
  return now;
}
