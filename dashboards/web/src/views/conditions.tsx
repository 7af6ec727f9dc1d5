// Conditions and thresholds over time, with the rule that fired, and what happened.

import type { Condition, HistoryEvents, Moment, OomRecord, Snapshot, Span } from "../api";
import { unknownOf, useEvents } from "../history";
import { Behind, Named, Panel, Sentences, StatusWord, Table, Unknown } from "../parts";
import type { Route } from "../route";
import { age, called, clock, partOf, percent, sentence, spaced } from "../words";
import { Range, Refused } from "./time";

/** The rule of a condition's phase, with its numbers: docs/policy.md. */
function rule({ phase, avg10, avg60, threshold, why, seen }: Condition): string {
  const line = `${threshold} %`;
  const [ten, sixty] = [`10 s average ${percent(avg10)}`, `60 s average ${percent(avg60)}`];
  switch (phase) {
    case "contended":
      return `${sixty} and ${ten} are at or above ${line}`;
    case "high":
      return `${sixty} is at or above ${line}, ${ten} is below it`;
    case "easing":
      return `${sixty} is still at or above ${line}, ${ten} is below it`;
    case "calm":
    case "cleared":
      return `${sixty} is below ${line}`;
    default:
      return why ?? (seen === undefined ? "not measured" : `measured for ${age(seen)} only`);
  }
}

const LANE = 22;
const WIDTH = 1_000;

function classOf({ kind, state }: Span): string {
  if (state === "Unknown") return "lane-unknown";
  if (state === "False") return "lane-false";
  return kind === "threshold" && state === "met" ? "lane-met" : "lane-true";
}

/** States that a lane tells in words. */
const TOLD = 3;

/** A state with its time and, where that is known, why it began. */
function told({ state, begin, end, why }: Span, { wall }: Moment): string {
  const time = `${clock(begin.wall, wall)} to ${end ? clock(end.wall, wall) : "now"}`;
  return `${state} from ${time}${why ? `: ${why}` : ""}`;
}

function Lanes({ events }: { events: HistoryEvents }) {
  const { begin, end, spans, pauses, knownSince } = events;
  // What was True first, then what was judged, then what could not be.
  const order = { True: 0, False: 1, Unknown: 2 };
  const best = (name: string) => Math.min(...spans.filter((span) => span.name === name).map((span) => order[statusOf(span)]));
  const names = [...new Set(spans.map(({ name }) => name))].sort((a, b) => best(a) - best(b));
  // All of one boot, in which the wall clock may have been set.
  const x = ({ boot }: Moment) => partOf(boot, begin.boot, end.boot) * WIDTH;
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => clock(begin.wall + part * (end.wall - begin.wall)).slice(-8, -3));
  return (
    <div class="lanes">
      {names.map((name) => {
        const own = spans.filter((span) => span.name === name);
        const last = own.slice(-TOLD).reverse().map((span) => sentence(told(span, end)));
        return (
          <div class="lane" key={name}>
            <span class="lane-name">{name}</span>
            <div role="img" tabIndex={0} aria-label={`${name}. ${last.join(" ")}`}>
              <svg viewBox={`0 0 ${WIDTH} ${LANE}`} preserveAspectRatio="none" aria-hidden="true">
                <rect class="lane-ground" x={0} y={0} width={WIDTH} height={LANE} />
                <rect class="lane-unknown" x={0} y={2} width={knownSince.spans ? x(knownSince.spans) : WIDTH} height={LANE - 4} />
                {pauses.map((pause) => (
                  <rect key={pause.begin.boot} class="lane-unknown" x={x(pause.begin)} y={2} width={x(pause.end) - x(pause.begin)} height={LANE - 4} />
                ))}
                {own.map((span) => {
                  const [from, to] = [x(span.begin), x(span.end ?? end)];
                  return (
                    <rect key={`${span.begin.wall} ${span.state}`} class={classOf(span)} x={from} y={2} width={Math.max(2, to - from)} height={LANE - 4}>
                      <title>{told(span, end)}</title>
                    </rect>
                  );
                })}
              </svg>
            </div>
            <div class="lane-told" aria-hidden="true">
              <Sentences of={last} />
            </div>
          </div>
        );
      })}
      <div class="lane">
        <span />
        <span class="lane-marks">{marks.map((mark, at) => <span key={at}>{mark}</span>)}</span>
      </div>
    </div>
  );
}

function Spans({ events }: { events: HistoryEvents }) {
  return (
    <Table
      caption="What held from when to when, newest first."
      columns={[
        { head: "Name", cell: ({ name }: Span) => name },
        { head: "State", cell: (span) => <StatusWord status={statusOf(span)} word={span.state} /> },
        { head: "From", cell: ({ begin }) => clock(begin.wall, events.end.wall) },
        { head: "To", cell: ({ end }) => (end ? clock(end.wall, events.end.wall) : "still holds") },
        { head: "For", cell: ({ begin, end }) => age((end ?? events.end).wall - begin.wall) },
        { head: "It began because", cell: ({ why }) => (why ? sentence(why) : "–") },
      ]}
      rows={[...events.spans].reverse()}
      rowKey={({ name, begin, state }) => `${name} ${state} ${begin.wall}`}
      nothing={unknownOf(events, "spans") || "Nothing held."}
    />
  );
}

const statusOf = ({ state }: Span) => (state === "met" || state === "due" ? "True" : state);

export function Conditions({ view, route }: { view: Snapshot; route: Route }) {
  const { data: events, error } = useEvents(route);
  const { conditions, taints, nodePressure, refused } = view.decision.assessment;
  const rank = { True: 0, Unknown: 1, False: 2 };
  const sorted = [...conditions].sort((a, b) => rank[a.status] - rank[b.status]);
  const lists = [
    ["Taints", taints.map(({ key, effect }) => `${key}:${effect}`)],
    ["Kubelet's conditions", nodePressure],
    ["QoS classes that the kubelet refuses", refused],
  ] as const;
  return (
    <>
      <Panel title="Node conditions" id="conditions">
        <Table
          caption="As isobar judges them: True first."
          columns={[
            { head: "Condition", cell: ({ type }: Condition) => type },
            { head: "Status", cell: ({ status }) => <StatusWord status={status} /> },
            { head: "Since", cell: ({ since }) => <Named name={clock(since.wall, view.at.wall)} sub={age(view.at.boot - since.boot)} /> },
            { head: "10 s", isNumber: true, cell: ({ avg10 }) => percent(avg10) },
            { head: "60 s", isNumber: true, cell: ({ avg60 }) => percent(avg60) },
            { head: "Threshold", isNumber: true, cell: ({ threshold }) => percent(threshold) },
            { head: "Rule", cell: (one) => <Named name={sentence(rule(one))} sub={`of ${spaced(one.measure)}`} /> },
          ]}
          rows={sorted}
          rowKey={({ type }) => type}
          nothing="No condition is enabled."
        />
        <dl>
          {lists.flatMap(([name, all]) => [<dt key={name}>{name}</dt>, <dd key={`${name} are`}>{all.join(", ") || "none"}</dd>])}
        </dl>
        <Sentences of={view.explanation.why.map(sentence)} />
      </Panel>
      <Panel title="Over time" id="lanes" aside={<Range route={route} />}>
        <Refused error={error} route={route} />
        <p class="legend">
          <span class="key lane-true" />
          True, or due <span class="key lane-met" />
          threshold met, in its grace period <span class="key lane-unknown" />
          Unknown <span class="key lane-false" />
          False
        </p>
        <Unknown events={events} of="spans" />
        {events && <Lanes events={events} />}
        {events && <Behind label="Conditions and thresholds over time">{() => <Spans events={events} />}</Behind>}
      </Panel>
      <Events view={view} events={events} />
      <OomKills view={view} events={events} />
    </>
  );
}

function Events({ view, events }: { view: Snapshot; events: HistoryEvents | null }) {
  return (
    <Panel title="Events" id="events">
      <Unknown events={events} of="events" />
      <Table
        caption="What happened in this time, newest first."
        columns={[
          { head: "Time", cell: ({ at }) => clock(at.wall, view.at.wall) },
          { head: "Kind", cell: ({ kind }) => (kind === "oomKill" ? "OOM kill" : kind) },
          { head: "What", cell: ({ text, reason }) => <Named name={text} sub={reason ?? ""} /> },
        ]}
        rows={[...(events?.events ?? [])].reverse().slice(0, 100)}
        rowKey={({ at, kind, text }, i) => `${at.wall} ${kind} ${text} ${i}`}
        nothing={unknownOf(events, "events") || "Nothing happened."}
      />
    </Panel>
  );
}

/** As the log says it: counted kills have no pid. */
function killed({ victimPid, victimComm, more = 0 }: OomRecord["kill"]): string {
  if (victimPid == null) return more ? `${more + 1} processes` : "a process";
  return `process ${victimPid}${victimComm ? ` (${victimComm})` : ""}`;
}

function OomKills({ view, events }: { view: Snapshot; events: HistoryEvents | null }) {
  const since = events?.knownSince.events;
  const isKnown = since != null && since.boot <= view.at.boot;
  const limit = ({ kill, limitPath }: OomRecord) => {
    if (kill.limit != null) return called(view, kill.limit, limitPath);
    return { name: kill.limitKnown ? "the node's memory" : "unknown", sub: "" };
  };
  return (
    <Panel title="OOM kills" id="oom">
      <Table
        caption="By the kernel, since the agent started: the last 64, newest first."
        columns={[
          { head: "Time", cell: ({ wall }) => clock(wall, view.at.wall) },
          {
            head: "Victim",
            cell: ({ kill, victim, victimPath }) => {
              const { name, sub } = called(view, kill.victim, victimPath);
              return <Named name={victim ?? name} sub={`${killed(kill)}. ${sub}`} />;
            },
          },
          { head: "Limit reached", cell: (kill) => <Named {...limit(kill)} /> },
          {
            head: "Triggered by",
            cell: ({ kill, triggerPath }) => (
              <Named {...(kill.victimPid == null ? { name: "unknown", sub: "kills were only counted" } : called(view, kill.trigger, triggerPath))} />
            ),
          },
        ]}
        rows={view.recentOomKills}
        rowKey={({ wall, kill }) => `${wall} ${kill.victim} ${kill.victimPid}`}
        nothing={isKnown ? "No OOM kill since the agent started." : "OOM kills before this moment are not known."}
      />
    </Panel>
  );
}
