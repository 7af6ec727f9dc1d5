// What every view is made of: panels, tables, names, words with a colour, bars.
// Text from the node is untrusted (any user can choose the name of a cgroup): it is only ever
// inserted as text.

import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import type { HistoryEvents, Mood, Snapshot, Status } from "./api";
import { unknownOf } from "./history";
import type { Name } from "./words";

interface Titled {
  title: string;
  /** Beside the title. */
  aside?: ComponentChildren;
  class?: string;
  id?: string;
  children: ComponentChildren;
}

export function Panel({ title, aside, id, children, ...rest }: Titled) {
  const own = useId();
  return (
    <section aria-labelledby={own} id={id} class={rest.class}>
      <div class="bar">
        <h2 id={own}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

/** A mood, or another word of the same meaning. */
export const MoodWord = ({ mood, word = mood }: { mood: Mood; word?: string }) => (
  <span class="state" data-mood={mood}>
    {word}
  </span>
);

/** The word of a verdict: what is short comes before waits that are few. */
export const wordOf = ({ mood, isShort }: Snapshot["verdict"][number]) => (isShort && mood !== "pressed" ? "short" : mood);

export const VerdictWord = ({ of }: { of: Snapshot["verdict"][number] }) => (
  <MoodWord mood={of.isShort && of.mood !== "pressed" ? "waits" : of.mood} word={wordOf(of)} />
);

/** A status, or another word of the same three meanings. */
export const StatusWord = ({ status, word = status }: { status: Status; word?: string }) => (
  <span class="state" data-status={status}>
    {word}
  </span>
);

/** A name with a second line below. */
export const Named = ({ name, sub }: Name) => (
  <span>
    <span class="name">{name}</span>
    {sub && (
      <span class={sub.startsWith("/") ? "sub path" : "sub"} title={sub}>
        {sub}
      </span>
    )}
  </span>
);

/** Bar of parts of 1. Decoration: the figures are printed beside it. */
export const Meter = ({ parts }: { parts: { kind: string; share: number }[] }) => (
  <span class="meter" aria-hidden="true">
    {parts.map(({ kind, share }) => (
      <i key={kind} class={kind} style={{ width: `${(Math.min(1, Math.max(0, share)) * 100).toFixed(1)}%` }} />
    ))}
  </span>
);

export const Sentences = ({ of, nothing }: { of: string[]; nothing?: string }) =>
  of.length ? (
    <ul class="sentences">
      {of.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  ) : (
    <p class="why">{nothing}</p>
  );

/** What is not known of the time that events are of: never taken for a time in which nothing was. */
export const Unknown = ({ events, of }: { events: HistoryEvents | null; of: keyof HistoryEvents["knownSince"] }) =>
  events && unknownOf(events, of) ? <p class="why unknown">{unknownOf(events, of)}</p> : null;

export interface Column<Row> {
  head: string;
  cell: (row: Row) => ComponentChildren;
  /** A number: aligned to the right. */
  isNumber?: boolean;
  /** What rows are sorted by, largest first; without it, the column cannot be sorted by. */
  by?: (row: Row) => number | string;
}

interface TableOf<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row, at: number) => string;
  nothing: string;
  id?: string;
}

function ordered<Row>(rows: Row[], by: ((row: Row) => number | string) | undefined, isUp: boolean): Row[] {
  if (!by) return rows;
  const turn = isUp ? 1 : -1;
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    return x < y ? -turn : x > y ? turn : 0;
  });
}

/** A table; on a narrow screen each row becomes a list of named values. */
export function Table<Row>({ caption, columns, rows, rowKey, nothing, id }: TableOf<Row>) {
  const [sorted, sort] = useState<{ at: number; isUp: boolean } | null>(null);
  const by = sorted ? columns[sorted.at]?.by : undefined;
  const click = (at: number) => sort(sorted?.at === at ? { at, isUp: !sorted.isUp } : { at, isUp: false });
  const direction = (at: number) => (sorted?.at !== at ? undefined : sorted.isUp ? "ascending" : "descending");
  return (
    <table role="table" id={id} class="rows">
      <caption>{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ head, isNumber, by }, at) => (
            <th key={head} role="columnheader" scope="col" class={isNumber ? "number" : ""} aria-sort={direction(at)}>
              {by ? (
                <button type="button" class="sort" onClick={() => click(at)}>
                  {head}
                </button>
              ) : (
                head
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {ordered(rows, by, sorted?.isUp ?? false).map((row, at) => (
          <tr role="row" key={rowKey(row, at)}>
            {columns.map(({ head, cell, isNumber }, i) =>
              i === 0 ? (
                <th key={head} role="rowheader" scope="row" data-label={head} class={isNumber ? "number" : ""}>
                  {cell(row)}
                </th>
              ) : (
                <td key={head} role="cell" data-label={head} class={isNumber ? "number" : ""}>
                  {cell(row)}
                </td>
              ),
            )}
          </tr>
        ))}
        {rows.length === 0 && (
          <tr role="row" class="empty">
            <td role="cell" colSpan={columns.length}>
              {nothing}
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

/** A table behind a picture: made only while it is open. */
export function Behind({ label, children }: { label: string; children: () => ComponentChildren }) {
  const [isOpen, open] = useState(false);
  return (
    <details class="behind" onToggle={(event) => open(event.currentTarget.open)}>
      <summary>
        Table<span class="hidden">: {label}</span>
      </summary>
      {isOpen && <div class="scroll" tabIndex={0} role="region" aria-label={label}>{children()}</div>}
    </details>
  );
}

