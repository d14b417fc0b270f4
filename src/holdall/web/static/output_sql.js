// SQL, or a path, over the output: what it answers as a table, a page at a time; what it refuses in its own words.

import { grouped, make, plural } from "./output_api.js";
import { fill } from "./output_runs.js";
import { cell } from "./output_table.js";

const PAGE = 100;
const MOST_CELLS = 10_000;
const SHORT = 30; // characters that are not broken: a date, a name with hyphens
const NUMBERS = /^(?:U?(?:TINY|SMALL|BIG|HUGE)?INT|U?INTEGER|DOUBLE|FLOAT|REAL|DECIMAL)/;
const PLAIN = /^[a-z_][a-z0-9_]*$/;
const RESERVED = new Set(
  (
    "all and any as asc between both case cast check column create default desc distinct do else end except exists false " +
    "for from group having in intersect into is join lateral left like limit not null offset on only or order outer " +
    "pivot primary qualify references right select some summarize table then to true union unique unpivot using values " +
    "when where window with"
  ).split(" "),
);

const ALL = "select * from t";
const STOPPED = "stopped"; // by who asked, and not because something else is asked

const lasted = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

export class Sql {
  // `parts`: form, result, columns (the list), at (its label), tables (what it may be), csv (a link), hasTree.
  // `told`: land, jump (to what is in the text), asked (what is, and whether something was before).
  constructor(parts, api, told) {
    Object.assign(this, parts, told, { api });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.form.elements.sql.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.run();
      }
    });
    this.form.elements.sql.addEventListener("focus", () => (this.hadCursor = true));
    this.form.addEventListener("input", () => this.offerCsv());
    this.form.elements.at.addEventListener("change", () => this.describe(this.form.elements.at.value));
    this.columns.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-name]");
      if (button) this.insert(button.dataset.name);
    });
  }

  // The tables and columns that there are, then the first rows, or what is asked for: all by a column, or a query.
  open(asked = null) {
    const { sql, at } = this.form.elements;
    if (asked) sql.value = asked.sql ?? ALL;
    if (asked) this.hadCursor = false;
    if (asked?.at) at.value = asked.at;
    if (asked) [this.last, this.hasCsv] = [null, false];
    this.opening ??= this.describe(asked?.at || undefined);
    const { skip, ...rest } = asked ?? {};
    if (asked) this.opening = this.opening.then(() => this.ask({ down: false, ...rest, sql: sql.value, at: at.value || null }, skip));
    else this.opening.then(() => !this.running && this.run());
  }

  async describe(at = undefined) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    let told;
    try {
      told = await this.api.ask("columns", { at });
    } catch (error) {
      told = { at: at ?? "", tables: [], columns: [], of_columns: 0, problem: error.message };
    }
    if (turn !== this.turn) return;
    if (at === undefined) this.form.elements.at.value = told.at;
    this.at.hidden = !told.tables.length && !told.at && !this.hasTree;
    this.tables.replaceChildren(...told.tables.map((name) => Object.assign(make("option"), { value: name })));
    const items = told.columns.map((column) => this.column(column));
    const left = told.of_columns - told.columns.length;
    if (left > 0) items.push(make("li", "note", `… ${grouped(left)} more: describe t`));
    if (told.problem) items.push(make("li", "is-wrong", told.problem));
    this.columns.replaceChildren(...items);
    // Only then its line numbers are those of the text.
    this.isLines = !told.at && told.columns.map(({ plain }) => plain).join() === "line_no,text";
  }

  column({ name, plain, type }) {
    const button = make("button");
    button.type = "button";
    button.dataset.name = plain;
    button.title = "Put it into the SQL";
    const label = make("span", "column-name");
    fill(label, name);
    button.append(label, make("span", "column-type", type));
    const item = make("li");
    item.append(button);
    return item;
  }

  // Where the cursor is; after the name that was put there before, as the next of a list. A field that never had the cursor
  // says 0: then in place of the star of what nobody changed, or at the end.
  insert(name) {
    const field = this.form.elements.sql;
    const written = PLAIN.test(name) && !RESERVED.has(name) ? name : `"${name.replaceAll('"', '""')}"`;
    const [star, end] = [ALL.indexOf("*"), field.value.length];
    if (this.hadCursor) {
      const isNext = this.put?.value === field.value && this.put.end === field.selectionStart;
      field.setRangeText(isNext ? `, ${written}` : written, field.selectionStart, field.selectionEnd, "end");
    } else if (field.value === ALL) field.setRangeText(written, star, star + 1, "end");
    else field.setRangeText(/(^|[\s(])$/.test(field.value) ? written : ` ${written}`, end, end, "end");
    this.put = { value: field.value, end: field.selectionStart };
    field.focus();
    this.offerCsv();
  }

  run() {
    const { sql, at } = this.form.elements;
    return this.ask({ sql: sql.value, at: at.value || null, sort: null, down: false }, 0);
  }

  // Only while the fields say what the rows below are the answer to.
  offerCsv() {
    const { sql, at } = this.form.elements;
    this.csv.hidden = !this.hasCsv || sql.value !== this.last.sql || (at.value || null) !== this.last.at;
  }

  async ask(asked, skip) {
    this.running?.abort();
    const running = (this.running = new AbortController());
    this.result.setAttribute("aria-busy", "true");
    this.result.querySelector(".is-asking")?.remove();
    const hasOld = this.result.childElementCount > 0; // the answer to another question
    this.result.classList.toggle("is-old", hasOld);
    const started = performance.now();
    const stopClock = this.tellRunning(running, started, hasOld);
    this.hasCsv = false;
    this.offerCsv();
    const isNext = Boolean(this.last);
    this.last = { ...asked, skip: skip || null };
    this.asked(this.last, isNext); // also where it is refused or stopped: it can be shared, and mended
    let shown;
    try {
      const answer = await this.api.ask("query", { ...asked, skip: skip || null }, running.signal);
      shown = this.table(answer, asked, performance.now() - started);
      this.hasCsv = answer.sortable && answer.columns.length > 0;
      this.csv.href = this.api.address("csv", asked);
      this.offerCsv();
    } catch (error) {
      const isStopped = running.signal.reason === STOPPED;
      if (running.signal.aborted && !isStopped) return;
      shown = [isStopped ? make("p", "note", `Stopped after ${lasted(performance.now() - started)}.`) : make("p", "is-wrong", error.message)];
      if (!isStopped) shown[0].setAttribute("role", "alert");
    } finally {
      stopClock();
    }
    this.result.replaceChildren(...shown);
    this.result.classList.remove("is-old");
    this.result.removeAttribute("aria-busy");
  }

  // What takes longer says for how long it has run, and can be stopped: the server ends what nobody waits for.
  tellRunning(running, started, hasOld) {
    const told = make("p", "note is-asking", hasOld ? "asking … What stands below is the former answer." : "asking …");
    const time = make("span", "asking-time");
    time.setAttribute("aria-hidden", "true"); // nobody wants to hear every second
    const stop = make("button", "", "Stop");
    stop.type = "button";
    stop.addEventListener("click", () => {
      running.abort(STOPPED);
      this.form.querySelector("[type=submit]").focus();
    });
    this.result.prepend(told);
    const clock = setInterval(() => {
      time.textContent = lasted(performance.now() - started);
      if (!stop.isConnected) told.append(time, stop);
    }, 1000);
    return () => clearInterval(clock);
  }

  table(answer, asked, took) {
    const told = [this.pager(answer, asked, took), ...answer.notes.map((note) => make("p", "note", note))];
    if (!answer.columns.length) return told;
    // A browser takes seconds for ten thousand cells, and is frozen meanwhile.
    const number = answer.columns.length;
    const most = Math.max(20, Math.floor(MOST_CELLS / Math.max(1, answer.rows.length)));
    if (number > most) {
      told.push(make("p", "note", `The first ${grouped(most)} of ${grouped(number)} columns are shown: name others in the SQL. The CSV has all.`));
    }
    const table = make("table", "answer");
    const isRight = answer.types.map((type) => NUMBERS.test(type));
    const head = table.createTHead().insertRow();
    head.append(Object.assign(make("th", "answer-number", "#"), { scope: "col", title: "Its place in the answer, before it is sorted" }));
    answer.columns.slice(0, most).forEach((name, at) => head.append(this.header(name, at, answer, asked, isRight[at])));
    const lines = this.isLines ? answer.columns.findIndex((name) => name.length === 1 && name[0] === "line_no") : -1;
    const body = table.createTBody();
    answer.rows.forEach((row, number) => {
      const line = body.insertRow();
      line.append(make("td", "answer-number", grouped(answer.numbers[number])));
      row.slice(0, most).forEach((value, at) => {
        const one = line.insertCell();
        if (isRight[at]) one.className = "cell-right";
        const shown = cell(value);
        if (shown.textContent.length <= SHORT) shown.classList.add("cell-short");
        one.append(shown);
        if (at === lines && value.k === "number") this.link(one, `?line=${value.t[0]}`, () => this.jump(`L${value.t[0]}`));
      });
      const place = answer.places?.[number];
      if (place) this.link(line.cells[2], `?byte=${place[0]}&to=${place[1]}`, () => this.land(place[0], place[1]));
    });
    const frame = make("div", "answer-frame");
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Rows of the answer");
    frame.append(table);
    return [...told, frame];
  }

  pager(answer, asked, took) {
    const next = answer.skip + answer.shown;
    const isAll = answer.shown === answer.total || !answer.shown;
    const count = isAll ? plural(answer.total, "row") : `rows ${grouped(answer.skip + 1)}–${grouped(next)} of ${grouped(answer.total)}`;
    const bar = make("div", "answer-pager");
    bar.append(make("p", "note", `${count} in ${lasted(took)}`));
    const step = (label, skip, isOn) => {
      const button = make("button", "", label);
      button.type = "button";
      button.disabled = !isOn;
      button.addEventListener("click", () => this.ask(asked, skip));
      bar.append(button);
    };
    if (answer.skip || answer.more) {
      step("Previous", Math.max(0, answer.skip - PAGE), answer.skip > 0);
      step("Next", next, answer.more);
    }
    return bar;
  }

  // A click sorts up, the next one down, the third as it came.
  header(name, at, { types, sortable }, asked, isRight) {
    const one = make("th", isRight ? "cell-right" : "");
    one.scope = "col";
    const label = make(sortable ? "button" : "span", "answer-sort");
    const text = make("span");
    fill(text, name);
    label.append(text);
    label.title = types[at];
    one.append(label);
    if (!sortable) return one;
    label.type = "button";
    const isThis = asked.sort === at + 1;
    if (isThis) {
      one.setAttribute("aria-sort", asked.down ? "descending" : "ascending");
      label.append(make("span", "answer-way", asked.down ? " ↓" : " ↑"));
    }
    const next = isThis && asked.down ? { sort: null, down: false } : { sort: at + 1, down: isThis };
    label.addEventListener("click", () => this.ask({ ...asked, ...next }, 0));
    return one;
  }

  link(where, address, go) {
    const link = make("a", "", where.textContent);
    link.href = address;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      go();
    });
    where.replaceChildren(link);
  }
}
