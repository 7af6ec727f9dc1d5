// What the agent answers, as far as this page reads it. Units: docs/api.md. A field that may be
// unknown is null, or absent after a patch: both are "not measured", and neither is zero.

export type Nanos = number;
export type Bytes = number;
/** Percent of wall time. */
export type Percent = number;
export type Maybe<T> = T | null | undefined;

export interface Moment {
  boot: Nanos;
  wall: Nanos;
}

export type Resource = "cpu" | "memory" | "io";
export type Mood = "calm" | "waits" | "pressed" | "unknown";
export type Status = "True" | "False" | "Unknown";

export interface Line {
  avg10: Percent;
  avg60: Percent;
  avg300: Percent;
}

export interface Pressure {
  some: Maybe<Line>;
  full: Maybe<Line>;
}

export interface Union extends Line {
  now: Percent;
}

export interface Waited {
  now: Nanos;
}

export type Place =
  | { kind: "node" | "kubepods" | "other" }
  | { kind: "qos"; class: string }
  | { kind: "pod"; uid: string; class: string }
  | { kind: "container"; pod: string; class: string; id: string };

export interface Scope {
  path: string;
  place: Place;
  name?: string;
  parent: Maybe<number>;
  pressure: Partial<Record<Resource, Maybe<Pressure>>>;
  cpuUsage: Maybe<number>;
  /** What the pod or container requests, in thousandths of a CPU. */
  cpuRequest?: number;
  cpu: Maybe<{
    wait: Waited;
    contention: Maybe<Waited>;
    throttledOwn: Maybe<Waited>;
    throttledAncestor: Maybe<Waited>;
  }>;
  contention: Maybe<Union>;
  /** Contention while it used less than it requests. */
  belowRequest?: Union;
  contentionPerCpu: Percent[];
  memory: Maybe<{ any: Waited; causes: Record<string, { union: Waited; time: Waited }> }>;
  shortage: Maybe<Union>;
  ioWait: Maybe<Waited>;
  io?: IoRate;
  files?: Maybe<{ memory: { current: Maybe<Bytes>; max: Maybe<"max" | { at: Bytes }>; swapCurrent?: Maybe<Bytes>; stat?: Maybe<MemoryStat> } }>;
}

export interface MemoryStat {
  anon: Bytes;
  file: Bytes;
  kernel: Bytes;
  inactiveFile: Bytes;
  activeFile: Bytes;
  slabReclaimable: Bytes;
  slabUnreclaimable: Bytes;
}

/** Per second: bytes, and requests. */
export interface IoRate {
  read: Bytes;
  written: Bytes;
  reads: number;
  writes: number;
}

export interface Blame {
  victim: number;
  victimPath: Maybe<string>;
  aggressor: number;
  aggressorPath: Maybe<string>;
  time: Nanos;
  /** What the sufferer lost of it: docs/api.md. */
  loss?: Nanos;
}

export interface Condition {
  scope: "system" | "kubepods";
  resource: "cpu" | "memory" | "disk";
  type: string;
  status: Status;
  phase: string;
  measure: string;
  threshold: Percent;
  avg10: Maybe<Percent>;
  avg60: Maybe<Percent>;
  seen?: Nanos;
  since: Moment;
  why?: string;
}

export interface Observation {
  signal: string;
  available: number;
  capacity: number;
}

export interface Outlook {
  scope: string;
  left: Maybe<Bytes>;
  growth: Maybe<Bytes>;
  lasts: Maybe<Nanos>;
}

/** A threshold; its only field is its kind. */
export type Trigger = { eviction: { signal: string; grace: Nanos } } | { pressure: { scope: string; on: Record<string, number>; grace: Nanos } };

export interface Assessment {
  conditions: Condition[];
  taints: { key: string; effect: string }[];
  nodePressure: string[];
  met: { threshold: Trigger; since: Nanos; isDue: boolean }[];
  refused: string[];
  observations: Observation[];
  unobserved: { signal: string; why: string }[];
  outlooks: Outlook[];
}

export interface Named {
  name: string;
  namespace?: string;
  uid: string;
}

export interface Candidate extends Named {
  members?: string[];
  keys: { key: string; value: boolean | number | string | null }[];
}

export interface Ranking {
  signal: string;
  order: string;
  candidates: Candidate[];
  nCandidates: number;
  spared: { name: string; uid: string; why: string }[];
  nSpared: number;
  outsiders?: { path: string; harm: Nanos }[];
  loss?: { lost: Bytes; over: Nanos; takers: (Named & { path: string; taken: Bytes })[]; unattributed: Bytes };
}

export interface Action {
  id: number;
  step: string;
  target: Named;
  isEnforced: boolean;
  message: string;
  deadline: Nanos;
  escalatesTo: Maybe<string>;
}

export interface Relief {
  actions: Action[];
  /** A reason by its name, alone or with what there is to say of it. */
  held?: Maybe<string | Record<string, unknown>>;
}

export interface Decision {
  tick: number;
  at: Moment;
  generation: number;
  assessment: Assessment;
  ranking: Maybe<Ranking>;
  relief: Relief;
}

export interface Explanation {
  why: string[];
  verdict: string[];
  candidates: string[];
  otherwise: string[];
}

export interface Capability {
  name: string;
  state: "attached" | "blind" | "absent" | "off";
  detail: string;
  remedy: Maybe<string>;
}

export interface Cost {
  cpu: Maybe<number>;
  resident: Maybe<Bytes>;
  tick: Nanos;
  longestGap: Nanos;
  kernel: {
    programs: { name: string; runs: number; perRun: Maybe<Nanos>; perSecond: Nanos }[];
    mapBytes: Maybe<Bytes>;
  };
}

export interface OomRecord {
  wall: Nanos;
  /** By the API's name, which outlives the pod. */
  victim?: string;
  victimPath: Maybe<string>;
  limitPath: Maybe<string>;
  triggerPath: Maybe<string>;
  kill: { victim: number; victimPid?: number; victimComm?: string; more?: number; limit: Maybe<number>; limitKnown: boolean; trigger: number };
}

export interface LimitState {
  write: { what: string; cgroup: string; file: string; value: string };
  before: Maybe<string>;
  live: Maybe<string>;
  result: string;
  detail: string;
}

/** What the kubelet's CPU manager leaves to whom; CPUs as 0-3,8. */
export interface Cpus {
  reserved: string;
  /** Absent, as are the next two, where isobar could not read the state file. */
  default?: string;
  exclusive?: string;
  sharedMillicores?: number;
  /** Of a pod, by its uid, or of one of its containers. */
  assignments: { pod: string; container: string; cpus: string }[];
  /** Why the kubelet would not start with its state file, or isobar could not read it. */
  problems: string[];
  /** Of pods, by uid. */
  names: Record<string, string>;
}

export interface Allocatable {
  cpus: Maybe<Cpus>;
}

export interface Runner {
  pid: number;
  name: string;
  /** Thousandths of a CPU. */
  used: number;
  cgroup?: number;
  /** One of all processes: which cgroup it is because of was not measured. */
  isOfMachine?: boolean;
  /** What it has, if it is named for its memory. */
  memory?: { held: Bytes; growth: Bytes };
  /** Bytes per second, if it is named for its IO. */
  io?: Bytes;
}

export interface Snapshot {
  facts: { name: string; kernel: string; bootId: string; nCpus: number };
  started: Moment;
  at: Moment;
  tick: number;
  interval: Nanos;
  headline: string;
  verdict: { resource: Resource; mood: Mood; isShort: boolean; text: string }[];
  /** The pods and services that use most; `io` is null where no cgroup's is known. */
  usage: { memory: { cgroup: number; held: Bytes }[]; isShortOfMemory: boolean; io: Maybe<{ cgroup: number; io: IoRate; share: Percent }[]>; isIoPartial: boolean };
  decision: Decision;
  explanation: Explanation;
  node: { memory: Maybe<{ total: Bytes; available: Bytes }> };
  whole: Scope;
  scopes: Record<string, Scope>;
  aggressions: Blame[];
  /** Of the cgroup that the headline names; without `cgroup`, of the root cgroup. */
  runners: Runner[];
  recentOomKills: OomRecord[];
  capabilities: Capability[];
  limits: LimitState[];
  /** Quantities by resource, as Kubernetes writes them; absent of a recording. */
  resources?: Record<"capacity" | "kubeReserved" | "systemReserved" | "evictionHard" | "allocatable", Record<string, string>>;
  /** Names of capabilities that are absent or blind, and of what cannot be read. */
  missing: string[];
  gaps: { object: string; why: string; detail: string }[];
  lost: Record<string, number>;
  doubts: Record<string, number>;
  cost: Cost;
}

export interface Cgroups {
  tick: number;
  scopes: Record<string, Scope>;
}

export interface Series {
  unit: "percent" | "milliCpu" | "bytes" | "nanoseconds";
  of: "mean" | "max" | "min";
  values: (number | null)[];
  peaks?: (number | null)[];
}

export interface History {
  tick: number;
  begin: Moment;
  end: Moment;
  step: Nanos;
  series: Record<string, Series>;
  /** Of a cgroup: false if its oldest ticks were not read for want of time. */
  isWhole?: boolean;
}

/** What is served of which time. Of an agent that records nothing `isServed` is false. */
export interface Recording {
  isServed: boolean;
  /** It goes on. */
  isLive: boolean;
  leftOut: { runs: number; oomKills: number };
  begin: Maybe<Moment>;
  end: Maybe<Moment>;
  /** Where the page opens, since 1970. */
  at: Maybe<Nanos>;
  ticks: number;
  isWhole: boolean;
  problem: Maybe<string>;
  spans: Span[];
  events: HistoryEvent[];
  pauses: Pause[];
  /** From when on these are all that there were; null: none is known. */
  knownSince: Maybe<Moment>;
}

export interface Ticks {
  ticks: { tick: number; at: Moment; interval: Nanos; aggressions: Blame[]; waits: Record<string, Percent> }[];
}

export interface KeptIncident {
  name: string;
  begin: Moment;
  end: Maybe<Moment>;
  summary: string;
}

export interface Span {
  kind: "condition" | "threshold" | "nodePressure";
  name: string;
  state: Status | "met" | "due";
  begin: Moment;
  end: Maybe<Moment>;
  /** The rule and the figures by which it began. */
  why?: string;
}

/** A time without a tick: what held and happened in it is not known. */
export interface Pause {
  begin: Moment;
  end: Moment;
}

export interface HistoryEvent {
  at: Moment;
  tick: number;
  kind: "change" | "action" | "outcome" | "effect" | "release" | "oomKill";
  text: string;
  action?: number;
  reason?: string;
}

export interface HistoryEvents {
  begin: Moment;
  end: Moment;
  spans: Span[];
  events: HistoryEvent[];
  minutes: { begin: Moment; over: Nanos; aggressions: Blame[] }[];
  pauses: Pause[];
  /** From when on each has all that there was; null: nothing of this time is known. */
  knownSince: { spans: Maybe<Moment>; events: Maybe<Moment>; minutes: Maybe<Moment> };
}

/** What of the settings a reader may change; the rest stays as it is. */
export interface Rules {
  conditions: { rules: Record<string, { measure: string; threshold: number }> };
  eviction: {
    thresholds: { signal: string; value: Record<string, string | number>; grace: Nanos }[];
    pressure: { scope: string; on: Record<string, number>; grace: Nanos }[];
  };
  ranking: { order: string };
  relief: { enforce: string[]; steps: string[] };
}

export interface Settings {
  settings: Maybe<Rules>;
}

export interface Taken {
  at: Moment;
  step: string;
  target: string;
  because: string;
  isEnforced: boolean;
}

export interface Held {
  from: Moment;
  to: Maybe<Moment>;
}

/** Steps over time; n of them end work. */
export interface Marks {
  n: number;
  marks: { at: Moment; isFinal: boolean }[];
}

export interface WhatIf {
  from: Moment;
  to: Moment;
  ticks: number;
  isWhole: boolean;
  lanes: { name: string; then: Held[]; otherwise: Held[]; gained: Maybe<Nanos> }[];
  ended: { then: Marks; otherwise: Marks; gained: Maybe<Nanos> };
  steps: { then: Taken[]; otherwise: Taken[] };
  moreSteps: { then: number; otherwise: number };
  oomKills: Moment[];
  gained: Maybe<Nanos>;
  limit: Maybe<string>;
}

export interface Advice {
  from: Moment;
  to: Moment;
  ticks: number;
  covered: Nanos;
  isWhole: boolean;
  groups: { daemons: string; cgroups: string[]; memory: Maybe<Percentiles>; cpu: Maybe<Percentiles> }[];
  margin: number;
  kubeReserved: Record<string, string>;
  systemReserved: Record<string, string>;
  configured: Record<"kubeReserved" | "systemReserved", Record<string, string>> & { threshold: Maybe<string> };
  threshold: Maybe<string>;
  fastestLoss: Maybe<string>;
  preview: { daemons: string; resource: string; limit: string; amount: string; ticks: number; first: Maybe<Moment>; by: Maybe<string> }[];
  pods: Reached[];
  problems: string[];
}

/** A limit of all pods; null where it is not known. */
export interface Reached {
  resource: string;
  limit: string;
  amount: Maybe<string>;
  met: Maybe<Met>;
  evictedFirst: Maybe<string>;
}

export interface Met {
  ticks: number;
  most: string;
  at: Moment;
  excess: Maybe<string>;
  above: Tally;
  close: Tally;
  longest: Maybe<{ from: Moment; to: Moment }>;
  largest: Share[];
  grew: Share[];
}

export interface Tally {
  ticks: number;
  lasted: Nanos;
  times: number;
}

export interface Share {
  pod: string;
  amount: string;
}

export interface Percentiles {
  p50: string;
  p95: string;
  p99: string;
  max: string;
}
