// What other thresholds, another order or another mode would have changed: the difference as lanes.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Held, Marks, Moment, Rules, Settings, Snapshot, Taken, WhatIf } from "../api";
import { stretch, STRETCHES, useAsk } from "../ask";
import { useDocument } from "../history";
import { Behind, Panel, Table } from "../parts";
import { age, clock, partOf, sentence, spaced, time } from "../words";

/** What was typed, by the name of its field; what was not, is as in force. */
type Typed = Record<string, string>;

const WIDTH = 1_000;
const LANE = 18;

/** A field that takes a number or an amount, with what is in force. */
interface Line {
  key: string;
  label: string;
  unit: string;
  now: string;
}

const SECOND = 1e9;

/** A threshold's only value, with the unit in which it is shown. */
function shown(on: Record<string, string | number>): { kind: string; value: string; unit: string } {
  const [kind, value] = Object.entries(on)[0] ?? ["", ""];
  if (typeof value === "string") return { kind, value, unit: "" };
  return kind === "exhaustion" ? { kind, value: String(value / SECOND), unit: "s" } : { kind, value: String(value), unit: "%" };
}

function lines({ conditions, eviction }: Rules): Line[] {
  return [
    ...Object.entries(conditions.rules).map(([name, { threshold }]) => ({ key: `rule ${name}`, label: name, unit: "%", now: String(threshold) })),
    ...eviction.thresholds.map(({ signal, value, grace }, at) => {
      const { value: now, unit } = shown(value);
      return { key: `signal ${at}`, label: `${signal}${grace > 0 ? `, soft for ${time(grace)}` : ""}`, unit, now };
    }),
    ...eviction.pressure.map(({ scope, on, grace }, at) => {
      const { kind, value, unit } = shown(on);
      return { key: `pressure ${at}`, label: `${scope}.${kind} for ${time(grace)}`, unit, now: value };
    }),
  ];
}

/** The JSON Merge Patch of what was typed; null if it is nothing. */
function patch(rules: Rules, typed: Typed): object | null {
  const change: Record<string, object> = {};
  const { order, mode } = typed;
  if (order && order !== rules.ranking.order) change.ranking = { order };
  if (mode) change.relief = { enforce: mode === "enforce" ? rules.relief.steps : [] };
  const names = Object.keys(rules.conditions.rules).filter((name) => typed[`rule ${name}`] !== undefined);
  if (names.length > 0) {
    change.conditions = { rules: Object.fromEntries(names.map((name) => [name, { threshold: Number(typed[`rule ${name}`]) }])) };
  }
  const other = (value: Record<string, string | number>, text: string | undefined) => {
    if (text === undefined) return value;
    const { kind } = shown(value);
    const isText = typeof value[kind] === "string";
    return { [kind]: isText ? text : kind === "exhaustion" ? Number(text) * SECOND : Number(text) };
  };
  // Lists are set as a whole.
  const { thresholds, pressure } = rules.eviction;
  const has = (kind: string) => Object.keys(typed).some((key) => key.startsWith(`${kind} `));
  if (has("signal") || has("pressure")) {
    change.eviction = {
      ...(has("signal") && { thresholds: thresholds.map((one, at) => ({ ...one, value: other(one.value, typed[`signal ${at}`]) })) }),
      ...(has("pressure") && { pressure: pressure.map((one, at) => ({ ...one, on: other(one.on, typed[`pressure ${at}`]) })) }),
    };
  }
  return Object.keys(change).length > 0 ? change : null;
}

function sooner(gained: number | null | undefined): string {
  if (!gained) return "";
  return `${time(Math.abs(gained))} ${gained > 0 ? "sooner" : "later"}`;
}

/** Where a moment of the comparison is on a lane. */
function place({ wall }: Moment, { from, to }: WhatIf): number {
  return partOf(wall, from.wall, to.wall) * WIDTH;
}

function Lane({ name, held, of }: { name: string; held: Held[]; of: WhatIf }) {
  const x = (at: Moment) => place(at, of);
  return (
    <Drawn name={name} of={of}>
      {held.map(({ from, to }) => (
        <rect key={from.wall} class="lane-true" x={x(from)} y={2} width={Math.max(2, x(to ?? of.to) - x(from))} height={LANE - 4} />
      ))}
    </Drawn>
  );
}

/** Steps, as marks: those that end work are as high as the lane. */
function Ended({ name, marks: { marks }, of }: { name: string; marks: Marks; of: WhatIf }) {
  return (
    <Drawn name={name} of={of}>
      {marks.map(({ at, isFinal }) => (
        <rect
          key={`${at.wall} ${isFinal}`}
          class={isFinal ? "lane-true" : "lane-met"}
          x={Math.min(WIDTH - 6, Math.max(0, place(at, of) - 3))}
          y={isFinal ? 0 : LANE / 2}
          width={6}
          height={isFinal ? LANE : LANE / 2}
        />
      ))}
    </Drawn>
  );
}

function Drawn({ name, of, children }: { name: string; of: WhatIf; children: ComponentChildren }) {
  const x = (at: Moment) => place(at, of);
  return (
    <div class="lane">
      <span class="lane-name">{name}</span>
      <svg viewBox={`0 0 ${WIDTH} ${LANE}`} preserveAspectRatio="none" aria-hidden="true">
        <rect class="lane-ground" x={0} y={0} width={WIDTH} height={LANE} />
        {children}
        {of.oomKills.map((at) => (
          <rect key={`kill ${at.wall}`} class="killmark" x={x(at) - 1} y={0} width={3} height={LANE} />
        ))}
      </svg>
    </div>
  );
}

/** How long it held, and from when. */
function told(held: Held[], { to }: WhatIf): string {
  const [first] = held;
  if (!first) return "never";
  const length = held.reduce((sum, one) => sum + (one.to ?? to).wall - one.from.wall, 0);
  return `${time(length)} from ${clock(first.from.wall)}`;
}

/** Who was ended, as lanes; nothing where no step was decided. */
function Victims({ of }: { of: WhatIf }) {
  const { then, otherwise, gained } = of.ended;
  const all = [...then.marks, ...otherwise.marks];
  if (all.length === 0) return null;
  const told = ({ n }: Marks) => (n === 0 ? "none" : n === 1 ? "1 step" : `${n} steps`);
  return (
    <>
      <p class="legend" id="ended">
        <span class="key lane-true" /> step that ends work, or would if isobar did not only observe
        {all.some(({ isFinal }) => !isFinal) && <><span class="key lane-met" /> gentler step</>}
        {gained ? <b> {sooner(gained)}</b> : null}
      </p>
      <div class="lanes">
        <Ended name={`ended then: ${told(then)}`} marks={then} of={of} />
        <Ended name={`ended otherwise: ${told(otherwise)}`} marks={otherwise} of={of} />
      </div>
    </>
  );
}

function Steps({ of: { steps, moreSteps } }: { of: WhatIf }) {
  const both = (["then", "otherwise"] as const).flatMap((side) => steps[side].map((one) => ({ side, ...one })));
  const more = moreSteps.then + moreSteps.otherwise;
  return (
    <>
      <Table
        caption="Steps, and whom they are about."
        id="steps"
        columns={[
          { head: "Decided", cell: ({ side }: Taken & { side: string }) => <b class={side}>{side}</b> },
          { head: "Time", cell: ({ at }) => clock(at.wall) },
          { head: "Step", cell: ({ step, isEnforced }) => `${spaced(step)}, ${isEnforced ? "enforced" : "only observed"}` },
          { head: "Whom", cell: ({ target }) => target },
          { head: "Because of", cell: ({ because }) => because },
        ]}
        rows={both.sort((a, b) => a.at.wall - b.at.wall)}
        rowKey={({ side, at, step, target }) => `${side} ${at.wall} ${step} ${target}`}
        nothing="No step, then or otherwise."
      />
      {more > 0 && <p class="why">And {more} more.</p>}
    </>
  );
}

function Difference({ of }: { of: WhatIf }) {
  const gained = sooner(of.gained);
  return (
    <Panel title="The difference" id="difference">
      <p>
        {clock(of.from.wall)} to {clock(of.to.wall)}, {age(of.to.wall - of.from.wall)} in {of.ticks} ticks.{" "}
        {gained ? <b>The first step would have come {gained}.</b> : "The first step would have come no sooner and no later."}
      </p>
      {!of.isWhole && <p class="notice" role="alert">Time did not suffice for all of it: what is after {clock(of.to.wall)} was not compared.</p>}
      {of.limit && <p class="why" id="limit">{of.limit}</p>}
      <p class="legend">
        <span class="key lane-true" />
        condition True, or threshold due {of.oomKills.length > 0 && <><span class="key killmark" /> OOM kill by the kernel</>}
      </p>
      <div class="lanes">
        {of.lanes.map(({ name, then, otherwise }) => [
          <Lane key={`${name} then`} name={`${name}, then`} held={then} of={of} />,
          <Lane key={`${name} otherwise`} name="otherwise" held={otherwise} of={of} />,
        ])}
      </div>
      {of.lanes.length === 0 && <p>No condition held and no threshold was due, then or otherwise.</p>}
      <Behind label="conditions and thresholds, then and otherwise">
        {() => (
          <Table
            caption="What held, then and otherwise."
            columns={[
              { head: "Name", cell: ({ name }: WhatIf["lanes"][0]) => name },
              { head: "Then", cell: ({ then }) => told(then, of) },
              { head: "Otherwise", cell: ({ otherwise }) => told(otherwise, of) },
              { head: "Begins", cell: (lane) => sooner(lane.gained) || "–" },
            ]}
            rows={of.lanes}
            rowKey={({ name }) => name}
            nothing="Nothing held."
          />
        )}
      </Behind>
      <Victims of={of} />
      <Steps of={of} />
    </Panel>
  );
}

export function Otherwise({ view }: { view: Snapshot }) {
  const { data, error: unknown } = useDocument<Settings>("api/v1/settings", 30_000);
  const { data: found, error, isBusy, ask } = useAsk<WhatIf>();
  const [typed, type] = useState<Typed>({});
  const [seconds, set] = useState(600);
  // What was in force at the moment; while it is the same, what a reader has typed stays.
  const [rules, keep] = useState<Rules | null>(null);
  const [isTakenBack, takeBack] = useState(false);
  useEffect(() => {
    if (!data || JSON.stringify(data.settings ?? null) === JSON.stringify(rules)) return;
    keep(data.settings ?? null);
    takeBack(Object.keys(typed).length > 0);
    type({});
  }, [data]);
  // Never those of another time beside this moment.
  if (!rules || !data) return <p class="outside">{unknown ? sentence(unknown) : data ? "The settings in force are not known." : "Asking for the settings in force."}</p>;
  const change = patch(rules, typed);
  const put = (key: string, value: string, now: string) => {
    takeBack(false);
    const { [key]: _, ...others } = typed;
    type(value === now || value === "" ? others : { ...others, [key]: value });
  };
  const all = lines(rules);
  const compare = (event: Event) => {
    event.preventDefault();
    ask(`api/v1/what-if?${stretch(seconds, view.at.wall)}&change=${encodeURIComponent(JSON.stringify(change ?? {}))}`);
  };
  const isOn = rules.relief.enforce.length > 0;
  return (
    <>
      <Panel title="What if" id="what-if">
        <p class="why">
          Decides the ticks before {clock(view.at.wall)} again, as they were recorded, with what you change here. It changes nothing on the node.
        </p>
        <form onSubmit={compare}>
          <div class="fields">
            <label>
              <span>Order of candidates</span>
              <select name="order" value={typed.order ?? rules.ranking.order} onChange={({ currentTarget }) => put("order", currentTarget.value, rules.ranking.order)}>
                {["cause", "qos", "kubelet"].map((one) => <option key={one}>{one}</option>)}
              </select>
            </label>
            <label>
              <span>Mode</span>
              <select name="mode" value={typed.mode ?? ""} onChange={({ currentTarget }) => put("mode", currentTarget.value, "")}>
                <option value="">as it is: {isOn ? `enforces ${rules.relief.enforce.map(spaced).join(", ")}` : "observes"}</option>
                <option value="observe">observe</option>
                <option value="enforce">enforce every step</option>
              </select>
            </label>
            {all.map(({ key, label, unit, now }) => (
              <label key={key} class={typed[key] === undefined ? "" : "changed"}>
                <span>{label}</span>
                <span class="amount">
                  {unit ? (
                    <input name={key} type="number" min={0} step="any" value={typed[key] ?? now} onInput={({ currentTarget }) => put(key, currentTarget.value, now)} />
                  ) : (
                    <input name={key} value={typed[key] ?? now} onInput={({ currentTarget }) => put(key, currentTarget.value, now)} />
                  )}
                  {unit}
                </span>
              </label>
            ))}
            <label>
              <span>Before this moment</span>
              <select name="stretch" value={seconds} onChange={({ currentTarget }) => set(Number(currentTarget.value))}>
                {STRETCHES.slice(0, 3).map(([one, words]) => <option key={one} value={one}>{words}</option>)}
              </select>
            </label>
          </div>
          <p class="tools">
            <button id="compare" type="submit" disabled={isBusy}>{isBusy ? "Comparing" : "Compare"}</button>
            <button type="button" onClick={() => type({})} disabled={Object.keys(typed).length === 0}>As in force</button>
            <span class="why" aria-live="polite">{isBusy ? "This may take up to 20 s." : change ? "" : "Nothing is changed yet."}</span>
          </p>
        </form>
        {isTakenBack && <p id="taken-back" class="notice" role="status">Other settings are in force at this moment: the values that were typed for those before are taken back.</p>}
        {error && <p class="notice" role="alert">{error}</p>}
      </Panel>
      {found && <Difference of={found} />}
    </>
  );
}
