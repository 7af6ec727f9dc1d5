// Names and figures as text. No DOM here.

import type { Blame, Bytes, Moment, Nanos, Percent, Resource, Runner, Scope, Snapshot } from "./api";

/** What stands where nothing was measured. */
export const UNKNOWN = "–";
export const SECOND = 1e9;

export const RESOURCES: Record<Resource, string> = { cpu: "CPU", memory: "Memory", io: "IO" };

const isKnown = <T>(value: T | null | undefined): value is T => value !== null && value !== undefined;

export function percent(share: Percent | null | undefined): string {
  return isKnown(share) ? `${share.toFixed(share < 10 ? 2 : 1)} %` : UNKNOWN;
}

export function bytes(n: Bytes | null | undefined): string {
  if (!isKnown(n)) return UNKNOWN;
  if (n === 0) return "0";
  const units = [" bytes", "Ki", "Mi", "Gi", "Ti"];
  let [value, unit] = [n, 0];
  while (Math.abs(value) >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 || Math.abs(value) >= 10 ? Math.trunc(value) : value.toFixed(1)}${units[unit]}`;
}

/** A length of time as a measurement: three digits. */
export function time(nanos: Nanos | null | undefined): string {
  if (!isKnown(nanos)) return UNKNOWN;
  if (nanos === 0) return "0";
  if (nanos < 1e3) return `${nanos.toFixed(0)} ns`;
  if (nanos < 1e6) return `${(nanos / 1e3).toFixed(0)} µs`;
  if (nanos < 1e9) return `${(nanos / 1e6).toFixed(nanos < 1e7 ? 1 : 0)} ms`;
  return nanos < 60e9 ? `${(nanos / 1e9).toFixed(1)} s` : age(nanos);
}

/** A length of time as an age: its two largest units. */
export function age(nanos: Nanos): string {
  const seconds = Math.max(0, Math.floor(nanos / SECOND));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

let isUtc = false;

/** From now on times are in UTC: a recording may be of another part of the world. */
export function showUtc() {
  isUtc = true;
}

/** What stands behind a time in full. */
export const zone = () => (isUtc ? " UTC" : "");

/** The time of day, and the date if it is another day than `now`. */
export function clock(wall: Nanos, now: Nanos = wall): string {
  const [at, today] = [new Date(wall / 1e6), new Date(now / 1e6)];
  const two = (n: number) => String(n).padStart(2, "0");
  if (isUtc) {
    const [day, hour] = at.toISOString().split(/[T.]/);
    return day === today.toISOString().slice(0, 10) ? `${hour}` : `${day} ${hour}`;
  }
  const hour = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === today.toDateString()) return hour;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${hour}`;
}

/**
 * Where on the line from `begin` to `end` a moment is, from 0 to 1. Of the wall clock where the line spans
 * more than one boot: that since boot begins anew there.
 */
export function partOf(at: Nanos, begin: Nanos, end: Nanos): number {
  return Math.min(1, Math.max(0, (at - begin) / (end - begin) || 0));
}

/** `since 03:12:40 (4 min 2 s)`. */
export function since(from: Moment, now: Moment): string {
  return `since ${clock(from.wall, now.wall)} (${age(now.boot - from.boot)})`;
}

export interface Name {
  name: string;
  sub: string;
}

const short = (id: string) => (id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);

/** The last part of a path, and what it is in. */
export function ofPath(path: string): Name {
  const parts = path.split("/").filter(Boolean);
  const name = parts.pop();
  if (!name) return { name: "the root cgroup", sub: "" };
  return { name, sub: parts.length ? `in /${parts.join("/")}` : "" };
}

/** The name of a cgroup: its pod or container if it is one, as the API server names it if it does. */
export function nameOf({ place, path, name }: Scope): Name {
  if (name) return { name, sub: path };
  switch (place.kind) {
    case "node":
      return { name: "the node", sub: "" };
    case "kubepods":
      return { name: "all pods", sub: path };
    case "qos":
      return { name: `all ${place.class} pods`, sub: path };
    case "pod":
      return { name: `pod ${short(place.uid)}`, sub: `${place.class}, ${place.uid}` };
    case "container":
      return { name: `a container of pod ${short(place.pod)} (id ${place.id.slice(0, 12)})`, sub: `${place.class}, pod ${place.pod}` };
    default:
      return ofPath(path);
  }
}

/** What tells a cgroup from another one of its name: a pod from its container, a service from that of
 * another slice. */
export function apart({ place, path }: Scope): string {
  switch (place.kind) {
    case "pod":
      return "pod";
    case "container":
      return `container ${place.id.slice(0, 12)}`;
    default:
      return ofPath(path).sub || path;
  }
}

/** An aggressor that is not known any more: the largest u64, as JSON.parse reads it. */
const FORGOTTEN = 2 ** 64;

/** The name of a cgroup that may be removed: by its place if it still exists, else by its path. */
export function called(view: Snapshot, id: number, path: string | null | undefined): Name {
  if (id === 0) return { name: "none", sub: "wake-up latency of an idle CPU" };
  if (id === FORGOTTEN) return { name: "unknown", sub: "the wait began too long ago" };
  const scope = view.scopes[String(id)];
  if (scope) return nameOf(scope);
  return path ? ofPath(path) : { name: "removed cgroup", sub: `id ${id}` };
}

/** Whether it is the resource for which a process is named. */
export const isFor = ({ memory, io }: Runner, resource: Resource) => resource === (memory ? "memory" : io != null ? "io" : "cpu");

/** What a process has of memory, and by how much that grows. */
export const ofProcess = ({ memory }: Runner) =>
  memory ? `${bytes(memory.held)}${memory.growth > 0 ? `, growing by ${bytes(memory.growth)}/s` : ""}` : "";

/** The process of a cgroup that uses most of a resource, where the agent has looked for it. */
export function busiest({ runners }: Snapshot, resource: Resource, id: number, path: string | null | undefined): string {
  const isIts = ({ isOfMachine, cgroup }: Runner) => !isOfMachine && (cgroup === id || (cgroup === undefined && path === "/"));
  const first = runners.find((one) => isFor(one, resource) && isIts(one));
  return first ? `most of all ${[`${first.name}, pid ${first.pid}`, ofProcess(first)].filter(Boolean).join(": ")}` : "";
}

export const isCgroup = ({ aggressor }: Blame) => aggressor !== 0 && aggressor !== FORGOTTEN;

/** `namespace/name`, or the path of what is no pod. */
export function fullName({ name, namespace, uid }: { name: string; namespace?: string; uid: string }): string {
  if (uid.startsWith("/")) return uid;
  return namespace ? `${namespace}/${name}` : name;
}

const CAUSES: Record<string, string> = {
  ownLimit: "own limit",
  ownHigh: "own memory.high",
  ancestorLimit: "limit above",
  allocatableLimit: "allocatable limit",
  someLimit: "some limit",
  global: "node shortage",
  compaction: "compaction",
  refault: "refaults",
  swapIn: "swap-in",
  kernelThread: "kernel threads",
  other: "other",
};

export const causeName = (cause: string) => CAUSES[cause] ?? cause;

/** `memoryCauses` as `own limit 190 ms, refaults 3 ms`, longest first. */
export function memoryCauses({ memory }: Scope): string {
  return Object.entries(memory?.causes ?? {})
    .filter(([, wait]) => wait.time.now > 0)
    .sort(([, a], [, b]) => b.time.now - a.time.now)
    .map(([cause, wait]) => `${causeName(cause)} ${time(wait.time.now)}`)
    .join(", ");
}

/** A word in camelCase as words: `harmsOnlyItself`, `harms only itself`. */
export const spaced = (word: string) => word.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** What the agent is allowed to do; empty of a recording that lacks ticks. */
export function mode({ capabilities }: Snapshot): string {
  if (capabilities.length === 0) return "";
  return capabilities.find(({ name }) => name === "relief")?.detail ?? "not reported by the agent";
}

/** As `isobar status` says it: docs/policy.md. */
export const PRESSED_AND_TRUE =
  "Pressed: at least one task waited in 40 % or more of the last 10 s. True: a node condition, by KEP-4205's rule: it begins once its averages of 60 s and 10 s are at its threshold, and ends once that of 60 s is below it.";

/** A first letter as at the start of a sentence, and a full stop at its end. A name stays as it is. */
export function sentence(text: string): string {
  const isWord = /^[a-z]+[ ,;:]/.test(text) || /^[a-z]+$/.test(text);
  const whole = isWord ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
