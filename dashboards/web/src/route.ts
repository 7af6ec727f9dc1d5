// The link: `#view?end=SECONDS&span=SECONDS&cgroup=PATH&at=MOMENT`. It alone says which view is shown and of
// which time, so that a copied link shows the same to its reader. MOMENT, in RFC 3339, is that of a
// recording.

import { useEffect, useState } from "preact/hooks";

export const VIEWS = [
  ["now", "Now"],
  ["time", "Time"],
  ["cgroups", "Cgroups"],
  ["blame", "Who hurts whom"],
  ["conditions", "Conditions"],
  ["decisions", "Decisions"],
  ["allocatable", "Allocatable"],
  ["health", "Health"],
  ["whatif", "What if"],
] as const;

export type ViewName = (typeof VIEWS)[number][0];

export interface Route {
  view: ViewName;
  /** Seconds since 1970 at which the time shown ends; null: now, and it goes on. */
  end: number | null;
  /** Seconds. */
  span: number;
  /** The path of the cgroup whose past is shown among all cgroups. */
  cgroup?: string | null;
  /** Sentences: each part of the link that the page cannot read, and what it shows instead. */
  problems?: string[];
}

const HOUR = 3_600;
const DAY = 24 * HOUR;

export function parse(hash: string): Route {
  const [name, query] = hash.replace(/^#/, "").split("?");
  const known = VIEWS.find(([view]) => view === name);
  const given = new URLSearchParams(query);
  const whole = (key: string) => {
    const text = given.get(key);
    return text !== null && /^\d{1,12}$/.test(text) ? Number(text) : null;
  };
  const [end, span] = [whole("end"), whole("span")];
  const found = (key: string) => `; found ${JSON.stringify(given.get(key))}`;
  const problems = [
    name && !known && `There is no view ${JSON.stringify(name)}: the page shows the view Now.`,
    given.has("at") && momentOf(hash) === null && `at: expected a time such as 2026-11-22T10:13:50Z${found("at")}. The page shows the moment that a link without a time leads to.`,
    given.has("end") && end === null && `end: expected whole seconds since 1970${found("end")}. The page shows the time up to now.`,
    given.has("span") && span === null && `span: expected whole seconds${found("span")}. The page shows an hour.`,
  ].flatMap((one) => (one ? [one] : []));
  return { view: known?.[0] ?? "now", end, span: Math.min(DAY, Math.max(30, span ?? HOUR)), cgroup: given.get("cgroup"), problems };
}

/** The moment in a link, or in the part of it after `#`, in milliseconds since 1970. */
export function momentOf(link: string): number | null {
  const text = new URLSearchParams(link.split("#").at(-1)?.split("?")[1]).get("at");
  const at = text === null ? NaN : Date.parse(text);
  return Number.isNaN(at) ? null : at;
}

export function link({ view, end, span, cgroup }: Route, at: number | null = momentOf(location.hash)): string {
  const query = new URLSearchParams();
  if (end !== null) query.set("end", String(Math.round(end)));
  if (span !== HOUR) query.set("span", String(Math.round(span)));
  if (cgroup && view === "cgroups") query.set("cgroup", cgroup);
  // By hand: the colons of a time may stand in a link, and a reader wants to read it.
  const moment = at === null ? [] : [`at=${new Date(at).toISOString()}`];
  const text = [query.toString(), ...moment].filter(Boolean).join("&");
  return `#${view}${text && `?${text}`}`;
}

export function go(route: Route) {
  location.hash = link(route);
}

/** Goes on with what is shown, by a link without the parts that the page could not read. */
export function mend(route: Route) {
  go(route);
  // A recording has put its moment into the link already, and then the browser sees no change.
  dispatchEvent(new HashChangeEvent("hashchange", { newURL: location.href }));
}

/** Puts a moment into the link, without an entry in the browser's history for each tick. */
export function pin(at: number | null) {
  history.replaceState(null, "", link(parse(location.hash), at));
}

export function useRoute(): Route {
  const [route, set] = useState(parse(location.hash));
  useEffect(() => {
    const changed = () => set(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
