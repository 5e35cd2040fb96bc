// Curves of any metrics.jsonl: columns that are known share a panel, every other column of numbers gets its own.

import { Chart, lineColour } from "./chart.js";
import { getJson, words } from "./dom.js";

const PANELS = [
  { title: "Loss", columns: { loss: "training", validation_loss: "validation" }, log: true, canLog: true },
  { title: "Reconstruction error", columns: { reconstruction_error: "" }, log: true, canLog: true },
  { title: "Keypoints", columns: { alive: "alive", duplicates: "duplicates" }, counts: true, from: 0 },
  { title: "Travel of each keypoint", columns: { travel: "" }, from: 0 },
  { title: "Change under each keypoint", columns: { change: "" }, from: 0 },
  { title: "How much each keypoint follows", columns: { follows: "" }, from: 0 },
  { title: "Steps per second", columns: { steps_per_second: "" }, from: 0 },
  { title: "Frames per second", columns: { frames_per_second: "" }, from: 0 },
  { title: "Learning rate", columns: { rate: "" }, schedule: true },
  { title: "Heatmap width σ", columns: { sigma: "" }, schedule: true },
  // Of agents and options
  { title: "Mean return", columns: { mean_return: "", return: "" } },
  { title: "Value of each agent", columns: { value: "" } },
  { title: "Exploration ε", columns: { epsilon: "" }, from: 0, schedule: true },
  { title: "How much actions matter to each keypoint", columns: { gaps: "" }, from: 0 },
  { title: "Share of jumps of each keypoint", columns: { jumps: "" }, from: 0 },
  { title: "Loss of the keypoints", columns: { eyes_loss: "" }, log: true, canLog: true },
  { title: "Change of the keypoints", columns: { eyes_moved: "how far they moved", eyes_swapped: "share that changed places" }, from: 0 },
  { title: "Batches left out", columns: { left_out: "" }, schedule: true },
];
const COUNTERS = ["home", "return_of_each_agent", "updates", "episodes", "frames"]; // or drawn better elsewhere
const KNOWN = new Set([...PANELS.flatMap((panel) => Object.keys(panel.columns))]);
const MOST = 6000; // points of one line that are kept

// What has come so far of one run.
export class Metrics {
  constructor(run) {
    this.run = run;
    this.cursor = "";
    this.curves = {};
  }

  // True when something is new.
  async update() {
    const news = await getJson("/api/rows", { id: this.run, cursor: this.cursor });
    this.cursor = news.cursor;
    if (news.whole) this.curves = {};
    for (const [name, { x, y }] of Object.entries(news.curves)) {
      const curve = (this.curves[name] ??= { x: [], y: [] });
      curve.x.push(...x);
      curve.y.push(...y);
      if (curve.x.length > MOST) {
        const keep = (_, i) => i % 2 === 0 || i > curve.x.length - 200;
        this.curves[name] = { x: curve.x.filter(keep), y: curve.y.filter(keep) };
      }
    }
    return news.whole || Object.keys(news.curves).length > 0;
  }
}

function panels(columns, hidden) {
  const known = PANELS.map((panel) => ({ ...panel, names: Object.keys(panel.columns).filter((name) => columns.has(name)) }));
  const others = [...columns].filter((name) => !KNOWN.has(name) && !hidden.has(name)).sort();
  // Names like return/mean and return/p90 share a panel.
  const families = Map.groupBy ? Map.groupBy(others, (name) => name.split("/")[0]) : new Map(others.map((n) => [n, [n]]));
  const more = [...families].map(([family, names]) => ({
    title: words(family)[0].toUpperCase() + words(family).slice(1), names, canLog: true,
    columns: Object.fromEntries(names.map((name) => [name, names.length > 1 ? words(name.slice(family.length + 1)) : ""])),
  }));
  return [...known.filter((panel) => panel.names.length), ...more];
}

function linesOf(metrics, name, label, index, { colours, names }, alone) {
  const curve = metrics.curves[name];
  if (!curve) return [];
  if (!Array.isArray(curve.y[0])) return [{ label, colour: () => lineColour(index), ...curve }];
  const width = Math.max(...curve.y.map((row) => row.length));
  return Array.from({ length: width }, (_, k) => {
    const known = curve.x.map((_, i) => i).filter((i) => (curve.y[i][k] ?? null) !== null); // a row may lack some
    return {
      label: names?.[k] ?? (alone ? `${k}` : `${label} ${k}`),
      rim: !names, colour: () => (names ? lineColour(k) : colours[k % colours.length]),
      x: known.map((i) => curve.x[i]), y: known.map((i) => curve.y[i][k]),
    };
  });
}

// Charts of one run, or of several laid over one another. names: of what lists in a row are of, if not of keypoints.
export class Curves {
  constructor(element, { colours = [], names = null, hide = [] } = {}) {
    this.element = element;
    this.each = { colours, names };
    this.hidden = new Set([...COUNTERS, ...hide]);
    this.charts = new Map();
  }

  draw(all) {
    const columns = new Set(all.flatMap((metrics) => Object.keys(metrics.curves)));
    const wanted = panels(columns, this.hidden).filter((panel) => {
      if (panel.schedule) return all.some((m) => panel.names.some((name) => new Set(m.curves[name]?.y.slice(0, 500).map(String)).size > 1));
      const perKeypoint = panel.names.some((name) => all.some((m) => Array.isArray(m.curves[name]?.y[0])));
      return !(all.length > 1 && perKeypoint); // the keypoints of two runs have nothing to do with one another
    });
    for (const panel of wanted) {
      if (!this.charts.has(panel.title)) this.charts.set(panel.title, new Chart(panel.title, { ...panel }));
      const chart = this.charts.get(panel.title);
      const lines = all.flatMap((metrics, i) => panel.names.flatMap((name, j) => {
        if (all.length === 1) return linesOf(metrics, name, panel.columns[name], j, this.each, true);
        const label = panel.columns[name] && panel.names.length > 1 ? `${metrics.run} · ${panel.columns[name]}` : metrics.run;
        return linesOf(metrics, name, label, i, this.each, false).map((line) => ({ ...line, dashed: j > 0 }));
      }));
      chart.set(lines);
    }
    const order = wanted.map((panel) => this.charts.get(panel.title).element);
    if (order.length !== this.element.children.length || order.some((e, i) => e !== this.element.children[i]))
      this.element.replaceChildren(...order);
    return order.length;
  }

  stop() {
    for (const chart of this.charts.values()) chart.stop();
  }
}

// Precision and recall against length, one line per run, its ceiling dashed.
export function trackingCharts(found) {
  const names = ["precision", "recall"];
  const runs = Object.entries(found).filter(([, tracking]) => tracking);
  return names.map((name) => {
    const chart = new Chart(name[0].toUpperCase() + name.slice(1), { from: 0, to: 1, xName: "length of the trajectory, in steps", legend: runs.length > 1 });
    chart.set(runs.flatMap(([run, { curve }], i) => [
      { label: runs.length > 1 ? run : name, colour: () => lineColour(i), x: curve.lengths, y: curve[name] },
      { label: runs.length > 1 ? "" : "ceiling", colour: () => lineColour(i), dashed: true, x: curve.lengths, y: curve[`${name}_ceiling`] },
    ]));
    return chart;
  });
}
