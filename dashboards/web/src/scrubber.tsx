// The time line of a recording: what held and happened in it, which moment is shown, and the ways to
// another one. Where the page follows an agent, it is not there.

import { useEffect, useRef, useState } from "preact/hooks";
import type { HistoryEvent, Recording, Span } from "./api";
import { type Film, goTo, jump, marked, play, seek, setSpeed, SPEEDS, step, toEnd } from "./film";
import { Behind, Named, Table } from "./parts";
import { age, clock, SECOND } from "./words";

const MILLI = 1e6;
/** Milliseconds: while the pointer moves, not every place is asked for. */
const REST = 80;
const DAY = 86_400 * SECOND;

/** Date and time in UTC, in full. */
const whole = (wall: number) => `${clock(wall, wall - 2 * DAY)} UTC`;

const SIGNS: Record<string, string> = { oomKill: "✕", action: "▼" };

const isWorse = ({ kind, state }: Span) => state === "due" || (kind !== "threshold" && state === "True");

/** Whenever something held that is worth a look, and each thing that happened. */
function Track({ recording, incidents }: Film) {
  const { begin, end, spans } = recording;
  if (!begin || !end) return null;
  const length = Math.max(1, end.wall - begin.wall);
  const place = (wall: number) => Math.min(100, Math.max(0, ((wall - begin.wall) / length) * 100));
  const bar = (key: string, from: number, to: number, kind: string, y: number) => (
    <rect key={key} class={kind} x={`${place(from)}%`} y={y} width={`${Math.max(0.3, place(to) - place(from))}%`} height={8} />
  );
  const held = spans.filter((span) => isWorse(span) || span.state === "met");
  return (
    <svg class="track" aria-hidden="true">
      <rect class="lane-false" x="0" y={14} width="100%" height={8} />
      {incidents.map((one) => bar(one.name, one.begin.wall, (one.end ?? end).wall, "incident", 23))}
      {held
        .sort((a, b) => Number(isWorse(a)) - Number(isWorse(b)))
        .map((span, i) => bar(`${i}`, span.begin.wall, (span.end ?? end).wall, isWorse(span) ? "lane-true" : "lane-met", 14))}
      {marked(recording).map(({ at, kind }, i) =>
        SIGNS[kind] ? (
          <text key={i} class={`sign ${kind}`} x={`${place(at.wall)}%`} y={11} text-anchor="middle">
            {SIGNS[kind]}
          </text>
        ) : (
          kind === "change" && <rect key={i} class="tickmark" x={`${place(at.wall)}%`} y={8} width={1} height={6} />
        ),
      )}
    </svg>
  );
}

/** The newest thing that had happened by then. */
function latest(recording: Recording, wall: number): HistoryEvent | undefined {
  return marked(recording).findLast(({ at }) => at.wall <= wall);
}

function Events({ film: { recording, incidents } }: { film: Film }) {
  const of = incidents.map(({ begin, name, summary }) => ({ at: begin, kind: "incident", text: `${name}: ${summary}` }));
  const all = [...marked(recording), ...of].sort((a, b) => a.at.wall - b.at.wall);
  return (
    <Table
      caption="What happened in this recording. A time leads to its moment."
      columns={[
        {
          head: "Time",
          cell: (event: { at: HistoryEvent["at"]; kind: string; text: string }) => (
            <button type="button" onClick={() => void goTo(event)}>
              {clock(event.at.wall, recording.end?.wall)}
            </button>
          ),
        },
        { head: "Kind", cell: ({ kind }) => (kind === "oomKill" ? "OOM kill" : kind) },
        { head: "What", cell: ({ text }) => <Named name={text} sub="" /> },
      ]}
      rows={all}
      rowKey={({ at, text }, i) => `${at.wall} ${text} ${i}`}
      nothing="Nothing happened."
    />
  );
}

export function Scrubber({ film }: { film: Film }) {
  const { recording, shown, isPlaying, speed, problem } = film;
  const [dragged, drag] = useState<number | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => drag(null), [shown?.at.wall]);
  const { begin, end } = recording;
  if (!begin || !end) return null;
  const at = shown?.at.wall ?? begin.wall;
  const length = Math.max(1, Math.round((end.wall - begin.wall) / MILLI));
  const place = dragged ?? Math.round((at - begin.wall) / MILLI);
  const wall = dragged === null ? at : begin.wall + dragged * MILLI;
  const moved = (to: number) => {
    play(false);
    drag(to);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void seek(begin.wall / MILLI + to), REST);
  };
  const last = latest(recording, wall);
  const button = (id: string, sign: string, label: string, key: string, act: () => void) => (
    <button id={id} type="button" aria-label={label} title={`${label} (${key})`} onClick={act}>
      {sign}
    </button>
  );
  return (
    <section class="film" id="film" aria-label="Recording">
      <div class="bar">
        <p class="moment">
          <b class="badge">Recorded</b> <time id="moment">{whole(wall)}</time>, not live
        </p>
        <div class="tools" role="group" aria-label="Moment shown">
          {button("first", "|◀", "Begin", "b", () => toEnd("begin"))}
          {button("event-before", "◀ Event", "◀ Event: the event before", "N", () => jump("previous"))}
          {button("tick-before", "◀ Tick", "◀ Tick: the tick before", "←", () => step("previous"))}
          <button id="play" type="button" title="Space" onClick={() => play(!isPlaying)}>
            {isPlaying ? "❚❚ Pause" : "▶ Play"}
          </button>
          {button("tick-after", "Tick ▶", "Tick ▶: the tick after", "→", () => step("next"))}
          {button("event-after", "Event ▶", "Event ▶: the event after", "n", () => jump("next"))}
          {button("last", "▶|", "End", "e", () => toEnd("end"))}
          <select aria-label="Speed" value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
            {SPEEDS.map((one) => (
              <option key={one} value={one}>
                {one === 1 ? "a tick a second" : `${one} times as fast`}
              </option>
            ))}
          </select>
        </div>
      </div>
      <div class="line">
        <Track {...film} />
        <input
          id="scrubber"
          type="range"
          min={0}
          max={length}
          value={place}
          aria-label="Moment of the recording"
          aria-valuetext={`${whole(wall)}${shown ? `, tick ${shown.tick}` : ""}`}
          onInput={(event) => moved(Number(event.currentTarget.value))}
        />
      </div>
      <p class="ends">
        <span>{clock(begin.wall, end.wall)}</span>
        <span id="happened" class="happened">
          {last ? `${clock(last.at.wall, wall)} ${last.text}` : "Nothing has happened yet."}
        </span>
        <span>{clock(end.wall)}</span>
      </p>
      <div class="below">
        <p class="legend">
          <span class="key lane-true" />
          condition True, or threshold due <span class="key lane-met" />
          threshold met <b aria-hidden="true">▼</b> step <b aria-hidden="true">✕</b> OOM kill
          {film.incidents.length > 0 && <><span class="key incident" /> incident</>}
        </p>
        <Behind label="events of the recording">{() => <Events film={film} />}</Behind>
      </div>
      {!recording.isWhole && <p class="why">Reading the recording: {age((recording.ticks || 1) * SECOND)} of about {age(end.wall - begin.wall)} so far.</p>}
      {(problem ?? recording.problem) && (
        <p class="notice" role="alert">
          {problem ?? recording.problem}
        </p>
      )}
    </section>
  );
}

/** The keys of a recording, as `isobar top` has them. */
export const FILM_KEYS = [
  ["Space", "play and pause"],
  ["← →", "the tick before, the tick after"],
  ["N n", "the event before, the event after"],
  ["b e", "begin and end"],
] as const;

/** Does what a key says; false if it says nothing. */
export function pressed({ key, target }: KeyboardEvent, { isPlaying }: Film): boolean {
  const on = target instanceof Element ? target : null;
  // Space presses what has the focus, arrows move what scrolls.
  if (key === " " && on?.closest("button, a, summary")) return false;
  if (key.startsWith("Arrow") && on?.closest(".scroll")) return false;
  const acts: Record<string, () => void> = {
    " ": () => play(!isPlaying),
    ArrowLeft: () => step("previous"),
    ArrowRight: () => step("next"),
    n: () => jump("next"),
    N: () => jump("previous"),
    b: () => toEnd("begin"),
    e: () => toEnd("end"),
  };
  // Elsewhere they scroll.
  const isOnSlider = on?.id === "scrubber";
  const same = isOnSlider ? { ArrowUp: "ArrowRight", ArrowDown: "ArrowLeft" }[key] : undefined;
  const act = acts[same ?? key];
  act?.();
  return act !== undefined;
}
