/**
 * JSON that may not be complete yet, written out: a line for each member, indented.
 *
 * Text that is not JSON stays readable: nothing but whitespace between values ever changes.
 */

const PARTS = /"(?:[^"\\]|\\[^])*(?:"|\\?$)|[{[]\s*[}\]]|[{}[\],:]|\s+|[^\s{}[\],:"]+/g;
const INDENT = "  ";
const DEEPEST = 16; // levels that are indented; a model may open thousands of brackets

/** The same JSON, for people. */
export function pretty(text) {
  let depth = 0;
  let written = "";
  const line = (change) => {
    depth = Math.max(0, depth + change);
    return `\n${INDENT.repeat(Math.min(depth, DEEPEST))}`;
  };
  for (const [part] of text.matchAll(PARTS)) {
    if (part.trim() === "") continue;
    if (part === "{" || part === "[") written += part + line(1);
    else if (part === "}" || part === "]") written += line(-1) + part;
    else if (part === ",") written += part + line(0);
    else if (part === ":") written += ": ";
    else written += part.startsWith('"') ? part : part.replace(/\s+/g, "");
  }
  return written.trimEnd();
}
