// Runs of text as the server sends them, put into an element as text; ranges of bytes in it can be marked.
// A run is a plain string, or [text, kind, bytes of each escape, characters of each escape].

import { make } from "./output_api.js";

const encoder = new TextEncoder();

function bytesOf(run) {
  return typeof run === "string" ? encoder.encode(run).length : (run[0].length / run[3]) * run[2];
}

// Where byte `offset` of a run stands in its text; inside a character it is that character's start.
function charAt(run, offset) {
  if (typeof run !== "string") return Math.floor(offset / run[2]) * run[3];
  let bytes = 0;
  let at = 0;
  for (const char of run) {
    const code = char.codePointAt(0);
    const length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes + length > offset) break;
    bytes += length;
    at += char.length;
  }
  return at;
}

function piece(run, from, to, length) {
  if (typeof run === "string") {
    return run.length === length ? run.slice(from, to) : run.slice(charAt(run, from), to >= length ? undefined : charAt(run, to));
  }
  return run[0].slice(charAt(run, from), charAt(run, to + run[2] - 1));
}

function node(run, text) {
  return typeof run === "string" ? document.createTextNode(text) : make("span", `esc esc-${run[1]}`, text);
}

// `start` is the byte of the first character; `marks` are {from, to, kind}, in order and without overlaps.
export function fill(element, runs, start = 0, marks = []) {
  const parts = [];
  let at = start;
  for (const run of runs) {
    const length = marks.length ? bytesOf(run) : 0;
    let done = 0;
    for (const mark of marks) {
      const from = Math.max(mark.from - at, done);
      const to = Math.min(mark.to - at, length);
      if (from >= to) continue;
      if (from > done) parts.push(node(run, piece(run, done, from, length)));
      const marked = make("mark", mark.kind);
      marked.append(node(run, piece(run, from, to, length)));
      parts.push(marked);
      done = to;
    }
    if (done < length || !marks.length) parts.push(node(run, done ? piece(run, done, length, length) : plain(run)));
    at += length;
  }
  element.replaceChildren(...parts);
}

const plain = (run) => (typeof run === "string" ? run : run[0]);

export const textOf = (runs) => runs.map(plain).join("");
