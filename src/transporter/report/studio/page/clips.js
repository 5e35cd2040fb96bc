// Drop a video: it is followed frame by frame; the table and the labelled clip can be taken home.

import { address, ago, empty, fill, getJson, getPacked, h, icon, many, remove, repeat, say, share, short, waiting } from "./dom.js";
import { Film } from "./media.js";
import { Player } from "./player.js";

const TABLES = [["csv", "CSV"], ["parquet", "Parquet"], ["deeplabcut", "DeepLabCut"], ["sleap", "SLEAP"], ["coco", "COCO"]];
const STATES = { opening: "Opening", waiting: "Waiting", tracking: "Tracking", failed: "Failed", broken: "Interrupted", done: "Done" };

// Own runs first, the newest at the top; of seeds that were trained together the chosen one says so.
export function modelChoice(models, chosen, label) {
  const option = (model) => h("option", { value: model.id, selected: model.id === chosen }, model.label, model.chosen ? " (chosen)" : "");
  const [own, shipped] = [true, false].map((mine) => models.filter((model) => model.id.startsWith("run:") === mine));
  const group = (name, part) => part.length > 0 && h("optgroup", { label: name }, part.map(option));
  return h("select", { "aria-label": label }, group("Your runs", own), group("Shipped", shipped));
}

// An address may name a model that is no longer there; another one instead would mislead.
export const noSuchModel = (id, page) => empty("No such model", `There is no model named ${id} here: it may have been moved or deleted.`,
  h("a", { class: "button", href: `#/${page}` }, "Choose another"));

// What to expect of a model in front of something else than it was trained on.
export const trainedOn = (of) => `This model was trained on ${of ?? "something else"}: it follows what looks and moves like that.`;

// For a stranger's video: what was asked for, or used last; else a model of videos, one's own newest, or Pong's.
function likely(models, asked) {
  const own = models.filter((model) => model.id.startsWith("run:"));
  const wishes = [asked, localStorage.getItem("model")].map((id) => models.find((model) => model.id === id));
  const videos = own.filter((model) => model.environment === "video");
  const found = [...wishes, videos.find((model) => model.chosen), videos[0], own.find((model) => model.chosen), own[0], models.find((model) => model.id === "shipped:pong"), models[0]];
  return found.find(Boolean)?.id;
}

// XMLHttpRequest: the only one that tells how far an upload is.
function upload(file, model, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address("/api/clips", { name: file.name, model }));
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* the status says enough */ }
      if (request.status === 202) resolve(answer);
      else reject(new Error(answer.error ?? `The studio answered ${request.status}.`));
    };
    request.onerror = () => reject(new Error("The upload broke off. Is the studio still running?"));
    request.send(file);
  });
}

export async function clipsPage({ view, query, onLeave }) {
  const { models } = await getJson("/api/models");
  const asked = query.get("model");
  if (asked !== null && !models.some((model) => model.id === asked)) {
    view.replaceChildren(noSuchModel(asked, "clips"));
    return;
  }
  const select = modelChoice(models, likely(models, asked), "Model");
  const note = h("p", { class: "soft note" });
  const explain = () => {
    const of = models.find((model) => model.id === select.value)?.environment;
    note.replaceChildren(of === "video" ? "This model was trained on videos." : `${trainedOn(of)} For a video of another kind train one first, `,
      ...(of === "video" ? [] : [h("code", {}, "transporter train my_video.mp4")]));
  };
  select.addEventListener("change", () => { localStorage.setItem("model", select.value); explain(); });
  explain();
  const input = h("input", { type: "file", accept: "video/*,.mkv,.avi,.mov,.webm,.mp4,.m4v", multiple: true, hidden: true, onchange: () => { take([...input.files]); input.value = ""; } });
  const said = h("div", { class: "uploads", "aria-live": "polite" });
  const zone = h("div", { class: "zone" }, icon("drop"), h("b", {}, "Drop a video here"), h("p", { class: "soft" }, "or choose one. It stays on this machine."),
    h("div", { class: "row" }, h("label", { class: "row" }, "Model", select), h("button", { type: "button", class: "primary", onclick: () => input.click() }, "Choose a video")), note, input);
  const list = h("div", { class: "clips" });
  view.replaceChildren(h("div", { class: "head" }, h("div", {}, h("h1", {}, "Track a video"), h("p", { class: "soft" }, "Every frame gets its keypoints: look at them here, take the table and the labelled clip home."))), zone, said, list);

  for (const kind of ["dragenter", "dragover"]) zone.addEventListener(kind, () => zone.classList.add("over"));
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => zone.classList.remove("over"));
  const dropped = (event) => take([...(event.dataTransfer?.files ?? [])]);
  addEventListener("drop", dropped);
  onLeave(() => removeEventListener("drop", dropped));

  async function take(files) {
    for (const file of files) {
      const bar = h("i");
      const line = h("p", { class: "soft" }, "Uploading");
      const card = h("div", { class: "card upload" }, h("b", {}, file.name), h("span", { class: "bar" }, bar), line);
      said.prepend(card);
      try {
        await upload(file, select.value, (part) => {
          bar.style.setProperty("width", `${100 * part}%`);
          if (part === 1) line.textContent = "Opening the video";
        });
        card.remove();
        await refresh();
      } catch (error) {
        card.classList.add("trouble");
        line.textContent = `${error.message[0].toUpperCase()}${error.message.slice(1)}`;
        card.append(h("button", { type: "button", class: "quiet small", onclick: () => card.remove() }, "Dismiss"));
      }
    }
  }

  let before = "";
  async function refresh() {
    const { clips } = await getJson("/api/clips");
    const text = JSON.stringify(clips);
    if (text === before) return;
    before = text;
    if (!clips.length) list.replaceChildren(h("p", { class: "soft center" }, "Clips that you drop are listed here, with their tables (CSV, Parquet, DeepLabCut, SLEAP, COCO) and labelled videos."));
    else if (!list.contains(document.activeElement) || clips.some((clip) => clip.state === "tracking")) list.replaceChildren(...clips.map((clip) => clipCard(clip, refresh)));
  }
  onLeave(repeat(800, async () => { try { await refresh(); } catch (error) { say(error.message); } }));
}

function clipCard(clip, refresh) {
  const working = ["opening", "waiting", "tracking"].includes(clip.state);
  const part = clip.total ? Math.min(1, clip.done / clip.total) : 0;
  const drop = h("button", { type: "button", class: "quiet small", onclick: async () => {
    if (!working && !confirm(`Delete ${clip.name} and everything made of it?`)) return;
    await remove("/api/clip", { id: clip.id });
    await refresh();
  } }, working ? "Stop" : "Delete");
  const link = `#/clip/${encodeURIComponent(clip.id)}`;
  return h("article", { class: `card clip ${clip.state}` },
    h("div", { class: "row" },
      h("div", {}, clip.state === "done" ? h("a", { href: link }, h("b", {}, clip.name)) : h("b", {}, clip.name),
        h("p", { class: "soft" }, [clip.model, clip.frames && many(clip.frames, "frame"), clip.width && `${clip.width}×${clip.height}`, clip.started && ago(clip.started)].filter(Boolean).join(" · "))),
      h("div", { class: "row" }, clip.state === "done" ? h("a", { class: "button", href: link }, "Watch") : h("span", { class: `badge ${clip.state}` }, h("i"), STATES[clip.state] ?? clip.state), drop)),
    working && h("div", { class: "row working" },
      clip.state === "tracking" && clip.done > 0 && h("img", { alt: "The newest frame with its keypoints", src: address("/api/clip/latest", { id: clip.id, n: clip.done }) }),
      h("div", { class: "grow" }, h("span", { class: "bar" }, h("i", { style: { width: `${100 * part}%` } })), h("p", { class: "soft" }, clip.state === "waiting" ? "Waits for the clip before it" : clip.total ? `${share(part)}: ${short(clip.done)} of ${many(clip.total, "frame")}` : many(clip.done, "frame")))),
    clip.line && h("p", { class: "trouble" }, clip.line));
}

export async function clipPage({ view, rest: [id], onLeave }) {
  view.replaceChildren(waiting("Opening the clip"));
  const card = await getJson("/api/clip", { id });
  if (card.state !== "done") {
    view.replaceChildren(empty("Not ready yet", "This clip is still being followed, or its tracking was interrupted.", h("a", { class: "button", href: "#/clips" }, "All clips")));
    return;
  }
  const { head, parts } = await getPacked("/api/clip/points", { id });
  const times = new Float64Array(parts[0]);
  const media = new Film(address("/api/clip/video", { id, kind: "preview" }), times);
  const player = new Player({ media, times, points: new Float32Array(parts[1]), keypoints: head.keypoints, colours: head.colours, sigma: card.sigma, width: card.width, height: card.height });
  onLeave(() => player.stop());
  media.element.addEventListener("error", () => {
    if (media.element.getAttribute("src")) player.stage.append(h("p", { class: "cannot" }, "This browser cannot play H.264. The labelled clip can still be downloaded."));
  });
  const tables = TABLES.map(([format, name]) => h("a", { class: "button", download: true, href: address("/api/clip/tracks", { id, format }) }, name));
  const damaged = card.damaged ? h("p", { class: "trouble" }, `${many(card.damaged, "frame")} ${card.damaged === 1 ? "is" : "are"} missing, flawed or could not be decoded.`) : null;
  fill(view,
    h("div", { class: "head" }, h("div", {}, h("p", { class: "crumb" }, h("a", { href: "#/clips" }, "‹ All clips")), h("h1", {}, card.name),
      h("p", { class: "soft" }, `${many(card.frames, "frame")} · ${card.width}×${card.height} · ${many(card.keypoints, "keypoint")} by ${card.model}`))),
    damaged,
    h("div", { class: "watch" }, h("div", { class: "card" }, player.element),
      h("div", { class: "side" },
        h("section", { class: "card" }, h("h3", {}, "Take it home"), h("p", { class: "soft" }, "One row per frame and keypoint, or as other tools want it:"), h("div", { class: "buttons" }, tables),
          h("p", { class: "soft" }, "The clip at full size, with its keypoints drawn in:"), h("div", { class: "buttons" }, h("a", { class: "button", download: true, href: address("/api/clip/video", { id, kind: "labelled", download: 1 }) }, "Labelled MP4"))))));
  player.begin();
}

