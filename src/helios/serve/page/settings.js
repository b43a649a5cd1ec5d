/**
 * What the reader sets: how tokens are drawn, the system prompt, tools.  Remembered by the browser.
 *
 * An empty field is not sent: the server's own default holds.
 */

const PLACE = "helios.settings";
const TOOLS_WANTED = "Expected a JSON list of tools, as OpenAI's API has it.";

export class Settings {
  #form;

  constructor(form) {
    this.#form = form;
    this.#recall();
    form.addEventListener("input", () => this.#keep());
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => this.#keep()));
  }

  /** Whether everything can be sent; otherwise the reader is shown what cannot. */
  check() {
    if (this.#form.checkValidity()) return true;
    this.#form.closest("[popover]").showPopover();
    this.#form.reportValidity();
    return false;
  }

  /** The system prompt. */
  get system() {
    return this.#form.elements.system.value.trim();
  }

  /** The fields of a request. */
  fields() {
    const found = {};
    for (const { name, type, value, checked } of this.#form.elements) {
      if (type === "number" && value !== "") found[name] = Number(value);
      if (name === "times" && checked) {
        Object.assign(found, { return_token_ids: true, return_token_timestamps: true });
      }
    }
    const tools = toolsIn(this.#form.elements.tools.value);
    return tools.length > 0 ? { ...found, tools } : found;
  }

  #keep() {
    this.#judge();
    const kept = {};
    for (const { name, type, value, checked } of this.#form.elements) {
      if (name) kept[name] = type === "checkbox" ? checked : value;
    }
    try {
      localStorage.setItem(PLACE, JSON.stringify(kept));
    } catch {
      // Where nothing may be stored, settings last until a reload.
    }
  }

  #recall() {
    let kept = {};
    try {
      kept = JSON.parse(localStorage.getItem(PLACE)) ?? {};
    } catch {
      // Nothing was kept, or nothing readable.
    }
    for (const field of this.#form.elements) {
      if (!field.name || !(field.name in kept)) continue;
      if (field.type === "checkbox") field.checked = kept[field.name] === true;
      else field.value = String(kept[field.name]);
    }
    this.#judge();
  }

  #judge() {
    const { tools } = this.#form.elements;
    tools.setCustomValidity(toolsIn(tools.value) ? "" : TOOLS_WANTED);
  }
}

/** The tools in a text; null if it is not a list of objects. */
function toolsIn(text) {
  if (text.trim() === "") return [];
  try {
    const tools = JSON.parse(text);
    const good = Array.isArray(tools) && tools.every((tool) => tool && typeof tool === "object");
    return good ? tools : null;
  } catch {
    return null;
  }
}
