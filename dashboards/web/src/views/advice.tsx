// What to reserve for daemons, from what they used, and what limits would have met: `isobar allocatable
// --advise` on the page.

import { useState } from "preact/hooks";
import type { Advice, Met, Percentiles, Reached, Share, Snapshot, Tally } from "../api";
import { stretch, STRETCHES, useAsk } from "../ask";
import { Panel, Table } from "../parts";
import { age, clock, time } from "../words";

const WHO: Record<string, string> = { kube: "kubelet and runtime", system: "system" };

const LIMITS: Record<string, string> = { inForce: "in force", configured: "configured", strictCpus: "strict set of CPUs" };

function often({ ticks, lasted, times }: Tally): string {
  if (ticks === 0) return "never";
  return `${ticks} ticks, ${time(lasted)}${times > 1 ? ` in ${times} times` : ""}`;
}

/** What limits of all pods would have met; null where it is not known, which is not 0. */
function Pods({ of: { pods, to } }: { of: Advice }) {
  const of = (text: (met: Met) => string) => ({ met }: Reached) => (met ? text(met) : "unknown");
  const named = (all: Share[]) => all.map(({ pod, amount }) => `${pod} ${amount}`).join(", ") || "–";
  return (
    <Table
      caption="What limits of all pods would have met, which pods used most when they used most together, and which one would have been evicted first at the limit."
      id="limits-of-pods"
      columns={[
        { head: "Limit", cell: ({ limit, resource }: Reached) => `${LIMITS[limit] ?? limit}, ${resource}` },
        { head: "Amount", isNumber: true, cell: ({ amount }) => amount ?? "unknown" },
        { head: "Most used", isNumber: true, cell: of(({ most, excess }) => (excess ? `${most}, ${excess} too much` : most)) },
        { head: "Above", cell: of(({ above }) => often(above)) },
        { head: "From 95 % on", cell: of(({ close }) => often(close)) },
        { head: "Longest", cell: of(({ longest }) => (longest ? `${clock(longest.from.wall, to.wall)} to ${clock(longest.to.wall, to.wall)}` : "–")) },
        { head: "Used most", cell: of(({ largest }) => named(largest)) },
        { head: "Grew most", cell: of(({ grew }) => named(grew)) },
        { head: "Evicted first", cell: ({ evictedFirst }) => evictedFirst ?? "–" },
      ]}
      rows={pods}
      rowKey={({ limit }) => limit}
      nothing="No limit of all pods was in force or is configured."
    />
  );
}

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
        caption="What reservations would have met: of memory a limit, if enforced, of CPU a share."
        columns={[
          { head: "Reserved for", cell: ({ daemons }: Advice["preview"][0]) => WHO[daemons] ?? daemons },
          { head: "Resource", cell: ({ resource }) => resource },
          { head: "At", cell: ({ limit }) => limit },
          { head: "Amount", isNumber: true, cell: ({ amount }) => amount },
          { head: "Ticks above", isNumber: true, cell: ({ ticks }) => ticks },
          { head: "First", cell: ({ first }) => (first ? clock(first.wall, of.to.wall) : "never") },
          { head: "Largest then", cell: ({ by }) => by ?? "–" },
        ]}
        rows={of.preview}
        rowKey={({ daemons, resource, limit }) => `${daemons} ${resource} ${limit}`}
        nothing="No reservation can be advised on."
      />
      <Pods of={of} />
      <p class="why">All that would have been evicted by other thresholds, or under another limit of all pods, the view What if shows, or <code>isobar replay FILE --config OTHER.yaml</code>.</p>
      <ul class="sentences">{of.problems.map((problem) => <li key={problem}>{problem}</li>)}</ul>
    </>
  );
}

const RESERVED = ["kubeReserved", "systemReserved"].flatMap((list) => ["memory", "cpu"].map((name) => ({ list, name })));

/** What is to be previewed in place of what is configured, as a part of a request; empty for nothing. */
function changeOf(typed: Record<string, string>): string {
  const node: Record<string, unknown> = {};
  for (const { list, name } of RESERVED) {
    const amount = typed[`${list} ${name}`]?.trim();
    if (amount) node[list] = { ...(node[list] as object), [name]: amount };
  }
  const cpus = typed.cpus?.trim();
  if (cpus) Object.assign(node, { reservedCpus: cpus, staticCpus: true, strictCpuReservation: true });
  return Object.keys(node).length > 0 ? `&change=${encodeURIComponent(JSON.stringify({ node }))}` : "";
}

export function Advised({ view }: { view: Snapshot }) {
  const [seconds, set] = useState(3_600);
  const [typed, type] = useState<Record<string, string>>({});
  const { data, error, isBusy, ask } = useAsk<Advice>();
  const field = (key: string, words: string, example: string) => (
    <label key={key}>
      <span>{words}</span>
      <span class="amount"><input value={typed[key] ?? ""} placeholder={example} onInput={({ currentTarget }) => type({ ...typed, [key]: currentTarget.value })} /></span>
    </label>
  );
  return (
    <Panel title="What to reserve" id="advice">
      <p class="why">From what the kubelet, the runtime, the system and all pods used in the time before {clock(view.at.wall)}. It is read from the recording.</p>
      <details>
        <summary>Preview other reservations than the configured ones</summary>
        <div class="fields" id="preview">
          {RESERVED.map(({ list, name }) => field(`${list} ${name}`, `${list}: ${name}`, name === "memory" ? "1Gi" : "500m"))}
          {field("cpus", "a strict set of reserved CPUs", "0-1")}
        </div>
      </details>
      <p class="tools">
        <select aria-label="Time that the advice is from" value={seconds} onChange={({ currentTarget }) => set(Number(currentTarget.value))}>
          {STRETCHES.map(([one, words]) => <option key={one} value={one}>{words}</option>)}
        </select>
        <button id="advise" type="button" disabled={isBusy} onClick={() => ask(`api/v1/advice?${stretch(seconds, view.at.wall)}${changeOf(typed)}`)}>
          {isBusy ? "Reading" : "Advise"}
        </button>
        <span class="why" aria-live="polite">{isBusy ? "This may take up to 20 s." : ""}</span>
      </p>
      {error && <p class="notice" role="alert">{error}</p>}
      {data && <Found of={data} />}
    </Panel>
  );
}
