// The time line of a recording: what held and happened in it, which moment is shown, and the ways to
// another one. Where the page follows an agent it leads back into what that has recorded.

import { useEffect, useRef, useState } from "preact/hooks";
import type { HistoryEvent, KeptIncident, Recording, Span } from "./api";
import { beginOf, endOf, type Film, goTo, isFollowing, jump, knownFrom, marked, play, seek, setReach, setSpeed, SPEEDS, step, toEnd, toLive } from "./film";
import { Behind, Named, Table } from "./parts";
import type { Link } from "./stream";
import { age, clock, partOf, SECOND, zone } from "./words";

const MILLI = 1e6;
/** Milliseconds: while the pointer moves, not every place is asked for. */
const REST = 80;
const DAY = 86_400 * SECOND;

/** Lengths of the line in seconds; 0: all. */
const REACHES = [
  [600, "10 minutes"],
  [3_600, "1 hour"],
  [21_600, "6 hours"],
  [0, "all of it"],
] as const;
/** Incidents that have a button on the line; the table has all. */
const BUTTONS = 24;

/** Date and time, in full. */
const whole = (wall: number) => `${clock(wall, wall - 2 * DAY)}${zone()}`;

/** From when to when the line is, on the wall clock. */
interface Window {
  begin: number;
  end: number;
}

/** The last part of the recording, or where the moment that is shown is in the middle. */
function windowOf(film: Film): Window | null {
  const [first, last] = [beginOf(film), endOf(film)?.wall];
  if (first == null || last == null) return null;
  const length = film.reach * SECOND;
  const wall = film.shown?.at.wall ?? last;
  if (length === 0 || last - first <= length) return { begin: first, end: last };
  const end = wall >= last - length ? last : Math.max(first + length, wall + length / 2);
  return { begin: end - length, end };
}

/** Percent of the line. */
const placeOf = (wall: number, { begin, end }: Window) => partOf(wall, begin, end) * 100;

const SIGNS: Record<string, string> = { oomKill: "✕", action: "▼" };

const isWorse = ({ kind, state }: Span) => state === "due" || (kind !== "threshold" && state === "True");

/** Whenever something held that is worth a look, and each thing that happened. */
function Track({ recording, within }: { recording: Recording; within: Window }) {
  const { spans, pauses } = recording;
  const place = (wall: number) => placeOf(wall, within);
  const bar = (key: string, from: number, to: number, kind: string) => (
    <rect key={key} class={kind} x={`${place(from)}%`} y={14} width={`${Math.max(0.3, place(to) - place(from))}%`} height={8} />
  );
  const isWithin = (from: number, to: number) => to >= within.begin && from <= within.end;
  const held = spans.filter((span) => (isWorse(span) || span.state === "met") && isWithin(span.begin.wall, span.end?.wall ?? within.end));
  return (
    <svg class="track" aria-hidden="true">
      <rect class="lane-false" x="0" y={14} width="100%" height={8} />
      <rect class="lane-unknown" x="0" y={14} width={`${place(knownFrom(recording))}%`} height={8} />
      {pauses.filter(({ begin, end }) => isWithin(begin.wall, end.wall)).map(({ begin, end }) => bar(`${begin.boot}`, begin.wall, end.wall, "lane-unknown"))}
      {held
        .sort((a, b) => Number(isWorse(a)) - Number(isWorse(b)))
        .map((span, i) => bar(`${i}`, span.begin.wall, span.end?.wall ?? within.end, isWorse(span) ? "lane-true" : "lane-met"))}
      {marked(recording).filter(({ at }) => isWithin(at.wall, at.wall)).map(({ at, kind }, i) =>
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

/** A button below the line for each incident of its time, newest last. */
function Incidents({ incidents, within }: { incidents: KeptIncident[]; within: Window }) {
  const own = incidents.filter(({ begin, end }) => (end?.wall ?? within.end) >= within.begin && begin.wall <= within.end);
  if (own.length === 0) return null;
  return (
    <div class="incidents" role="group" aria-label="Incidents">
      {own.slice(0, BUTTONS).reverse().map((one) => {
        const [from, to] = [placeOf(one.begin.wall, within), placeOf(one.end?.wall ?? within.end, within)];
        return (
          <button
            key={one.name}
            type="button"
            class="incident"
            style={{ left: `${from}%`, width: `${to - from}%` }}
            aria-label={`Incident at ${whole(one.begin.wall)}: ${one.name}`}
            title={`${whole(one.begin.wall)}: ${one.summary}`}
            onClick={() => void goTo({ at: one.begin, kind: "incident" })}
          />
        );
      })}
    </div>
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
      nothing={recording.knownSince ? "Nothing happened." : "What happened is not known."}
    />
  );
}

export function Scrubber({ film, link }: { film: Film; link: Link }) {
  const { recording, shown, isPlaying, isReading, isBusy, speed, reach, problem } = film;
  const [dragged, drag] = useState<number | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => drag(null), [shown?.at.wall]);
  const within = windowOf(film);
  if (!recording.begin || !within) return null;
  const { begin, end } = within;
  const { isLive } = recording;
  const isNow = isFollowing(film);
  const at = shown?.at.wall ?? end;
  const length = Math.max(1, Math.round((end - begin) / MILLI));
  const place = dragged ?? Math.round((at - begin) / MILLI);
  const wall = dragged === null ? at : begin + dragged * MILLI;
  const moved = (to: number) => {
    play(false);
    drag(to);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void seek(begin / MILLI + to), REST);
  };
  const last = latest(recording, wall);
  const since = knownFrom(recording);
  const isUnknown = wall < since;
  const button = (id: string, sign: string, label: string, key: string, act: () => void) => (
    <button id={id} type="button" aria-label={label} title={`${label} (${key})`} onClick={act}>
      {sign}
    </button>
  );
  return (
    <section class={isNow ? "film now" : "film"} id="film" data-link={link} aria-label={isLive ? "Time line" : "Recording"}>
      <div class="bar">
        {isNow ? (
          <p class="moment">
            <b class="badge">{link}</b> {isReading ? "reading the moment" : "go back in time:"}
          </p>
        ) : (
          <p class="moment">
            <b class="badge">Recorded</b> <time id="moment">{whole(wall)}</time>, not live
          </p>
        )}
        <div class="tools" role="group" aria-label="Moment shown">
          {!isNow && button("first", "|◀", "Begin", "b", () => toEnd("begin"))}
          {button("event-before", "◀ Event", "◀ Event: the event before", "N", () => jump("previous"))}
          {button("tick-before", "◀ Tick", "◀ Tick: the tick before", "←", () => step("previous"))}
          {!isNow && (
            <>
              <button id="play" type="button" title="Space" onClick={() => play(!isPlaying)}>
                {isPlaying ? "❚❚ Pause" : "▶ Play"}
              </button>
              {button("tick-after", "Tick ▶", "Tick ▶: the tick after", "→", () => step("next"))}
              {button("event-after", "Event ▶", "Event ▶: the event after", "n", () => jump("next"))}
              {isLive ? (
                <button id="to-live" class="to-live" type="button" title="Follow the agent again (e)" onClick={toLive}>
                  ● Live
                </button>
              ) : (
                button("last", "▶|", "End", "e", () => toEnd("end"))
              )}
              <select id="speed" aria-label="Speed" value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
                {SPEEDS.map((one) => (
                  <option key={one} value={one}>
                    {one === 1 ? "a tick a second" : `${one} times as fast`}
                  </option>
                ))}
              </select>
            </>
          )}
          <select id="reach" aria-label="Length of the time line" value={reach} onChange={(event) => setReach(Number(event.currentTarget.value))}>
            {REACHES.map(([seconds, words]) => (
              <option key={seconds} value={seconds}>
                {words}
              </option>
            ))}
          </select>
        </div>
      </div>
      <div class="line">
        <Track recording={recording} within={within} />
        <input
          id="scrubber"
          type="range"
          min={0}
          max={length}
          value={place}
          aria-label="Moment of the recording"
          aria-valuetext={isNow ? "now" : `${whole(wall)}${shown ? `, tick ${shown.tick}` : ""}`}
          onInput={(event) => moved(Number(event.currentTarget.value))}
        />
        <Incidents incidents={film.incidents} within={within} />
      </div>
      <p class="ends">
        <span>{clock(begin, end)}</span>
        <span id="happened" class="happened">
          {isUnknown ? "What had happened by then is not known." : last ? `${clock(last.at.wall, wall)} ${last.text}` : recording.isWhole ? "Nothing has happened yet." : "What had happened by then is not read yet."}
        </span>
        <span>{isLive && end === endOf(film)?.wall ? "now" : clock(end)}</span>
      </p>
      <div class="below">
        <p class="legend">
          <span class="key lane-true" />
          condition True, or threshold due <span class="key lane-met" />
          threshold met {(begin < since || recording.pauses.length > 0) && <><span class="key lane-unknown" /> not known </>}<b class="sign" aria-hidden="true">▼</b> step <b class="sign" aria-hidden="true">✕</b> OOM kill
          {film.incidents.length > 0 && <><span class="key incident" /> incident</>}
        </p>
        <Behind label="events of the recording">{() => <Events film={film} />}</Behind>
      </div>
      {isBusy && <p id="busy" class="why" role="status">Other moments are being read; this page asks again.</p>}
      {!recording.isWhole && <p class="why">Reading the recording: {age((recording.ticks || 1) * SECOND)} of about {age(end - begin)} so far.</p>}
      {recording.leftOut.runs > 0 && (
        <p class="why">This recording has more restarts than are kept: what happened in the first {recording.leftOut.runs} runs is not marked. Their moments are shown.</p>
      )}
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
  ["b e", "begin and end; of an agent e follows it again"],
] as const;

/** Does what a key says; false if it says nothing. */
export function pressed({ key, target }: KeyboardEvent, { isPlaying, shown }: Film): boolean {
  const on = target instanceof Element ? target : null;
  // Space presses what has the focus, arrows move what scrolls.
  if (key === " " && (!shown || on?.closest("button, a, summary"))) return false;
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
