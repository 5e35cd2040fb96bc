// What a player shows under its marks: pictures of an episode, or a video. Both go by the number of the frame.

import { h } from "./dom.js";

export class Pictures {
  constructor(buffers, width, height, rate = 15) {
    this.blobs = buffers.map((buffer) => new Blob([buffer], { type: "image/png" }));
    this.bitmaps = new Map();
    this.rate = rate;
    this.frames = buffers.length;
    this.element = h("canvas", { class: "pixels" });
    this.element.width = width;
    this.element.height = height;
    this.pen = this.element.getContext("2d");
    this.wanted = 0;
    this.playing = false;
  }

  bitmap(i) {
    if (!this.bitmaps.has(i)) this.bitmaps.set(i, createImageBitmap(this.blobs[i]));
    return this.bitmaps.get(i);
  }

  async show(i) {
    this.wanted = i;
    const bitmap = await this.bitmap(i);
    if (this.wanted === i) this.pen.drawImage(bitmap, 0, 0);
    for (const next of [i + 1, i + 2, i + 3]) if (next < this.frames) this.bitmap(next);
  }

  play(from, speed, onFrame, onEnd) {
    this.playing = true;
    let at = from;
    let due = performance.now();
    const tick = (now) => {
      if (!this.playing) return;
      const steps = Math.floor(((now - due) / 1000) * this.rate * this.speed);
      if (steps > 0) {
        due += (steps * 1000) / (this.rate * this.speed);
        at = Math.min(this.frames - 1, at + Math.min(steps, 8));
        this.show(at);
        onFrame(at);
        if (at === this.frames - 1) { this.playing = false; onEnd(); return; }
      }
      requestAnimationFrame(tick);
    };
    this.speed = speed;
    requestAnimationFrame(tick);
  }

  setSpeed(speed) { this.speed = speed; }
  pause() { this.playing = false; }
  stop() {
    this.pause();
    for (const bitmap of this.bitmaps.values()) bitmap.then((made) => made.close());
  }
}

export class Film {
  constructor(source, times) {
    this.times = times;
    this.frames = times.length;
    this.element = h("video", { muted: true, playsinline: true, preload: "auto", src: source });
    this.busy = false;
    this.wanted = null;
    this.playing = false;
    this.element.addEventListener("seeked", () => {
      this.busy = false;
      const next = this.wanted;
      this.wanted = null;
      if (next !== null) this.seek(next);
    });
  }

  // The frame that is on screen at a time.
  index(time) {
    let low = 0;
    let high = this.frames - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.times[middle] <= time + 1e-4) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // In the middle of the frame: rounding must not show the one before.
  middle(i) {
    const next = i + 1 < this.frames ? this.times[i + 1] : this.times[i] + 0.02;
    return (this.times[i] + next) / 2;
  }

  seek(i) {
    this.busy = true;
    this.element.currentTime = this.middle(i);
  }

  async show(i) {
    if (this.busy) this.wanted = i; // the newest wish waits for the one under way; those between are dropped
    else this.seek(i);
  }

  play(from, speed, onFrame, onEnd) {
    const video = this.element;
    this.playing = true;
    video.playbackRate = speed;
    if (Math.abs(video.currentTime - this.middle(from)) > 0.25) this.show(from);
    const seen = (_, { mediaTime }) => {
      if (!this.playing) return;
      onFrame(this.index(mediaTime));
      video.requestVideoFrameCallback(seen);
    };
    if (video.requestVideoFrameCallback) video.requestVideoFrameCallback(seen);
    else video.ontimeupdate = () => this.playing && onFrame(this.index(video.currentTime));
    video.onended = () => { this.playing = false; onEnd(); };
    return video.play();
  }

  setSpeed(speed) { this.element.playbackRate = speed; }
  pause() {
    this.playing = false;
    this.element.pause();
  }
  stop() {
    this.pause();
    this.element.removeAttribute("src");
    this.element.load();
  }
}
