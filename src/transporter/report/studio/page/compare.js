// Runs laid over one another: precision and recall, and everything that they logged.

import { lineColour } from "./chart.js";
import { Curves, Metrics, trackingCharts } from "./curves.js";
import { command, empty, getJson, h, repeat, say, share } from "./dom.js";
import { badge, chosenBadge } from "./runs.js";

const MOST = 8;

export async function comparePage({ view, query, onLeave }) {
  const { runs, typed } = await getJson("/api/runs");
  if (!runs.length) {
    view.replaceChildren(empty("Nothing to compare yet", "With two runs or more, their curves are laid over one another here.",
      command(`transporter train sprites --seed 1 --out ${typed}/sprites-1`)));
    return;
  }
  const known = new Set(runs.map((line) => line.id));
  const keypoints = new Set(runs.filter((line) => line.kind === "keypoints").map((line) => line.id));
  let picked = query.getAll("run").filter((id) => known.has(id)).slice(0, MOST);
  const side = h("fieldset", { class: "card picker" }, h("legend", {}, "Runs"));
  const tracking = h("div", { class: "charts two" });
  const note = h("p", { class: "soft" });
  const curves = h("div", { class: "charts two" });
  const followed = h("section", { "aria-label": "Tracking" }, h("h2", {}, "Tracking"), note, tracking);
  const right = h("div", { class: "compared" }, followed,
    h("section", { "aria-label": "Training" }, h("h2", {}, "Training"), curves));
  view.replaceChildren(
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Compare"), h("p", { class: "soft" }, `Pick up to ${MOST} runs; the address keeps the choice.`))),
    h("div", { class: "beside" }, side, right));

  let stops = [];
  const stopAll = () => { stops.forEach((stop) => stop()); stops = []; };
  onLeave(stopAll);

  side.append(...runs.map((line) => {
    const box = h("input", { type: "checkbox", value: line.id, checked: picked.includes(line.id), onchange: () => {
      picked = box.checked ? [...picked, line.id].slice(-MOST) : picked.filter((id) => id !== line.id);
      history.replaceState(null, "", `#/compare?${new URLSearchParams(picked.map((id) => ["run", id]))}`);
      draw();
    } });
    return h("label", {}, box, h("i", { class: "swatch" }), h("span", {}, line.id, line.chosen && chosenBadge()), line.share !== null ? h("small", {}, share(line.share)) : badge(line.state));
  }));

  async function draw() {
    stopAll();
    for (const box of side.querySelectorAll("input")) {
      box.checked = picked.includes(box.value);
      box.nextSibling.style.setProperty("--c", box.checked ? lineColour(picked.indexOf(box.value)) : "transparent");
    }
    if (!picked.length) {
      followed.hidden = false;
      note.textContent = "";
      tracking.replaceChildren(empty("Pick runs", "Tick two or more in the list."));
      curves.replaceChildren();
      return;
    }
    const wanted = [...picked];
    const found = await getJson("/api/tracking", { id: wanted });
    if (wanted.join() !== picked.join()) return;
    const measured = wanted.filter((id) => found[id]);
    const missing = wanted.filter((id) => !found[id] && keypoints.has(id));
    followed.hidden = !measured.length && !missing.length; // agents and options follow nothing themselves
    note.textContent = measured.length
      ? `Share of keypoint trajectories that follow an object, and of objects that are followed, against their length. Dashed: a perfect tracker.${missing.length ? ` Not measured yet: ${missing.join(", ")}.` : ""}`
      : "None of these runs has been measured against the truth yet: transporter evaluate GAME --model RUN";
    const charts = measured.length ? trackingCharts(Object.fromEntries(wanted.map((id) => [id, found[id]]))) : [];
    tracking.replaceChildren(...charts.map((chart) => chart.element));
    const drawn = new Curves(curves);
    curves.replaceChildren();
    const all = wanted.map((id) => new Metrics(id));
    stops = [...charts.map((chart) => () => chart.stop()), () => drawn.stop(), repeat(1500, async () => {
      try {
        const news = await Promise.all(all.map((metrics) => metrics.update()));
        if (news.some(Boolean)) drawn.draw(all);
      } catch (error) {
        say(error.message);
      }
    })];
  }
  await draw();
}
