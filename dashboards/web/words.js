// What a view means in words and rows. No DOM here.

const short = (id) => (id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);

/** A path's own name, and where it is. */
function ofPath(path) {
  const parts = path.split("/").filter(Boolean);
  const name = parts.pop();
  return name ? { name, sub: parts.length ? `in /${parts.join("/")}` : "" } : { name: "the root cgroup", sub: "" };
}

/** What to call a cgroup: by its pod or container where the path tells. */
export function nameOf({ place, path }) {
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

/** How much a scope waits: the worst of its shares over ten seconds, then its task time. */
function weight(scope) {
  const { pressure, contention, shortage, cpu, memory, ioWait } = scope;
  const some = (file) => file?.some?.avg10 ?? 0;
  return [
    Math.max(some(pressure.cpu), some(pressure.memory), some(pressure.io), contention?.avg10 ?? 0, shortage?.avg10 ?? 0),
    Math.max(cpu?.wait.now ?? 0, memory?.any.now ?? 0, ioWait?.now ?? 0),
  ];
}

const LEVELS = {
  units: ({ place, path }) => place.kind === "pod" || (place.kind === "other" && !path.endsWith(".slice")),
  containers: ({ place, path }) => place.kind === "container" || (place.kind === "other" && !path.endsWith(".slice")),
  all: () => true,
};

/** The scopes of a level, the longest waiting first; those that never waited are left out. */
export function shown(view, level) {
  return Object.values(view.scopes)
    .filter(LEVELS[level])
    .map((scope) => [weight(scope), scope])
    .filter(([[share, nanos]]) => share > 0 || nanos > 0)
    .sort(([a], [b]) => b[0] - a[0] || b[1] - a[1])
    .map(([, scope]) => scope);
}

/** A scope's CPU wait in parts; none where it was not measured. */
export function cpuWait({ cpu }) {
  if (!cpu?.contention) return [];
  return [
    { kind: "others", words: "for others", nanos: cpu.contention.now },
    { kind: "own", words: "own quota", nanos: cpu.throttledOwn.now },
    { kind: "above", words: "quota above", nanos: cpu.throttledAncestor.now },
  ];
}

const IDLE = { name: "nobody", sub: "an idle CPU: the time to wake up" };

const CAUSES = {
  ownLimit: "own limit", ownHigh: "own memory.high", ancestorLimit: "limit above",
  allocatableLimit: "allocatable limit", someLimit: "some limit", global: "node short",
  compaction: "compaction", refault: "refaults", swapIn: "swap-in",
  kernelThread: "kernel threads", other: "other",
};

/** What a scope waited for memory in this interval, by cause, longest first. */
export function memoryCauses({ memory }) {
  return Object.entries(memory?.causes ?? {})
    .filter(([, wait]) => wait.time.now > 0)
    .sort(([, a], [, b]) => b.time.now - a.time.now)
    .map(([cause, wait]) => `${CAUSES[cause] ?? cause} ${(wait.time.now / 1e6).toFixed(0)} ms`)
    .join(", ");
}

/** What to call a cgroup that may be gone: by its place if it is still there, else by its path. */
export function called(view, id, path) {
  const scope = view.scopes[id];
  if (scope) return nameOf(scope);
  return path ? ofPath(path) : { name: "a cgroup that is gone", sub: `id ${id}` };
}

/** Who made whom wait, the longest first, each with its share of the victim's wait. */
export function blameRows(view) {
  const ofVictim = {};
  for (const { victim, time } of view.aggressions) ofVictim[victim] = (ofVictim[victim] ?? 0) + time.now;
  return view.aggressions.slice(0, 15).map(({ victim, victimPath, aggressor, aggressorPath, time }) => ({
    victim: called(view, victim, victimPath),
    aggressor: aggressor === 0 ? IDLE : called(view, aggressor, aggressorPath),
    nanos: time.now,
    share: ofVictim[victim] ? time.now / ofVictim[victim] : 0,
  }));
}
