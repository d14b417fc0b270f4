// Lines of CSV as a table: the header stays, rows come as they are looked at.

import { grouped, make, size } from "./output_api.js";
import { fill, textOf } from "./output_runs.js";
import { Scroller } from "./output_scroller.js";
import { marksIn } from "./output_text.js";

export function cell(value) {
  const one = make("span", `cell cell-${value.k}`);
  fill(one, value.t);
  if (value.left) one.append(make("span", "cell-left", ` … ${size(value.left)} more`));
  return one;
}

const NARROWEST = 5; // characters of a column
const WIDEST = 44;
const NUMBER = /^[-+]?[\d.,]+(?:e[-+]?\d+)?%?$/i;

// Whether the first rows have numbers in this column, and nothing else.
function isNumbers(rows, at) {
  const values = rows.slice(0, 60).map((row) => textOf(row.cells?.[at]?.t ?? [])).filter(Boolean);
  return values.length > 0 && values.every((value) => NUMBER.test(value));
}

export class TableView {
  // `told`: sort (by a column), rendered (the lines in sight).
  constructor(box, head, api, told) {
    Object.assign(this, { box, head, api, told, above: 1, matches: [] }); // lines above the rows: the one that names the columns
  }

  open(total) {
    this.total = total;
    if (!this.scroller) {
      this.scroller = new Scroller(this.box, this, 24);
      this.box.addEventListener("scroll", () => (this.head.scrollLeft = this.box.scrollLeft), { passive: true });
    }
    this.grow(total);
  }

  grow(total) {
    this.total = total;
    this.scroller?.setTotal(Math.max(0, total.lines - this.above));
  }

  // False for the line that names the columns.
  showLine(line) {
    if (line <= this.above) return false;
    this.marked = line;
    this.scroller.redraw();
    this.scroller.center(line - 1 - this.above);
    return true;
  }

  setMatches(matches) {
    this.matches = matches;
    this.scroller?.redraw();
  }

  async fetch(first, count, signal) {
    let answer = await this.api.ask("table", { from: first + 1 + this.above, count }, signal);
    if (!answer.header && this.above) {
      this.above = 0;
      this.grow(this.total);
      answer = await this.api.ask("table", { from: first + 1, count }, signal);
    }
    if (!this.columns) this.setColumns(answer);
    this.widen(answer.rows);
    return answer.rows;
  }

  // Columns are as wide as what was seen of them so far: ids grow.
  widen(rows) {
    const before = this.widths.join();
    for (const row of rows) {
      (row.cells ?? []).forEach((one, at) => (this.widths[at] = Math.max(this.widths[at], Math.min(WIDEST, textOf(one.t).length + 3))));
    }
    if (this.template && this.widths.join() === before) return;
    // The note has a column of its own: without one it would be in the next line of the grid, and widen the first.
    const tracks = this.note ? [...this.widths, this.note.length + 3] : this.widths;
    this.template = tracks.map((wide) => `${wide}ch`).join(" ");
    for (const one of [this.box, this.head]) one.style.setProperty("--columns", this.template);
  }

  setColumns(answer) {
    this.columns = answer.columns;
    this.widths = this.columns.map((name) => Math.max(NARROWEST, Math.min(WIDEST, textOf(name).length + 3)));
    const hidden = answer.of_columns - this.columns.length;
    this.note = hidden > 0 ? `… ${grouped(hidden)} more columns: SQL has them` : "";
    const digits = String(Math.max(3, grouped(this.total.lines).length));
    for (const one of [this.box, this.head]) one.style.setProperty("--digits", digits);
    this.right = this.columns.map((_, at) => isNumbers(answer.rows, at));
    const cells = this.columns.map((name, at) => {
      const one = make("span", this.right[at] ? "cell cell-right" : "cell");
      one.setAttribute("role", "columnheader");
      const button = make("button", "answer-sort");
      button.type = "button";
      button.title = "Sort by it, with SQL";
      fill(button, name);
      button.addEventListener("click", () => this.told.sort(at + 1));
      one.append(button);
      return one;
    });
    const row = make("div", "row");
    row.setAttribute("role", "row");
    row.append(make("span", "gutter", "line"), ...cells);
    if (this.note) row.append(make("span", "cell cell-note", this.note));
    this.head.replaceChildren(row);
  }

  draw(element, row) {
    element.className = row?.seen ? `row seen-${row.seen}` : "row";
    element.setAttribute("role", "row");
    if (row === null) {
      element.replaceChildren(make("span", "gutter", ""), make("span", "cell cell-wide", "could not be loaded"));
      return;
    }
    if (row.n === this.marked) element.className += " row-found";
    if (marksIn(this.matches, row.at, row.end).length) element.className += " row-hit";
    Object.assign(element.dataset, { at: row.at, end: row.end });
    const gutter = make("a", "gutter", grouped(row.n));
    gutter.href = `?byte=${row.at}&to=${row.end}`;
    Object.assign(gutter.dataset, { from: row.at, to: row.end });
    gutter.tabIndex = -1;
    gutter.title = "Show the line in the text";
    const parts = [gutter];
    if (row.cells) parts.push(...row.cells.map((value, at) => this.cell(value, at)));
    else if (row.goes_on) parts.push(make("span", "cell cell-wide cell-note", "↳ belongs to the row above"));
    else {
      const odd = cell(row.odd);
      odd.classList.add("cell-wide", "cell-odd");
      odd.title = "another number of columns than the header";
      parts.push(odd);
    }
    element.replaceChildren(...parts);
  }

  cell(value, at) {
    const one = cell(value);
    one.setAttribute("role", "cell");
    one.classList.toggle("cell-right", this.right?.[at] ?? false);
    const text = textOf(value.t);
    if (text.length + 3 > WIDEST) one.title = text;
    return one;
  }

  rendered() {
    const { scroller, total } = this;
    const last = Math.min(total.lines, Math.floor(scroller.top + scroller.visible) + this.above);
    if (this.box.offsetParent !== null) this.told.rendered(Math.min(last, Math.floor(scroller.top) + 1 + this.above), last);
  }

  failed(error) {
    this.head.replaceChildren(make("p", "is-wrong", error.message));
  }
}
