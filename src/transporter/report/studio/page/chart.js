// Line charts on a canvas: quick with thousands of points, live, with a reading at the pointer or by arrow keys.

import { h, short } from "./dom.js";

const SPACE = { left: 46, right: 12, top: 12, bottom: 40 };
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const lineColour = (index) => style(`--line-${index % 8}`);

// Round numbers that cover a range, at least so far apart.
export function ticks(low, high, count, least = 0) {
  if (!(high > low)) return [low];
  const raw = Math.max(least, (high - low) / Math.max(1, count));
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(+(i * step).toPrecision(12));
  return found;
}

// Two that read the same say nothing.
const distinct = (values) => values.filter((value, i) => values.findIndex((other) => short(other) === short(value)) === i);

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const n of [1, 2, 5]) {
      const value = n * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  if (found.length < 2) return ticks(low, high, 4);
  return found.length > 6 ? found.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9) : found;
}

// lines: [{ label, colour, x, y, dashed, rim, band }], band: [low, high] around y; marks: [{ label, y }], level lines to
// compare with; options: { log, canLog, from, to, counts, xName, legend }
export class Chart {
  constructor(title, options = {}) {
    this.options = options;
    this.lines = [];
    this.marks = [];
    this.canvas = h("canvas", { tabindex: 0, role: "img" });
    this.reading = h("div", { class: "reading", hidden: true });
    this.legend = h("div", { class: "legend" });
    this.plot = h("div", { class: "plot" }, this.canvas, this.reading);
    const logButton = options.canLog && h("button", {
      type: "button", class: "quiet small", "aria-pressed": String(Boolean(options.log)),
      onclick: (event) => {
        options.log = !options.log;
        event.currentTarget.setAttribute("aria-pressed", String(options.log));
        this.draw();
      },
    }, "log");
    this.element = h("figure", { class: "chart card" }, h("figcaption", {}, h("h3", {}, title), logButton), this.plot, this.legend);
    this.title = title;
    this.at = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.point(null));
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.plot);
    this.redraw = () => this.draw();
    addEventListener("themechange", this.redraw);
  }

  stop() {
    this.resized.disconnect();
    removeEventListener("themechange", this.redraw);
  }

  set(lines, marks = []) {
    this.lines = lines.filter((line) => line.x.length);
    this.marks = marks;
    const named = this.lines.filter((line) => line.label);
    const many = named.length > 1 || this.options.legend;
    this.legend.replaceChildren(...(many ? named : []).map((line) =>
      h("span", { style: { "--c": line.colour() } }, h("i", { class: line.dashed ? "dashed" : "" }), line.label)));
    this.legend.hidden = !many;
    const ends = this.lines.filter((line) => !line.dashed).slice(0, 8).map((line) => `${line.label || "value"} ${short(line.y.at(-1))}`);
    const count = `${this.lines.length} line${this.lines.length === 1 ? "" : "s"}`;
    this.canvas.setAttribute("aria-label", `${this.title}: ${count}, newest ${ends.join(", ")}. Arrow keys read values.`);
    this.draw();
  }

  bounds() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    const positive = this.options.log;
    for (const { x, y } of this.lines)
      for (let i = 0; i < x.length; i++) {
        const value = y[i];
        if (value === null || !Number.isFinite(value) || (positive && value <= 0)) continue;
        x0 = Math.min(x0, x[i]); x1 = Math.max(x1, x[i]);
        y0 = Math.min(y0, value); y1 = Math.max(y1, value);
      }
    if (x0 > x1) return null;
    for (const { band } of this.lines) for (const side of band ?? []) for (const value of side) { y0 = Math.min(y0, value); y1 = Math.max(y1, value); }
    for (const { y } of this.marks) { y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
    if (this.options.from !== undefined) y0 = Math.min(y0, this.options.from);
    if (this.options.to !== undefined) y1 = Math.max(y1, this.options.to);
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    if (y0 === y1) { const by = Math.abs(y0) / 10; [y0, y1] = positive ? [y0 / 1.2, y1 * 1.2] : y0 ? [y0 - by, y1 + by] : [0, 1]; }
    if (this.marks.length) { y1 += 0.1 * (y1 - y0); y0 -= 0.05 * (y1 - y0); } // their names stand above them
    return [x0, x1, y0, y1];
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const bounds = this.bounds();
    if (!bounds) return;
    const [x0, x1, y0, y1] = bounds;
    const flat = this.options.log ? Math.log10 : (value) => value;
    const inner = { width: width - SPACE.left - SPACE.right, height: height - SPACE.top - SPACE.bottom };
    this.px = (x) => SPACE.left + ((x - x0) / (x1 - x0)) * inner.width;
    this.py = (y) => SPACE.top + (1 - (flat(y) - flat(y0)) / (flat(y1) - flat(y0))) * inner.height;

    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = style("--soft");
    pen.strokeStyle = style("--line");
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const across = this.options.log ? logTicks(y0, y1) : ticks(y0, y1, this.options.counts ? Math.min(4, y1 - y0) : 4);
    for (const value of distinct(across)) {
      const y = Math.round(this.py(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(SPACE.left, y);
      pen.lineTo(width - SPACE.right, y);
      pen.stroke();
      pen.fillText(short(value), SPACE.left - 8, y);
    }
    pen.textBaseline = "alphabetic";
    const whole = this.lines.every((line) => line.x.every(Number.isInteger)) ? 1 : 0; // there is no step 900.2
    for (const value of distinct(ticks(x0, x1, Math.max(2, Math.floor(inner.width / 90)), whole))) {
      const x = this.px(value);
      pen.textAlign = x > width - 30 ? "right" : "center";
      pen.fillText(short(value), Math.min(x, width - 4), height - 22);
    }
    pen.textAlign = "center";
    pen.fillText(this.options.xName ?? "step", SPACE.left + inner.width / 2, height - 5);

    pen.lineJoin = "round";
    for (const line of this.lines) if (line.band) this.shade(pen, line);
    for (const mark of this.marks) this.level(pen, mark, width);
    for (const line of this.lines) this.stroke(pen, line);
    if (this.at !== null) this.cross(pen, height);
  }

  // A rim keeps a keypoint's own colour readable on white.
  stroke(pen, line) {
    if (line.rim) this.trace(pen, line, "rgb(20 20 26 / 45%)", 3);
    this.trace(pen, line, line.colour(), line.dashed ? 1.3 : 1.9);
  }

  trace(pen, { x, y, dashed }, colour, width) {
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = width;
    pen.globalAlpha = dashed ? 0.6 : 1;
    pen.setLineDash(dashed ? [5, 4] : []);
    pen.beginPath();
    let open = false;
    let count = 0;
    let last;
    for (let i = 0; i < x.length; i++) {
      const value = y[i];
      if (value === null || !Number.isFinite(value) || (this.options.log && value <= 0)) { open = false; continue; }
      const at = this.py(value);
      if (open && this.options.counts) pen.lineTo(this.px(x[i]), this.py(y[i - 1] ?? value));
      if (open) pen.lineTo(this.px(x[i]), at);
      else pen.moveTo(this.px(x[i]), at);
      open = true;
      last = i;
      count++;
    }
    pen.stroke();
    pen.setLineDash([]);
    if (count === 1) {
      pen.beginPath();
      pen.arc(this.px(x[last]), this.py(y[last]), width + 2, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  shade(pen, { x, band: [low, high], colour }) {
    pen.fillStyle = colour();
    pen.globalAlpha = 0.14;
    pen.beginPath();
    x.forEach((at, i) => pen.lineTo(this.px(at), this.py(high[i])));
    for (let i = x.length - 1; i >= 0; i--) pen.lineTo(this.px(x[i]), this.py(low[i]));
    pen.fill();
    pen.globalAlpha = 1;
  }

  level(pen, { label, y }, width) {
    pen.strokeStyle = pen.fillStyle = style("--soft");
    pen.lineWidth = 1.2;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(SPACE.left, this.py(y));
    pen.lineTo(width - SPACE.right, this.py(y));
    pen.stroke();
    pen.setLineDash([]);
    pen.textAlign = "right";
    pen.fillText(label, width - SPACE.right, this.py(y) - 5);
  }

  cross(pen, height) {
    const x = this.px(this.at);
    pen.strokeStyle = style("--soft");
    pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.moveTo(x, SPACE.top);
    pen.lineTo(x, height - SPACE.bottom);
    pen.stroke();
    pen.setLineDash([]);
  }

  near(line, x) {
    let low = 0;
    let high = line.x.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (line.x[middle] <= x) low = middle;
      else high = middle;
    }
    return Math.abs(line.x[low] - x) <= Math.abs(line.x[high] - x) ? low : high;
  }

  point(offset) {
    if (offset === null || !this.px || !this.lines.length) {
      this.at = null;
      this.reading.hidden = true;
    } else {
      const [x0, x1] = this.bounds();
      const width = this.plot.clientWidth - SPACE.left - SPACE.right;
      const wanted = x0 + ((offset - SPACE.left) / width) * (x1 - x0);
      const longest = this.lines.reduce((a, b) => (b.x.length > a.x.length ? b : a));
      this.at = longest.x[this.near(longest, wanted)];
      this.read();
    }
    this.draw();
  }

  read() {
    const rows = this.lines.slice(0, 14).map((line) => {
      const value = line.y[this.near(line, this.at)];
      return h("span", { style: { "--c": line.colour() } }, h("i", { class: line.dashed ? "dashed" : "" }), line.label ?? "", h("b", {}, short(value)));
    });
    this.reading.replaceChildren(h("em", {}, `${this.options.xName ?? "step"} ${short(this.at)}`), ...rows);
    this.reading.hidden = false;
    const right = this.px(this.at) < this.plot.clientWidth / 2;
    this.reading.style.setProperty("left", right ? `${this.px(this.at) + 10}px` : "auto");
    this.reading.style.setProperty("right", right ? "auto" : `${this.plot.clientWidth - this.px(this.at) + 10}px`);
  }

  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !this.lines.length) return;
    event.preventDefault();
    const longest = this.lines.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    const now = this.at === null ? longest.x.length - 1 - by : this.near(longest, this.at);
    const next = Math.max(0, Math.min(longest.x.length - 1, now + by * (event.shiftKey ? 10 : 1)));
    this.at = longest.x[next];
    this.read();
    this.draw();
  }
}

// The small curve in a list.
export function spark(values) {
  const canvas = h("canvas", { class: "spark", "aria-hidden": "true" });
  canvas.width = 192;
  canvas.height = 56;
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return canvas;
  const pen = canvas.getContext("2d");
  const positive = known.every((value) => value > 0);
  const flat = positive ? Math.log : (value) => value;
  const low = Math.min(...known.map(flat));
  const high = Math.max(...known.map(flat));
  pen.strokeStyle = lineColour(0);
  pen.lineWidth = 3;
  pen.lineJoin = "round";
  pen.beginPath();
  known.forEach((value, i) => pen.lineTo(3 + (i / (known.length - 1)) * 186, 50 - ((flat(value) - low) / (high - low || 1)) * 44));
  pen.stroke();
  return canvas;
}
