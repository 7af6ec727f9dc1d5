// Who hurts whom: sufferers by aggressors, over ten seconds, a minute and ten minutes.

import { useState } from "preact/hooks";
import type { Blame, HistoryEvents, Nanos, Snapshot } from "../api";
import { useLastMinute } from "../film";
import { useEvents } from "../history";
import { Named, Panel, Table, Unknown } from "../parts";
import type { Past } from "../stream";
import { byHarm, lately, type Pairs, plus, summed } from "../waits";
import { age, called, percent, SECOND, time } from "../words";

const LENGTHS = [10, 60, 600] as const;
const MOST = 8; // rows and columns of the matrix

/** The six pairs of each minute that cost most: the agent keeps no more. */
function ofMinutes(events: HistoryEvents | null): Pairs {
  const minutes = events?.minutes ?? [];
  return { pairs: summed(minutes.map(({ aggressions }) => aggressions)), over: minutes.reduce((sum, { over }) => sum + over, 0) };
}

interface Party {
  id: number;
  path: string | null | undefined;
  time: Nanos;
  loss: Nanos;
}

/** Who lost most, or because of whom most was lost, greatest first. */
function greatest(pairs: Blame[], of: "victim" | "aggressor"): Party[] {
  const sums = new Map<number, Party>();
  for (const pair of pairs) {
    const id = pair[of];
    const path = of === "victim" ? pair.victimPath : pair.aggressorPath;
    sums.set(id, { id, path, ...plus(sums.get(id) ?? { time: 0 }, pair) });
  }
  return [...sums.values()].sort(byHarm).slice(0, MOST);
}

interface MatrixOf {
  view: Snapshot;
  of: Pairs;
  chosen: string | null;
  choose: (pair: string | null) => void;
}

const keyOf = (victim: number, aggressor: number) => `${victim} ${aggressor}`;

function Matrix({ view, of: { pairs, over }, chosen, choose }: MatrixOf) {
  const [rows, columns] = [greatest(pairs, "victim"), greatest(pairs, "aggressor")];
  const times = new Map(pairs.map((pair) => [keyOf(pair.victim, pair.aggressor), pair.time]));
  const longest = Math.max(1, ...pairs.filter(({ victim, aggressor }) => victim !== aggressor).map(({ time }) => time));
  const perSecond = (sum: Nanos) => time(Math.round(sum / (over / SECOND)));
  const isOwn = (row: { id: number }, column: { id: number }) => row.id === column.id;
  const heat = (waited: number) => `heat${Math.max(1, Math.min(5, Math.ceil(Math.sqrt(waited / longest) * 5)))}`;
  if (over === 0) return <p>Not known.</p>;
  if (pairs.length === 0) return <p>{view.whole.cpu ? "No cgroup waited for another one." : "Not measured: see Health."}</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Sufferers by aggressors">
      <table class="matrix">
        <caption>
          Waiting for a CPU per second, over {age(over)}. A row waited while a column ran; without colour: for its own
          tasks. Below each name is what it lost, or what was lost because of it: those with most come first. Choose a
          cell to see its evidence.
        </caption>
        <thead>
          <tr>
            <th scope="col">Sufferer ↓ Aggressor →</th>
            {columns.map(({ id, path, loss }) => (
              <th key={id} scope="col">
                <Named name={called(view, id, path).name} sub={loss > 0 ? `cost ${perSecond(loss)}` : ""} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              <th scope="row">
                <Named name={called(view, row.id, row.path).name} sub={row.loss > 0 ? `lost ${perSecond(row.loss)}` : ""} />
              </th>
              {columns.map((column) => {
                const pair = keyOf(row.id, column.id);
                const waited = times.get(pair);
                return (
                  <td key={column.id}>
                    {waited !== undefined && (
                      <button
                        type="button"
                        class={`cell ${isOwn(row, column) ? "" : heat(waited)}`}
                        aria-pressed={chosen === pair}
                        onClick={() => choose(chosen === pair ? null : pair)}
                      >
                        {perSecond(waited)}
                      </button>
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Who({ view, past }: { view: Snapshot; past: Past[] }) {
  const [length, setLength] = useState<(typeof LENGTHS)[number]>(10);
  const [chosen, choose] = useState<string | null>(null);
  useLastMinute();
  const events = useEvents({ view: "blame", end: null, span: 600 }).data;
  const of = length === 600 ? ofMinutes(events) : lately(past, length);
  const whole = new Map<number, number>();
  for (const { victim, time } of of.pairs) whole.set(victim, (whole.get(victim) ?? 0) + time);
  const evidence = of.pairs.filter(({ victim, aggressor }) => chosen === null || keyOf(victim, aggressor) === chosen);
  const tools = (
    <div class="tools" role="group" aria-label="Over how long">
      {LENGTHS.map((one) => (
        <button key={one} type="button" aria-pressed={length === one} onClick={() => setLength(one)}>
          {age(one * SECOND)}
        </button>
      ))}
    </div>
  );
  return (
    <>
      <Panel title="Who hurts whom" aside={tools} id="matrix">
        <p class="why">
          {length === 600
            ? "From the agent's memory: the six pairs of each minute that cost most. Others are missing here, and so is the minute that was not over at a moment in the past."
            : "Summed by this page from each tick: the forty pairs of each that cost most. What was before this page was opened is from the agent's recording, if it has one."}
        </p>
        {length === 600 && <Unknown events={events} of="minutes" />}
        <Matrix view={view} of={of} chosen={chosen} choose={choose} />
      </Panel>
      <Panel
        title="Evidence"
        id="evidence"
        aside={chosen && <button type="button" onClick={() => choose(null)}>Show all pairs</button>}
      >
        <Table
          caption="Measured in the kernel: while a task of the sufferer was ready to run, a task of the aggressor held the CPU. Lost: no more than the aggressor ran, weighed by how much of its time the sufferer waited; rows are in its order. What the kernel's own threads waited is nobody's loss, nor is what a cgroup's own tasks took. The share is of all waiting of this sufferer in the table."
          columns={[
            { head: "Sufferer", cell: ({ victim, victimPath }) => <Named {...called(view, victim, victimPath)} /> },
            { head: "Aggressor", cell: ({ aggressor, aggressorPath }) => <Named {...called(view, aggressor, aggressorPath)} /> },
            { head: "Lost", isNumber: true, cell: ({ loss }) => time(loss ?? null), by: ({ loss }) => loss ?? 0 },
            { head: "Waited", isNumber: true, cell: (one) => time(one.time), by: (one) => one.time },
            {
              head: "Per second",
              isNumber: true,
              cell: (one) => (of.over ? time(Math.round(one.time / (of.over / SECOND))) : "–"),
            },
            { head: "Share", isNumber: true, cell: (one) => percent((one.time / (whole.get(one.victim) ?? one.time)) * 100) },
          ]}
          rows={evidence.slice(0, 40)}
          rowKey={({ victim, aggressor }) => keyOf(victim, aggressor)}
          nothing={of.over === 0 ? "Not known." : view.whole.cpu ? "No cgroup waited for another one." : "Not measured: see Health."}
        />
      </Panel>
    </>
  );
}
