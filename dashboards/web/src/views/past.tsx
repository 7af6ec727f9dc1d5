// One cgroup over time, read from the recording.

import type { History } from "../api";
import { Chart, type Drawn } from "../chart";
import { sinceKnown, useHistoryOf } from "../history";
import { Panel } from "../parts";
import { link, type Route } from "../route";


const PLANS: { title: string; about: string; series: Drawn[]; isOptional?: boolean }[] = [
  {
    title: "Waiting",
    about: "Share of time in which at least one of its tasks waited.",
    series: [
      { name: "cgroup.cpu.contention", label: "CPU contention", colour: "others" },
      { name: "cgroup.cpu.some", label: "CPU, own quota included", colour: "raw", isDashed: true },
      { name: "cgroup.memory.some", label: "memory", colour: "above" },
      { name: "cgroup.io.some", label: "IO", colour: "third" },
    ],
  },
  {
    title: "CPU used",
    about: "100 % is one core.",
    series: [{ name: "cgroup.cpu.used", label: "used", colour: "others" }],
  },
  {
    title: "Memory",
    about: "Charged to it, and without file pages that it has not used lately.",
    series: [
      { name: "cgroup.memory.workingSet", label: "working set", colour: "others" },
      { name: "cgroup.memory.current", label: "all", colour: "raw", isDashed: true },
    ],
  },
  {
    title: "Throttled",
    about: "Task time in a second in which a quota stopped it: its own, or one above it.",
    series: [{ name: "cgroup.cpu.throttled", label: "throttled", colour: "own" }],
    isOptional: true,
  },
  {
    title: "Read and written",
    about: "Bytes in a second, from and to devices: the most of each step.",
    series: [
      { name: "cgroup.io.read", label: "read", colour: "others" },
      { name: "cgroup.io.written", label: "written", colour: "third" },
    ],
    isOptional: true,
  },
];

const occurs = (history: History | null, { name }: Drawn) => history?.series[name]?.values.some((value) => value) ?? false;

export function PastOf({ name, route, cgroup, isDark }: { name: string; route: Route; cgroup: string; isDark: boolean }) {
  const { data, error } = useHistoryOf(cgroup, route);
  const history = sinceKnown(data);
  return (
    <Panel title={`History of ${name}`} id="past" aside={<a href={link({ ...route, cgroup: null })}>close</a>}>
      {error && <p class="why">No history of it: {error}.</p>}
      {!data && !error && <p class="why">Reading the recording.</p>}
      {data?.isWhole === false && <p class="why">There was no time to read all of it: the beginning is missing.</p>}
      {history && (
        <div class="cards">
          {PLANS.filter(({ isOptional, series }) => !isOptional || series.some((one) => occurs(history, one))).map(({ title, about, series }) => (
            <Chart key={title} {...{ title, about, series, history, isDark }} cursor="cgroup" />
          ))}
        </div>
      )}
    </Panel>
  );
}
