// Who waits, and because of whom: sums and orders of what the agent measured. No DOM here.

import type { Blame, IoRate, Maybe, Nanos, Percent, Resource, Scope, Snapshot } from "./api";
import type { Past } from "./stream";
import { isCgroup, SECOND } from "./words";

/** The largest share of the last ten seconds in which a task of a cgroup waited, and for what; null: not measured. */
export function worst({ pressure, contention, shortage }: Scope): { share: Percent; of: Resource } | null {
  const { cpu, memory, io } = pressure;
  const all: [Resource, Maybe<Percent>][] = [
    ["cpu", cpu?.some?.avg10],
    ["memory", memory?.some?.avg10],
    ["io", io?.some?.avg10],
    ["cpu", contention?.avg10],
    ["memory", shortage?.avg10],
  ];
  const known = all.flatMap(([of, share]) => (share == null ? [] : [{ of, share }]));
  return known.length ? known.reduce((most, one) => (one.share > most.share ? one : most)) : null;
}

export const worstShare = (scope: Scope): Percent | null => worst(scope)?.share ?? null;

/** What cgroups are sorted by. */
export function weight(scope: Scope): number {
  const { cpu, memory, ioWait } = scope;
  const now = Math.max(cpu?.wait.now ?? 0, memory?.any.now ?? 0, ioWait?.now ?? 0);
  return (worstShare(scope) ?? -1) + now / 1e15;
}

/** A pod, or what is no pod and no slice: what an operator calls by a name. */
const isUnit = ({ place, path }: Scope) =>
  place.kind === "pod" || (place.kind === "other" && !path.endsWith(".slice"));

const unitsOf = (view: Snapshot) => Object.values(view.scopes).filter(isUnit);

const isIn = (unit: Scope, path: string | null | undefined) => path === unit.path || path?.startsWith(`${unit.path}/`);

/** The pods and services that wait: those first that lost most by waiting for others, then those that wait most. */
export function sufferers(view: Snapshot, pairs: Blame[], n: number): { scope: Scope; loss: Nanos }[] {
  const units = unitsOf(view);
  const lost = (unit: Scope) =>
    pairs
      .filter(({ victimPath, aggressorPath }) => isIn(unit, victimPath) && !isIn(unit, aggressorPath))
      .reduce((sum, { loss = 0 }) => sum + loss, 0);
  return units
    .filter((scope) => (worstShare(scope) ?? 0) >= 1)
    .map((scope) => ({ scope, loss: lost(scope) }))
    .sort((a, b) => b.loss - a.loss || weight(b.scope) - weight(a.scope))
    .slice(0, n);
}

/** Read and written. */
export const moved = ({ read, written }: IoRate) => read + written;

export interface Pairs {
  pairs: Blame[];
  /** What the sums are of. */
  over: Nanos;
}

/** Less than so much in a second is not worth a name: 10 ms. */
const NOTABLE = 1 / 100;

/** Whether it is a loss of which to speak. */
export const isNotable = (loss: Nanos, over: Nanos) => over > 0 && loss / over >= NOTABLE;

/** What was done to others. */
export interface Harm {
  time: Nanos;
  loss?: Nanos;
}

/** The order of the agent: what cost most first, of equals the longer wait. */
export const byHarm = (a: Harm, b: Harm) => (b.loss ?? 0) - (a.loss ?? 0) || b.time - a.time;

export const plus = (a: Harm, b: Harm) => ({ time: a.time + b.time, loss: (a.loss ?? 0) + (b.loss ?? 0) });

/** The waits of several intervals, by pair of cgroups, those first that cost most. */
export function summed(all: Blame[][]): Blame[] {
  const sums = new Map<string, Blame>();
  for (const blame of all.flat()) {
    const pair = `${blame.victim} ${blame.aggressor}`;
    const known = sums.get(pair);
    sums.set(pair, known ? { ...known, ...plus(known, blame) } : blame);
  }
  return [...sums.values()].sort(byHarm);
}

/** The waits of the last seconds that this page has seen. */
export function lately(past: Past[], seconds: number): Pairs {
  const last = past.at(-1);
  if (!last) return { pairs: [], over: 0 };
  const kept = past.filter(({ wall }) => wall > last.wall - seconds * SECOND);
  const over = kept.reduce((sum, { interval }) => sum + interval, 0);
  return { pairs: summed(kept.map(({ aggressions }) => aggressions)), over };
}

/** The cgroups because of which others lost most, greatest first; not what a pod lost to its own containers. */
export function aggressors(view: Snapshot, pairs: Blame[], n: number) {
  const units = unitsOf(view).filter(({ place }) => place.kind === "pod");
  const isOwn = ({ victimPath, aggressorPath }: Blame) => units.some((unit) => isIn(unit, victimPath) && isIn(unit, aggressorPath));
  const harm = new Map<number, { id: number; path: string | null | undefined; time: Nanos; loss: Nanos }>();
  for (const blame of pairs) {
    const { aggressor: id, aggressorPath: path, time, loss = 0 } = blame;
    if (!isCgroup(blame) || loss === 0 || isOwn(blame)) continue;
    const known = harm.get(id);
    harm.set(id, known ? { ...known, ...plus(known, blame) } : { id, path, time, loss });
  }
  return [...harm.values()].sort(byHarm).slice(0, n);
}
