// The list of runs: what each is doing, and how well.

import { spark } from "./chart.js";
import { ago, command, empty, getJson, h, repeat, say, share, short, trouble } from "./dom.js";

const STATES = { running: "Running", finished: "Finished", stopped: "Stopped", new: "New", damaged: "Damaged" };
export const KINDS = { agents: "KeyQN", options: "exploration" };
const chosen = new Set(); // stays while the page is open, so that one can look at a run and come back

export const badge = (state) => h("span", { class: `badge ${state}` }, h("i"), STATES[state] ?? state);
export const chosenBadge = () => h("span", { class: "chosen", title: "Of the seeds that were trained together, the one with the lowest reconstruction error among those with the most live keypoints: loading their folder takes this one" }, "Chosen");
export const runLink = (id, tab = "") => `#/run/${encodeURIComponent(id)}${tab && `/${tab}`}`;

export function progress(line) {
  if (!line.steps || line.step === null) return null;
  const part = Math.min(1, line.step / line.steps);
  return h("span", { class: "bar", role: "img", "aria-label": `${share(part)} of ${short(line.steps)} steps` },
    h("i", { style: { width: `${100 * part}%` } }));
}

function cells(line, onChoose) {
  const of = [KINDS[line.kind], line.environment, line.seed !== null && `seed ${line.seed}`].filter(Boolean).join(" · ");
  const measured = line.score !== null ? [line.score === 1 ? line.score_name.replace(/^rooms$/, "room") : line.score_name, short(line.score)] : line.share !== null ? ["tracked", share(line.share)] : ["", "–"];
  const box = h("input", {
    type: "checkbox", checked: chosen.has(line.id), "aria-label": `Compare ${line.id}`,
    onchange: (event) => onChoose(line.id, event.currentTarget.checked),
  });
  return [
    h("td", { class: "pick" }, box),
    h("td", { class: "name" }, h("a", { href: runLink(line.id) }, line.id), line.chosen && chosenBadge(), h("small", {}, line.line ?? of)),
    h("td", {}, badge(line.state), line.state === "running" && progress(line)),
    h("td", { class: "curve" }, spark(line.spark)),
    h("td", { class: `right${line.loss === null ? " none" : ""}`, "data-name": "Loss" }, short(line.loss)),
    h("td", { class: `right${line.alive === null ? " none" : ""}`, "data-name": "Alive" },
      line.alive === null ? "–" : `${line.alive}${line.keypoints ? ` of ${line.keypoints}` : ""}`,
      line.duplicates ? h("small", {}, `${line.duplicates} double`) : null),
    h("td", { class: `right${measured[0] ? "" : " none"}`, "data-name": "Result" }, measured[1], measured[0] && h("small", {}, measured[0])),
    h("td", { class: `right${line.step === null ? " none" : ""}`, "data-name": "Step" }, short(line.step),
      line.speed && line.state === "running" ? h("small", {}, `${short(line.speed)}/s`) : null),
    h("td", { class: "right soft when" }, ago(line.changed)),
  ];
}

export async function runsPage({ view, onLeave }) {
  const search = h("input", { type: "search", placeholder: "Find a run", "aria-label": "Find a run by name or game" });
  const count = h("p", { class: "soft" });
  const compare = h("a", { class: "button", href: "#/compare" }, "Compare");
  const body = h("tbody");
  const heads = ["", "Run", "State", "Loss or score", "Loss", "Alive", "Result", "Step", "Changed"];
  const table = h("table", { class: "runs" },
    h("thead", {}, h("tr", {}, heads.map((name, i) => h("th", { scope: "col", class: i > 3 ? "right" : "" }, name)))), body);
  const none = h("p", { class: "soft center", role: "status", hidden: true });
  const list = h("div", { class: "card scroll" }, table, none);
  const rows = new Map(); // id → { element, text }
  let runs = [];

  function choose(id, on) {
    if (on) chosen.add(id);
    else chosen.delete(id);
    label();
  }

  function label() {
    const known = [...chosen].filter((id) => runs.some((line) => line.id === id));
    compare.href = `#/compare?${new URLSearchParams(known.map((id) => ["run", id]))}`;
    compare.textContent = known.length ? `Compare ${known.length}` : "Compare";
  }

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const fits = (line) => `${line.id} ${line.environment ?? ""} ${line.state}`.toLowerCase().includes(wanted);
    const shown = runs.filter(fits);
    const elements = shown.map((line) => {
      const text = JSON.stringify([line, ago(line.changed)]);
      const known = rows.get(line.id);
      if (known?.text === text) return known.element;
      const element = known?.element ?? h("tr", { onclick: (event) => {
        if (!event.target.closest("a, input, td.pick")) location.hash = runLink(line.id);
      } });
      // A row that holds the focus keeps its box: the keyboard must not lose its place.
      const fresh = cells(line, choose);
      if (known && element.contains(document.activeElement))
        fresh.forEach((cell, i) => i > 1 && element.children[i].replaceWith(cell));
      else element.replaceChildren(...fresh);
      rows.set(line.id, { element, text });
      return element;
    });
    const same = body.children.length === elements.length && elements.every((element, i) => body.children[i] === element);
    if (!same) body.replaceChildren(...elements);
    table.hidden = !shown.length;
    none.hidden = shown.length > 0;
    none.textContent = shown.length ? "" : `No run is named or plays “${search.value.trim()}”.`;
    const running = runs.filter((line) => line.state === "running").length;
    count.textContent = `${runs.length} run${runs.length === 1 ? "" : "s"}${running ? `, ${running} running` : ""}` +
      (shown.length < runs.length ? `; ${shown.length} shown` : "");
    label();
  }

  const page = h("div", {},
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Runs"), count), h("div", { class: "tools" }, search, compare)), list);
  search.addEventListener("input", draw);

  let mode = "";
  onLeave(repeat(1500, async () => {
    try {
      const found = await getJson("/api/runs");
      runs = found.runs;
      const next = runs.length ? "list" : "empty";
      if (next !== mode) view.replaceChildren(runs.length ? page : nothing(found));
      mode = next;
      if (runs.length) draw();
    } catch (error) {
      if (mode === "list") say(error.message);
      else view.replaceChildren(trouble(error, () => dispatchEvent(new Event("hashchange"))));
      if (mode !== "list") mode = "";
    }
  }));
}

function nothing({ path, typed }) {
  return h("div", { class: "welcome" },
    empty("No runs here yet", `Runs appear by themselves as soon as one is in ${path}. Train one, in minutes on two cores:`,
      command(`transporter train sprites --out ${typed}/sprites`)),
    h("div", { class: "doors" },
      h("a", { class: "card door", href: "#/watch" }, h("h3", {}, "Watch a shipped model"),
        h("p", {}, "An episode to scrub through: trails, heatmaps, the truth and who follows whom.")),
      h("a", { class: "card door", href: "#/play?model=shipped%3Apong" }, h("h3", {}, "Play Pong"),
        h("p", {}, "Three keypoints of the shipped model follow both paddles and the ball while you play.")),
      h("a", { class: "card door", href: "#/clips" }, h("h3", {}, "Track a video"),
        h("p", {}, "Drop a clip, get every keypoint in every frame as a table, and the clip with labels."))));
}
