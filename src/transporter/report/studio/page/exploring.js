// Options learnt without reward: what they score, how far they get, and the keypoint that actions move most.

import { Chart, lineColour } from "./chart.js";
import { fill, h, share, short, tile } from "./dom.js";
import { follow, replay } from "./learning.js";

const WAYS = { actions: "random actions", options: "options of all keypoints", controllable: "options of the most controllable keypoint" };
const KEYS = Object.keys(WAYS);

export function exploringTab({ id, run, body, onLeave }) {
  const over = run.headline.state === "finished";
  const frames = { xName: "frames" };
  const charts = {
    returns: new Chart("Return, mean and standard deviation", { ...frames, legend: true }),
    percentiles: new Chart("Return of the last episodes, by percentile", { xName: "percentile of episodes", legend: true }),
    gaps: new Chart("How much actions matter to each keypoint", { ...frames, from: 0, legend: true }),
    rooms: new Chart("Rooms entered", { ...frames, from: 0, counts: true }),
    avatar: new Chart("Most controllable keypoint on the avatar", { ...frames, from: 0, to: 1 }),
  };
  onLeave(() => Object.values(charts).forEach((chart) => chart.stop()));
  const figures = h("div", { class: "tiles" });
  const side = h("div", { class: "side" });
  const grid = h("div", { class: "charts" });
  const most = h("p", { class: "most" });
  body.replaceChildren(figures, h("div", { class: "watch" }, h("div", { class: "side" }, charts.returns.element, charts.percentiles.element), side), most, grid);
  const names = (way) => WAYS[way] ?? way;
  const colour = (way) => () => lineColour(KEYS.indexOf(way));
  const dot = (k) => h("i", { class: "dot", style: { "--c": run.colours[k % run.colours.length] } });
  let shown;

  onLeave(follow(id, (found) => {
    charts.returns.set(found.ways.map(({ way, x, mean, std }) => ({
      label: names(way), colour: colour(way), x, y: mean,
      band: [mean.map((value, i) => value - std[i]), mean.map((value, i) => value + std[i])],
    })));
    charts.percentiles.set(found.ways.map(({ way, percentiles }) => ({ label: names(way), colour: colour(way), x: found.shares, y: percentiles })));
    for (const name of ["returns", "percentiles"])
      charts[name].plot.dataset.empty = found.ways.length ? "" : over ? "This exploration was not evaluated: explore --evaluate-every says when." : "Not evaluated yet. Returns come with the first evaluation: explore --evaluate-every says when.";
    const width = Math.max(0, ...found.gaps.y.map((row) => row.length));
    charts.gaps.set(Array.from({ length: width }, (_, k) => ({
      label: `keypoint ${k}`, rim: true, colour: () => run.colours[k % run.colours.length], x: found.gaps.x, y: found.gaps.y.map((row) => row[k] ?? null),
    })));
    charts.rooms.set([{ label: "", colour: () => lineColour(2), ...found.rooms }]);
    charts.avatar.set([{ label: "", colour: () => lineColour(3), ...found.avatar }]);

    const last = Object.fromEntries(found.ways.map((way) => [way.way, way]));
    const p95 = found.shares.indexOf(95);
    fill(figures,
      found.frames !== null && tile("Frames", short(found.frames), "of all players"),
      found.rooms.y.length > 0 && tile("Rooms", short(Math.max(...found.rooms.y)), "the most in an evaluation"),
      last.controllable && tile("95th percentile", short(last.controllable.percentiles[p95]), last.actions ? `random actions: ${short(last.actions.percentiles[p95])}` : "of returns"),
      found.avatar.y.length > 0 && tile("On the avatar", share(found.avatar.y.at(-1)), "the most controllable keypoint"));
    if (found.keypoint !== null)
      fill(most, dot(found.keypoint), h("b", {}, `Keypoint ${found.keypoint}`), " is the most controllable on average: what it is worth depends most on the action (Eq. 2). Frame by frame it may be another.");
    fill(grid, charts.gaps.element, found.avatar.x.length > 0 && charts.avatar.element, found.rooms.x.length > 0 && charts.rooms.element);
    if (found.video === shown) return;
    shown = found.video;
    side.replaceChildren(found.video
      ? replay(id, found.video, "Options at play", "The triangle is the keypoint that is most controllable in that frame; its options are what moves the avatar.")
      : h("div", { class: "card replay" }, h("div", { class: "empty" }, h("h2", {}, over ? "No clip" : "No clip yet"), h("p", {}, over ? "This run left no clip of its play." : "When the exploration is over, play with its options is shown here."))));
  }));
}
