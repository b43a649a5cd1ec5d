/**
 * The panel of the server's own counts: asked for every two seconds, and only while it is seen.
 */

import { asFailure, countsText } from "./server.js";
import { milliseconds } from "./heat.js";
import { Counts } from "./metrics.js";

const PERIOD_MS = 2000;

export class Live {
  #panel;
  #timer = 0;
  #before = null; // { tokens, at } of the last look

  constructor(panel) {
    this.#panel = panel;
    panel.addEventListener("toggle", () => this.#restart());
    document.addEventListener("visibilitychange", () => this.#restart());
  }

  #restart() {
    clearTimeout(this.#timer);
    this.#before = null;
    if (this.#seen()) this.#look();
  }

  #seen() {
    return this.#panel.matches(":popover-open") && document.visibilityState === "visible";
  }

  async #look() {
    clearTimeout(this.#timer);
    const timer = (this.#timer = setTimeout(() => this.#look(), PERIOD_MS));
    let problem = "";
    try {
      const counts = new Counts(await countsText());
      if (timer !== this.#timer || !this.#seen()) return;
      this.#show(this.#told(counts));
    } catch (error) {
      problem = asFailure(error).message;
    }
    this.#show({ problem });
  }

  #told(counts) {
    const [tokens, at] = [counts.of("output_tokens"), performance.now()];
    const before = this.#before ?? { tokens, at };
    this.#before = { tokens, at };
    const speed = at > before.at ? ((tokens - before.tokens) * 1000) / (at - before.at) : 0;
    const first = (part) => {
      const seconds = counts.quantile("time_to_first_token_seconds", part);
      return seconds === null ? "–" : milliseconds(seconds * 1e9);
    };
    const pages = counts.of("cache_pages");
    const asked = counts.of("prefix_asked_tokens");
    const share = asked > 0 ? counts.of("prefix_reused_tokens") / asked : null;
    const [free, idle] = [counts.of("cache_pages_free"), counts.of("cache_pages_idle")];
    return {
      lanes: `${counts.of("lanes_active")} of ${counts.of("slots")}`,
      waiting: counts.of("requests_waiting"),
      speed: Math.max(0, speed).toFixed(1),
      p50: first(0.5),
      p95: first(0.95),
      reuse: share === null ? "–" : `${Math.round(100 * share)} %`,
      free: `${free} of ${pages}`,
      idle,
    };
  }

  #show(told) {
    for (const [name, text] of Object.entries(told)) {
      this.#panel.querySelector(`[data-count="${name}"]`).textContent = text;
    }
  }
}
