// Building the page, and asking the server. Text only ever becomes text: no markup is made from data.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Instead of what was there; what is null or false is left out.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

const PATHS = {
  play: "M7 4l13 8-13 8z",
  pause: "M6 4h4v16H6zM14 4h4v16h-4z",
  back: "M15 5l-8 7 8 7zM5 5h2v14H5z",
  next: "M9 5l8 7-8 7zM17 5h2v14h-2z",
  pin: "M12 2a7 7 0 0 0-7 7c0 5 7 13 7 13s7-8 7-13a7 7 0 0 0-7-7zm0 9.5A2.5 2.5 0 1 1 12 6a2.5 2.5 0 0 1 0 5.5z",
  drop: "M12 3l5 6h-3v6h-4V9H7zM5 17h14v3H5z",
  up: "M12 6l8 11H4z",
  down: "M12 18L4 7h16z",
  left: "M6 12l11-8v16z",
  right: "M18 12L7 20V4z",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

// Asking

export class Failed extends Error {
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed(0, "The studio does not answer. Is it still running in its terminal?");
  }
  if (answer.ok) return answer;
  let line = `The studio answered ${answer.status}.`;
  try {
    line = (await answer.json()).error || line;
  } catch { /* the status is all there is */ }
  if (answer.status === 401) line = "This studio was started anew. Open the address that its terminal shows.";
  throw new Failed(answer.status, line[0].toUpperCase() + line.slice(1));
}

export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    for (const one of [value].flat()) query.append(name, one);
  return Object.keys(parameters).length ? `${path}?${query}` : path;
}

export const getJson = async (path, parameters, options) => (await ask(address(path, parameters), options)).json();

export async function getPacked(path, parameters, options) {
  const buffer = await (await ask(address(path, parameters), options)).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const parts = head.parts.map((size) => buffer.slice(at, (at += size)));
  return { head, parts };
}

export const send = (path, body) => getPacked(path, {}, { method: "POST", body: JSON.stringify(body) });
export const remove = (path, parameters) => ask(address(path, parameters), { method: "DELETE" });

// Words

export function number(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toFixed(digits).replace("-", "−");
}

export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return value.toLocaleString("en").replace("-", "−");
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`.replace("-", "−");
  if (size >= 1000) return Math.round(value).toLocaleString("en").replace("-", "−");
  if (size !== 0 && size < 1e-3) return value.toExponential(1).replace(".0e", "e").replace(/^-/, "−");
  return String(+value.toPrecision(3)).replace("-", "−");
}

export const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
export const many = (count, word) => `${short(count)} ${word}${count === 1 ? "" : "s"}`;
export const words = (name) => name.replaceAll("_", " ");

export function ago(seconds) {
  const past = Date.now() / 1000 - seconds;
  if (past < 10) return "just now";
  for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]]) {
    const count = Math.floor(past / size);
    if (count >= 1) return `${count} ${unit}${count > 1 ? "s" : ""} ago`;
  }
  return "just now";
}

export function clock(seconds) {
  const whole = Math.max(0, seconds);
  const minutes = Math.floor(whole / 60);
  return `${minutes}:${(whole % 60).toFixed(2).padStart(5, "0")}`;
}

export function say(line) {
  document.getElementById("said").textContent = line;
}

// Pieces that several pages use

export function empty(title, line, ...more) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, line), ...more);
}

export function trouble(error, again) {
  const button = again && h("button", { type: "button", onclick: again }, "Try again");
  const lost = error.status === 404 && h("a", { class: "button", href: "#/runs" }, "All runs");
  return h("div", { class: "empty trouble", role: "alert" }, h("h2", {}, lost ? "Not here" : "That did not work"), h("p", {}, error.message), h("div", { class: "row" }, lost || button));
}

export const waiting = (line) => h("div", { class: "loading", role: "status" }, h("i"), h("span", {}, line));

export function command(text) {
  return h("pre", { class: "command", tabindex: 0 }, h("code", {}, text));
}

export function tile(name, value, note) {
  return h("div", { class: "tile" }, h("span", {}, name), h("b", {}, value), note && h("small", {}, note));
}

// Asks again and again, `every` milliseconds after each answer; rests while no one looks.
export function repeat(every, task) {
  let stopped = false;
  let timer;
  const round = async () => {
    if (stopped) return;
    if (!document.hidden) await task();
    if (!stopped) timer = setTimeout(round, every);
  };
  const wake = () => {
    if (document.hidden || stopped) return;
    clearTimeout(timer);
    round();
  };
  document.addEventListener("visibilitychange", wake);
  round();
  return () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", wake);
  };
}
