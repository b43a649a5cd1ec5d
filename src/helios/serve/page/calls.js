/**
 * The tools that an answer calls: their names and arguments as they come, and a form in which
 * the reader says what they gave.
 */

import { element } from "./markup.js";
import { pretty } from "./pretty.js";

export class CallsView {
  #place = element("div", "calls");
  #codes = [];

  constructor(after) {
    after.after(this.#place);
  }

  /** Show these calls; more of them may come. */
  show(calls) {
    calls.forEach(({ name, arguments: text }, index) => {
      this.#codes[index] ??= this.#add();
      const [title, code] = this.#codes[index];
      if (title.textContent !== name) title.textContent = name;
      const shown = pretty(text);
      if (code.textContent !== shown) code.textContent = shown;
    });
  }

  /** Ask what each call gave; then `go(results)`. */
  askResults(calls, go) {
    const form = element("form", "results");
    form.setAttribute("aria-label", "Results of the tools");
    const inputs = calls.map(({ name }) => {
      const label = element("label", "", `Result of ${name}`);
      const input = document.createElement("textarea");
      input.rows = 2;
      label.append(input);
      form.append(label);
      return input;
    });
    const button = element("button", "quiet-button", "Send results");
    form.append(button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (go(inputs.map(({ value }) => value)) === false) return;
      for (const input of inputs) input.readOnly = true;
      button.remove();
    });
    this.#place.append(form);
  }

  #add() {
    const block = element("figure", "block call");
    const head = element("figcaption", "block-head", "Calls ");
    const title = element("strong", "tool");
    const pre = document.createElement("pre");
    pre.tabIndex = 0;
    const code = document.createElement("code");
    head.append(title);
    pre.append(code);
    block.append(head, pre);
    this.#place.append(block);
    return [title, code];
  }
}
