// A fresh episode of random play, seen through a model: the player, what Φ says, and what the model paints.

import { getPacked, h, icon, trouble, waiting } from "./dom.js";
import { Pictures } from "./media.js";
import { Player } from "./player.js";

export function truthFrom(head, parts) {
  if (!head.truth) return null;
  const [centres, present, followed] = parts;
  return { ...head.truth, centres: new Float32Array(centres), present: new Uint8Array(present), followed: new Int8Array(followed) };
}

export async function episodePanel(element, model, onLeave, evaluation = null) {
  let seed = 1_000_000; // as evaluations do: play that was not trained on
  let player = null;
  const leave = new AbortController();
  onLeave(() => { leave.abort(); player?.stop(); });

  async function load() {
    player?.stop();
    player = null;
    element.replaceChildren(waiting("Playing an episode and looking for keypoints"));
    const asked = { model, seed };
    try {
      const { head, parts } = await getPacked("/api/episode", asked, { signal: leave.signal });
      const truth = truthFrom(head, parts.slice(1, 4));
      const media = new Pictures(parts.slice(truth ? 4 : 1), head.width, head.height);
      const names = evaluation?.keypoints.map((row) => (row.follows ? `${row.keypoint} · ${row.follows}` : null)) ?? [];
      const side = new Side(head, asked);
      player = new Player({ ...head, media, truth, names, points: new Float32Array(parts[0]), onFrame: (i) => side.at(i) });
      side.player = player;
      const again = h("button", { type: "button", onclick: () => { seed += 1; load(); } }, "Another episode");
      element.replaceChildren(h("div", { class: "watch" }, h("div", { class: "card" }, player.element),
        h("div", { class: "side" }, h("div", { class: "card row" }, h("p", {}, `Random play of ${head.scene}, never trained on.`), again), side.elements)));
      player.begin();
    } catch (error) {
      if (error.name !== "AbortError") element.replaceChildren(trouble(error, load));
    }
  }
  await load();
}

// Features and reconstruction: asked for when they are opened.
class Side {
  constructor(head, asked) {
    Object.assign(this, { head, asked, frame: 0, source: 0, busy: false });
    this.canvas = h("canvas", { class: "features", role: "img", "aria-label": "Features under each keypoint, one row per keypoint" });
    this.featureBody = h("div", {});
    this.features = h("details", { class: "card", ontoggle: () => this.openFeatures() }, h("summary", {}, "Features under the keypoints"), this.featureBody);
    this.painted = ["Source", "Target", "Painted"].map((name) => h("figure", {}, h("img", { alt: name, class: "pixels" }), h("figcaption", {}, name)));
    this.paintBody = h("div", {});
    this.paints = h("details", { class: "card", open: head.paints, ontoggle: () => this.openPaint() }, h("summary", {}, "Source, target, reconstruction"), this.paintBody);
    this.elements = [this.paints, this.features];
  }

  at(i) {
    this.frame = i;
    if (this.features.open && this.values) this.drawFeatures();
    if (this.paints.open) this.paint();
  }

  async openFeatures() {
    if (!this.features.open || this.values) return;
    if (!this.head.describes) {
      this.featureBody.replaceChildren(h("p", { class: "soft" }, "This kind of model gives points only: it has no features."));
      return;
    }
    this.featureBody.replaceChildren(waiting("Reading features"));
    try {
      const { head, parts } = await getPacked("/api/features", this.asked);
      this.channels = head.channels;
      this.values = new Uint8Array(parts[0]);
      this.featureBody.replaceChildren(h("p", { class: "soft" }, `What Φ sees under each keypoint, ${head.channels} numbers each. A row that keeps its pattern while its keypoint moves stays on one thing.`), this.canvas);
      this.drawFeatures();
    } catch (error) {
      this.featureBody.replaceChildren(trouble(error));
    }
  }

  drawFeatures() {
    const { keypoints, colours } = this.head;
    this.canvas.width = this.channels;
    this.canvas.height = keypoints;
    const pen = this.canvas.getContext("2d");
    const image = pen.createImageData(this.channels, keypoints);
    for (let k = 0; k < keypoints; k++) {
      const rgb = [1, 3, 5].map((i) => parseInt(colours[k % colours.length].slice(i, i + 2), 16));
      for (let d = 0; d < this.channels; d++) {
        const value = this.values[(this.frame * keypoints + k) * this.channels + d] / 255;
        const at = 4 * (k * this.channels + d);
        rgb.forEach((part, i) => { image.data[at + i] = 20 + (part - 20) * value; });
        image.data[at + 3] = 255;
      }
    }
    pen.putImageData(image, 0, 0);
    this.canvas.style.setProperty("height", `${keypoints * 22}px`);
  }

  openPaint() {
    if (!this.paints.open) return;
    if (!this.head.paints) {
      this.paintBody.replaceChildren(h("p", { class: "soft" }, "A shipped model keeps only what detection needs: a run of your own paints, too."));
      return;
    }
    const pin = h("button", { type: "button", onclick: () => { this.source = this.frame; this.paint(); } }, icon("pin"), "Take this frame as source");
    this.paintBody.replaceChildren(h("p", { class: "soft" }, "Scrub: the target is painted from the source by moving what lies under the keypoints."), h("div", { class: "three" }, this.painted), pin);
    this.paint();
  }

  // One question at a time; the newest frame is asked for when the answer is there.
  async paint() {
    if (!this.head.paints) return;
    const wanted = { source: this.source, target: this.frame };
    if (this.busy) return;
    this.busy = true;
    try {
      const { parts } = await getPacked("/api/reconstruction", { ...this.asked, ...wanted });
      parts.forEach((buffer, i) => {
        const image = this.painted[i].querySelector("img");
        URL.revokeObjectURL(image.src);
        image.src = URL.createObjectURL(new Blob([buffer], { type: "image/png" }));
      });
    } catch (error) {
      this.paintBody.replaceChildren(trouble(error));
      this.paints.open = false;
    }
    this.busy = false;
    if (this.paints.open && (wanted.target !== this.frame || wanted.source !== this.source)) this.paint();
  }
}
