// Because of whom: who took or has the memory, who does the IO, who made others wait for CPUs, and
// which process of it most of all.

import type { Resource, Runner, Snapshot } from "../api";
import { Meter, Named, Panel } from "../parts";
import { link } from "../route";
import type { Past } from "../stream";
import { aggressors, isNotable, lately } from "../waits";
import { age, busiest, bytes, called, fullName, isFor, ofProcess, time } from "../words";

/** What was lost of memory; nothing while most of it is a victim's that is not free yet. */
function lossOf({ decision: { ranking, relief } }: Snapshot) {
  const loss = ranking?.loss;
  const held = typeof relief.held === "object" ? relief.held : null;
  const isComing = held && ["settling", "coolingDown", "kernelKilled"].some((reason) => reason in held);
  return loss && isComing && loss.unattributed > loss.lost / 2 ? undefined : loss;
}

/** The name of a cgroup, with its process that uses most of a resource. */
function Who({ view, cgroup, of }: { view: Snapshot; cgroup: number; of: Resource }) {
  const process = busiest(view, of, cgroup, view.scopes[cgroup]?.path);
  return <Named {...called(view, cgroup, null)} {...(process && { sub: process })} />;
}

const idOf = ({ scopes }: Snapshot, path: string) => Number(Object.entries(scopes).find(([, scope]) => scope.path === path)?.[0]);

/** Processes of the machine, where no cgroup can be named. */
function Processes({ of, figure }: { of: Runner[]; figure: (runner: Runner) => [string, number] }) {
  const most = Math.max(1, ...of.map((one) => figure(one)[1]));
  return (
    <ol class="ranked">
      {of.map((one) => (
        <li key={one.pid}>
          <Named name={one.name} sub={`pid ${one.pid}`} />
          <b>{figure(one)[0]}</b>
          <Meter parts={[{ kind: "others", share: figure(one)[1] / most }]} />
        </li>
      ))}
    </ol>
  );
}

/** Processes of the root cgroup, or of the machine where that was looked at. */
const ofNoCgroup = ({ runners }: Snapshot, resource: Resource) => runners.filter((one) => one.cgroup == null && isFor(one, resource));

const ofMachine = ({ runners }: Snapshot, resource: Resource) => runners.filter((one) => one.isOfMachine && isFor(one, resource));

/** Who has the memory that others wait for, where nobody took more of it just now. */
function Holders({ view }: { view: Snapshot }) {
  const all = view.usage.memory;
  const most = all[0]?.held || 1;
  const processes = ofNoCgroup(view, "memory");
  return (
    <>
      <p class="why">Memory: who holds most of it, page cache left out. Who took it is ranked once a threshold is due.</p>
      <ol class="ranked">
        {all.map(({ cgroup, held }) => (
          <li key={cgroup}>
            <Who view={view} cgroup={cgroup} of="memory" />
            <b>{bytes(held)}</b>
            <Meter parts={[{ kind: "others", share: held / most }]} />
          </li>
        ))}
      </ol>
      {all.length === 0 && <p>No cgroup's memory is accounted for.{processes.length > 0 && " Processes that take or have most:"}</p>}
      {all.length > 0 && processes.length > 0 && <p>Processes in the root cgroup:</p>}
      <Processes of={processes} figure={(one) => [ofProcess(one), one.memory?.held ?? 0]} />
    </>
  );
}

const moves = ({ io = 0 }: Runner): [string, number] => [`${bytes(io)}/s`, io];

/** Who does the IO, while tasks wait for it. */
function Movers({ view }: { view: Snapshot }) {
  const { io: all, isIoPartial: isPartial } = view.usage;
  const processes = ofNoCgroup(view, "io");
  const node = view.whole.io;
  return (
    <>
      <p class="why">
        IO: who reads and writes most, per second{node && `, of the node's ${bytes(node.read + node.written)} in ${node.reads + node.writes} requests`}. Usage, not harm: whose requests made others wait is not measured.
      </p>
      <ol class="ranked">
        {all?.map(({ cgroup, io, share }) => (
          <li key={cgroup}>
            <Who view={view} cgroup={cgroup} of="io" />
            <b title={`${bytes(io.read)} read in ${io.reads} requests, ${bytes(io.written)} written in ${io.writes}`}>
              {bytes(io.read + io.written)}/s
            </b>
            <Meter parts={[{ kind: "others", share: share / 100 }]} />
          </li>
        ))}
      </ol>
      {all?.length === 0 && !isPartial && <p>No pod or service reads or writes a device.</p>}
      {all && !isPartial && processes.length > 0 && <p>Processes in the root cgroup, which does more than any of them:</p>}
      {all && !isPartial && <Processes of={processes} figure={moves} />}
      {all && isPartial && <p>Not of all pods and services is their IO accounted for.{processes.length > 0 && " Processes that do most:"}</p>}
      {all && isPartial && <Processes of={processes} figure={moves} />}
      {!all && <p>No cgroup's IO is accounted for.{processes.length > 0 && " Processes that do most:"}</p>}
      {!all && <Processes of={processes} figure={moves} />}
    </>
  );
}

/** The busiest processes, where which cgroup makes others wait is not measured. */
function Busiest({ view }: { view: Snapshot }) {
  const all = ofMachine(view, "cpu");
  if (all.length === 0) return <p>CPU: not measured, see Health.</p>;
  return (
    <>
      <p class="why">Which cgroup makes others wait is not measured{!view.whole.cpu && ": see Health"}. CPU: the busiest processes, by usage, not by harm.</p>
      <Processes of={all} figure={({ used }) => [`${(used / 1e3).toFixed(2)} CPUs`, used]} />
    </>
  );
}

export function Because({ view, past }: { view: Snapshot; past: Past[] }) {
  const { pairs, over } = lately(past, 10);
  const harm = aggressors(view, pairs, 3).filter(({ loss }) => isNotable(loss, over));
  const loss = lossOf(view);
  const nameless = ofNoCgroup(view, "memory").find(({ memory }) => memory && memory.growth > 0);
  const most = harm[0]?.loss ?? 1;
  const waits = (of: Resource) => view.verdict.some(({ resource, mood }) => resource === of && (mood === "pressed" || mood === "waits"));
  return (
    <Panel title="Because of" id="aggressors" aside={<a href={link({ view: "blame", end: null, span: 3_600 })}>evidence</a>}>
      {loss && (
        <>
          <p class="why">
            Memory: {bytes(loss.lost)} lost within {age(loss.over)}.
          </p>
          <ol class="ranked">
            {loss.unattributed > (loss.takers[0]?.taken ?? 0) && (
              <li>
                <Named name="no cgroup" sub={nameless ? `most of all ${nameless.name}, pid ${nameless.pid}: ${ofProcess(nameless)}` : "the kernel's own, or of cgroups that cannot be read"} />
                <b>{bytes(loss.unattributed)}</b>
                <Meter parts={[{ kind: "others", share: loss.unattributed / loss.lost }]} />
              </li>
            )}
            {loss.takers.slice(0, 3).map((taker) => (
              <li key={taker.uid}>
                <Named
                  name={fullName(taker)}
                  sub={busiest(view, "memory", idOf(view, taker.path), taker.path) || (taker.path === fullName(taker) ? "" : taker.path)}
                />
                <b>{bytes(taker.taken)}</b>
                <Meter parts={[{ kind: "others", share: loss.lost ? taker.taken / loss.lost : 0 }]} />
              </li>
            ))}
          </ol>
        </>
      )}
      {!loss && view.usage.isShortOfMemory && <Holders view={view} />}
      {waits("io") && <Movers view={view} />}
      {harm.length === 0 && (!view.whole.cpu || ofMachine(view, "cpu").length > 0) ? (
        <Busiest view={view} />
      ) : (
        <>
          <p class="why">CPU: what others lost per second by waiting while it ran, over {age(over)}.</p>
          <ol class="ranked">
            {harm.map(({ id, path, loss: lost }) => (
              <li key={id}>
                <Named {...called(view, id, path)} {...(busiest(view, "cpu", id, path) && { sub: busiest(view, "cpu", id, path) })} />
                <b>{time(over ? lost / (over / 1e9) : null)}</b>
                <Meter parts={[{ kind: "others", share: lost / most }]} />
              </li>
            ))}
          </ol>
          {harm.length === 0 && <p>No cgroup cost others more than 10 ms per second.</p>}
        </>
      )}
    </Panel>
  );
}
