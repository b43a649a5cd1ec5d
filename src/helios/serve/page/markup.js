/**
 * An answer's text as DOM nodes: prose with its whitespace, inline code, fenced code blocks.
 *
 * Text only ever becomes text nodes.  A growing answer is updated in place, so that what the
 * reader has selected or focused stays.
 */

// A fence may be indented at will: answers put code blocks into lists.
const FENCE = /^([ \t]*)(`{3,}|~{3,})([^`]*)$/;
const HALF_FENCE = /(^|\n)[ \t]*(`{1,2}|~{1,2})$/;
const INLINE = /(`+)(?!`)([^\n]*?[^`\n])\1(?!`)|`+/g;

/** A place in the document that shows a text. */
export class Rendering {
  #place;
  #copy;

  /** `copy(pre, button)` is called when the reader wants a block's code. */
  constructor(place, { copy }) {
    this.#place = place;
    this.#copy = copy;
  }

  /** Show this text; more of it may come. */
  grow(text) {
    // Backticks at the end may become a fence; they wait until that is known.
    this.show(text.replace(HALF_FENCE, ""));
  }

  /** Show this text. */
  show(text) {
    inPlace(this.#place, blocksOf(text), this.#makers);
  }

  #makers = {
    prose: {
      make: () => element("div", "prose"),
      update: (node, { pieces }) => inPlace(node, pieces, PIECES),
    },
    code: {
      make: () => codeBlock((pre, button) => this.#copy(pre, button)),
      update: updateCodeBlock,
    },
  };
}

const PIECES = {
  text: { make: () => document.createTextNode(""), update: setText },
  inline: {
    make: () => element("code", "inline"),
    update: (node, { text }) => {
      if (node.textContent !== text) node.textContent = text;
    },
  },
};

// ----------------------------------------------------------------- reading

/** The blocks of a text: `{ kind: "prose", pieces }` and `{ kind: "code", language, text }`. */
export function blocksOf(text) {
  const blocks = [];
  let lines = [];
  let open = null;

  const endProse = () => {
    const prose = lines.join("\n").replace(/^(?:[ \t]*\n)+/, "").trimEnd();
    if (prose !== "") blocks.push({ kind: "prose", pieces: piecesOf(prose) });
    lines = [];
  };
  const endCode = () => {
    blocks.push({ kind: "code", language: open.language, text: lines.join("\n") });
    open = null;
    lines = [];
  };

  for (const line of text.split("\n")) {
    const [, indent, fence, info] = FENCE.exec(line) ?? [];
    if (open === null && fence) {
      endProse();
      open = { indent, fence, language: info.trim().split(/\s+/)[0] };
    } else if (open !== null && fence?.startsWith(open.fence) && info.trim() === "") {
      endCode();
    } else {
      const { indent: outer } = open ?? { indent: "" };
      lines.push(line.startsWith(outer) ? line.slice(outer.length) : line);
    }
  }
  if (open === null) endProse();
  else endCode();
  return blocks;
}

/** Text and inline code, in order. */
function piecesOf(prose) {
  const pieces = [];
  let text = "";
  let from = 0;
  for (const found of prose.matchAll(INLINE)) {
    if (found[2] === undefined) continue; // backticks that nothing closes are text
    text = prose.slice(from, found.index);
    if (text !== "") pieces.push({ kind: "text", text });
    pieces.push({ kind: "inline", text: found[2].replace(/^ (.*[^ ].*) $/, "$1") });
    from = found.index + found[0].length;
  }
  text = prose.slice(from);
  if (text !== "") pieces.push({ kind: "text", text });
  return pieces;
}

// ----------------------------------------------------------------- writing

/** Make a node's children show these parts, keeping the children that already do. */
function inPlace(node, parts, makers) {
  parts.forEach((part, index) => {
    const { make, update } = makers[part.kind];
    let child = node.childNodes[index];
    if (child?.kind !== part.kind) {
      const made = make();
      made.kind = part.kind;
      if (child) child.replaceWith(made);
      else node.append(made);
      child = made;
    }
    update(child, part);
  });
  while (node.childNodes.length > parts.length) node.lastChild.remove();
}

/** Give a text node this text; appending leaves the reader's selection alone. */
function setText(node, { text }) {
  if (text === node.data) return;
  if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else node.data = text;
}

function codeBlock(copy) {
  const block = element("figure", "block");
  const caption = element("figcaption", "block-head");
  const language = element("span", "language");
  const button = element("button", "quiet-button");
  button.type = "button";
  button.append("Copy", element("span", "unseen", " code"));
  const pre = document.createElement("pre");
  pre.tabIndex = 0; // it scrolls, and the keyboard must reach it
  const code = document.createElement("code");
  code.append("");
  pre.append(code);
  caption.append(language, button);
  block.append(caption, pre);
  button.addEventListener("click", () => copy(pre, button));
  return block;
}

function updateCodeBlock(block, { language, text }) {
  block.querySelector(".language").textContent = language || "code";
  const code = block.querySelector("code");
  setText(code.firstChild, { text });
}

/** An element of a class, perhaps with text. */
export function element(tag, className, text = "") {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}
