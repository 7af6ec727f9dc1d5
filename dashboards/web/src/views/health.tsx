// What the agent can and cannot see or do, and what it costs.

import type { Capability, Snapshot } from "../api";
import { Chart } from "../chart";
import { useHistory } from "../history";
import { Named, Panel, Sentences, Table } from "../parts";
import { age, bytes, clock, spaced, time } from "../words";

const ORDER = { blind: 0, absent: 1, off: 2, attached: 3 };

function Capabilities({ view }: { view: Snapshot }) {
  const gaps = view.gaps.map(
    ({ object, detail }): Capability => ({ name: object, state: "absent", detail, remedy: null }),
  );
  const known = [...view.capabilities].sort((a, b) => ORDER[a.state] - ORDER[b.state]);
  const off = known.filter(({ state }) => state === "off").length;
  const missing = view.missing.length;
  const counts = [missing > 0 && `${missing} missing`, off && `${off} off`].filter(Boolean);
  return (
    <Panel title={`Capabilities: ${counts.join(", ") || "all there"}`} id="capabilities">
      <Table
        caption="What the agent can measure and do. Missing ones first, with cause and remedy."
        columns={[
          { head: "Name", cell: ({ name }: Capability) => name },
          { head: "State", cell: ({ state }) => <span class="state" data-state={state}>{state}</span> },
          { head: "Cause and remedy", cell: ({ detail, remedy }) => <Named name={detail} sub={remedy ? `Remedy: ${remedy}` : ""} /> },
        ]}
        rows={[...gaps, ...known]}
        rowKey={({ name }, at) => `${name} ${at}`}
        nothing="The agent reported no capability."
      />
    </Panel>
  );
}

function Cost({ view, isDark }: { view: Snapshot; isDark: boolean }) {
  const history = useHistory({ view: "health", end: null, span: 3_600 }, "agent").data;
  const { cpu, resident, tick, longestGap, kernel } = view.cost;
  const perSecond = kernel.programs.reduce((sum, program) => sum + program.perSecond, 0);
  const pairs = [
    ["Agent, CPU", cpu == null ? "unknown" : `${(cpu / 10).toFixed(1)} % of one core`],
    ["Agent, memory", bytes(resident)],
    ["One sample", time(tick)],
    ["Longest time between two samples", time(longestGap)],
    ["eBPF programs", kernel.programs.length ? `${time(perSecond)} per second, over all CPUs` : "not metered"],
    ["eBPF maps", bytes(kernel.mapBytes)],
    ["Started", `${clock(view.started.wall, view.at.wall)} (${age(view.at.boot - view.started.boot)} ago)`],
  ];
  return (
    <Panel title="Cost of isobar" id="cost">
      <dl>{pairs.flatMap(([dt, dd]) => [<dt key={dt}>{dt}</dt>, <dd key={`${dt} is`}>{dd}</dd>])}</dl>
      <div class="charts">
        <Chart title="Agent, CPU" history={history} series={[{ name: "agent.cpu", label: "CPU", colour: "others" }]} cursor="agent" isDark={isDark} />
        <Chart title="Agent, memory" history={history} series={[{ name: "agent.resident", label: "resident", colour: "others" }]} cursor="agent" isDark={isDark} />
        <Chart title="One sample" history={history} series={[{ name: "agent.tick", label: "tick", colour: "others" }]} cursor="agent" isDark={isDark} />
      </div>
      <Table
        caption="eBPF programs, in the last interval."
        columns={[
          { head: "Program", cell: ({ name }) => name },
          { head: "Runs", isNumber: true, cell: ({ runs }) => runs.toLocaleString("en"), by: ({ runs }) => runs },
          { head: "Per run", isNumber: true, cell: ({ perRun }) => time(perRun), by: ({ perRun }) => perRun ?? -1 },
          { head: "Per second", isNumber: true, cell: ({ perSecond }) => time(perSecond), by: ({ perSecond }) => perSecond },
        ]}
        rows={kernel.programs}
        rowKey={({ name }) => name}
        nothing="Not metered: BPF statistics are off, or no program is attached."
      />
    </Panel>
  );
}

function Losses({ view, missed }: { view: Snapshot; missed: number }) {
  const counted = [
    ...Object.entries(view.lost).map(([name, n]) => ({ name: `lost: ${spaced(name)}`, n })),
    ...Object.entries(view.doubts).map(([name, n]) => ({ name: `doubtful: ${spaced(name)}`, n })),
    { name: "ticks that this page missed", n: missed },
  ];
  return (
    <Panel title="What was lost" id="lost">
      <Table
        caption="What could not be counted, readings that could not be true, and ticks that did not arrive."
        columns={[
          { head: "What", cell: ({ name }) => name },
          { head: "How much", isNumber: true, cell: ({ name, n }) => (name.endsWith("time") ? time(n) : n.toLocaleString("en")) },
        ]}
        rows={counted.filter(({ n }) => n > 0)}
        rowKey={({ name }) => name}
        nothing="Nothing."
      />
    </Panel>
  );
}

interface HealthOf {
  view: Snapshot;
  missed: number;
  isDark: boolean;
  isRecorded: boolean;
}

export function Health({ view, missed, isDark, isRecorded }: HealthOf) {
  return (
    <>
      {isRecorded ? (
        <Panel title="Capabilities and cost" id="capabilities">
          <p>What the agent could measure, and what it cost, is not recorded. What it could not read for this tick:</p>
          <Sentences of={view.gaps.map(({ object, detail }) => `${object}: ${detail}`)} nothing="Nothing: all was read." />
        </Panel>
      ) : (
        <>
          <Capabilities view={view} />
          <Cost view={view} isDark={isDark} />
        </>
      )}
      <Losses view={view} missed={missed} />
    </>
  );
}
