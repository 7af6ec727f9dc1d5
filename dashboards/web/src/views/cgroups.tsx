// Every cgroup: as a tree, or those that a search finds; and how long each waited, as a heat map.

import { useState } from "preact/hooks";
import type { Scope, Snapshot } from "../api";
import { useLastMinute } from "../film";
import { useCgroups } from "../history";
import { Behind, Meter, Named, Panel, Table } from "../parts";
import { link, type Route } from "../route";
import type { Past } from "../stream";
import { moved, weight, worstShare } from "../waits";
import { apart, bytes, clock, memoryCauses, type Name, nameOf, percent, SECOND, time } from "../words";
import { PastOf } from "./past";

interface Row {
  id: string;
  scope: Scope;
  depth: number;
  /** Cgroups directly below. */
  n: number;
}

/** Thousandths. */
const CPU = 1_000;

const ORDERS = {
  waiting: { label: "waiting", by: weight },
  cpu: { label: "CPUs used", by: ({ cpuUsage }: Scope) => cpuUsage ?? -1 },
  contention: { label: "CPU contention", by: ({ contention }: Scope) => contention?.avg10 ?? -1 },
  memory: { label: "memory", by: ({ files }: Scope) => files?.memory.current ?? -1 },
  stall: { label: "memory stall", by: ({ memory }: Scope) => memory?.any.now ?? -1 },
  io: { label: "IO stall", by: ({ pressure }: Scope) => pressure.io?.some?.avg10 ?? -1 },
  moved: { label: "read and written", by: ({ io }: Scope) => (io ? moved(io) : -1) },
};
type Order = keyof typeof ORDERS;

function grouped(scopes: Record<string, Scope>): Map<string, string[]> {
  const below = new Map<string, string[]>();
  for (const [id, { parent }] of Object.entries(scopes)) {
    const key = parent != null && scopes[String(parent)] ? String(parent) : "";
    below.set(key, [...(below.get(key) ?? []), id]);
  }
  return below;
}

/** The tree as far as it is open, siblings in this order. */
function tree(scopes: Record<string, Scope>, isClosed: (id: string, depth: number) => boolean, by: (scope: Scope) => number) {
  const below = grouped(scopes);
  const rows: Row[] = [];
  const walk = (parent: string, depth: number) => {
    const siblings = (below.get(parent) ?? []).flatMap((id) => (scopes[id] ? [{ id, scope: scopes[id] }] : []));
    for (const { id, scope } of siblings.sort((a, b) => by(b.scope) - by(a.scope))) {
      rows.push({ id, scope, depth, n: below.get(id)?.length ?? 0 });
      if (!isClosed(id, depth)) walk(id, depth + 1);
    }
  };
  walk("", 0);
  return rows;
}

function found(scopes: Record<string, Scope>, search: string, by: (scope: Scope) => number): Row[] {
  const words = search.toLowerCase().split(/\s+/);
  const text = (scope: Scope) => `${nameOf(scope).name} ${nameOf(scope).sub} ${scope.path}`.toLowerCase();
  const has = (scope: Scope) => words.every((word) => text(scope).includes(word));
  const all = Object.entries(scopes).filter(([, scope]) => has(scope));
  return all.map(([id, scope]) => ({ id, scope, depth: 0, n: 0 })).sort((a, b) => by(b.scope) - by(a.scope));
}

function CpuWait({ scope: { cpu }, interval }: { scope: Scope; interval: number }) {
  const parts = [
    { kind: "others", word: "contention", now: cpu?.contention?.now },
    { kind: "own", word: "own quota", now: cpu?.throttledOwn?.now },
    { kind: "above", word: "quota above", now: cpu?.throttledAncestor?.now },
  ].flatMap((part) => (part.now ? [{ ...part, now: part.now }] : []));
  if (!cpu) return <>not measured</>;
  const scale = Math.max(interval, parts.reduce((sum, { now }) => sum + now, 0));
  return (
    <span>
      <Meter parts={parts.map(({ kind, now }) => ({ kind, share: now / scale }))} />
      <span class="sub">{parts.map(({ word, now }) => `${time(now)} ${word}`).join(", ") || "none"}</span>
    </span>
  );
}

/** Used, and requested. */
function cpus({ cpuUsage, cpuRequest }: Scope): string {
  if (cpuUsage == null) return "–";
  const used = (cpuUsage / CPU).toFixed(2);
  return cpuRequest == null ? used : `${used} of ${(cpuRequest / CPU).toFixed(2)}`;
}

/** All of it, and what came while less was used than is requested. */
function contention({ contention, belowRequest }: Scope): string {
  const all = percent(contention?.avg10);
  return belowRequest && belowRequest.avg10 > 0 ? `${all}, ${percent(belowRequest.avg10)} below request` : all;
}

const SHOWN = 200;
const HEAT_ROWS = 16;

/** Rows: the cgroups that waited most. Columns: the last ticks, the newest at the right. */
function Heat({ view, past }: { view: Snapshot; past: Past[] }) {
  useLastMinute();
  const sums = new Map<string, number>();
  for (const { waits } of past) for (const [id, share] of Object.entries(waits)) sums.set(id, (sums.get(id) ?? 0) + (share ?? 0));
  const most = [...sums].filter(([, sum]) => sum > 0).sort(([, a], [, b]) => b - a).slice(0, HEAT_ROWS);
  const called = (id: string): Name => {
    const scope = view.scopes[id];
    return scope ? { name: nameOf(scope).name, sub: apart(scope) } : { name: "not among those that wait most now", sub: `id ${id}` };
  };
  const names = most.map(([id]) => called(id).name);
  const rows = most.map(([id]) => {
    const { name, sub } = called(id);
    return { id, name: names.filter((other) => other === name).length > 1 ? `${name}, ${sub}` : name };
  });
  const level = (share: number | null | undefined) => (share == null ? "none" : `heat${share < 1 ? 0 : Math.min(5, Math.ceil(share / 20))}`);
  const label = `Waiting of the ${most.length} cgroups that waited most, by tick, over the last ${past.length} ticks`;
  return (
    <Panel title="Waiting, tick by tick" id="heat">
      <p class="why">
        The last sixty ticks at most, the newest at the right; those from before this page was opened are from the
        agent's recording, if it has one. Darker: a larger share of time in which at least one task waited; empty: not
        among the cgroups that are told of.
      </p>
      <div class="heatmap" role="img" aria-label={label}>
        {rows.map(({ id, name }) => (
          <div key={id} class="heatrow">
            <span class="heatname">{name}</span>
            <svg viewBox="0 0 60 1" preserveAspectRatio="none" aria-hidden="true">
              {past.map(({ tick, waits }, at) => (
                <rect key={tick} class={level(waits[id])} x={60 - past.length + at} y={0} width={1.02} height={1} />
              ))}
            </svg>
          </div>
        ))}
      </div>
      <Behind label={label}>
        {() => (
          <Table
            caption={label}
            columns={[
              { head: "Time", cell: ({ wall }: Past) => clock(wall) },
              ...rows.map(({ id, name }) => ({
                head: name,
                isNumber: true,
                cell: ({ waits }: Past) => percent(waits[id]),
              })),
            ]}
            rows={[...past].reverse()}
            rowKey={({ tick }) => String(tick)}
            nothing="No tick yet."
          />
        )}
      </Behind>
    </Panel>
  );
}

interface CgroupsOf {
  view: Snapshot;
  past: Past[];
  route: Route;
  isDark: boolean;
}

export function Cgroups({ view, past, route, isDark }: CgroupsOf) {
  const scopes = useCgroups().data?.scopes ?? view.scopes;
  const [search, setSearch] = useState("");
  const [order, setOrder] = useState<Order>("waiting");
  const [turned, turn] = useState<ReadonlySet<string>>(new Set());
  const { by } = ORDERS[order];
  // Open down to pods; a click turns a cgroup over.
  const isClosed = (id: string, depth: number) => {
    const kind = scopes[id]?.place.kind;
    const isUsuallyClosed = kind === "pod" || (kind === "other" && depth >= 1);
    return isUsuallyClosed !== turned.has(id);
  };
  const rows = search ? found(scopes, search, by) : tree(scopes, isClosed, by);
  const toggle = (id: string) => {
    const next = new Set(turned);
    if (!next.delete(id)) next.add(id);
    turn(next);
  };
  const tools = (
    <div class="tools">
      <label>
        Search <input id="search" type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </label>
      <label>
        Sort by{" "}
        <select id="order" value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
          {Object.entries(ORDERS).map(([key, { label }]) => (
            <option key={key} value={key}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
  const name = ({ id, scope, depth, n }: Row) => (
    <span class="branch" style={{ paddingLeft: `${Math.min(depth, 6) * 14}px` }}>
      {n > 0 ? (
        <button
          type="button"
          class="twig"
          aria-expanded={!isClosed(id, depth)}
          aria-label={`${n} below ${nameOf(scope).name}`}
          onClick={() => toggle(id)}
        >
          {isClosed(id, depth) ? "▸" : "▾"}
        </button>
      ) : (
        <span class="twig" />
      )}
      <span>
        <Named {...nameOf(scope)} />
        <a class="sub" href={link({ ...route, cgroup: scope.path })} aria-current={route.cgroup === scope.path ? "true" : undefined}>
          history<span class="hidden"> of {nameOf(scope).name}</span>
        </a>
      </span>
    </span>
  );
  const chosen = Object.values(scopes).find(({ path }) => path === route.cgroup);
  return (
    <>
      {route.cgroup && <PastOf key={route.cgroup} name={chosen ? nameOf(chosen).name : route.cgroup} route={route} cgroup={route.cgroup} isDark={isDark} />}
      <Panel title={search ? `${rows.length} of ${Object.keys(scopes).length} cgroups` : "Cgroups"} aside={tools} id="tree">
        <Table
          caption={`Siblings by ${ORDERS[order].label}, largest first. Waiting: the largest share of the last ten seconds in which at least one task waited, for a CPU (its own quota included), for memory or for IO. CPUs used: of those that the pod or container requests, where that is known. Below request: contention in seconds in which less than that was used. Below the IO stall: what it reads and writes per second.`}
          columns={[
            { head: "Name", cell: name },
            { head: "Waiting", isNumber: true, cell: ({ scope }) => percent(worstShare(scope)) },
            { head: "CPUs used", isNumber: true, cell: ({ scope }) => cpus(scope) },
            { head: "Contention", isNumber: true, cell: ({ scope }) => contention(scope) },
            { head: "CPU wait, by cause", cell: ({ scope }) => <CpuWait scope={scope} interval={view.interval || SECOND} /> },
            { head: "Memory", isNumber: true, cell: ({ scope }) => bytes(scope.files?.memory.current) },
            { head: "Memory stall", cell: ({ scope }) => (scope.memory ? memoryCauses(scope) || "none" : "not measured") },
            { head: "IO stall", isNumber: true, cell: ({ scope: { pressure, io } }) => <Named name={percent(pressure.io?.some?.avg10)} sub={io ? `${bytes(moved(io))}/s` : ""} /> },
          ]}
          rows={rows.slice(0, SHOWN)}
          rowKey={({ id }) => id}
          nothing={search ? "No cgroup has these words in its name or path." : "No cgroup."}
        />
        {rows.length > SHOWN && <p class="why">{rows.length - SHOWN} more: search for them.</p>}
        <p class="legend">
          <span class="key others" />
          contention: another task ran <span class="key own" />
          throttled by its own quota <span class="key above" />
          throttled by a quota above it
        </p>
      </Panel>
      <Heat view={view} past={past} />
    </>
  );
}
