// What to reserve for daemons, from what they used: `isobar allocatable --advise` on the page.

import { useState } from "preact/hooks";
import type { Advice, Percentiles, Snapshot } from "../api";
import { stretch, STRETCHES, useAsk } from "../ask";
import { Panel, Table } from "../parts";
import { age, clock } from "../words";

const WHO: Record<string, string> = { kube: "kubelet and runtime", system: "system" };

function Found({ of }: { of: Advice }) {
  const recommended = [
    { key: "kubeReserved", advised: of.kubeReserved, now: of.configured.kubeReserved },
    { key: "systemReserved", advised: of.systemReserved, now: of.configured.systemReserved },
  ].flatMap(({ key, advised, now }) => {
    const names = [...new Set([...Object.keys(advised), ...Object.keys(now)])];
    return names.map((name) => ({ key: `${key}: ${name}`, advised: advised[name] ?? "–", now: now[name] ?? "–" }));
  });
  if (of.threshold) recommended.push({ key: "evictionHard: memory.available", advised: of.threshold, now: of.configured.threshold ?? "–" });
  const used = of.groups.flatMap(({ daemons, memory, cpu }) => {
    const row = (resource: string, of: Percentiles | null | undefined) => ({ key: `${WHO[daemons] ?? daemons}: ${resource}`, of });
    return [row("memory", memory), row("CPU", cpu)];
  });
  const part = (name: keyof Percentiles) => ({ of }: (typeof used)[0]) => of?.[name] ?? "–";
  return (
    <>
      <p>
        {clock(of.from.wall)} to {clock(of.to.wall)}: {age(of.covered)} recorded in {of.ticks} ticks, recommended with {of.margin} % above what was used.
        {of.fastestLoss && ` The node lost at most ${of.fastestLoss} of memory within ten seconds.`}
      </p>
      {!of.isWhole && <p class="notice" role="alert">Time did not suffice for all of it: what is after {clock(of.to.wall)} was not read.</p>}
      <Table
        caption="Recommended reservations and threshold."
        id="recommended"
        columns={[
          { head: "Setting", cell: ({ key }: (typeof recommended)[0]) => key },
          { head: "Recommended", isNumber: true, cell: ({ advised }) => advised },
          { head: "Configured", isNumber: true, cell: ({ now }) => now },
        ]}
        rows={recommended}
        rowKey={({ key }) => key}
        nothing="Nothing was measured to advise on."
      />
      <Table
        caption="What daemons used. A dash: not measured."
        columns={[
          { head: "Used by", cell: ({ key }: (typeof used)[0]) => key },
          { head: "Median", isNumber: true, cell: part("p50") },
          { head: "95 %", isNumber: true, cell: part("p95") },
          { head: "99 %", isNumber: true, cell: part("p99") },
          { head: "Most", isNumber: true, cell: part("max") },
        ]}
        rows={used}
        rowKey={({ key }) => key}
        nothing="Nothing was measured."
      />
      <Table
        caption="What an enforced limit of memory would have met."
        columns={[
          { head: "Limit of", cell: ({ daemons }: Advice["preview"][0]) => WHO[daemons] ?? daemons },
          { head: "At", cell: ({ limit }) => limit },
          { head: "Memory", isNumber: true, cell: ({ memory }) => memory },
          { head: "Ticks above", isNumber: true, cell: ({ ticks }) => ticks },
          { head: "First", cell: ({ first }) => (first ? clock(first.wall, of.to.wall) : "never") },
          { head: "Largest then", cell: ({ by }) => by ?? "–" },
        ]}
        rows={of.preview}
        rowKey={({ daemons, limit }) => `${daemons} ${limit}`}
        nothing="No limit can be advised on."
      />
      <ul class="sentences">{of.problems.map((problem) => <li key={problem}>{problem}</li>)}</ul>
    </>
  );
}

export function Advised({ view }: { view: Snapshot }) {
  const [seconds, set] = useState(3_600);
  const { data, error, isBusy, ask } = useAsk<Advice>();
  return (
    <Panel title="What to reserve" id="advice">
      <p class="why">From what the kubelet, the runtime and the system used in the time before {clock(view.at.wall)}. It is read from the recording.</p>
      <p class="tools">
        <select aria-label="Time that the advice is from" value={seconds} onChange={({ currentTarget }) => set(Number(currentTarget.value))}>
          {STRETCHES.map(([one, words]) => <option key={one} value={one}>{words}</option>)}
        </select>
        <button id="advise" type="button" disabled={isBusy} onClick={() => ask(`api/v1/advice?${stretch(seconds, view.at.wall)}`)}>
          {isBusy ? "Reading" : "Advise"}
        </button>
        <span class="why" aria-live="polite">{isBusy ? "This may take up to 20 s." : ""}</span>
      </p>
      {error && <p class="notice" role="alert">{error}</p>}
      {data && <Found of={data} />}
    </Panel>
  );
}
