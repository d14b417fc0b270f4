// Runs of text as the server sends them, put into an element as text; ranges of bytes in it can be marked.
// A run is a plain string, or [text, kind, bytes of each escape, characters of each escape].

import { make } from "./output_api.js";

const encoder = new TextEncoder();

function bytesOf(run) {
  return typeof run === "string" ? encoder.encode(run).length : (run[0].length / run[3]) * run[2];
}

// Where byte `offset` of a run stands in its text. Inside a character it is that character's start, or its end.
function charAt(run, offset, length, roundsUp) {
  if (typeof run !== "string") return (roundsUp ? Math.ceil(offset / run[2]) : Math.floor(offset / run[2])) * run[3];
  if (run.length === length) return offset; // ASCII
  let bytes = 0;
  let at = 0;
  for (const char of run) {
    if (bytes >= offset) break;
    const code = char.codePointAt(0);
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > offset && !roundsUp) break;
    at += char.length;
  }
  return at;
}

function node(run, text) {
  return typeof run === "string" ? document.createTextNode(text) : make("span", `esc esc-${run[1]}`, text);
}

// `start` is the byte of the first character; `marks` are {from, to, kind}, in order and without overlaps. A character
// that is marked in part is marked.
export function fill(element, runs, start = 0, marks = []) {
  const parts = [];
  let at = start;
  for (const run of runs) {
    const text = plain(run);
    const length = marks.length ? bytesOf(run) : 0;
    let done = 0;
    for (const mark of marks) {
      if (mark.to <= at || mark.from >= at + length) continue;
      const from = Math.max(done, charAt(run, Math.max(0, mark.from - at), length, false));
      const to = charAt(run, Math.min(length, mark.to - at), length, true);
      if (from >= to) continue;
      if (from > done) parts.push(node(run, text.slice(done, from)));
      const marked = make("mark", mark.kind);
      marked.append(node(run, text.slice(from, to)));
      parts.push(marked);
      done = to;
    }
    if (done < text.length) parts.push(node(run, text.slice(done)));
    at += length;
  }
  element.replaceChildren(...parts);
}

const plain = (run) => (typeof run === "string" ? run : run[0]);

export const textOf = (runs) => runs.map(plain).join("");
