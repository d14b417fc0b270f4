// SQL, or a path, over the output: what it answers as a table, what it refuses in its own words.

import { grouped, make, plural } from "./output_api.js";
import { fill } from "./output_runs.js";
import { cell } from "./output_table.js";

export class Sql {
  constructor({ form, result }, api, land) {
    Object.assign(this, { form, result, api, land });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    form.elements.sql.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.run();
      }
    });
  }

  async run() {
    this.running?.abort();
    const running = (this.running = new AbortController());
    this.result.replaceChildren(make("p", "note", "asking …"));
    this.result.setAttribute("aria-busy", "true");
    const started = performance.now();
    let shown;
    try {
      const values = { sql: this.form.elements.sql.value, at: this.form.elements.at?.value || null };
      const answer = await this.api.ask("query", values, running.signal);
      shown = this.table(answer, performance.now() - started);
    } catch (error) {
      if (running.signal.aborted) return;
      shown = [make("p", "is-wrong", error.message)];
      shown[0].setAttribute("role", "alert");
    }
    this.result.replaceChildren(...shown);
    this.result.removeAttribute("aria-busy");
  }

  table(answer, took) {
    const seconds = took < 1000 ? `${Math.round(took)} ms` : `${(took / 1000).toFixed(1)} s`;
    const count = answer.shown === answer.total ? plural(answer.total, "row") : `${grouped(answer.shown)} of ${plural(answer.total, "row")}`;
    const told = [make("p", "note", `${count} in ${seconds}`)];
    for (const note of answer.notes) told.push(make("p", "note", note));
    if (!answer.columns.length) return told;
    const table = make("table", "answer");
    const head = table.createTHead().insertRow();
    answer.columns.forEach((name, at) => {
      const one = make("th");
      one.scope = "col";
      fill(one, name);
      one.title = answer.types[at];
      head.append(one);
    });
    const body = table.createTBody();
    answer.rows.forEach((row, number) => {
      const line = body.insertRow();
      for (const value of row) line.insertCell().append(cell(value));
      const place = answer.places?.[number];
      if (place) this.link(line.cells[1], place);
    });
    const frame = make("div", "answer-frame");
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "Rows of the answer");
    frame.append(table);
    return [...told, frame];
  }

  link(where, [from, to]) {
    const link = make("a", "", where.textContent);
    link.href = `?byte=${from}&to=${to}`;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      this.land(from, to);
    });
    where.replaceChildren(link);
  }
}
