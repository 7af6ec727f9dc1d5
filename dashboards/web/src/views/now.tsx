// The first screen: is this node short of something, of what, because of whom, since when, what
// isobar did or would do, and why.

import type { Condition, History, HistoryEvents, Maybe, Moment, Resource, Rules, Scope, Snapshot } from "../api";
import { Chart, type Drawn } from "../chart";
import { type MetNow, metNow, openSpans, risen, shaded, sinceKnown, thresholds, useEvents, useHistory, useRules } from "../history";
import { Meter, MoodWord, Named, Panel, Sentences, StatusWord, Unknown, VerdictWord } from "../parts";
import { link } from "../route";
import type { Past } from "../stream";
import { isNotable, lately, sufferers, worst, worstShare } from "../waits";
import { age, clock, memoryCauses, mode, nameOf, percent, PRESSED_AND_TRUE, RESOURCES, sentence, since, time } from "../words";
import { Because } from "./because";

/** For so long a step is told beside the verdict. */
const RECENT = 60e9;
const HOUR = { view: "now", end: null, span: 3_600 } as const;
/** By which thresholds the kubelet sets a condition. */
const OF_KUBELET: Record<string, RegExp> = { MemoryPressure: /memory/i, DiskPressure: /fs\./, PIDPressure: /^pid/ };
const MOODS = { waits: 5, pressed: 40 };
/** What a mood looks at, first that which counts only waits that the node causes. */
const MEASURES: Record<Resource, string[]> = {
  cpu: ["system.cpu.contention", "system.cpu.some"],
  memory: ["system.memory.shortage", "system.memory.some"],
  io: ["system.io.some"],
};

type ScopeName = Condition["scope"];

function conditionsOf(view: Snapshot, resource: Resource): Condition[] {
  const wanted = resource === "io" ? "disk" : resource;
  return view.decision.assessment.conditions.filter((condition) => condition.resource === wanted);
}

/** Whether the headline names who waits for a CPU: what is short of memory comes before that. */
const isOfCpu = ({ verdict, usage, decision }: Snapshot) =>
  !usage.isShortOfMemory && !decision.ranking?.loss && verdict.some(({ resource, mood }) => resource === "cpu" && (mood === "pressed" || mood === "waits"));

/** Since when a mood holds: when its measure last rose above its line. */
function moodSince(history: History | null, view: Snapshot, { resource, mood }: Snapshot["verdict"][number]) {
  if (mood !== "waits" && mood !== "pressed") return null;
  for (const name of MEASURES[resource]) {
    const found = risen(history, name, MOODS[mood]);
    if (found) return `${found.isWhole ? "" : "at least "}${since(found.from, view.at)}`;
  }
  return null;
}

/** Since when work waits for something that no other work causes. */
function rawSince(history: History | null, view: Snapshot, { resource, mood }: Snapshot["verdict"][number]) {
  const found = mood === "calm" && risen(history, `system.${resource}.some`, MOODS.waits);
  return found ? ` Raw PSI has been at ${MOODS.waits} % or above ${found.isWhole ? "" : "at least "}${since(found.from, view.at)}.` : "";
}

function Verdict({ view, past, history, events }: { view: Snapshot; past: Past[]; history: History | null; events: HistoryEvents | null }) {
  const { conditions, nodePressure } = view.decision.assessment;
  const holds = conditions.filter(({ status }) => status === "True");
  const unknown = conditions.filter(({ status }) => status === "Unknown");
  const met = metNow(view, events);
  const begun = openSpans(events).filter(({ kind }) => kind === "nodePressure");
  const ofKubelet = nodePressure.map((name) => ({ name, begin: begun.find((span) => span.name === name)?.begin }));
  // The kubelet keeps its conditions for minutes after their thresholds were last met.
  const isMet = (name: string) => met.some((threshold) => OF_KUBELET[name]?.test(threshold.name) ?? true);
  const isUnmeasured = (name: string) =>
    events?.spans.some((one) => one.kind === "threshold" && one.end == null && one.state === "Unknown" && OF_KUBELET[name]?.test(one.name));
  const isDue = met.some(({ state }) => state === "due");
  const isPressed = view.verdict.some(({ mood }) => mood === "pressed");
  const isBad = isPressed || holds.length > 0 || ofKubelet.some(({ name }) => isMet(name)) || isDue;
  const { pairs, over } = lately(past, 10);
  const recent = recentStep(events, view);
  const isKilled = kills(events).some((kill) => isRecent(kill, view));
  const isSome = view.verdict.some(({ mood }) => mood === "waits") || met.length + ofKubelet.length > 0 || recent !== undefined || isKilled;
  return (
    <section class={`verdict ${isBad ? "bad" : isSome ? "some" : ""}`} aria-labelledby="verdict-title">
      <h2 id="verdict-title" class="hidden">
        Verdict
      </h2>
      <p id="headline" class="headline">
        {view.headline}
      </p>
      {isOfCpu(view) && pairs.length > 0 && over > view.interval && (
        <p id="windows" class="why">
          The headline tells of waits in the last tick. Below, waits for CPUs are added up over {age(over)}, so another cgroup may come first.
        </p>
      )}
      {recent && (
        <p id="deed" class="deed">
          {age(view.at.boot - recent.event.at.boot)} ago, isobar{isObserved(recent.event) && ", which only observes and did nothing"}: {stepAlone(recent.event.text)}. {recent.came && !isObserved(recent.event) && sentence(recent.came)}
        </p>
      )}
      <ul id="verdicts" class="verdicts">
        {view.verdict.map((one) => (
          <li key={one.resource}>
            <b>{RESOURCES[one.resource]}</b>
            <VerdictWord of={one} />
            <span>
              {moodSince(history, view, one) && <b>{moodSince(history, view, one)}. </b>}
              {sentence(one.text)}
              {rawSince(history, view, one)}
            </span>
          </li>
        ))}
      </ul>
      <ul id="holding" class="chips" aria-label="Conditions that hold or are unknown, and thresholds that are met">
        {holds.map(({ type, since: from }) => (
          <li key={type}>
            <StatusWord status="True" word={`${type} is True`} /> {since(from, view.at)}
          </li>
        ))}
        {ofKubelet.map(({ name, begin }) => (
          <li key={name}>
            {isMet(name) ? (
              <StatusWord status="True" word={`${name} of the kubelet`} />
            ) : (
              <MoodWord mood="waits" word={`${name} of the kubelet holds on`} />
            )}{" "}
            {begin && since(begin, view.at)}
            {!isMet(name) && (isUnmeasured(name) ? "; its threshold cannot be measured" : "; its threshold is no longer met, and it ends minutes after that")}
          </li>
        ))}
        {met.map((one) => (
          <Met key={one.name} of={one} now={view.at} />
        ))}
        {[...byReason(unknown)].map(([why, types]) => (
          <li key={why}>
            <StatusWord status="Unknown" word={types.join(", ")} /> {why}
          </li>
        ))}
        {holds.length + unknown.length + ofKubelet.length === 0 && conditions.length > 0 && (
          <li>
            <StatusWord status="False" word="No node condition is True" />
          </li>
        )}
      </ul>
      {(isPressed || holds.length > 0) && (
        <p id="pressed-and-true" class="why">
          {PRESSED_AND_TRUE}
        </p>
      )}
    </section>
  );
}

/** The names of unknown conditions, by why they are. */
function byReason(unknown: Condition[]): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const { type, why = "not measured for long enough yet" } of unknown) all.set(why, [...(all.get(why) ?? []), type]);
  return all;
}

const Met = ({ of: { name, state, begin }, now }: { of: MetNow; now: Moment }) => (
  <li>
    <MoodWord mood={state === "due" ? "pressed" : "waits"} word={`threshold ${name} is ${state}`} /> {since(begin, now)}
    {state === "due" ? ": steps may be taken" : ": in its grace period"}
  </li>
);

function Sufferers({ view, past }: { view: Snapshot; past: Past[] }) {
  const { pairs, over } = lately(past, 10);
  // Where memory is what is short, who lost a CPU to others is beside the point.
  const isOfMemory = view.verdict.some(({ resource, mood }) => resource === "memory" && mood === "pressed");
  const losing = sufferers(view, isOfMemory ? [] : pairs, 4);
  const greatest = Math.max(0, ...losing.map(({ loss }) => loss));
  const most = isNotable(greatest, over) ? greatest : 0;
  const waiting = most > 0 ? losing : sufferers(view, [], 4);
  const share = (scope: Scope) => {
    const of = worst(scope);
    return of ? `${percent(of.share)} for ${FOR[of.of]}` : percent(null);
  };
  const isMeasured = view.whole.cpu != null || Object.values(view.scopes).some((scope) => worst(scope) !== null);
  const lost = (loss: number) => time(over ? loss / (over / 1e9) : null);
  return (
    <Panel title="Who suffers" id="sufferers" aside={<a href={link({ ...HOUR, view: "cgroups" })}>all cgroups</a>}>
      <p class="why">
        {most > 0
          ? `What it lost per second by waiting for a CPU while others ran, over ${age(over)}; and the share of the last ten seconds in which at least one of its tasks waited.`
          : "Share of the last ten seconds in which at least one of its tasks waited."}
      </p>
      <ol class="ranked">
        {waiting.map(({ scope, loss }) => (
          <li key={scope.path}>
            <Named {...nameOf(scope)} sub={[most > 0 ? `waits ${share(scope)}` : "", causes(scope)].filter(Boolean).join(": ")} />
            <b>{most > 0 ? lost(loss) : share(scope)}</b>
            <Meter parts={[{ kind: "others", share: most > 0 ? loss / most : (worstShare(scope) ?? 0) / 100 }]} />
          </li>
        ))}
      </ol>
      {waiting.length === 0 && <p>{isMeasured ? "No pod or service waits." : "Which pod or service waits was not measured: see Health."}</p>}
    </Panel>
  );
}

const FOR: Record<Resource, string> = { cpu: "CPU", memory: "memory", io: "IO" };

function causes(scope: Scope): string {
  const { cpu, ioWait } = scope;
  const parts = [
    ["own quota", cpu?.throttledOwn?.now],
    ["quota above", cpu?.throttledAncestor?.now],
    ["IO", ioWait?.now],
  ] as const;
  const told = parts.filter(([, now]) => (now ?? 0) > 0).map(([word, now]) => `${time(now)} ${word}`);
  const all = [...told, memoryCauses(scope)].filter(Boolean);
  return all.length > 0 ? `in the last second, over its tasks: ${all.join(", ")}` : "";
}

type Happened = HistoryEvents["events"][number];

/** The last of a kind, newest first. */
const newest = (events: HistoryEvents | null, of: Happened["kind"]) => events?.events.filter(({ kind }) => kind === of).slice(-3).reverse() ?? [];

/** The last steps, newest first, and what each has come to. */
function steps(events: HistoryEvents | null): { event: Happened; came: string | undefined }[] {
  const came = (step: Happened) => {
    const later = events?.events.filter(({ kind, action }) => action === step.action && (kind === "effect" || kind === "outcome")) ?? [];
    return (later.findLast(({ kind }) => kind === "effect") ?? later.at(-1))?.text;
  };
  return newest(events, "action").map((event) => ({ event, came: came(event) }));
}

/** What the kernel's OOM killer did, which is no step of isobar's. */
const kills = (events: HistoryEvents | null) => newest(events, "oomKill");

const isRecent = ({ at }: Happened, view: Snapshot) => at.boot <= view.at.boot && view.at.boot - at.boot <= RECENT;

/** The last step, if it is of the last minute. */
const recentStep = (events: HistoryEvents | null, view: Snapshot) => steps(events).slice(0, 1).find(({ event }) => isRecent(event, view));

const inWhichHour = (isRecorded: boolean) => (isRecorded ? "in the hour before" : "in the last hour");

/** It was only said what would be done. */
const isObserved = ({ text }: Happened) => text.startsWith("would ");

/** What a step was, without why. */
const stepAlone = (text: string) => text.split(" because ")[0];

function Relief({ view, events, isRecorded }: { view: Snapshot; events: HistoryEvents | null; isRecorded: boolean }) {
  const did = steps(events);
  return (
    <Panel title="What isobar does" id="relief" aside={<a href={link({ ...HOUR, view: "decisions" })}>decision</a>}>
      <Sentences of={view.explanation.verdict.map(sentence)} nothing="No action." />
      {mode(view) && (
        <p id="mode" class="why">
          Mode: {mode(view)}.
        </p>
      )}
      <Unknown events={events} of="events" />
      {did.length > 0 && (
        <>
          <h3>Steps {inWhichHour(isRecorded)}</h3>
          <ul class="sentences">
            {did.map(({ event, came }) => (
              <li key={`${event.tick} ${event.kind} ${event.text}`}>
                <time>{clock(event.at.wall, view.at.wall)}</time> {stepAlone(event.text)} (action {event.action})
                {came && !isObserved(event) && <span class="came"> {sentence(came)}</span>}
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

function Kernel({ view, events, isRecorded }: { view: Snapshot; events: HistoryEvents | null; isRecorded: boolean }) {
  const all = kills(events);
  if (all.length === 0) return null;
  return (
    <Panel title={`What the kernel did ${inWhichHour(isRecorded)}`} id="kernel">
      <p class="why">Where memory is not to be had, the kernel's OOM killer ends processes. No step of isobar's is among these.</p>
      <ul class="sentences">
        {all.map(({ tick, at, text }) => (
          <li key={`${tick} ${text}`}>
            <time>{clock(at.wall, view.at.wall)}</time> {sentence(text)}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Why({ view, events }: { view: Snapshot; events: HistoryEvents | null }) {
  const { why, candidates, otherwise } = view.explanation;
  const { event } = recentStep(events, view) ?? {};
  return (
    <Panel title="Why" id="why" aside={<a href={link({ ...HOUR, view: "conditions" })}>conditions</a>}>
      {event && (
        <p>
          {clock(event.at.wall, view.at.wall)} {event.text}.
        </p>
      )}
      <Sentences of={[...why, ...candidates].map(sentence)} />
      {otherwise.length > 0 && (
        <>
          <h3>What would change it</h3>
          <Sentences of={otherwise.map(sentence)} />
        </>
      )}
    </Panel>
  );
}

/** What is drawn of the node and of all pods: a resource, or the memory that is left. */
const LINES: Record<Resource | "left", Drawn[]> = {
  cpu: [
    { name: "cpu.contention", label: "contention", colour: "others" },
    { name: "cpu.some", label: "raw PSI some", colour: "raw", isDashed: true },
  ],
  memory: [
    { name: "memory.shortage", label: "shortage", colour: "others" },
    { name: "memory.some", label: "raw PSI some", colour: "raw", isDashed: true },
  ],
  io: [
    { name: "io.full", label: "raw PSI full", colour: "others" },
    { name: "io.some", label: "raw PSI some", colour: "raw", isDashed: true },
  ],
  left: [
    { name: "memory.available", label: "available", colour: "others" },
    { name: "memory.threshold", label: "threshold", colour: "raw", isDashed: true },
  ],
};

const SCOPES = ["system", "kubepods"] as const;
const linesOf = (scope: ScopeName, lines: Drawn[]) => lines.map((one) => ({ ...one, name: `${scope}.${one.name}` }));
const SERIES = SCOPES.flatMap((scope) => linesOf(scope, Object.values(LINES).flat())).map(({ name }) => name).join(",");

/** Whether a condition, a threshold that is met or the ranking says that a resource of the node, or of
 * all pods, is short. */
function isJudged(view: Snapshot, events: HistoryEvents | null, scope: ScopeName, resource: Resource): boolean {
  const own = scope === "kubepods" ? "allocatableMemory.available" : "memory.available";
  const isOf = (signal: string) =>
    signal.startsWith(`${scope}.${resource === "io" ? "disk" : resource}.`) || (resource === "memory" && signal === own);
  const signals = [view.decision.ranking?.signal ?? "", ...metNow(view, events).map(({ name }) => name)];
  return signals.some(isOf) || conditionsOf(view, resource).some((one) => one.scope === scope && one.status === "True");
}

const ALL = ["cpu", "memory", "io"] as const;

/** What waits are drawn: the node's, and after them those of all pods where they are short. */
const drawn = (view: Snapshot, events: HistoryEvents | null) =>
  SCOPES.flatMap((scope) => ALL.filter((resource) => scope === "system" || isJudged(view, events, scope, resource)).map((resource) => ({ scope, resource })));

/** Whose memory left is drawn: of what is short, and of the node where work waits for memory. */
function leftOf(view: Snapshot, events: HistoryEvents | null): ScopeName[] {
  const short = SCOPES.filter((scope) => isJudged(view, events, scope, "memory"));
  const isWaitedFor = view.verdict.some(({ resource, mood }) => resource === "memory" && (mood === "pressed" || mood === "waits"));
  return short.length === 0 && isWaitedFor ? ["system"] : short;
}

const titled = (what: string, scope: ScopeName) => (scope === "kubepods" ? `${what}, all pods` : what);

function LastHour({ view, history, events, rules, isDark, isRecorded }: NowOf & { history: History | null; events: HistoryEvents | null; rules: Maybe<Rules> }) {
  const long = history && history.end.boot - history.begin.boot < 3_600e9 ? age(history.end.boot - history.begin.boot) : "hour";
  return (
    <Panel title={isRecorded ? `The ${long} before` : `The last ${long}`} id="hour" aside={<a href={link({ ...HOUR, view: "time" })}>more figures</a>}>
      <p class="why">
        Share of time in which at least one task waited, averaged over ten seconds; a condition looks at a minute,
        too. Dashed across: the threshold of the condition, and that of a signal by which pods are ended. Red: a
        condition of this resource was True. Grey stripes: Unknown. A gap was not measured. Where all pods are short of
        it, they have a chart of their own; where memory is short, one shows what is left of it.
      </p>
      <div class="cards">
        {drawn(view, events).map(({ scope, resource }) => {
          const conditions = conditionsOf(view, resource);
          const own = conditions.find((one) => one.scope === scope);
          const told = conditions.filter((one) => one === own || (scope === "system" && one.status === "True"));
          return (
            <Chart
              key={`${scope} ${resource}`}
              title={titled(RESOURCES[resource], scope)}
              about={told.map(({ type, status }) => `${type} is ${status}`).join(", ") || "no condition"}
              history={history}
              series={linesOf(scope, LINES[resource])}
              thresholds={thresholds(rules, scope, resource, own)}
              spans={shaded(events, own?.type, conditions.map(({ type }) => type))}
              cursor="hour"
              isDark={isDark}
            />
          );
        })}
        {leftOf(view, events).map((scope) => (
          <Chart
            key={`${scope} left`}
            title={titled("Memory left", scope)}
            history={history}
            series={linesOf(scope, LINES.left)}
            cursor="hour"
            isDark={isDark}
          />
        ))}
      </div>
    </Panel>
  );
}

export interface NowOf {
  view: Snapshot;
  past: Past[];
  isDark: boolean;
  isRecorded: boolean;
}

export function Now(of: NowOf) {
  const { view, past, isRecorded } = of;
  const history = sinceKnown(useHistory(HOUR, SERIES).data);
  const events = useEvents(HOUR).data;
  const rules = useRules();
  return (
    <>
      <Verdict view={view} past={past} history={history} events={events} />
      <div class="answers">
        <Because view={view} past={past} />
        <Sufferers view={view} past={past} />
        <Relief view={view} events={events} isRecorded={isRecorded} />
        <Why view={view} events={events} />
      </div>
      <Kernel view={view} events={events} isRecorded={isRecorded} />
      <LastHour {...of} history={history} events={events} rules={rules} />
    </>
  );
}
