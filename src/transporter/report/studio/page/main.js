// Which page is shown: the part of the address behind # says it, so that every view can be linked and gone back to.

import { empty, h, trouble } from "./dom.js";
import { clipPage, clipsPage } from "./clips.js";
import { comparePage } from "./compare.js";
import { playPage } from "./play.js";
import { runPage } from "./run.js";
import { runsPage } from "./runs.js";
import { watchPage } from "./watch.js";

const PAGES = { runs: runsPage, run: runPage, compare: comparePage, watch: watchPage, clips: clipsPage, clip: clipPage, play: playPage };
const view = document.getElementById("view");
let leave = () => {};

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    parts = ["?"]; // a cut-off %-sequence: it names no page
  }
  const [page, ...rest] = parts;
  return { page: page || "runs", rest, query: new URLSearchParams(query) };
}

async function show() {
  const { page, rest, query } = place();
  leave();
  leave = () => {};
  for (const link of document.querySelectorAll("header nav a")) {
    const own = link.getAttribute("href").slice(2);
    const here = own === page || (own === "runs" && page === "run") || (own === "clips" && page === "clip");
    link.toggleAttribute("aria-current", here);
    if (here) link.setAttribute("aria-current", "page");
  }
  if (!Object.hasOwn(PAGES, page)) {
    view.replaceChildren(empty("Nothing here", "This address leads nowhere.", h("a", { href: "#/runs" }, "All runs")));
    return;
  }
  // Each page writes into a room of its own: an answer that comes after it was left changes nothing that is seen.
  const room = h("div");
  view.replaceChildren(room);
  const stops = [];
  let left = false;
  leave = () => {
    left = true;
    stops.forEach((stop) => stop());
  };
  const onLeave = (stop) => (left ? stop() : stops.push(stop)); // begun too late: it ends at once
  try {
    await PAGES[page]({ view: room, rest, query, onLeave });
  } catch (error) {
    room.replaceChildren(trouble(error, show));
  }
}

let last = "";
addEventListener("hashchange", () => {
  const { page, rest } = place();
  const where = `${page}/${rest[0] ?? ""}`;
  show();
  if (where !== last) {
    scrollTo(0, 0);
    view.focus({ preventScroll: true });
  }
  last = where;
});

// Themes: as the system has it, or as chosen here.

const THEMES = ["auto", "light", "dark"];
const theme = document.getElementById("theme");
const current = () => document.documentElement.dataset.theme ?? "auto";

function label() {
  theme.textContent = { auto: "◐", light: "☀", dark: "☾" }[current()];
  theme.setAttribute("aria-label", `Theme: ${current()}. Change it`);
  theme.title = `Theme: ${current()}`;
}

theme.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(current()) + 1) % THEMES.length];
  if (next === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
  }
  label();
  dispatchEvent(new Event("themechange"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
label();

// A video dropped anywhere goes to the page that takes it.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());
addEventListener("dragenter", (event) => {
  if (event.dataTransfer?.types.includes("Files") && place().page !== "clips") location.hash = "#/clips";
});

show();
