/**
 * When each token came, as a strip: one bar a token, taller and warmer the longer it took.
 *
 * Gaps are compared with their median, so that a slow machine's strip is as calm as a fast one's.
 * The pointer and the arrow keys pick a token; screen readers meet a slider.
 */

import { element } from "./markup.js";

const HEIGHT = 28;
const OCTAVES = 3; // a gap of so many doublings of the median is as hot as can be
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };

const strips = new WeakMap(); // by canvas
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const canvas of document.querySelectorAll(".strip")) strips.get(canvas).draw();
});

/** Milliseconds, with the digits that matter. */
export function milliseconds(ns) {
  const ms = ns / 1e6;
  return `${ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

export class HeatStrip {
  #place = element("div", "times");
  #canvas = element("canvas", "strip");
  #text = element("p", "times-text");
  #turn;
  #gaps = []; // nanoseconds before each token; the first is the prefill's, once known
  #typical = 1;
  #picked = -1;

  constructor(parent, turn) {
    this.#turn = turn;
    const canvas = this.#canvas;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "slider");
    canvas.setAttribute("aria-label", "Time of each token");
    canvas.addEventListener("pointermove", ({ offsetX }) => this.#pick(this.#tokenAt(offsetX)));
    canvas.addEventListener("pointerleave", () => this.#pick(-1));
    canvas.addEventListener("focus", () => this.#pick(Math.max(0, this.#picked)));
    canvas.addEventListener("blur", () => this.#pick(-1));
    canvas.addEventListener("keydown", (event) => this.#step(event));
    this.#place.append(canvas, this.#text);
    parent.append(this.#place);
    strips.set(canvas, this);
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** Show what the turn knows by now. */
  show() {
    const { times, prefill } = this.#turn;
    this.#gaps = times.map(({ ns }, at) => ns - (times[at - 1]?.ns ?? prefill?.from ?? ns));
    const sorted = this.#gaps.slice(1).filter((gap) => gap > 0).sort((a, b) => a - b);
    this.#typical = sorted[sorted.length >> 1] ?? 1;
    this.#tell();
    this.draw();
  }

  /** Draw the bars. */
  draw() {
    const { clientWidth: width } = this.#canvas;
    const scale = devicePixelRatio;
    Object.assign(this.#canvas, { width: width * scale, height: HEIGHT * scale });
    const pen = this.#canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(this.#canvas);
    const pitch = Math.min(8, width / Math.max(1, this.#gaps.length));
    this.#gaps.forEach((gap, at) => {
      const heat = this.#heat(gap);
      pen.fillStyle = at === this.#picked ? style.color : style.accentColor;
      pen.globalAlpha = at === this.#picked ? 1 : 0.2 + 0.8 * heat ** 2;
      const height = Math.max(3, heat * HEIGHT);
      pen.fillRect(at * pitch, HEIGHT - height, Math.max(0.5, pitch - (pitch > 3)), height);
    });
  }

  /** From 0 to 1: one half for the median. */
  #heat(gap) {
    if (gap <= 0) return 0;
    return Math.min(1, Math.max(0, 0.5 + Math.log2(gap / this.#typical) / (2 * OCTAVES)));
  }

  #tokenAt(x) {
    const count = this.#gaps.length;
    return Math.min(count - 1, Math.floor(x / Math.min(8, this.#canvas.clientWidth / count)));
  }

  #step(event) {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    const last = this.#gaps.length - 1;
    this.#pick(Math.min(last, Math.max(0, this.#picked + KEYS[event.key])));
  }

  #pick(token) {
    if (token === this.#picked) return;
    this.#picked = token;
    this.#tell();
    this.draw();
  }

  #tell() {
    const count = this.#gaps.length;
    const one = this.#picked < 0 ? "" : this.#one(this.#picked);
    this.#text.textContent = one || this.#all(count);
    const bounds = { min: 1, max: count, now: Math.max(0, this.#picked) + 1 };
    for (const [name, value] of Object.entries(bounds)) {
      this.#canvas.setAttribute(`aria-value${name}`, value);
    }
    this.#canvas.setAttribute("aria-valuetext", one || this.#all(count));
  }

  #one(at) {
    const { times, prefill } = this.#turn;
    const known = at > 0 || prefill !== null;
    const time = known ? `: ${milliseconds(this.#gaps[at])}` : "";
    return `Token ${at + 1} of ${this.#gaps.length}, id ${times[at].token}${time}`;
  }

  #all(count) {
    const { prefill, times } = this.#turn;
    const parts = [`${count} ${count === 1 ? "token" : "tokens"}`];
    if (count > 1) {
      const mean = (times.at(-1).ns - times[0].ns) / (count - 1);
      if (mean > 0) parts.push(`${milliseconds(mean)} each`);
    }
    if (prefill && count > 0) {
      parts.push(`first after ${milliseconds(this.#gaps[0])}`);
      if (prefill.tokens) parts.push(`${prefill.tokens} in the prompt, ${prefill.reused} reused`);
    }
    return parts.join(" · ");
  }
}
