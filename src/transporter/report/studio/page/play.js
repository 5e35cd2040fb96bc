// A game in your hands, while keypoints follow.

import { empty, getJson, h, icon, remove, say, send, short, trouble, waiting } from "./dom.js";
import { modelChoice, noSuchModel, trainedOn } from "./clips.js";
import { fitted, overlay } from "./overlay.js";
import { HELP } from "./player.js";

const RATE = 15; // steps a second: how fast these games are
const TRAIL = 15;
const ARROWS = { ArrowUp: "UP", ArrowDown: "DOWN", ArrowLeft: "LEFT", ArrowRight: "RIGHT", w: "UP", s: "DOWN", a: "LEFT", d: "RIGHT", " ": "FIRE" };

// The action for the keys that are held. Pong's paddle goes up with RIGHT: where there is no UP, that is what up means.
export function actionFor(held, actions) {
  const names = new Map(actions.map((name, i) => [name.toUpperCase(), i]));
  let wanted = new Set([...held].map((key) => ARROWS[key]).filter(Boolean));
  if (!names.has("UP") && names.has("RIGHT")) wanted = new Set([...wanted].map((word) => ({ UP: "RIGHT", DOWN: "LEFT" })[word] ?? word));
  const word = ["UP", "DOWN"].filter((part) => wanted.has(part)).slice(0, 1).join("") + ["RIGHT", "LEFT"].filter((part) => wanted.has(part)).slice(0, 1).join("");
  const tries = wanted.has("FIRE") ? [`${word}FIRE`, "FIRE", word] : [word];
  return tries.map((name) => names.get(name)).find((i) => i !== undefined) ?? names.get("NOOP") ?? 0;
}

export async function playPage({ view, query, onLeave }) {
  const { models, games } = await getJson("/api/models");
  if (!models.length) {
    view.replaceChildren(empty("No model to look through", "Train one first; then play its game here."));
    return;
  }
  const asked = query.get("model");
  if (asked !== null && !models.some((model) => model.id === asked)) {
    view.replaceChildren(noSuchModel(asked, "play"));
    return;
  }
  const first = asked ?? models.find((model) => model.environment === "pong")?.id ?? models[0].id;
  const select = modelChoice(models, first, "Model");
  const game = h("select", { "aria-label": "Game" });
  const note = h("p", { class: "soft note", role: "status" });
  const screen = h("div", { class: "screen" });
  const board = new Board();
  const stopper = { now: () => {} };
  const trainedFor = () => models.find((model) => model.id === select.value)?.environment;
  const start = async () => {
    stopper.now();
    note.textContent = trainedFor() === game.value ? "" : `${trainedOn(trainedFor())} In ${game.value} its keypoints may follow nothing.`;
    note.hidden = !note.textContent;
    screen.replaceChildren(waiting("Starting the game"));
    try {
      const { head, parts } = await send("/api/play", { model: select.value, game: game.value, seed: Math.floor(Math.random() * 1e6) });
      const session = new Session(head, board);
      stopper.now = () => session.stop();
      screen.replaceChildren(session.element);
      session.show(head, parts);
      session.run();
      board.element.focus({ preventScroll: true });
    } catch (error) {
      screen.replaceChildren(trouble(error, start));
    }
  };
  const listGames = () => {
    const wanted = games.includes(trainedFor()) ? trainedFor() : game.value;
    game.replaceChildren(...games.map((name) => h("option", { value: name, selected: name === wanted }, name)));
  };
  select.addEventListener("change", () => { listGames(); start(); });
  game.addEventListener("change", () => {
    const made = models.filter((model) => model.environment === game.value); // for this game: the shipped one, or one's own
    const better = made.find((model) => model.id.startsWith("shipped:")) ?? made.find((model) => model.chosen) ?? made[0];
    if (better && trainedFor() !== game.value) select.value = better.id;
    start();
  });
  listGames();
  view.replaceChildren(
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Play"), h("p", { class: "soft" }, "Arrow keys or WASD move, space fires. The keypoints see only the pixels.")),
      h("div", { class: "tools" }, h("label", { class: "row" }, "Model", select), h("label", { class: "row" }, "Game", game))), note, screen);
  onLeave(() => stopper.now());
  await start();
}

// Picture and marks.
class Board {
  constructor() {
    this.picture = h("canvas", { class: "pixels" });
    this.marks = h("canvas", { class: "marks", "aria-hidden": "true" });
    this.element = h("div", { class: "stage", tabindex: 0, "aria-label": "The game. Arrow keys or WASD move, space fires, P pauses." }, this.picture, this.marks);
  }
}

class Session {
  constructor(head, board) {
    Object.assign(this, { scene: head, board, held: new Set(), pressed: null, history: [], steps: 0 });
    this.running = true;
    this.alone = false;
    this.options = { truth: false, circles: false, matches: false };
    this.facts = h("p", { class: "facts", "aria-live": "off" });
    this.pauseButton = h("button", { type: "button", class: "round", onclick: () => this.pause() });
    const box = (name, label) => h("label", { title: HELP[name] }, h("input", { type: "checkbox", onchange: (event) => { this.options[name] = event.currentTarget.checked; this.draw(); } }), label);
    const alone = h("label", {}, h("input", { type: "checkbox", onchange: (event) => { this.alone = event.currentTarget.checked; } }), "Play at random");
    this.element = h("div", { class: "playing card" }, board.element,
      h("div", { class: "controls" }, this.pauseButton, this.facts),
      h("div", { class: "switches" }, alone, head.objects.length ? [box("truth", "Truth"), box("matches", "Matches"), box("circles", "ε circles")] : null),
      this.pad());
    this.keys = (event) => this.key(event);
    board.element.addEventListener("keydown", this.keys);
    board.element.addEventListener("keyup", this.keys);
    this.away = () => this.held.clear();
    board.element.addEventListener("blur", this.away);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(board.element);
    this.label();
  }

  // Buttons for fingers; games without directions get one per action.
  pad() {
    const names = this.scene.actions.map((name) => name.toUpperCase());
    const press = (key) => ({ onpointerdown: (event) => { this.held.add(key); event.currentTarget.setPointerCapture(event.pointerId); }, onpointerup: () => this.held.delete(key), onpointercancel: () => this.held.delete(key) });
    const directions = names.some((name) => ["UP", "DOWN", "LEFT", "RIGHT"].includes(name));
    if (!directions) {
      return h("div", { class: "buttons" }, this.scene.actions.map((name, i) => h("button", { type: "button", onpointerdown: () => { this.pressed = i; }, onpointerup: () => { this.pressed = null; } }, name.toLowerCase())));
    }
    const arrow = (key, name) => h("button", { type: "button", class: name, "aria-label": name, tabindex: -1, ...press(key) }, icon(name));
    return h("div", { class: "pad" }, arrow("ArrowUp", "up"), arrow("ArrowLeft", "left"), arrow("ArrowRight", "right"), arrow("ArrowDown", "down"),
      h("button", { type: "button", class: "fire", tabindex: -1, ...press(" ") }, "Fire"));
  }

  key(event) {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "p" && event.type === "keydown") this.pause();
    else if (key in ARROWS) {
      if (event.type === "keydown") this.held.add(key);
      else this.held.delete(key);
    } else return;
    event.preventDefault();
  }

  label() {
    this.pauseButton.replaceChildren(icon(this.running ? "pause" : "play"));
    this.pauseButton.setAttribute("aria-label", this.running ? "Pause" : "Play");
  }

  pause() {
    this.running = !this.running;
    this.label();
    if (this.running) this.run();
  }

  choose() {
    if (this.alone) return Math.floor(Math.random() * this.scene.actions.length);
    return this.pressed ?? actionFor(this.held, this.scene.actions);
  }

  async run() {
    const mine = (this.round = (this.round ?? 0) + 1);
    let due = performance.now();
    while (this.running && this.round === mine) {
      try {
        const { head, parts } = await send(`/api/play/${this.scene.id}`, { action: this.choose() });
        if (this.round !== mine || this.stopped) return;
        this.show(head, parts);
      } catch (error) {
        if (this.stopped) return;
        this.running = false;
        this.label();
        this.element.append(trouble(error));
        return;
      }
      due = Math.max(due + 1000 / RATE, performance.now() - 100);
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    }
  }

  async show(head, parts) {
    this.state = head;
    if (head.step === 0) this.history = [];
    this.history.unshift(head.points);
    this.history.length = Math.min(this.history.length, TRAIL + 1);
    this.steps += 1;
    this.element.dataset.steps = this.steps;
    const bitmap = await createImageBitmap(new Blob([parts[0]], { type: "image/png" }));
    const { picture } = this.board;
    if (picture.width !== bitmap.width || picture.height !== bitmap.height) {
      picture.width = bitmap.width;
      picture.height = bitmap.height;
      this.board.element.style.setProperty("aspect-ratio", `${bitmap.width} / ${bitmap.height}`);
      this.board.element.style.setProperty("--aspect", bitmap.width / bitmap.height);
    }
    picture.getContext("2d").drawImage(bitmap, 0, 0);
    bitmap.close();
    this.draw();
    this.facts.textContent = [`Score ${short(head.score)}`, head.lives ? `lives ${head.lives}` : "", `step ${short(head.step)}`, head.over ? "over: the next step begins anew" : ""].filter(Boolean).join(" · ");
  }

  draw() {
    if (!this.state) return;
    const { pen, width, height } = fitted(this.board.marks);
    if (!width) return;
    const { scene, state } = this;
    overlay(pen, width, height, {
      at: (k, back) => this.history[back]?.[k] ?? null,
      visible: Array(scene.keypoints).fill(true), colours: scene.colours, sigma: scene.sigma, trails: TRAIL, labels: false, heat: false,
      truth: state.centres ? { ...state, objects: scene.objects, radius: scene.radius } : null, show: this.options,
    });
  }

  stop() {
    this.stopped = true;
    this.running = false;
    this.resized.disconnect();
    for (const kind of ["keydown", "keyup"]) this.board.element.removeEventListener(kind, this.keys);
    this.board.element.removeEventListener("blur", this.away);
    remove(`/api/play/${this.scene.id}`).catch((error) => say(error.message));
  }
}
