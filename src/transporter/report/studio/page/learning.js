// Agents that learn from keypoints: their scores while they learn, every seed, and the best one at play.

import { Chart, lineColour } from "./chart.js";
import { address, empty, getJson, h, repeat, say, short } from "./dom.js";

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

// What the page of a run of agents or options asks for, again and again; `draw` hears of what is new.
export function follow(id, draw) {
  let known = "";
  return repeat(1200, async () => {
    try {
      const news = await getJson("/api/control", { id, known });
      if (news.same) return;
      known = news.signature;
      draw(news);
    } catch (error) {
      say(error.message);
    }
  });
}

export function replay(id, name, title, line) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  return h("figure", { class: "card replay" }, h("figcaption", {}, h("h3", {}, title)),
    h("video", { controls: true, muted: true, loop: true, autoplay: !still, playsinline: true, preload: "auto", "aria-label": title, src: address("/api/video", { id, name }) }),
    h("p", { class: "soft" }, line));
}

const without = (title, what) => h("div", { class: "card replay" }, empty(title, what));

export function learningTab({ id, run, body, onLeave }) {
  const over = run.headline.state === "finished";
  const games = new Map(); // name → what is on the page
  onLeave(() => games.forEach((game) => game.chart.stop()));
  onLeave(follow(id, (news) => {
    for (const found of news.games) {
      if (!games.has(found.game)) games.set(found.game, gamePanel(id, found, news.games.length > 1, over));
      games.get(found.game).draw(found, news.observation);
    }
    const panels = [...games.values()].map((game) => game.element);
    if (panels.length !== body.children.length) body.replaceChildren(...panels);
  }));
}

function gamePanel(id, { game }, several, over) {
  const chart = new Chart(`Score in ${game}`, { xName: "interactions", legend: true });
  const side = h("div", { class: "side" });
  const table = h("div", { class: "card scroll" });
  const left = h("div", { class: "side" }, chart.element, table);
  const element = h("section", { "aria-label": game, class: "game" }, several && h("h2", {}, game), h("div", { class: "watch" }, left, side));
  chart.element.classList.add("tall");
  let shown;

  function draw({ agents, marks, best, video }, observation) {
    const begun = agents.some((agent) => agent.x.length);
    const lines = agents.map(({ seed, x, y }, i) => ({ label: `seed ${seed}`, colour: () => lineColour(i), x, y }));
    const levels = Object.entries(marks).map(([label, y]) => ({ label, y }));
    chart.set(lines, begun ? levels.filter(({ label }) => label !== "human") : []);
    chart.legend.hidden = !begun;
    chart.plot.dataset.empty = begun ? "" : over ? "No episode ended in this run." : "No episode has ended yet. Scores begin with the first that does.";
    table.replaceChildren(scores(agents, marks, best));
    const now = `${video} ${best}`;
    if (now === shown) return;
    shown = now;
    const points = observation === "pixels" || observation === "objects" ? "" : ", with the keypoints that it sees";
    side.replaceChildren(video
      ? replay(id, video, best === null ? `Play in ${game}` : `Seed ${best} at play`, `The agent with the best score${points}.`)
      : over ? without("No clip", "This run left no clip of its play.")
      : without("No clip yet", "When all agents have learnt and were evaluated, the best one's play is shown here."));
  }
  return { element, chart, draw };
}

// Every seed, then what others score.
function scores(agents, marks, best) {
  const measured = agents.filter((agent) => agent.scores.length);
  const row = ({ seed, episodes, y, scores: own }, i) => h("tr", {},
    h("td", {}, h("i", { class: "key", style: { "--c": lineColour(i) } }), `seed ${seed}`, seed === best && h("span", { class: "chosen" }, "Best")),
    h("td", { class: "right" }, short(episodes)), h("td", { class: "right" }, y.length ? short(y.at(-1)) : "–"),
    h("td", { class: "right" }, own.length ? h("b", {}, short(mean(own))) : "–", own.length > 1 && h("small", {}, `${short(Math.min(...own))} to ${short(Math.max(...own))}`)));
  const level = (name, value) => h("tr", { class: "soft" }, h("td", {}, name), h("td"), h("td"), h("td", { class: "right" }, short(value)));
  const all = measured.length > 1 && level("mean of our seeds", mean(measured.map((agent) => mean(agent.scores))));
  return h("table", { class: "scores" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Agent"), ["Episodes", "Last 20", "Evaluated"].map((name) => h("th", { scope: "col", class: "right" }, name)))),
    h("tbody", {}, agents.map(row), all || null, Object.entries(marks).map(([name, value]) => level(name, value))));
}
