// JSON as a tree. A level is asked for when it is opened, a page of it at a time.

import { grouped, make, size } from "./output_api.js";
import { fill } from "./output_runs.js";

const WORDS = { object: "{…}", array: "[…]" };

export class Tree {
  constructor(root, api, land) {
    this.root = root;
    this.api = api;
    this.land = land;
    root.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("click", (event) => this.clicked(event));
  }

  async open() {
    if (this.opened) return;
    this.opened = true;
    await this.level(this.root, {}, "$");
    const first = this.root.querySelector("[role=treeitem]");
    if (first) first.tabIndex = 0;
    if (first && this.root.children.length === 1) await this.toggle(first, true);
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
    for (const child of answer.children) list.append(this.item(child, single ? "$" : step(path, child)));
    if (answer.next) list.append(this.button(list, { ...values, after: answer.next[0], index: answer.next[1] }, path, `more, from ${grouped(answer.next[1])} on`));
    if (answer.fault) list.append(make("li", "tree-note is-wrong", answer.fault));
    if (answer.out_of_time) {
      const told = "This is large: not all of it could be stepped over in time.";
      list.append(make("li", "tree-note", told), this.button(list, { ...values, patient: true }, path, "take more time", true));
    }
    if (!answer.children.length && !answer.fault) list.append(make("li", "tree-note", "empty"));
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
    const told = length === null ? "size unknown" : size(length);
    if (isOpenable || length === null || length > 160) line.append(make("span", "tree-size", told));
    const link = make("a", "tree-bytes", "bytes");
    link.href = `?byte=${child.at}${child.end === null ? "" : `&to=${child.end}`}`;
    link.title = `${path}: byte ${grouped(child.at)}`;
    link.tabIndex = -1;
    line.append(link);
    item.append(line);
    return item;
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
      this.choose(item);
      this.toggle(item);
    }
  }

  choose(item) {
    this.root.querySelector("[role=treeitem][tabindex='0']")?.setAttribute("tabindex", "-1");
    item.tabIndex = 0;
    item.focus();
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
  return /^[A-Za-z_]\w*$/.test(child.plain) ? `${path}.${child.plain}` : `${path}[${JSON.stringify(child.plain)}]`;
}
