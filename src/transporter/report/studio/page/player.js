// The player: scrub, step, speed; trails, labels, heatmaps and truth; one switch per keypoint, in its colour.

import { clock, h, icon } from "./dom.js";
import { fitted, overlay } from "./overlay.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const KEYS = [["Space", "play"], ["← →", "one frame"], ["Shift ← →", "ten"], ["Home End", "ends"], ["< >", "speed"], ["0–9", "a keypoint"], ["T", "trails"], ["H", "heatmaps"], ["L", "labels"]];
export const HELP = {
  labels: "The number of each keypoint, the name of each object",
  heat: "How wide each keypoint is to the model: the part of the frame that it carries",
  truth: "White rings: where the objects really are",
  matches: "A line from each keypoint to the object that it is on",
  circles: "A keypoint within this distance ε of an object is on it",
};

// points: Float32Array of (t, k, 2); truth: { objects, radius, centres, present, followed } as flat arrays, or null.
export class Player {
  constructor({ media, points, keypoints, colours, sigma, width, height, times = null, truth = null, firsts = [0], names = [], onFrame = () => {} }) {
    Object.assign(this, { media, points, keypoints, colours, sigma, times, truth, firsts, onFrame });
    this.frames = media.frames;
    this.frame = 0;
    this.visible = Array(keypoints).fill(true);
    this.settings = { trails: 12, labels: false, heat: false, truth: Boolean(truth), circles: false, matches: Boolean(truth) };
    this.speed = 1;
    this.canvas = h("canvas", { class: "marks", "aria-hidden": "true" });
    this.stage = h("div", { class: "stage", style: { "aspect-ratio": `${width} / ${height}`, "--aspect": width / height } }, media.element, this.canvas);
    this.stage.addEventListener("click", () => this.toggle());
    this.scrubber = h("input", { type: "range", class: "scrubber", min: "0", max: String(this.frames - 1), step: "1", value: "0", "aria-label": "Frame",
      oninput: () => { this.pause(); this.go(+this.scrubber.value); } });
    this.readout = h("output", { class: "readout" });
    this.playButton = h("button", { type: "button", class: "round", onclick: () => this.toggle() });
    const step = (name, label, by) => h("button", { type: "button", class: "round quiet", "aria-label": label, title: label, onclick: () => { this.pause(); this.go(this.frame + by); } }, icon(name));
    this.speeds = h("select", { "aria-label": "Speed", onchange: () => this.setSpeed(+this.speeds.value) }, SPEEDS.map((value) => h("option", { value: String(value), selected: value === 1 }, `${value}×`)));
    this.lanes = truth && h("canvas", { class: "lanes", "aria-label": "Which object each keypoint is on, frame by frame", role: "img", onclick: (event) => this.go(Math.floor((event.offsetX / this.lanes.clientWidth) * this.frames)) });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Keypoints" }, this.makeChips(names));
    this.element = h("div", { class: "player", tabindex: 0, "aria-label": `Player. ${KEYS.map(([key, what]) => `${key}: ${what}`).join(", ")}`, onkeydown: (event) => this.key(event) },
      this.stage,
      h("div", { class: "controls" }, step("back", "One frame back", -1), this.playButton, step("next", "One frame on", 1), this.speeds, this.readout),
      h("div", { class: "lines" }, this.scrubber, this.lanes, this.lanes && h("p", { class: "caption" }, "Coloured where a keypoint is on an object: a lane for each, click to go there")),
      this.chips, this.makeSwitches(), h("p", { class: "hint" }, KEYS.map(([key, what]) => h("span", {}, h("kbd", {}, key), what))));
    // Keys work at once, wherever nothing else wants them.
    this.anywhere = (event) => { if (event.target === document.body || event.target.id === "view") this.key(event); };
    document.addEventListener("keydown", this.anywhere);
    this.resized = new ResizeObserver(() => { this.draw(); this.drawLanes(); });
    this.resized.observe(this.stage);
    this.label();
    this.go(0);
  }

  makeChips(names) {
    const chips = this.visible.map((_, k) => h("button", {
      type: "button", class: "chip", "aria-pressed": "true", "data-keypoint": String(k), style: { "--c": this.colours[k % this.colours.length] },
      title: `Show or hide keypoint ${k}; double-click shows it alone`,
      onclick: () => this.switchKeypoint(k),
      ondblclick: () => { this.visible = this.visible.map((_, other) => other === k); this.pressChips(); },
    }, h("i"), names[k] ?? `Keypoint ${k}`));
    this.all = h("button", { type: "button", class: "quiet small", onclick: () => {
      const on = !this.visible.every(Boolean);
      this.visible = this.visible.map(() => on);
      this.pressChips();
    } }, "Hide all");
    return [...chips, this.all];
  }

  switchKeypoint(k) {
    if (k >= this.keypoints) return;
    this.visible[k] = !this.visible[k];
    this.pressChips();
  }

  pressChips() {
    this.all.textContent = this.visible.every(Boolean) ? "Hide all" : "Show all";
    for (const chip of this.chips.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", String(this.visible[+chip.dataset.keypoint]));
    this.draw();
    this.drawLanes();
  }

  makeSwitches() {
    const box = (name, label, on) => {
      const input = h("input", { type: "checkbox", checked: on, onchange: () => { this.settings[name] = input.checked; this.draw(); } });
      (this.boxes ??= {})[name] = input;
      return h("label", { title: HELP[name] }, input, label);
    };
    const length = h("input", { type: "range", min: "0", max: "60", value: String(this.settings.trails), "aria-label": "Length of trails", oninput: () => { this.settings.trails = +length.value; this.draw(); } });
    this.trailLength = length;
    return h("div", { class: "switches" }, h("label", {}, "Trails", length), box("labels", "Labels", false), box("heat", "Heatmaps", false),
      this.truth && [box("truth", "Truth", true), box("matches", "Matches", true), box("circles", "ε circles", false)]);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inField = event.target.matches("input, select");
    const press = (name) => { this.boxes[name].checked = this.settings[name] = !this.settings[name]; this.draw(); };
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key === " " && !event.target.matches("button, select, input[type=checkbox]")) this.toggle();
    else if (event.key in moves && !inField) { this.pause(); this.go(this.frame + moves[event.key] * (event.shiftKey ? 10 : 1)); }
    else if (event.key in moves && event.shiftKey && event.target === this.scrubber) { this.pause(); this.go(this.frame + moves[event.key] * 10); }
    else if ((event.key === "<" || event.key === ">") && !event.target.matches("select")) this.setSpeed(SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(this.speed) + (event.key === ">" ? 1 : -1)))]);
    else if (/^[0-9]$/.test(event.key)) this.switchKeypoint(+event.key);
    else if (event.key === "h") press("heat");
    else if (event.key === "l") press("labels");
    else if (event.key === "t") { this.settings.trails = this.settings.trails ? 0 : 12; this.trailLength.value = this.settings.trails; this.draw(); }
    else return;
    event.preventDefault();
  }

  setSpeed(speed) {
    this.speed = speed;
    this.speeds.value = String(speed);
    this.media.setSpeed(speed);
  }

  label() {
    const name = this.media.playing ? "Pause" : "Play";
    this.playButton.replaceChildren(icon(name.toLowerCase()));
    this.playButton.setAttribute("aria-label", name);
  }

  toggle() {
    if (this.media.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.frame >= this.frames - 1) this.go(0);
    const begun = this.media.play(this.frame, this.speed, (i) => this.at(i), () => this.label());
    begun?.catch(() => this.pause()); // left before it began, or a browser that wants a click first
    this.label();
  }

  // People came to look: it plays by itself, unless they asked for less motion.
  begin() {
    this.draw();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.play();
  }

  pause() {
    if (!this.media.playing) return;
    this.media.pause();
    this.label();
  }

  go(frame) {
    const i = Math.max(0, Math.min(this.frames - 1, frame));
    this.media.show(i);
    this.at(i);
  }

  at(i) {
    this.frame = i;
    this.element.dataset.frame = i;
    this.scrubber.value = i;
    this.scrubber.style.setProperty("--done", `${(100 * i) / Math.max(1, this.frames - 1)}%`);
    this.readout.textContent = `${this.times ? `${clock(this.times[i])} · ` : ""}frame ${i} / ${this.frames - 1}`;
    this.draw();
    this.moveLane();
    this.onFrame(i);
  }

  point(i, k) {
    const at = 2 * (i * this.keypoints + k);
    return [this.points[at], this.points[at + 1]];
  }

  truthAt(i) {
    if (!this.truth) return null;
    const { objects, radius, centres, present, followed } = this.truth;
    const n = objects.length;
    return {
      objects, radius,
      centres: objects.map((_, j) => [centres[2 * (i * n + j)], centres[2 * (i * n + j) + 1]]),
      present: objects.map((_, j) => present[i * n + j]),
      followed: this.visible.map((_, k) => followed[i * this.keypoints + k]),
    };
  }

  draw() {
    const { pen, width, height } = fitted(this.canvas);
    if (!width) return;
    const first = Math.max(...this.firsts.filter((start) => start <= this.frame), 0); // no trail across two episodes
    const { settings: s } = this;
    overlay(pen, width, height, {
      at: (k, back) => (this.frame - back >= first ? this.point(this.frame - back, k) : null),
      visible: this.visible, colours: this.colours, sigma: this.sigma, trails: s.trails, labels: s.labels, heat: s.heat,
      truth: this.truthAt(this.frame), show: s,
    });
  }

  // One lane per keypoint, coloured where it is on an object.
  drawLanes() {
    if (!this.lanes) return;
    this.lanes.style.setProperty("height", `${this.keypoints * 8}px`);
    const { pen, width, height } = fitted(this.lanes);
    if (!width) return;
    pen.clearRect(0, 0, width, height);
    const step = width / this.frames;
    for (let k = 0; k < this.keypoints; k++) {
      pen.globalAlpha = this.visible[k] ? 1 : 0.2;
      pen.fillStyle = this.colours[k % this.colours.length];
      for (let i = 0; i < this.frames; i++) if (this.truth.followed[i * this.keypoints + k] >= 0) pen.fillRect(i * step, k * 8 + 1, step + 0.5, 6);
    }
    pen.globalAlpha = 1;
  }

  moveLane() {
    this.lanes?.style.setProperty("--at", `${(100 * (this.frame + 0.5)) / this.frames}%`);
  }

  stop() {
    this.media.stop();
    this.resized.disconnect();
    document.removeEventListener("keydown", this.anywhere);
  }
}
