// Names, words and rows of a view. No DOM here.

const short = (id) => (id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);

/** A view with its changes, a JSON Merge Patch (RFC 7396). What does not change is shared. */
export function patched(view, changes) {
  if (changes === null || typeof changes !== "object" || Array.isArray(changes)) return changes;
  const next = view !== null && typeof view === "object" && !Array.isArray(view) ? { ...view } : {};
  for (const [name, change] of Object.entries(changes)) {
    if (change === null) delete next[name];
    else next[name] = patched(next[name], change);
  }
  return next;
}

/** The last part of a path, and its parent. */
function ofPath(path) {
  const parts = path.split("/").filter(Boolean);
  const name = parts.pop();
  return name ? { name, sub: parts.length ? `in /${parts.join("/")}` : "" } : { name: "the root cgroup", sub: "" };
}

/** The name of a cgroup: its pod or container if it is one. */
export function nameOf({ place, path, name }) {
  if (name) return { name, sub: path };
  switch (place.kind) {
    case "node": return { name: "the node", sub: "" };
    case "kubepods": return { name: "all pods", sub: path };
    case "qos": return { name: `all ${place.class} pods`, sub: path };
    case "pod": return { name: `pod ${short(place.uid)}`, sub: `${place.class}, ${place.uid}` };
    case "container":
      return { name: `container ${place.id.slice(0, 12)}`, sub: `${place.class}, pod ${place.pod}` };
    default: return ofPath(path);
  }
}

/** What the agent does about a decision. */
export function mode({ capabilities }) {
  return capabilities.find(({ name }) => name === "relief")?.detail ?? "not reported by the agent";
}

/** The largest share of the last ten seconds in which a task of a scope waited. */
export function worstShare({ pressure, contention, shortage }) {
  const some = (file) => file?.some?.avg10 ?? 0;
  return Math.max(some(pressure.cpu), some(pressure.memory), some(pressure.io), contention?.avg10 ?? 0, shortage?.avg10 ?? 0);
}

/** What rows are sorted by. */
function weight(scope) {
  const { cpu, memory, ioWait } = scope;
  return [worstShare(scope), Math.max(cpu?.wait.now ?? 0, memory?.any.now ?? 0, ioWait?.now ?? 0)];
}

const LEVELS = {
  units: ({ place, path }) => place.kind === "pod" || (place.kind === "other" && !path.endsWith(".slice")),
  containers: ({ place, path }) => place.kind === "container" || (place.kind === "other" && !path.endsWith(".slice")),
  all: () => true,
};

/** The scopes of a level that wait, sorted by weight. */
export function shown(view, level) {
  return Object.values(view.scopes)
    .filter(LEVELS[level])
    .map((scope) => [weight(scope), scope])
    .filter(([[share, nanos]]) => share > 0 || nanos > 0)
    .sort(([a], [b]) => b[0] - a[0] || b[1] - a[1])
    .map(([, scope]) => scope);
}

/** The parts of a scope's CPU wait; none if it was not measured. */
export function cpuWait({ cpu }) {
  if (!cpu?.contention) return [];
  return [
    { kind: "others", words: "contention", nanos: cpu.contention.now },
    { kind: "own", words: "own quota", nanos: cpu.throttledOwn.now },
    { kind: "above", words: "quota above", nanos: cpu.throttledAncestor.now },
  ];
}

/** Aggressors that are no cgroup, by id; the largest u64 as JSON.parse reads it. */
const NO_CGROUP = {
  0: { name: "none", sub: "wake-up latency of an idle CPU" },
  [2 ** 64]: { name: "unknown", sub: "too long ago" },
};

const CAUSES = {
  ownLimit: "own limit", ownHigh: "own memory.high", ancestorLimit: "limit above",
  allocatableLimit: "allocatable limit", someLimit: "some limit", global: "node shortage",
  compaction: "compaction", refault: "refaults", swapIn: "swap-in",
  kernelThread: "kernel threads", other: "other",
};

/** A scope's memory stalls in this interval, by cause, sorted by time. */
export function memoryCauses({ memory }) {
  return Object.entries(memory?.causes ?? {})
    .filter(([, wait]) => wait.time.now > 0)
    .sort(([, a], [, b]) => b.time.now - a.time.now)
    .map(([cause, wait]) => `${CAUSES[cause] ?? cause} ${(wait.time.now / 1e6).toFixed(0)} ms`)
    .join(", ");
}

/** The name of a cgroup that may be removed: by its place if it still exists, else by its path. */
export function called(view, id, path) {
  const scope = view.scopes[id];
  if (scope) return nameOf(scope);
  return path ? ofPath(path) : { name: "removed cgroup", sub: `id ${id}` };
}

/** Sufferers and aggressors, sorted by time, each with its share of the sufferer's wait. */
export function blameRows(view) {
  const ofVictim = {};
  for (const { victim, time } of view.aggressions) ofVictim[victim] = (ofVictim[victim] ?? 0) + time;
  return view.aggressions.slice(0, 15).map(({ victim, victimPath, aggressor, aggressorPath, time }) => ({
    victim: called(view, victim, victimPath),
    aggressor: NO_CGROUP[aggressor] ?? called(view, aggressor, aggressorPath),
    nanos: time,
    share: ofVictim[victim] ? time / ofVictim[victim] : 0,
  }));
}
