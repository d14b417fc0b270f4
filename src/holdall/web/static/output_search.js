// Searching the whole output: a list of matches that grows on demand, and a way from one to the next. Of what is still being
// written it says how much was searched, and a step searches again when there is more.

import { grouped, make, plural, size } from "./output_api.js";
import { fill } from "./output_runs.js";

const BEFORE = 1000; // bytes before what is in sight in which a match may begin
const PAUSE = 200; // ms: what flies by is not searched
const MOST_PAGES = 10;

export class Search {
  // `parts`: form, field, status, error, list, more. `land(match)` goes to a match.
  constructor(parts, api, { land, matches, opened, cleared }) {
    Object.assign(this, parts);
    this.api = api;
    this.land = land;
    this.told = matches;
    Object.assign(this, { opened, cleared });
    this.clear();
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.isAsked && this.matches.length) this.step(event.submitter?.dataset.step === "-1" ? -1 : 1);
      else this.start();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") event.preventDefault(); // a browser empties the field, and what is listed would have no name
      if (event.key !== "Enter" || !event.shiftKey) return;
      event.preventDefault();
      if (this.isAsked) this.step(-1);
      else this.start();
    });
    this.form.addEventListener("change", (event) => {
      if (event.target.type === "checkbox" && this.field.value) this.start();
    });
    this.field.addEventListener("input", () => {
      if (this.field.value) return;
      this.clear();
      this.cleared();
    });
    this.list.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-match]");
      if (button) this.go(Number(button.dataset.match));
    });
    this.more.addEventListener("click", () => this.load());
  }

  question() {
    const values = new FormData(this.form);
    return JSON.stringify([this.field.value, values.has("case"), values.has("pattern")]);
  }

  // What stands in the field was searched for: nobody is typing something else.
  get isAsked() {
    return this.asked === this.question();
  }

  // What loading an address with it searches for again.
  get address() {
    if (!this.asked) return {};
    const [q, matchCase, pattern] = JSON.parse(this.asked);
    return { q, case: matchCase ? 1 : null, pattern: pattern ? 1 : null };
  }

  clear() {
    this.running?.abort();
    this.asked = null;
    this.matches = [];
    this.current = -1;
    this.total = 0;
    this.searched = 0; // bytes
    this.spread = []; // where in them matches are, of all: the list has the first only
    this.isRunning = false;
    this.next = null;
    this.forgetSight();
    this.list.replaceChildren();
    this.more.hidden = true;
    this.status.textContent = "";
    this.error.hidden = true;
    this.told(this);
  }

  // Goes to the first match, or to the one at a byte; false where that is not among the first.
  async start(at = null) {
    this.clear();
    if (!this.field.value) return false;
    this.asked = this.question();
    this.next = 0;
    this.status.textContent = "searching …";
    if (!(await this.load())) return false;
    this.opened();
    const index = at === null ? 0 : this.matches.findIndex((match) => match.at === at);
    if (!this.matches[index]) return false;
    await this.go(index);
    return true;
  }

  // The next page of matches; false where it was refused or something else was asked meanwhile.
  load() {
    return (this.loading = this.next === null ? Promise.resolve(false) : this.loadFrom(this.next));
  }

  async loadFrom(start) {
    const found = await this.page(start);
    if (!found) return false;
    this.take(found, found.matches);
    return true;
  }

  // These bytes are in sight: what matches there behind the end of the list is marked too.
  sees(from, to) {
    const { next, beyond } = this;
    if (!this.asked || next === null || to <= next || (beyond.from <= Math.max(from, next) && to <= beyond.to)) return;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.lookAt(Math.max(from - BEFORE, next), to), PAUSE);
  }

  async lookAt(from, to) {
    const matches = [];
    let end = from;
    for (let pages = 0; pages < MOST_PAGES && end !== null && end < to; pages += 1) {
      const found = await this.page(end, "looking");
      if (!found) return;
      matches.push(...found.matches);
      end = found.next;
    }
    this.beyond = { from, to: Math.max(to, end ?? Infinity), matches };
    this.told(this);
  }

  forgetSight() {
    this.looking?.abort();
    clearTimeout(this.soon);
    this.beyond = { from: 0, to: 0, matches: [] };
  }

  // All that are known, in order.
  get marked() {
    const last = this.matches.at(-1)?.at ?? -1;
    return [...this.matches, ...this.beyond.matches.filter((match) => match.at > last)];
  }

  // What the server answers from a byte on; null as above.
  async page(start, name = "running") {
    this[name]?.abort();
    const running = (this[name] = new AbortController());
    const [q, matchCase, pattern] = JSON.parse(this.asked);
    try {
      const found = await this.api.ask("search", { q, case: matchCase, pattern, start }, running.signal);
      return running.signal.aborted ? null : found;
    } catch (error) {
      if (running.signal.aborted) return null;
      this.status.textContent = "";
      this.error.textContent = error.message;
      this.error.hidden = false;
      return null;
    }
  }

  take(found, matches) {
    this.forgetSight();
    this.total = found.total;
    this.notes = found.notes;
    this.damage = found.damage;
    this.searched = found.bytes;
    this.spread = found.spread;
    this.isRunning = found.is_running;
    this.unit = found.unit === "lines" ? "line" : "match";
    this.next = found.next;
    this.more.hidden = this.next === null;
    for (const match of matches) this.add(match);
    this.tell();
    this.told(this);
  }

  // The same question to what is there now; the match that was gone to stays the one.
  async renew() {
    const fresh = [];
    let found = { next: 0 };
    while (found.next !== null && (!fresh.length || fresh.length < this.matches.length)) {
      found = await this.page(found.next);
      if (!found) return;
      fresh.push(...found.matches);
    }
    const at = this.matches[this.current]?.at;
    this.matches = [];
    this.list.replaceChildren();
    this.current = fresh.findIndex((match) => match.at === at);
    this.take(found, fresh);
    this.list.querySelector(`button[data-match="${this.current}"]`)?.setAttribute("aria-current", "true");
  }

  // It has so many bytes now, and is over if it is.
  async grown(bytes, hasEnded) {
    this.known = bytes;
    if (!hasEnded || !this.asked) return;
    await this.loading;
    if (this.isRunning) await this.renew();
  }

  add(match) {
    const item = make("li");
    const button = make("button", "match");
    button.type = "button";
    button.dataset.match = String(this.matches.length);
    const [before, within, after] = match.t;
    const where = make("span", "match-where", `line ${grouped(match.line)} · byte ${grouped(match.at)}`);
    const text = make("span", "match-text");
    const left = make("span");
    const hit = make("mark", "hit");
    const right = make("span");
    fill(left, before);
    fill(hit, within);
    fill(right, after);
    if (match.cut) text.append(make("span", "match-cut", "…"));
    text.append(left, hit, right);
    button.append(where, text);
    item.append(button);
    this.list.append(item);
    this.matches.push(match);
  }

  async step(by) {
    if (!this.matches.length) {
      if (this.field.value) await this.start();
      return;
    }
    if (this.isRunning && this.known > this.searched) await this.renew();
    let wanted = this.current + by;
    if (wanted >= this.matches.length && this.next !== null) await this.load();
    if (wanted >= this.matches.length) wanted = 0;
    if (wanted < 0 && this.next !== null) wanted = 0; // the last one is not known yet
    else if (wanted < 0) wanted = this.matches.length - 1;
    await this.go(wanted);
  }

  async go(index) {
    this.list.querySelector("[aria-current]")?.removeAttribute("aria-current");
    this.current = index;
    const button = this.list.querySelector(`button[data-match="${index}"]`);
    button?.setAttribute("aria-current", "true");
    button?.scrollIntoView({ block: "nearest" });
    this.tell();
    await this.land(this.matches[index]);
  }

  tell() {
    // What is packed, or in another encoding, was not searched; of what is damaged the matches are not all.
    this.error.textContent = this.total ? this.damage : (this.notes || []).join(" · ");
    this.error.hidden = !this.error.textContent;
    const all = this.current < 0 ? plural(this.total, this.unit) : `${grouped(this.current + 1)} of ${grouped(this.total)}`;
    this.status.textContent = `${this.total ? all : "nothing found"}${this.isRunning ? ` in the first ${size(this.searched)}` : ""}`;
  }
}
