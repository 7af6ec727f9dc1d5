// The page: header, views, keys. What it shows comes from one agent or one recording alone, by
// relative URLs, so that it works below the path prefix of a proxy.

import "uplot/dist/uPlot.min.css";
import "./page.css";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Snapshot } from "./api";
import { after, isFollowing, momentQuery, startFilm, useFilm, usePast, whyAbsent } from "./film";
import { wordOf } from "./parts";
import { go, link, mend, type Route, useRoute, VIEWS } from "./route";
import { FILM_KEYS, pressed as pressedOfFilm, Scrubber } from "./scrubber";
import { type Link, type Live, pause, useLive } from "./stream";
import { useTheme } from "./theme";
import { Allocatable } from "./views/allocatable";
import { Who } from "./views/blame";
import { Cgroups } from "./views/cgroups";
import { Conditions } from "./views/conditions";
import { Decisions } from "./views/decisions";
import { Health } from "./views/health";
import { Now } from "./views/now";
import { Time } from "./views/time";
import { Otherwise } from "./views/whatif";
import { clock, mode, RESOURCES, SECOND } from "./words";

const KEYS = [
  ["1 to 9", "the views, in the order of their tabs"],
  ["/", "search cgroups"],
  ["p", "pause and resume"],
  ["t", "theme: as the system has it, light, dark"],
  ["?", "this list"],
] as const;

function linkText({ link, age }: Live): string {
  const words: Record<Link, string> = {
    opening: "connecting",
    live: "live",
    paused: "paused",
    recorded: "recorded, not live",
    stale: `stale for ${age} s, reconnecting`,
  };
  return words[link];
}

/** What a screen reader is told: only changes of a word, as figures change every second. */
function Announcement({ view }: { view: Snapshot }) {
  const moods = view.verdict.map((one) => `${RESOURCES[one.resource]} ${wordOf(one)}`);
  const holds = view.decision.assessment.conditions.filter(({ status }) => status === "True").map(({ type }) => type);
  const words = [...moods, ...holds.map((type) => `${type} is True`)].join(", ");
  return (
    <p id="announce" class="hidden" aria-live="polite">
      {words}
    </p>
  );
}

function View({ live, route, isDark }: { live: Live; route: Route; isDark: boolean }) {
  const { view, past, missed } = live;
  const isRecorded = live.link === "recorded";
  if (!view) return <p class="outside">Waiting for the first sample.</p>;
  switch (route.view) {
    case "now":
      return <Now view={view} past={past} isDark={isDark} isRecorded={isRecorded} />;
    case "time":
      return <Time view={view} route={route} isDark={isDark} />;
    case "cgroups":
      return <Cgroups view={view} past={past} route={route} isDark={isDark} />;
    case "blame":
      return <Who view={view} past={past} />;
    case "conditions":
      return <Conditions view={view} route={route} />;
    case "decisions":
      return <Decisions view={view} route={route} />;
    case "allocatable":
      return <Allocatable view={view} isRecorded={isRecorded} />;
    case "health":
      return <Health view={view} missed={missed} isDark={isDark} isRecorded={isRecorded} />;
    case "whatif":
      return <Otherwise view={view} />;
  }
}

/** Copies a link to this view and this time; of an agent that records it leads to the moment that is
 * shown, else to the time that charts and lists end with. */
function Share({ route, view, isRecorded, isKept }: { route: Route; view: Snapshot | null; isRecorded: boolean; isKept: boolean }) {
  const [said, say] = useState("Copy link");
  const copy = async () => {
    // The link to a recording has its moment already.
    const at = view && !isRecorded ? view.at : null;
    const end = at && !isKept ? Math.floor(at.wall / SECOND) : null;
    const fixed = link({ ...route, end: route.end ?? end }, at && isKept ? after(at) : undefined);
    const url = new URL(fixed, location.href).href;
    // Without https, browsers allow the clipboard on localhost only.
    try {
      await navigator.clipboard.writeText(url);
      say("Copied");
    } catch {
      location.hash = fixed;
      say("Copy the address");
    }
    setTimeout(() => say("Copy link"), 3_000);
  };
  return (
    <button id="share" type="button" onClick={() => void copy()}>
      {said}
    </button>
  );
}

function Page() {
  const live = useLive();
  const film = useFilm();
  const held = usePast();
  const route = useRoute();
  const [theme, turnTheme, isDark] = useTheme();
  const help = useRef<HTMLDialogElement>(null);
  const { view } = live;
  // null while an agent is followed.
  const past = film && !isFollowing(film) ? film : null;
  const isPaused = live.link === "paused";

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const isSlider = event.target instanceof HTMLInputElement && event.target.type === "range";
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if ((isTyping && !isSlider) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (film && pressedOfFilm(event, film)) return event.preventDefault();
      const chosen = VIEWS[Number(event.key) - 1];
      if (chosen) go({ ...route, view: chosen[0] });
      else if (event.key === "p" && !past) pause(!isPaused);
      else if (event.key === "t") turnTheme();
      else if (event.key === "?") help.current?.showModal();
      else if (event.key === "/") {
        event.preventDefault();
        go({ ...route, view: "cgroups" });
        setTimeout(() => document.getElementById("search")?.focus(), 50);
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [route, isPaused, film, past]);

  const shown = VIEWS.find(([name]) => name === route.view)?.[1] ?? "";
  document.title = view ? `${shown} · ${view.facts.name}${past ? `, recorded ${clock(view.at.wall)}` : ""} · isobar` : "isobar";
  return (
    <div class={live.link === "stale" ? "stale" : ""}>
      <a class="skip" href={link(route)} onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the view
      </a>
      <header>
        <div class="brand">
          <img src="icon.svg" alt="" width="28" height="28" />
          <strong>isobar</strong>
        </div>
        <div class="node">
          <h1 id="node">{view?.facts.name ?? "\u00a0"}</h1>
          <span id="facts" class="quiet">
            {view && `Linux ${view.facts.kernel}, ${view.facts.nCpus} CPUs, tick ${view.tick}, ${clock(view.at.wall)}`}
          </span>
          {view && !past && <span class="badge">{mode(view)}</span>}
        </div>
        <div class="live">
          <span id="link" class="link" data-link={live.link}>
            {linkText(live)}
          </span>
          {!past && (
            <button id="pause" type="button" aria-pressed={isPaused} onClick={() => pause(!isPaused)}>
              {isPaused ? "Resume" : "Pause"}
            </button>
          )}
          <Share route={route} view={view} isRecorded={past !== null} isKept={film !== null} />
          <button id="theme" type="button" onClick={turnTheme}>
            Theme: {theme}
          </button>
          <button type="button" onClick={() => help.current?.showModal()}>
            Keys
          </button>
        </div>
      </header>
      {film && <Scrubber film={film} link={live.link} />}
      {!film && view && whyAbsent() && (
        <p id="no-film" class="why outside">
          Earlier moments cannot be shown: {whyAbsent()}.
        </p>
      )}
      <nav aria-label="Views">
        {VIEWS.map(([name, label], at) => (
          <a key={name} href={link({ ...route, view: name })} aria-current={route.view === name ? "page" : undefined} title={`Key ${at + 1}`}>
            {label}
          </a>
        ))}
      </nav>
      {live.link === "stale" && (
        <p id="stale" class="notice" role="alert">
          The agent has not answered for some seconds: what is shown is old. It was measured at {view && clock(view.at.wall)}.
        </p>
      )}
      {route.problems && route.problems.length > 0 && (
        <div id="wrong-link" class="notice" role="alert">
          The link cannot be read in full. {route.problems.join(" ")}{" "}
          <button type="button" onClick={() => mend(route)}>
            Go on without it
          </button>
        </div>
      )}
      <main id="main" tabIndex={-1}>
        {view && <Announcement view={view} />}
        <View live={live} route={route} isDark={isDark} />
      </main>
      <footer class="quiet">
        This page is read-only: it changes nothing on the node.{" "}
        <a href={`api/v1/snapshot?${momentQuery(held)}`.replace(/\?$/, "")}>Snapshot as JSON</a> ·{" "}
        <a href="openapi.json">API</a> ·{" "}
        {!past && (
          <>
            <a href="metrics">Metrics</a> · <a href="readyz?verbose">readyz</a> ·{" "}
          </>
        )}
        <a href="LICENSES.txt">Licences</a>
      </footer>
      <dialog ref={help} aria-labelledby="keys-title">
        <h2 id="keys-title">Keys</h2>
        <dl>{[...KEYS.filter(([key]) => key !== "p" || !past), ...(film ? FILM_KEYS : [])].flatMap(([key, does]) => [<dt key={key}>{key}</dt>, <dd key={does}>{does}</dd>])}</dl>
        <button type="button" onClick={() => help.current?.close()}>
          Close
        </button>
      </dialog>
    </div>
  );
}

const page = document.getElementById("page");
if (page) {
  page.replaceChildren();
  render(<Page />, page);
  void startFilm();
}
