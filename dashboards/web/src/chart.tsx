// A chart of series of the history: uPlot on a canvas, a sentence for those who do not see it, and
// the table behind it. A value that was not measured is a gap.

import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { History, Moment, Series, Span } from "./api";
import type { Threshold } from "./history";
import { Behind, Table } from "./parts";
import { bytes, clock, percent, SECOND, time, UNKNOWN } from "./words";

/** Which series are drawn, and how: a colour of page.css, and whether the line is dashed. */
export interface Drawn {
  name: string;
  label: string;
  colour: string;
  isDashed?: boolean;
}

export interface ChartOf {
  title: string;
  /** What a reader sees in it, in one sentence. */
  about?: string;
  history: History | null;
  series: Drawn[];
  thresholds?: Threshold[];
  spans?: Span[];
  height?: number;
  isLog?: boolean;
  /** Charts of one key share the cursor. */
  cursor?: string;
  isDark: boolean;
  /** A part was chosen with the pointer, in seconds since 1970. */
  onSelect?: (begin: number, end: number) => void;
}

const FORMATS: Record<Series["unit"], (value: number | null | undefined) => string> = {
  percent,
  bytes,
  nanoseconds: time,
  milliCpu: (value) => (value == null ? UNKNOWN : value < 1_000 ? `${(value / 10).toFixed(1)} % of a core` : `${(value / 1_000).toFixed(2)} cores`),
};

/** A length of time in one unit, for an axis. */
function brief(nanos: number): string {
  const seconds = nanos / SECOND;
  if (seconds < 60) return seconds >= 1 ? `${Math.round(seconds)} s` : time(nanos);
  return seconds < 3_600 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
}

/** The powers of ten of a logarithmic axis. */
function decades(least: number, most: number): number[] {
  const [from, to] = [Math.ceil(Math.log10(least)), Math.floor(Math.log10(most))];
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => 10 ** (from + i));
}

const colourOf = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A moment of a span on the chart's clock: by the boot clock, because the wall clock may jump. */
const onChart = (history: History, moment: Moment) =>
  (history.begin.wall + (moment.boot - history.begin.boot)) / SECOND;

function stripes(context: CanvasRenderingContext2D, colour: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  if (!pen) return colour;
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(-2, 10);
  pen.lineTo(10, -2);
  pen.stroke();
  return context.createPattern(tile, "repeat") ?? colour;
}

/** Shades when a condition was True (red) or Unknown (grey stripes), below the lines. */
function shade(plot: uPlot, history: History, spans: Span[]) {
  const { ctx: context, bbox } = plot;
  for (const { state, begin, end } of spans) {
    const [from, to] = [onChart(history, begin), onChart(history, end ?? history.end)];
    const left = Math.max(bbox.left, plot.valToPos(from, "x", true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(to, "x", true));
    if (right <= left) continue;
    context.save();
    context.fillStyle = state === "True" ? colourOf("true-wash") : stripes(context, colourOf("unknown-wash"));
    context.fillRect(left, bbox.top, right - left, bbox.height);
    context.restore();
  }
}

/** Lines that are close to each other have their labels at both ends. */
function line(plot: uPlot, { share, label }: Threshold, isSecond: boolean) {
  const { ctx: context, bbox } = plot;
  const y = plot.valToPos(share, "y", true);
  if (y < bbox.top || y > bbox.top + bbox.height) return;
  context.save();
  context.strokeStyle = context.fillStyle = colourOf("ink");
  context.lineWidth = devicePixelRatio;
  context.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  context.beginPath();
  context.moveTo(bbox.left, y);
  context.lineTo(bbox.left + bbox.width, y);
  context.stroke();
  context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  context.textAlign = isSecond ? "right" : "left";
  context.textBaseline = "bottom";
  const x = isSecond ? bbox.left + bbox.width - 4 * devicePixelRatio : bbox.left + 4 * devicePixelRatio;
  context.fillText(`${label} ${share} %`, x, y - 2 * devicePixelRatio);
  context.restore();
}

/** Of the newest step; an earlier figure is none of now. */
const newestOf = (values: ArrayLike<number | null | undefined> = []) => values[values.length - 1];

/** The data of uPlot: times, and a column for each series. */
function columns(history: History, series: Drawn[]): uPlot.AlignedData {
  const drawn = series.map(({ name }) => history.series[name]);
  const n = drawn[0]?.values.length ?? 0;
  const times = Array.from({ length: n }, (_, i) => (history.begin.wall + i * history.step) / SECOND);
  // Where a step is a mean, its peak is what may hurt.
  return [times, ...drawn.map((one) => one?.peaks ?? one?.values ?? times.map(() => null))];
}

/** The scale of the values: percentages from 0 to what is there, at least to the thresholds. */
function scale(unit: Series["unit"], { thresholds = [], isLog }: ChartOf): uPlot.Scale {
  if (isLog) return { distr: 3 };
  const top = (max: number | null) => {
    const least = unit === "percent" ? Math.max(10, ...thresholds.map(({ share }) => share * 1.15)) : 1;
    const highest = Math.max(least, (max ?? 0) * 1.08);
    return unit === "percent" ? Math.min(100, highest) : highest;
  };
  return { range: (_plot, _min, max) => [0, top(max)] };
}

/** A plot that reads its spans from `newest`, which goes on while the plot stays. */
function draw(target: HTMLElement, history: History, newest: { current: ChartOf }): uPlot {
  const chart = newest.current;
  const unit = history.series[chart.series[0]?.name ?? ""]?.unit ?? "percent";
  const format = FORMATS[unit];
  const axis = { stroke: colourOf("quiet"), grid: { stroke: colourOf("line"), width: 1 }, ticks: { show: false } };
  const short = (value: number) => {
    if (unit === "percent") return `${value} %`;
    if (unit === "milliCpu") return `${+(value / 10).toFixed(1)} %`;
    return unit === "nanoseconds" ? brief(value) : format(value);
  };
  const splits = chart.isLog ? { splits: (_plot: uPlot, _at: number, min: number, max: number) => decades(min, max) } : {};
  const options: uPlot.Options = {
    width: target.clientWidth,
    height: chart.height ?? 150,
    legend: { live: true },
    cursor: { ...(chart.cursor ? { sync: { key: chart.cursor } } : {}), drag: { setScale: false, x: true, y: false } },
    scales: { y: scale(unit, chart) },
    axes: [
      { ...axis, size: 26, space: 70, values: (_plot, ticks, _axis, _space, each) => ticks.map((at) => clock(at * SECOND).slice(-8, each < 60 ? undefined : -3)) },
      { ...axis, ...splits, size: 62, space: 34, values: (_plot, ticks) => ticks.map((tick) => (tick == null ? "" : short(tick))) },
    ],
    series: [
      { label: "Time", value: (_plot, at) => (at == null ? "newest" : clock(at * SECOND)) },
      ...chart.series.map(({ label, colour, isDashed }) => ({
        label,
        stroke: colourOf(colour),
        width: 1.6,
        spanGaps: false,
        points: { show: false },
        ...(isDashed ? { dash: [3, 3] } : {}),
        value: (plot: uPlot, value: number | null, at: number, index: number | null) =>
          format(index === null ? newestOf(plot.data[at]) : value),
      })),
    ],
    hooks: {
      drawClear: [(plot) => shade(plot, newest.current.history ?? history, newest.current.spans ?? [])],
      draw: [(plot) => chart.thresholds?.forEach((one, at) => line(plot, one, at > 0))],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 8) return;
          newest.current.onSelect?.(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
  return new uPlot(options, columns(history, chart.series), target);
}

/** Highest and newest value of each series, for a reader who does not see the lines. */
function told({ title, history, series, thresholds = [] }: ChartOf): string {
  if (!history) return `${title}: no data yet`;
  const parts = series.map(({ name, label }) => {
    const one = history.series[name];
    const all = one?.peaks ?? one?.values ?? [];
    const [known, newest] = [all.filter((value) => value !== null), newestOf(all)];
    if (!one || known.length === 0) return `${label}: not measured`;
    const format = FORMATS[one.unit];
    return `${label}: now ${newest == null ? "not measured" : format(newest)}, lowest ${format(Math.min(...known))}, highest ${format(Math.max(...known))}`;
  });
  const lines = thresholds.map(({ share, label }) => `Threshold of ${label === "condition" ? "the condition" : label}: ${share} %`);
  return `${title}. ${[...parts, ...lines].join(". ")}.`;
}

const ROWS = 60;

function Rows({ title, history, series }: ChartOf & { history: History }) {
  const [times, ...values] = columns(history, series);
  const each = Math.max(1, Math.ceil(times.length / ROWS));
  const rows = Array.from(times, (_, i) => i).filter((i) => i % each === 0).reverse();
  const cells = series.map(({ name, label }, at) => ({
    head: label,
    isNumber: true,
    cell: (row: number) => {
      const format = FORMATS[history.series[name]?.unit ?? "percent"];
      const known = Array.from(values[at]?.slice(row, row + each) ?? []).filter((value) => value != null);
      const [low, high] = [format(known.length ? Math.min(...known) : null), format(known.length ? Math.max(...known) : null)];
      return low === high ? low : `${low} to ${high}`;
    },
  }));
  const first = { head: "Time", cell: (row: number) => clock((times[row] ?? 0) * SECOND) };
  const caption = `${title}: lowest and highest of every ${Math.round((each * history.step) / SECOND)} s, newest first.`;
  return <Table caption={caption} columns={[first, ...cells]} rows={rows} rowKey={String} nothing="No data." />;
}

const isMeasured = ({ history, series }: ChartOf) =>
  series.some(({ name }) => history?.series[name]?.values.some((value) => value !== null));

export function Chart(chart: ChartOf) {
  const { title, about, history, isDark } = chart;
  const isEmpty = history !== null && !isMeasured(chart);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = JSON.stringify([chart.series, chart.thresholds, isDark, chart.isLog, chart.height, history === null, isEmpty]);
  const latest = useRef(chart);
  latest.current = chart;
  useEffect(() => {
    const target = box.current;
    if (!target || !latest.current.history) return;
    const made = draw(target, latest.current.history, latest);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: target.clientWidth, height: made.height }));
    resized.observe(target);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => {
    if (history) plot.current?.setData(columns(history, latest.current.series));
  }, [history, chart.spans]);
  const sentence = useMemo(() => told(chart), [history, shape]);
  return (
    <figure class="chart">
      <figcaption>
        <b>{title}</b> {about && <span class="quiet">{about}</span>}
      </figcaption>
      {history && !isEmpty && <div ref={box} class="plot" role="img" aria-label={sentence} />}
      {isEmpty && <p class="why">Not measured in this time.</p>}
      {!history && <p class="why">Waiting for data.</p>}
      {history && !isEmpty && <Behind label={title}>{() => <Rows {...chart} history={history} />}</Behind>}
    </figure>
  );
}
