// What is left of what can run out, and the limits that isobar keeps.

import type { Allocatable as Document, Cpus, LimitState, Observation, Outlook, Snapshot } from "../api";
import { useDocument } from "../history";
import { Meter, Panel, StatusWord, Table } from "../parts";
import { Advised } from "./advice";
import { bytes, percent, spaced, time } from "../words";

/** Inodes and processes are counted, all else is bytes. */
const amount = (signal: string, n: number) =>
  signal.startsWith("pid") || signal.includes("inodes") ? n.toLocaleString("en") : bytes(n);

/** A result that an operator has to look at. */
const isWrong = ({ result }: LimitState) => result === "drifted" || result === "failed";
/** Limits that differ are shown with all their digits: in short, two of them could look alike. */
const unitOf = (limit: LimitState) => (limit.write.file.startsWith("memory.") && !isOther(limit) ? "bytes" : "other");
const isOther = ({ live, write }: LimitState) => live != null && live !== write.value;

function Left({ view }: { view: Snapshot }) {
  const { observations, unobserved } = view.decision.assessment;
  const used = ({ available, capacity }: Observation) => (capacity ? 1 - available / capacity : 0);
  return (
    <Panel title="What is left" id="left">
      <Table
        caption="The kubelet's eviction signals. The bar is what is used."
        columns={[
          { head: "Signal", cell: ({ signal }: Observation) => signal },
          { head: "Used", cell: (one) => <Meter parts={[{ kind: "others", share: used(one) }]} /> },
          { head: "Available", isNumber: true, cell: ({ signal, available }) => amount(signal, available) },
          { head: "Capacity", isNumber: true, cell: ({ signal, capacity }) => amount(signal, capacity) },
          { head: "Available, share", isNumber: true, cell: (one) => percent((1 - used(one)) * 100) },
        ]}
        rows={observations}
        rowKey={({ signal }) => signal}
        nothing="No eviction signal has a reading."
      />
      {unobserved.length > 0 && (
        <ul class="sentences">
          {unobserved.map(({ signal, why }) => (
            <li key={signal}>
              <StatusWord status="Unknown" word={signal} /> {why}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** A quantity of bytes for a reader, with all its digits in the title; another text as it is. */
function Amount({ of, text }: { of: "bytes" | "other"; text: string }) {
  const n = of === "bytes" ? quantity(text) : NaN;
  return Number.isFinite(n) ? <span title={`${n} bytes`}>{bytes(n)}</span> : <>{text}</>;
}

const isOfBytes = (name: string) => /^(memory|ephemeral-storage|hugepages-)/.test(name);

/** A quantity of Kubernetes as a number. */
function quantity(text: string): number {
  const [, digits, unit] = /^([\d.]+)(.*)$/.exec(text) ?? [];
  const powers: Record<string, number> = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  return Number(digits) * (unit ? (powers[unit] ?? NaN) : 1);
}

function Reserved({ view: { resources } }: { view: Snapshot }) {
  if (!resources) return null;
  const { capacity, kubeReserved, systemReserved, evictionHard, allocatable } = resources;
  const of = (list: Record<string, string>) => (name: string) => <Amount of={isOfBytes(name) ? "bytes" : "other"} text={list[name] ?? "–"} />;
  const share = (name: string) => quantity(allocatable[name] ?? "") / quantity(capacity[name] ?? "");
  return (
    <Panel title="What pods may have" id="resources">
      <Table
        caption="By the kubelet's arithmetic and the configuration: capacity less what is reserved and the hard eviction threshold. The bar is what is left for pods."
        columns={[
          { head: "Resource", cell: (name: string) => name },
          { head: "Allocatable, share", cell: (name) => <Meter parts={[{ kind: "own", share: share(name) || 0 }]} /> },
          { head: "Allocatable", isNumber: true, cell: of(allocatable) },
          { head: "Capacity", isNumber: true, cell: of(capacity) },
          { head: "Kube reserved", isNumber: true, cell: of(kubeReserved) },
          { head: "System reserved", isNumber: true, cell: of(systemReserved) },
          { head: "Evicts at (hard)", isNumber: true, cell: of(evictionHard) },
        ]}
        rows={Object.keys(capacity)}
        rowKey={(name) => name}
        nothing="The capacity of this node could not be read."
      />
    </Panel>
  );
}

function Outlooks({ view }: { view: Snapshot }) {
  return (
    <Panel title="How long memory lasts" id="outlook">
      <Table
        caption="At the growth of the last seconds. A dash: not measured, or memory does not grow."
        columns={[
          { head: "Scope", cell: ({ scope }: Outlook) => (scope === "system" ? "the node" : "all pods") },
          { head: "Left", isNumber: true, cell: ({ left }) => bytes(left) },
          { head: "Growth per second", isNumber: true, cell: ({ growth }) => bytes(growth) },
          { head: "Lasts", isNumber: true, cell: ({ lasts }) => time(lasts) },
        ]}
        rows={view.decision.assessment.outlooks}
        rowKey={({ scope }) => scope}
        nothing="No forecast."
      />
    </Panel>
  );
}

function Limits({ title, id, limits, nothing }: { title: string; id: string; limits: LimitState[]; nothing: string }) {
  return (
    <Panel title={title} id={id}>
      <Table
        caption="Compared every ten seconds. What is in force and not as configured comes first."
        columns={[
          { head: "Cgroup", cell: ({ write }: LimitState) => write.cgroup },
          { head: "File", cell: ({ write }) => write.file },
          { head: "Configured", isNumber: true, cell: (limit) => <Amount of={unitOf(limit)} text={limit.write.value} /> },
          { head: "In force", isNumber: true, cell: (limit) => <Amount of={unitOf(limit)} text={limit.live ?? "unreadable"} /> },
          { head: "Before isobar", isNumber: true, cell: (limit) => <Amount of={unitOf(limit)} text={limit.before ?? "–"} /> },
          {
            head: "Result",
            cell: (limit) => (
              <span>
                <StatusWord
                  status={isWrong(limit) ? "True" : limit.live == null ? "Unknown" : "False"}
                  word={isOther(limit) && !isWrong(limit) ? `${spaced(limit.result)}, differs` : spaced(limit.result)}
                />
                {limit.detail && <span class="sub">{limit.detail}</span>}
              </span>
            ),
          },
        ]}
        rows={[...limits].sort((a, b) => Number(isWrong(b) || isOther(b)) - Number(isWrong(a) || isOther(a)))}
        rowKey={({ write }) => `${write.cgroup}/${write.file}`}
        nothing={nothing}
      />
    </Panel>
  );
}

type Owner = { who: string; cpus: string; sub: string };

/** The sets of the CPU manager, with their owners. */
function owners({ reserved, default: shared, sharedMillicores, assignments, names }: Cpus): Owner[] {
  const exclusive = assignments.map(({ pod, container, cpus }) => ({
    who: [pod && (names[pod] ?? `pod ${pod}`), container].filter(Boolean).join(", "),
    cpus,
    sub: "for itself",
  }));
  return [
    { who: "daemons", cpus: reserved, sub: "reserved" },
    ...exclusive,
    shared === undefined || sharedMillicores === undefined
      ? { who: "containers", cpus: "unknown", sub: "the state file could not be read" }
      : { who: "all other containers", cpus: shared, sub: `shared, ${sharedMillicores / 1000} CPUs of them not reserved` },
  ];
}

function Manager({ isRecorded }: { isRecorded: boolean }) {
  const { data } = useDocument<Document>("api/v1/allocatable", 10_000);
  if (data === null) return null;
  const { cpus } = data;
  const none = isRecorded ? "What the CPU manager assigned is not recorded." : "Whose CPUs these are is not known, or the policy of the kubelet's CPU manager is not static.";
  return (
    <Panel title="CPU manager" id="cpumanager">
      {cpus && cpus.problems.length > 0 && (
        <ul class="sentences">
          {cpus.problems.map((problem) => (
            <li key={problem}>
              <StatusWord status="True" word="State file" /> {problem}
            </li>
          ))}
        </ul>
      )}
      <Table
        caption="Whose CPUs these are, by the kubelet's static policy and its state file."
        columns={[
          { head: "CPUs", cell: ({ cpus }: Owner) => cpus || "none" },
          { head: "Of", cell: ({ who }) => who },
          { head: "How", cell: ({ sub }) => sub },
        ]}
        rows={cpus ? owners(cpus) : []}
        rowKey={({ who }) => who}
        nothing={none}
      />
    </Panel>
  );
}

export function Allocatable({ view, isRecorded }: { view: Snapshot; isRecorded: boolean }) {
  const isCpus = ({ write }: LimitState) => write.file.startsWith("cpuset");
  const none = isRecorded ? "Limits are not recorded." : "No limit is compared, memory, processes or CPU sets: the configuration, the kubelet's or isobar's own, reserves nothing.";
  return (
    <>
      <Left view={view} />
      <Reserved view={view} />
      <Outlooks view={view} />
      <Advised view={view} />
      <Limits title="Limits in force" id="limits" limits={view.limits.filter((one) => !isCpus(one))} nothing={none} />
      {view.limits.length > 0 && (
        <Limits title="CPU sets" id="cpusets" limits={view.limits.filter(isCpus)} nothing="No CPU set is compared." />
      )}
      <Manager isRecorded={isRecorded} />
      <p class="why outside">
        Pods that would fit, and soft eviction thresholds: <code>isobar allocatable</code>; processes and interrupts on reserved CPUs: <code>isobar cpus</code>.
      </p>
    </>
  );
}
