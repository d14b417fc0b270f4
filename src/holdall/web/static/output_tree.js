// JSON as a tree. A level is asked for when it is opened, a page of it at a time.

import { grouped, make, plural, size } from "./output_api.js";
import { fill } from "./output_runs.js";
import { marksIn } from "./output_text.js";

const WORDS = { object: "{…}", array: "[…]" };
const PARTS = { object: "member", array: "element" };
const MAIN = 0.5; // of its parent's bytes: a child with so many is what somebody came for
const MAIN_LEVELS = 4;
const LATE = "This is large: the tree could not be opened there in time. It is marked in the text.";
const NOWHERE = "The tree does not reach this place. It is marked in the text.";

// How far a look for a place is.
export const lookingWords = (share) => `looking …${share ? ` ${Math.floor(100 * share)} %` : ""}`;

export class Tree {
  // `parts`: root, form (the path), status, copy.
  // `told`: land (show bytes in the text), revealed, failed.
  constructor(parts, api, told) {
    Object.assign(this, parts, told);
    this.api = api;
    this.children = new WeakMap(); // what the server told of each item
    this.matches = []; // of a search
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("click", (event) => this.clicked(event));
    this.root.addEventListener("focusin", (event) => this.tellPath(event.target.closest("[role=treeitem]")));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.goTo(this.form.elements.path.value);
    });
    this.copy.addEventListener("click", () => this.copyPath());
  }

  open() {
    this.opening ??= this.begin();
    return this.opening;
  }

  async begin() {
    await this.level(this.root, {}, "$");
    let item = this.root.querySelector("[role=treeitem]");
    if (!item) return;
    item.tabIndex = 0;
    this.tellPath(item);
    if (this.root.querySelectorAll(":scope > [role=treeitem]").length > 1) return;
    for (let levels = 0; item && levels < MAIN_LEVELS; levels += 1) {
      await this.toggle(item, true);
      item = this.mainOf(item);
    }
  }

  // The array, or the object that holds it, which most of an object is; also one that could not be stepped over in time.
  mainOf(item) {
    if (item.dataset.kind !== "object") return null;
    const bytes = (one) => Number(one.dataset.end ?? Infinity) - Number(one.dataset.at);
    return [...item.querySelectorAll(":scope > ul > [aria-expanded]")].find((one) => bytes(one) > MAIN * bytes(item)) ?? null;
  }

  async level(list, values, path) {
    const waits = make("li", "tree-note", "reading …");
    list.append(waits);
    let answer;
    try {
      answer = await this.api.ask("tree", values);
    } catch (error) {
      waits.textContent = error.message;
      waits.classList.add("is-wrong");
      return;
    }
    waits.remove();
    const isRoot = values.at === undefined;
    const single = isRoot && answer.children.length === 1 && !answer.next && values.after === undefined;
    // A page may stand behind a gap, and be met again when the gap is filled.
    const known = new Set([...list.children].map((one) => one.dataset.index));
    const first = answer.children[0]?.i ?? 0;
    const before = [...list.children].find((one) => Number(one.dataset.index) >= first) ?? null;
    const put = (one, index) => {
      if (known.has(String(index))) return;
      one.dataset.index = index;
      list.insertBefore(one, before);
      if (this.matches.length && this.children.has(one)) this.show(one);
    };
    for (const child of answer.children) if (!known.has(String(child.i))) put(this.item(child, single ? "$" : step(path, child)), child.i);
    if (answer.next) {
      const more = answer.children.at(-1).i + 1;
      put(this.button(list, { ...values, after: answer.next[0], index: answer.next[1] }, path, `more, from ${grouped(more)} on`), more);
    }
    // What breaks a value breaks those that it is in: it is said once.
    const isTold = [...this.root.querySelectorAll(".tree-note")].some((one) => one.textContent === answer.fault);
    if (answer.fault && !isTold) list.append(make("li", "tree-note is-wrong", answer.fault));
    if (answer.out_of_time) {
      const told = "This is large: not all of it could be stepped over in time.";
      list.append(make("li", "tree-note", told), this.button(list, { ...values, patient: true }, path, "take more time", true));
    }
    if (!answer.children.length && !answer.fault) list.append(make("li", "tree-note", "empty"));
    this.count(list).catch(() => {}); // it is there without
  }

  // Of what is large the values are counted when it is there, one after the other, until that takes too long.
  async count(list) {
    for (const item of list.querySelectorAll(":scope > [aria-expanded][data-end]")) {
      const child = this.children.get(item);
      if (child.count !== null) continue;
      const { count } = await this.api.ask("count", { at: child.at, end: child.end });
      if (count === null) return;
      child.count = count;
      this.tellSize(item, child);
    }
  }

  button(list, values, path, words, again = false) {
    const item = make("li", "tree-more");
    const button = make("button", "", words);
    button.type = "button";
    button.addEventListener("click", async () => {
      if (again) list.replaceChildren();
      else item.remove();
      await this.level(list, values, path);
    });
    item.append(button);
    return item;
  }

  item(child, path) {
    const item = make("li");
    item.setAttribute("role", "treeitem");
    item.tabIndex = -1;
    const isOpenable = child.kind === "object" || child.kind === "array";
    if (isOpenable) item.setAttribute("aria-expanded", "false");
    Object.assign(item.dataset, { at: child.at, path, kind: child.kind });
    if (child.end !== null) item.dataset.end = child.end;
    const line = make("div", "tree-line");
    line.append(make("span", "tree-arrow", isOpenable ? "▸" : ""));
    const name = make("span", child.name === null ? "tree-index" : "tree-name");
    if (child.name === null) name.textContent = path === "$" ? "$" : String(child.i);
    else fill(name, child.name);
    line.append(name);
    const length = child.end === null ? null : child.end - child.at;
    if (isOpenable) line.append(make("span", "tree-kind", WORDS[child.kind]));
    const text = make("span", `tree-value tree-${child.kind}`);
    fill(text, child.t);
    line.append(text);
    if (isOpenable || length === null || length > 160) line.append(make("span", "tree-size"));
    const link = make("a", "tree-bytes", "bytes");
    link.href = `?byte=${child.at}${child.end === null ? "" : `&to=${child.end}`}`;
    link.title = `byte ${grouped(child.at)}`;
    link.tabIndex = -1;
    line.append(link);
    item.append(line);
    this.children.set(item, child);
    this.tellSize(item, child);
    return item;
  }

  tellSize(item, { kind, count, at, end }) {
    const told = [end === null ? "size unknown" : size(end - at)];
    if (count !== null) told.unshift(plural(count, PARTS[kind]));
    const where = item.querySelector(".tree-size");
    if (where) where.textContent = told.join(" · ");
  }

  async toggle(item, open = item.getAttribute("aria-expanded") !== "true") {
    if (!item.hasAttribute("aria-expanded") || (item.getAttribute("aria-expanded") === "true") === open) return;
    item.setAttribute("aria-expanded", String(open));
    item.querySelector(".tree-arrow").textContent = open ? "▾" : "▸";
    let list = item.querySelector(":scope > ul");
    if (list) {
      list.hidden = !open;
      return;
    }
    list = make("ul");
    list.setAttribute("role", "group");
    item.append(list);
    await this.level(list, { at: item.dataset.at }, item.dataset.path);
  }

  clicked(event) {
    const link = event.target.closest("a.tree-bytes");
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    if (link) {
      event.preventDefault();
      this.land(Number(item.dataset.at), item.dataset.end ? Number(item.dataset.end) : undefined);
    } else if (event.target.closest(".tree-line")?.parentElement === item) {
      this.stopLooking();
      this.choose(item);
      this.toggle(item);
    }
  }

  choose(item, { focus = true, block = "nearest" } = {}) {
    this.root.querySelector("[role=treeitem][tabindex='0']")?.setAttribute("tabindex", "-1");
    item.tabIndex = 0;
    if (focus) item.focus({ preventScroll: true });
    this.tellPath(item);
    item.querySelector(".tree-line").scrollIntoView({ block });
  }

  // Open the tree down to these bytes, and mark them there; `looking` is told how far it is. Gives why that cannot be done,
  // "" where it is done, null where somebody went on meanwhile.
  async reveal(from, to, { focus = true, looking }) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const isOver = () => turn !== this.turn;
    looking(0);
    await this.open();
    const way = isOver() ? [] : await this.wayTo(from, isOver, looking);
    if (isOver()) return null;
    if (!way) return LATE;
    let list = this.root;
    let item = null;
    for (const { at, after } of way) {
      if (isOver()) return null;
      if (item) await this.toggle(item, true);
      list = item ? item.querySelector(":scope > ul") : this.root;
      const find = () => list.querySelector(`:scope > [data-at="${at}"]`);
      if (!find()) {
        const values = { ...(item && { at: item.dataset.at }), after: after[0], index: after[1] };
        await this.level(list, values, item ? item.dataset.path : "$");
      }
      item = find();
      if (!item) return LATE;
    }
    if (isOver()) return null;
    if (!item) return NOWHERE;
    this.mark(item, from, to);
    this.choose(item, { focus, block: "center" });
    return "";
  }

  // However large it is: each question ends soon, and the next one goes on from there. Null where one got no further.
  async wayTo(byte, isOver, looking) {
    const way = [];
    let begin = {};
    let patient = false;
    for (let last = ""; ; ) {
      const { way: steps, next } = await this.api.ask("way", { byte, ...begin, patient });
      way.push(...steps);
      if (!next || isOver()) return way;
      const now = JSON.stringify(next);
      if (now === last && patient) return null; // a single value takes that long
      patient = now === last;
      last = now;
      begin = next;
      looking(Math.min(1, next.after / byte));
    }
  }

  mark(item, from, to) {
    const before = this.marked;
    this.marked = item;
    this.landed = { from, to, kind: "current" };
    if (before?.isConnected) this.show(before);
    this.show(item);
  }

  setMatches(matches) {
    if (!matches.length && !this.matches.length) return;
    this.matches = matches;
    for (const item of this.root.querySelectorAll("[role=treeitem]")) this.show(item);
  }

  show(item) {
    const child = this.children.get(item);
    const line = item.querySelector(".tree-line");
    const mark = item === this.marked ? this.landed : null;
    const isNamed = mark !== null && mark.from < child.at;
    const hasHit = child.name !== null && marksIn(this.matches, this.nameFrom(item, child), child.at).length > 0;
    line.querySelector(".tree-name")?.classList.toggle("tree-hit", isNamed || hasHit);
    line.classList.toggle("tree-found", mark !== null);
    fill(line.querySelector(".tree-value"), child.t, child.at, marksIn(this.matches, child.at, child.end ?? Infinity, isNamed ? null : mark));
  }

  // The name of a member stands before its value, and behind the member before: that may not be there yet.
  nameFrom(item, child) {
    if (!child.i) return Number(item.parentElement.closest("[role=treeitem]").dataset.at);
    const before = this.children.get(item.previousElementSibling);
    return before?.i === child.i - 1 ? (before.end ?? child.at) : child.at;
  }

  // The bytes of the value whose path is told.
  chosen() {
    const { at, end } = this.root.querySelector("[role=treeitem][tabindex='0']")?.dataset ?? {};
    if (!end) throw new Error("where this value ends is not known.");
    return { from: Number(at), to: Number(end) };
  }

  tellPath(item) {
    if (!item) return;
    if (this.form.elements.path.value !== item.dataset.path) this.tell(""); // it was about another path
    this.form.elements.path.value = item.dataset.path;
  }

  tell(words, isWrong = false) {
    this.status.textContent = words;
    this.status.classList.toggle("is-wrong", isWrong);
  }

  stopLooking() {
    this.looking?.abort();
    this.turn = (this.turn ?? 0) + 1;
  }

  // A path with a filter may take seconds, and nothing says how far it is.
  tellTime() {
    const time = make("span");
    time.setAttribute("aria-hidden", "true"); // nobody wants to hear every second
    this.status.append(time);
    const started = performance.now();
    return setInterval(() => (time.textContent = ` ${Math.round((performance.now() - started) / 1000)} s`), 1000);
  }

  async goTo(path) {
    const asked = path.trim();
    if (!asked) return;
    this.stopLooking(); // only the newest question counts
    const { signal } = (this.looking = new AbortController());
    this.tell("looking …");
    this.wrong = asked; // until it is found
    const clock = this.tellTime();
    try {
      const found = await this.api.ask("query", { sql: /^[$/]/.test(asked) ? asked : `$.${asked}` }, signal).finally(() => clearInterval(clock));
      if (!found.total) {
        this.tell(found.notes.join(" ") || "Nothing is there.", true);
        return;
      }
      this.wrong = null;
      const [from, to] = found.places[0];
      const why = await this.reveal(from, to, { focus: false, looking: (share) => this.tell(lookingWords(share)) });
      if (signal.aborted) return;
      if (why === "") await this.revealed(from, to, signal);
      else if (why) {
        await this.land(from, to);
        this.failed(why);
      }
      this.tell(found.total > 1 ? `The first of ${plural(found.total, "value")}; SQL lists them all.` : "");
    } catch (error) {
      if (!signal.aborted) this.tell(error.message, true);
    }
  }

  async copyPath() {
    const path = this.form.elements.path.value;
    if (path.trim() === this.wrong) {
      this.tell("Nothing is at that path, so it was not copied.", true);
      return;
    }
    try {
      await navigator.clipboard.writeText(path);
      this.tell("Copied.");
    } catch (error) {
      this.tell(`It could not be copied: ${error.message}`, true);
    }
  }

  key(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.target !== item || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = [...this.root.querySelectorAll("[role=treeitem]")].filter((one) => one.offsetParent !== null);
    const at = all.indexOf(item);
    const isOpen = item.getAttribute("aria-expanded") === "true";
    const ways = {
      ArrowDown: () => all[at + 1] && this.choose(all[at + 1]),
      ArrowUp: () => all[at - 1] && this.choose(all[at - 1]),
      ArrowRight: () => (isOpen ? all[at + 1] && this.choose(all[at + 1]) : this.toggle(item, true)),
      ArrowLeft: () => {
        const parent = item.parentElement.closest("[role=treeitem]");
        if (isOpen) this.toggle(item, false);
        else if (parent) this.choose(parent);
      },
      Home: () => this.choose(all[0]),
      End: () => this.choose(all.at(-1)),
      Enter: () => this.land(Number(item.dataset.at), item.dataset.end ? Number(item.dataset.end) : undefined),
      " ": () => this.toggle(item),
    };
    if (!Object.hasOwn(ways, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    ways[event.key]();
  }
}

function step(path, child) {
  if (child.name === null) return `${path}[${child.i}]`;
  return /^[A-Za-z_]\w*$/.test(child.plain) ? `${path}.${child.plain}` : `${path}[${quoted(child.plain)}]`;
}

// Nothing that could hide or reorder what a person reads: in a path every character may be written as an escape.
function quoted(name) {
  return JSON.stringify(name).replace(/[^\p{L}\p{N}\p{P}\p{S} ]|[\u115f\u1160\u3164\uffa0]/gu, (char) =>
    [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}
