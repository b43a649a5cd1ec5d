/**
 * The conversation: what was asked, thought, answered and called.  It lives in memory and ends
 * with the page.
 */

/** One answer of the model, and the question before it; null where tool results came before. */
export class Turn {
  answer = "";
  reasoning = "";
  calls = []; // { id, name, arguments, result }; a result is null until the reader gives it
  times = []; // { token, ns }, of each token
  prefill = null; // { from, tokens, reused }, known at the end
  finish = null;

  constructor(question) {
    this.question = question;
  }

  /** Take a piece of the answer, as `answerTo` yields it. */
  take({ text = "", reasoning = "", call, times = [], prefill, finish }) {
    this.answer += text;
    this.reasoning += reasoning;
    this.times.push(...times);
    this.prefill = prefill ?? this.prefill;
    this.finish = finish ?? this.finish;
    if (!call) return;
    const known = (this.calls[call.index] ??= { id: "", name: "", arguments: "", result: null });
    known.id ||= call.id ?? "";
    known.name += call.function?.name ?? "";
    known.arguments += call.function?.arguments ?? "";
  }

  /** The turn as messages; nothing if nothing came of it. */
  messages() {
    const told = this.calls.filter(({ result }) => result !== null);
    if (this.answer === "" && told.length === 0) return [];
    const answer = { role: "assistant", content: this.answer };
    if (this.reasoning) answer.reasoning_content = this.reasoning;
    if (told.length > 0) {
      answer.tool_calls = told.map(({ id, name, arguments: text }) => ({
        id,
        type: "function",
        function: { name, arguments: text },
      }));
    }
    const results = told.map(({ id, result }) => ({
      role: "tool",
      tool_call_id: id,
      content: result,
    }));
    return [...this.asked(), answer, ...results];
  }

  /** The question as a message. */
  asked() {
    return this.question === null ? [] : [{ role: "user", content: this.question }];
  }
}

export class Conversation {
  #turns = [];

  /** A new turn; its answer grows as it comes. */
  ask(question) {
    const turn = new Turn(question);
    this.#turns.push(turn);
    return turn;
  }

  /** Forget a turn. */
  drop(turn) {
    this.#turns = this.#turns.filter((other) => other !== turn);
  }

  /**
   * What the server is sent for the last turn: the whole conversation.
   *
   * An earlier question that was never answered and a call without a result are left out:
   * templates expect questions and answers, calls and results in turn.
   */
  messages(system) {
    const before = this.#turns.slice(0, -1).flatMap((turn) => turn.messages());
    const opening = system ? [{ role: "system", content: system }] : [];
    return [...opening, ...before, ...this.#turns.at(-1).asked()];
  }
}
