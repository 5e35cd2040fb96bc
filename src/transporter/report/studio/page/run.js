// One run: its figures, its live curves, what it sees or learnt to do, how well, and with which settings.

import { Curves, Metrics, trackingCharts } from "./curves.js";
import { address, command, empty, fill, getJson, h, many, number, repeat, say, share, short, tile, waiting, words } from "./dom.js";
import { episodePanel } from "./episode.js";
import { exploringTab } from "./exploring.js";
import { learningTab } from "./learning.js";
import { badge, chosenBadge, KINDS, progress, runLink } from "./runs.js";

// The first tab of each kind of run is the one that opens.
const TABS = {
  keypoints: { curves: "Curves", watch: "Watch", tracking: "Tracking", files: "Files", settings: "Settings" },
  agents: { learning: "Learning", curves: "Curves", files: "Files", settings: "Settings" },
  options: { exploring: "Exploration", curves: "Curves", files: "Files", settings: "Settings" },
};

const SCORES = { score: "Score", return: "Return", rooms: "Rooms", "95th percentile": "Return", "% of human": "Score" };
const NOTES = { score: "mean of all seeds", return: "newest episodes", rooms: "the most entered", "95th percentile": "95th percentile", "% of human": "of a human's, mean of the games" };

function tiles(line) {
  const found = [];
  if (line.step !== null) found.push(tile("Step", short(line.step), line.steps ? `of ${short(line.steps)}` : ""));
  if (line.loss !== null) found.push(tile("Loss", short(line.loss), line.kind === "keypoints" ? "reconstruction" : "newest"));
  if (line.alive !== null) found.push(tile("Alive", `${line.alive}${line.keypoints ? ` of ${line.keypoints}` : ""}`, line.duplicates ? `${line.duplicates} double` : "keypoints"));
  if (line.share !== null) found.push(tile("Tracking", share(line.share), "of the best, over 20 steps"));
  if (line.score !== null) found.push(tile(SCORES[line.score_name] ?? "Result", line.score_name === "% of human" ? `${short(line.score)} %` : short(line.score), NOTES[line.score_name] ?? ""));
  if (line.speed !== null) found.push(tile("Speed", `${short(line.speed)}/s`, "steps"));
  return found;
}

export async function runPage({ view, rest: [id, wanted], onLeave }) {
  view.replaceChildren(waiting("Opening the run"));
  const run = await getJson("/api/run", { id });
  const line = run.headline;
  const own = TABS[line.kind] ?? TABS.keypoints;
  const tab = Object.hasOwn(own, wanted ?? "") ? wanted : Object.keys(own)[0];
  const state = h("span", {}, badge(line.state));
  const figures = h("div", { class: "tiles", hidden: tab === "exploring" }, tiles(line)); // which has its own
  const body = h("div", { class: "tab", role: "tabpanel" });
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of this run" }, Object.entries(own)
    .filter(([name]) => name !== "files" || run.videos.length || Object.keys(run.figures).length)
    .map(([name, title]) => h("a", { href: runLink(id, name), "aria-current": name === tab ? "page" : null }, title)));
  const of = [KINDS[line.kind], line.environment, line.keypoints && many(line.keypoints, "keypoint"), line.size && `${line.size}×${line.size}`, line.seed !== null && `seed ${line.seed}`];
  fill(view,
    h("div", { class: "head" }, h("div", {},
      h("p", { class: "crumb" }, h("a", { href: "#/runs" }, "‹ All runs")),
      h("h1", {}, id, " ", state, " ", line.chosen && chosenBadge()), h("p", { class: "soft" }, of.filter(Boolean).join(" · ")), line.state !== "finished" && progress(line)),
      h("div", { class: "tools" }, line.trainable && h("a", { class: "button", href: `#/clips?${new URLSearchParams({ model: `run:${id}` })}` }, "Track a video"),
        h("a", { class: "button", href: `#/compare?${new URLSearchParams({ run: id })}` }, "Compare"))),
    line.line && h("p", { class: "trouble note" }, line.line), figures, tabs, body);

  onLeave(repeat(2000, async () => {
    try {
      const now = (await getJson("/api/runs")).runs.find((other) => other.id === id);
      if (!now) return;
      state.replaceChildren(badge(now.state));
      figures.replaceChildren(...tiles(now));
    } catch (error) {
      say(error.message);
    }
  }));
  const parts = { curves, watch, tracking, files, settings, learning: learningTab, exploring: exploringTab };
  await parts[tab]({ id, run, body, onLeave });
}

function curves({ id, run, body, onLeave }) {
  const grid = h("div", { class: "charts" });
  const drawn = new Curves(grid, { colours: run.colours, names: run.names, hide: run.headline.kind === "options" ? ["avatar", "rooms"] : [] });
  const metrics = new Metrics(id);
  body.replaceChildren(grid);
  onLeave(() => drawn.stop());
  onLeave(repeat(600, async () => {
    try {
      const news = await metrics.update();
      if (news && drawn.draw([metrics])) body.replaceChildren(grid);
      else if (!Object.keys(metrics.curves).length)
        body.replaceChildren(empty("No curves yet", "They begin with the first line of metrics.jsonl, and grow while you look."));
    } catch (error) {
      say(error.message);
    }
  }));
}

const damaged = (line) => empty("This run is damaged", `${line.line ?? "Its files cannot be read"}. What its model is cannot be told without that file.`);

async function watch({ id, run, body, onLeave }) {
  const line = run.headline;
  if (line.state === "damaged") {
    body.replaceChildren(damaged(line));
    return;
  }
  if (!line.trainable) {
    body.replaceChildren(empty("Nothing to watch yet", "The first checkpoint brings the detector to life. Until then its curves say how it goes."));
    return;
  }
  if (line.environment === "video") {
    body.replaceChildren(empty("This model was trained on videos", "Drop one and see how its keypoints follow.",
      h("a", { class: "button", href: `#/clips?${new URLSearchParams({ model: `run:${id}` })}` }, "Track a video")));
    return;
  }
  await episodePanel(body, `run:${id}`, onLeave, run.evaluation);
}

function tracking({ id, run, body, onLeave }) {
  const found = run.evaluation;
  const again = command(`transporter evaluate ${run.headline.environment ?? "GAME"} --model ${run.typed}`);
  if (!found && run.headline.state === "damaged") {
    body.replaceChildren(damaged(run.headline));
    return;
  }
  if (run.unreadable) {
    body.replaceChildren(empty("evaluation.json is damaged", "It was measured, but the file cannot be read. Measure again:", again));
    return;
  }
  if (!found) {
    body.replaceChildren(empty("Not measured yet", "Measure how well the keypoints follow the objects; the result appears here:", again));
    return;
  }
  const charts = trackingCharts({ [id]: found });
  onLeave(() => charts.forEach((chart) => chart.stop()));
  const dot = (k) => h("i", { class: "dot", style: { "--c": run.colours[k % run.colours.length] } });
  body.replaceChildren(
    h("p", { class: "soft" }, `${many(found.frames, "frame")} of random play in ${many(found.episodes, "episode")} of ${found.scene}; a keypoint follows an object when it is on average within ${found.radius} of it, where the frame reaches from −1 to 1.`),
    h("div", { class: "charts two" }, charts.map((chart) => chart.element)),
    h("div", { class: "charts two" },
      h("div", { class: "card scroll" }, h("h3", {}, `Keypoints, over ${found.following_length} steps`), h("table", {},
        h("thead", {}, h("tr", {}, ["Keypoint", "Follows", "Share"].map((name) => h("th", {}, name)))),
        h("tbody", {}, found.keypoints.map((row) => h("tr", {}, h("td", {}, dot(row.keypoint), row.keypoint), h("td", {}, row.follows ?? "nothing"), h("td", {}, share(row.share))))))),
      h("div", { class: "card scroll" }, h("h3", {}, "Objects"), h("table", {},
        h("thead", {}, h("tr", {}, ["Object", "Followed", "Mean error", "By"].map((name) => h("th", {}, name)))),
        h("tbody", {}, found.objects.map((row) => h("tr", {}, h("td", {}, row.name), h("td", {}, share(row.recall)), h("td", {}, number(row.error, 3)),
          h("td", {}, row.keypoint === null ? "nobody" : [dot(row.keypoint), row.keypoint]))))))));
}

function files({ id, run, body }) {
  const videos = run.videos.map((name) => h("figure", { class: "card" }, h("figcaption", {}, h("h3", {}, name)),
    h("video", { controls: true, muted: true, loop: true, playsinline: true, preload: "metadata", src: address("/api/video", { id, name }) })));
  const tables = Object.entries(run.figures).map(([name, figures]) => h("div", { class: "card scroll" }, h("h3", {}, words(name)),
    h("table", {}, h("tbody", {}, Object.entries(figures).map(([key, value]) => h("tr", {}, h("td", { class: "soft" }, words(key)), h("td", { class: "right" }, short(value))))))));
  body.replaceChildren(h("div", { class: "charts two" }, videos, tables));
}

function settings({ run, body }) {
  const value = (given) => (given === null ? "–" : given === true ? "yes" : given === false ? "no" : Array.isArray(given) ? given.join(", ") : String(given));
  if (!run.settings.length) body.replaceChildren(empty("No settings", "run.json could not be read."));
  else body.replaceChildren(h("div", { class: "charts" }, run.settings.map((group) => h("div", { class: "card settings" },
    group.name && h("h3", {}, words(group.name)),
    h("table", {}, h("tbody", {}, group.rows.map(([name, given]) => h("tr", {}, h("td", { class: "soft" }, words(name)), h("td", { class: "right" }, value(given))))))))));
}

