// The newest decision: candidates by key, who is spared and why, what was done and what it came to.

import type { Candidate, HistoryEvents, Ranking, Snapshot } from "../api";
import { unknownOf, useEvents } from "../history";
import { Meter, Named, Panel, Sentences, Table, Unknown } from "../parts";
import type { Route } from "../route";
import { age, bytes, clock, fullName, mode, ofPath, sentence, spaced, time } from "../words";
import { Range, Refused } from "./time";

/** Keys whose values are counts of something. */
const UNITS: Record<string, (value: number) => string> = { taken: bytes, harm: time, excess: bytes, usage: bytes };

function valueOf({ keys }: Candidate, key: string): string {
  const value = keys.find((one) => one.key === key)?.value;
  if (value === undefined) return "";
  if (value === null) return "unknown";
  if (typeof value === "boolean") return value ? "yes" : "no";
  const unit = UNITS[key];
  return typeof value === "number" && unit ? unit(value) : String(value);
}

function Candidates({ ranking }: { ranking: Ranking }) {
  const { candidates, nCandidates, spared, nSpared, order, signal } = ranking;
  const keys = [...new Set(candidates.flatMap(({ keys }) => keys.map(({ key }) => key)))];
  return (
    <>
      <Panel title="Candidates" id="candidates">
        <Table
          caption={`For ${signal}, by the keys of the order "${order}" from left to right: the first difference decides. The first row would be taken first. ${candidates.length} of ${nCandidates} shown.`}
          columns={[
            { head: "#", cell: (one: Candidate) => candidates.indexOf(one) + 1 },
            { head: "Name", cell: (one) => <Named name={fullName(one)} sub={one.members ? `${one.members.length} pods` : one.uid} /> },
            ...keys.map((key) => ({ head: spaced(key), cell: (one: Candidate) => valueOf(one, key) })),
          ]}
          rows={candidates}
          rowKey={({ uid }) => uid}
          nothing="There is no candidate."
        />
      </Panel>
      <Panel title="Spared" id="spared">
        <Table
          caption={`Never a candidate here, and why. ${spared.length} of ${nSpared} shown.`}
          columns={[
            { head: "Name", cell: (one) => <Named name={fullName(one)} sub={one.uid} /> },
            { head: "Why", cell: ({ why }) => spaced(why) },
          ]}
          rows={spared}
          rowKey={({ uid }) => uid}
          nothing="Every pod is a candidate."
        />
      </Panel>
    </>
  );
}

function Loss({ ranking: { loss } }: { ranking: Ranking }) {
  if (!loss) return null;
  return (
    <Panel title="Who took the memory" id="loss">
      <p class="why">
        {bytes(loss.lost)} were lost within {age(loss.over)}
        {loss.unattributed > 0 && `; which cgroup took ${bytes(loss.unattributed)} of them is not known`}.
      </p>
      <ol class="ranked">
        {loss.takers.map((taker) => (
          <li key={taker.uid}>
            <Named {...(taker.uid.startsWith("/") ? ofPath(taker.path) : { name: fullName(taker), sub: taker.path })} />
            <b>{bytes(taker.taken)}</b>
            <Meter parts={[{ kind: "others", share: loss.lost ? taker.taken / loss.lost : 0 }]} />
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function Actions({ view }: { view: Snapshot }) {
  const { actions } = view.decision.relief;
  const { verdict, candidates, otherwise } = view.explanation;
  return (
    <Panel title="Decision of this tick" id="decision">
      {mode(view) && (
        <p>
          <b>{sentence(mode(view))}</b>
        </p>
      )}
      {actions.map((action) => (
        <p key={action.id} class="action">
          <span class="badge">{action.isEnforced ? "enforced" : "only observed"}</span> {spaced(action.step)}{" "}
          <b>{fullName(action.target)}</b>: {sentence(action.message)} {action.escalatesTo && `If that does not help within ${age(action.deadline)}: ${spaced(action.escalatesTo)}.`}
        </p>
      ))}
      <Sentences of={[...verdict, ...candidates].map(sentence)} />
      {otherwise.length > 0 && (
        <>
          <h3>What would change it</h3>
          <Sentences of={otherwise.map(sentence)} />
        </>
      )}
    </Panel>
  );
}

/** Each action with its outcome, its effects and its release, newest first. */
function Past({ events, error, route }: { events: HistoryEvents | null; error: string | null; route: Route }) {
  const all = events?.events.filter(({ action }) => action !== undefined) ?? [];
  const ids = [...new Set(all.map(({ action }) => action))].reverse();
  return (
    <Panel title="Earlier actions" id="actions" aside={<Range route={route} />}>
      <Refused error={error} route={route} />
      <Unknown events={events} of="events" />
      <Table
        caption="What isobar did, or would have done, and what came of it; newest first."
        columns={[
          { head: "Action", cell: (id) => `#${id}` },
          {
            head: "What",
            cell: (id) => (
              <ul class="sentences">
                {all.filter(({ action }) => action === id).map(({ at, kind, text }, i) => (
                  <li key={i}>
                    <time>{clock(at.wall, events?.end.wall)}</time> <b>{kind}</b> {text}
                  </li>
                ))}
              </ul>
            ),
          },
        ]}
        rows={ids}
        rowKey={String}
        nothing={unknownOf(events, "events") || "No action in this time."}
      />
    </Panel>
  );
}

export function Decisions({ view, route }: { view: Snapshot; route: Route }) {
  const { data: events, error } = useEvents(route);
  const { ranking } = view.decision;
  return (
    <>
      <Actions view={view} />
      {ranking && <Loss ranking={ranking} />}
      {ranking ? (
        <Candidates ranking={ranking} />
      ) : (
        <Panel title="Candidates" id="candidates">
          <p>
            No threshold is due, so no pod is ranked. <code>isobar rank</code> shows the order that would apply.
          </p>
        </Panel>
      )}
      <Past events={events} error={error} route={route} />
    </>
  );
}
