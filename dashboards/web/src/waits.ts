// Who waits, and because of whom: sums and orders of what the agent measured. No DOM here.

import type { Blame, Nanos, Percent, Scope, Snapshot } from "./api";
import type { Past } from "./stream";
import { isCgroup, SECOND } from "./words";

/** The largest share of the last ten seconds in which a task of a cgroup waited; null: not measured. */
export function worstShare({ pressure, contention, shortage }: Scope): Percent | null {
  const { cpu, memory, io } = pressure;
  const all = [cpu?.some?.avg10, memory?.some?.avg10, io?.some?.avg10, contention?.avg10, shortage?.avg10];
  const known = all.filter((share) => share != null);
  return known.length ? Math.max(...known) : null;
}

/** What cgroups are sorted by. */
export function weight(scope: Scope): number {
  const { cpu, memory, ioWait } = scope;
  const now = Math.max(cpu?.wait.now ?? 0, memory?.any.now ?? 0, ioWait?.now ?? 0);
  return (worstShare(scope) ?? -1) + now / 1e15;
}

/** A pod, or what is no pod and no slice: what an operator calls by a name. */
export const isUnit = ({ place, path }: Scope) =>
  place.kind === "pod" || (place.kind === "other" && !path.endsWith(".slice"));

/** The pods and services that wait most. */
export function sufferers(view: Snapshot, n: number): Scope[] {
  const units = Object.values(view.scopes).filter(isUnit);
  return units
    .filter((scope) => (worstShare(scope) ?? 0) >= 1)
    .sort((a, b) => weight(b) - weight(a))
    .slice(0, n);
}

export interface Pairs {
  pairs: Blame[];
  /** What the sums are of. */
  over: Nanos;
}

/** The waits of several intervals, by pair of cgroups, longest first. */
export function summed(all: Blame[][]): Blame[] {
  const sums = new Map<string, Blame>();
  for (const blame of all.flat()) {
    const pair = `${blame.victim} ${blame.aggressor}`;
    const known = sums.get(pair);
    sums.set(pair, known ? { ...known, time: known.time + blame.time } : blame);
  }
  return [...sums.values()].sort((a, b) => b.time - a.time);
}

/** The waits of the last seconds that this page has seen. */
export function lately(past: Past[], seconds: number): Pairs {
  const last = past.at(-1);
  if (!last) return { pairs: [], over: 0 };
  const kept = past.filter(({ wall }) => wall > last.wall - seconds * SECOND);
  const over = kept.reduce((sum, { interval }) => sum + interval, 0);
  return { pairs: summed(kept.map(({ aggressions }) => aggressions)), over };
}

/** The cgroups that made others wait, longest first: waits for a cgroup's own tasks are not counted. */
export function aggressors(pairs: Blame[], n: number) {
  const harm = new Map<number, { id: number; path: string | null | undefined; time: Nanos; of: Blame }>();
  for (const blame of pairs) {
    if (!isCgroup(blame) || blame.aggressor === blame.victim) continue;
    const known = harm.get(blame.aggressor);
    const { aggressor: id, aggressorPath: path, time } = blame;
    harm.set(id, known ? { ...known, time: known.time + time } : { id, path, time, of: blame });
  }
  return [...harm.values()].sort((a, b) => b.time - a.time).slice(0, n);
}
