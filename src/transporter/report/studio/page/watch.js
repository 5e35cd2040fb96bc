// Any model at work, the shipped ones included: for the first minute, before there is any run.

import { modelChoice, noSuchModel } from "./clips.js";
import { empty, getJson, h } from "./dom.js";
import { episodePanel } from "./episode.js";

export async function watchPage({ view, query, onLeave }) {
  const all = (await getJson("/api/models")).models;
  const models = all.filter((model) => model.environment && model.environment !== "video");
  const asked = query.get("model");
  if (asked !== null && !all.some((model) => model.id === asked)) {
    view.replaceChildren(noSuchModel(asked, "watch"));
    return;
  }
  if (asked !== null && !models.some((model) => model.id === asked)) {
    view.replaceChildren(empty("This model was trained on videos", "Drop one and see how its keypoints follow.",
      h("a", { class: "button", href: `#/clips?${new URLSearchParams({ model: asked })}` }, "Track a video")));
    return;
  }
  if (!models.length) {
    view.replaceChildren(empty("No model to look through", "Models that were trained on a game can be watched here."));
    return;
  }
  const chosen = asked ?? models.find((model) => model.environment === "pong")?.id ?? models[0].id;
  const select = modelChoice(models, chosen, "Model");
  select.addEventListener("change", () => { location.hash = `#/watch?${new URLSearchParams({ model: select.value })}`; });
  const body = h("div");
  view.replaceChildren(h("div", { class: "head" },
    h("div", {}, h("h1", {}, "Watch"), h("p", { class: "soft" }, "An episode of random play, and where the model says that things are.")),
    h("div", { class: "tools" }, h("label", { class: "row" }, "Model", select))), body);
  await episodePanel(body, select.value, onLeave);
}
