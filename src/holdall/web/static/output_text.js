// The text of an output, by lines, by runs of bytes, or in hex; where somebody lands in it, and what is marked there.

import { grouped, make, size } from "./output_api.js";
import { fill, textOf } from "./output_runs.js";
import { Scroller } from "./output_scroller.js";

const LINE_BYTES = 1024; // of a line that the server sends
const HEX = 16;

export class TextView {
  constructor(box, api, told) {
    this.box = box;
    this.api = api;
    this.told = told;
    this.by = "lines";
    this.wraps = false;
    this.hasLevels = false;
    this.total = { bytes: 0, lines: 0, chars: 0 };
    this.mark = null; // {from, to}: where somebody landed
    this.matches = []; // of a search, in order
    this.isDetour = false; // by bytes only because of where a match is
    this.scroller = new Scroller(box, this);
  }

  get width() {
    if (this.by === "hex") return HEX;
    const room = this.box.clientWidth - 16 - 8 * (grouped(this.total.bytes).length + 5);
    return Math.max(32, Math.min(160, Math.floor(room / 7.7 / 8) * 8));
  }

  count(total = this.total) {
    return this.by === "lines" ? total.lines : Math.ceil(total.bytes / this.row);
  }

  show(by, total) {
    this.by = by;
    this.total = total;
    this.row = this.width;
    this.box.dataset.by = by;
    this.isDetour = false;
    this.wrap(this.wraps);
    this.digits = 0;
    this.makeRoom(grouped(by === "lines" ? total.lines : total.bytes).length);
    this.scroller.reset(this.count());
  }

  grow(total) {
    this.total = total;
    this.scroller.setTotal(this.count());
  }

  // Long lines go on in the next row, where rows are lines.
  wrap(on) {
    this.wraps = on;
    const isOn = on && this.by === "lines";
    this.box.classList.toggle("is-wrapped", isOn);
    if (isOn) this.box.scrollLeft = 0;
    this.scroller.wrap(isOn);
  }

  async switchTo(by) {
    const at = this.firstByte();
    const isMarked = this.mark !== null && this.mark.from >= at && this.mark.from < this.lastByte();
    this.show(by, this.total);
    if (isMarked) await this.scrollToByte(this.mark.from);
    else await this.scrollToByte(at, { top: true });
  }

  // The byte at the upper edge, and the one after the last in sight.
  firstByte() {
    const at = Math.ceil(this.scroller.top - 0.4);
    return this.by === "lines" ? (this.scroller.data(at)?.at ?? 0) : Math.min(this.total.bytes, at * this.row);
  }

  lastByte() {
    const last = Math.min(this.scroller.total, Math.floor(this.scroller.top + this.scroller.visible)) - 1;
    return this.by === "lines" ? (this.scroller.data(last)?.end ?? this.total.bytes) : Math.min(this.total.bytes, (last + 1) * this.row);
  }

  async rowOf(byte) {
    if (this.by !== "lines") return Math.floor(byte / this.row);
    const place = await this.api.ask("place", { byte });
    return place.line - 1;
  }

  async scrollToByte(byte, { top = false } = {}) {
    const row = await this.rowOf(byte);
    if (top) this.scroller.goTo(row);
    else this.scroller.center(row);
    return row;
  }

  // Land on these bytes: in sight, marked, with the focus. A byte far inside a long line is shown by bytes.
  async land(from, to, { focus = true, kind = "landed" } = {}) {
    const last = Math.max(0, this.total.bytes - 1);
    const at = Math.min(Math.max(0, from), last);
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const place = await this.api.ask("place", { byte: at });
    if (turn !== this.turn) return; // somebody went on meanwhile
    const isFar = at - place.begins >= LINE_BYTES - 64;
    if (this.by === "lines" ? isFar : this.isDetour && !isFar) {
      this.show(isFar ? "bytes" : "lines", this.total);
      this.isDetour = isFar;
      this.told.switched(this.by);
    }
    this.mark = { from: at, to: Math.max(at + 1, Math.min(to ?? at + 1, this.total.bytes)), kind };
    const index = this.by === "lines" ? place.line - 1 : Math.floor(at / this.row);
    this.scroller.redraw();
    this.scroller.center(index);
    const element = await this.scroller.row(index);
    if (turn !== this.turn) return;
    if (element) this.reveal(element, focus);
    this.told.landed(place.line, this.mark);
  }

  async landOnLine(line, options = {}) {
    const place = await this.api.ask("place", { line });
    const next = place.line < this.total.lines ? (await this.api.ask("place", { line: place.line + 1 })).byte : this.total.bytes;
    await this.land(place.byte, Math.max(place.byte + 1, next), options);
    return place.line;
  }

  reveal(element, focus) {
    const marked = element.querySelector("mark.landed, mark.current");
    if (marked) {
      const box = this.box.getBoundingClientRect();
      const there = marked.getBoundingClientRect();
      const gutter = element.firstElementChild?.offsetWidth ?? 0;
      if (there.left < box.left + gutter || there.right > box.right - 24) {
        this.box.scrollLeft += there.left - box.left - gutter - Math.max(16, (box.width - gutter - Math.min(there.width, box.width)) / 2);
      }
    }
    if (focus) {
      element.tabIndex = -1;
      element.focus({ preventScroll: true });
    }
  }

  setMatches(matches) {
    this.matches = matches;
    this.scroller.redraw();
  }

  // For the scroller

  async fetch(first, count, signal) {
    const from = this.by === "lines" ? first + 1 : first;
    const answer = await this.api.ask("rows", { by: this.by, from, count, width: this.row }, signal);
    return answer.rows;
  }

  // For numbers of so many signs: what is still written gets longer ones.
  makeRoom(digits) {
    if (digits <= this.digits) return;
    this.digits = Math.max(3, digits);
    this.box.style.setProperty("--digits", String(this.digits));
  }

  draw(element, row, index) {
    if (row === null) {
      element.className = "row row-failed";
      element.replaceChildren(make("span", "gutter", ""), make("span", "text", "could not be loaded"));
      return;
    }
    const level = this.hasLevels && this.by === "lines" ? levelOf(row.t) : "";
    element.className = `row${row.seen ? ` seen-${row.seen}` : ""}${level ? ` level-${level}` : ""}`;
    const label = this.by === "lines" ? grouped(row.n) : grouped(row.at);
    this.makeRoom(label.length);
    const gutter = make("span", "gutter", label);
    if (row.seen) gutter.title = SEEN[row.seen];
    const text = make("span", "text");
    if (this.by === "hex") this.drawHex(text, row);
    else this.drawText(text, row);
    const parts = [gutter, text];
    if (row.left) parts.push(this.more(row, index));
    element.replaceChildren(...parts);
  }

  drawText(text, row) {
    const marks = this.marksIn(row.at, row.end);
    fill(text, row.t, row.at, marks);
    // Of a line's newline nothing is shown, unless it is what somebody landed on.
    if (marks.length && !row.left && !text.querySelector("mark")) text.append(make("mark", marks[0].kind, "↵"));
  }

  drawHex(text, row) {
    const bytes = row.t[0].split(" ");
    const marks = this.marksIn(row.at, row.end);
    const kindOf = (at) => marks.find((mark) => mark.from <= at && at < mark.to)?.kind ?? "";
    const cells = bytes.map((byte, at) => make(kindOf(row.at + at) ? "mark" : "span", `byte ${kindOf(row.at + at)}`, byte));
    const chars = bytes.map((byte) => {
      const code = parseInt(byte, 16);
      return code >= 32 && code < 127 ? String.fromCharCode(code) : "·";
    });
    const hex = make("span", "hex");
    hex.append(...cells);
    text.replaceChildren(hex, make("span", "ascii", chars.join("")));
  }

  more(row) {
    const button = make("button", "more", `… ${size(row.left)} more of this line`);
    button.type = "button";
    button.addEventListener("click", () => this.goOn(row.at + LINE_BYTES));
    return button;
  }

  async goOn(byte) {
    this.show("bytes", this.total);
    this.told.switched(this.by);
    await this.scrollToByte(byte, { top: true });
  }

  marksIn(start, end) {
    return marksIn(this.matches, start, end, this.mark);
  }

  moved(way) {
    this.told.moved(way);
  }

  rendered() {
    this.told.rendered();
  }

  failed(error) {
    this.told.failed(error);
  }
}

// The matches in a range, and around them `mark`, where somebody landed: it hides what it is, and what goes over its ends.
export function marksIn(matches, start, end, mark = null) {
  const found = [];
  let low = 0;
  let high = matches.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (matches[middle].end <= start) low = middle + 1;
    else high = middle;
  }
  let from = mark && mark.from < end && mark.to > start ? mark.from : Infinity; // what is left of it
  for (; low < matches.length && matches[low].at < end; low += 1) {
    const { at, end: to } = matches[low];
    const isInside = mark && mark.from <= at && to <= mark.to && to - at < mark.to - mark.from;
    if (mark && !isInside && at < mark.to && to > mark.from) continue;
    if (isInside && from < at) found.push({ ...mark, from, to: at });
    if (isInside) from = to;
    found.push({ from: at, to, kind: "hit" });
  }
  if (mark && from < mark.to) found.push({ ...mark, from });
  return found.sort((one, other) => one.from - other.from);
}

// The level of a line of a log: a word in capitals near its start, or a field that is called so.
const LEVELS = { E: "error", F: "error", C: "error", A: "error", P: "error", S: "error", W: "warn", D: "debug", T: "debug" };
const CAPITALS = /(?:^|[^\w.-]|\[[\d;]*m)(EMERG(?:ENCY)?|ALERT|CRIT(?:ICAL)?|FATAL|PANIC|SEVERE|ERR(?:OR)?|WARN(?:ING)?|NOTICE|INFO|DEBUG|TRACE)(?![\w-])/;
const FIELD = /(?:^|[\s{,])"?(?:level|lvl|severity|loglevel|log_level)"?\s?[=:]\s?"?(emerg|alert|crit|fatal|panic|severe|err|warn|debug|trace)/i;
const BRACKETS = /^.{0,60}?[[<](emerg|alert|crit|fatal|panic|severe|error|err|warn|warning|debug|trace)[\]>:]/i;
const LEVEL_CHARS = 200;

function levelOf(runs) {
  const start = textOf(runs.slice(0, 8)).slice(0, LEVEL_CHARS);
  const found = FIELD.exec(start) ?? CAPITALS.exec(start.slice(0, 100)) ?? BRACKETS.exec(start);
  return found ? (LEVELS[found[1][0].toUpperCase()] ?? "") : "";
}

const SEEN = {
  all: "the model has seen this row",
  part: "the model has seen a part of this row",
  searched: "a model that extracted from the output has read this row",
};
