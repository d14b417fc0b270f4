// Scrolling through any number of rows of one height. Only the rows in sight are in the document, and only they are
// asked for. Browsers end an element's height at some tens of millions of pixels: a longer list is scaled in its
// middle, while short ways (a wheel, a finger, a key) still move by the pixel.

import { make } from "./output_api.js";

const MOST_PIXELS = 8_000_000;
const ZONE = 40_000; // pixels at each end that are never scaled
const OVER = 12; // rows beyond each edge
const PAGE = 100;
const MOST_PAGES = 24;

export class Scroller {
  // `source` has fetch(first, count, signal), draw(element, row, index), and failed(error).
  constructor(box, source, rowHeight = 20) {
    this.box = box;
    this.source = source;
    this.rowHeight = rowHeight;
    this.total = 0;
    this.top = 0; // the row at the upper edge, with its fraction
    this.rows = new Map();
    this.pages = new Map();
    this.loading = new Map();
    this.waiting = [];
    this.last = 0;
    this.kept = null; // the row that somebody landed on: it stays in sight until they scroll
    this.layer = make("div", "rows-layer");
    this.spacer = make("div", "rows-spacer");
    box.replaceChildren(this.spacer, this.layer);
    box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(box);
  }

  get visible() {
    return Math.max(1, this.box.clientHeight / this.rowHeight);
  }

  get lastTop() {
    return Math.max(0, this.total - this.visible);
  }

  get mostScroll() {
    return Math.max(0, this.height - this.box.clientHeight);
  }

  get isScaled() {
    return this.total * this.rowHeight > MOST_PIXELS;
  }

  get height() {
    return Math.min(this.total * this.rowHeight, MOST_PIXELS);
  }

  get isAtEnd() {
    return this.top >= this.lastTop - 1.5;
  }

  setTotal(total) {
    if (total === this.total) return;
    const changed = Math.min(total, this.total);
    this.total = total;
    for (const page of this.pages.keys()) if ((page + 1) * PAGE > changed) this.pages.delete(page);
    for (const [page, one] of this.loading) if ((page + 1) * PAGE > changed) this.abort(page, one);
    for (const [index, row] of this.rows) if (index >= total) this.remove(index, row);
    this.spacer.style.height = `${this.height}px`;
    this.top = Math.min(this.top, this.lastTop);
    this.render();
  }

  // Everything is to be asked for again.
  reset(total, top = 0) {
    for (const [page, one] of this.loading) this.abort(page, one);
    for (const [index, row] of this.rows) this.remove(index, row);
    this.pages.clear();
    this.total = -1;
    this.top = top;
    this.setTotal(total);
    this.moveTo(top);
  }

  moveTo(top) {
    this.top = Math.max(0, Math.min(top, this.lastTop));
    this.sync();
    this.render();
  }

  moveBy(rows) {
    this.kept = null;
    this.moveTo(this.top + rows);
  }

  center(index) {
    this.kept = index;
    if (index < this.top || index >= this.top + this.visible - 1) this.moveTo(index - this.visible / 2 + 0.5);
    else this.render();
  }

  // The element of a row that is in sight, once its content is there.
  async row(index) {
    for (;;) {
      this.render();
      if (!this.rows.has(index)) return null;
      if (this.pages.has(Math.floor(index / PAGE))) return this.rows.get(index).element;
      await new Promise((resolve) => this.waiting.push(resolve));
    }
  }

  data(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  redraw() {
    for (const row of this.rows.values()) row.drawn = undefined;
    this.render();
  }

  // Inside

  toScroll(top) {
    if (!this.isScaled) return top * this.rowHeight;
    const zone = ZONE / this.rowHeight;
    if (top <= zone) return top * this.rowHeight;
    if (top >= this.lastTop - zone) return this.mostScroll - (this.lastTop - top) * this.rowHeight;
    return ZONE + ((top - zone) / (this.lastTop - 2 * zone)) * (this.mostScroll - 2 * ZONE);
  }

  toTop(scroll) {
    if (!this.isScaled) return scroll / this.rowHeight;
    const zone = ZONE / this.rowHeight;
    if (scroll <= ZONE) return scroll / this.rowHeight;
    if (scroll >= this.mostScroll - ZONE) return this.lastTop - (this.mostScroll - scroll) / this.rowHeight;
    return zone + ((scroll - ZONE) / (this.mostScroll - 2 * ZONE)) * (this.lastTop - 2 * zone);
  }

  sync() {
    const wanted = Math.round(this.toScroll(this.top));
    if (Math.abs(this.box.scrollTop - wanted) >= 1) this.box.scrollTop = wanted;
    this.last = this.box.scrollTop;
  }

  scrolled() {
    const now = this.box.scrollTop;
    const way = now - this.last;
    if (way === 0) {
      this.render();
      return;
    }
    this.last = now;
    this.kept = null;
    const isShort = Math.abs(way) < 1.5 * this.box.clientHeight;
    const top = this.isScaled && isShort ? this.top + way / this.rowHeight : this.toTop(now);
    this.top = Math.max(0, Math.min(top, this.lastTop));
    this.render();
    this.source.moved?.(way);
    if (this.isScaled) {
      clearTimeout(this.idle);
      this.idle = setTimeout(() => this.moveTo(this.top), 150);
    }
  }

  resized() {
    if (!this.box.clientHeight) return;
    this.top = Math.min(this.wasAtEnd ? this.lastTop : this.top, this.lastTop);
    this.sync();
    if (this.kept === null) this.render();
    else this.center(this.kept);
  }

  render() {
    if (!this.box.clientHeight) return;
    const first = Math.max(0, Math.floor(this.top) - OVER);
    const end = Math.min(this.total, Math.ceil(this.top + this.visible) + OVER);
    for (const [index, row] of this.rows) if (index < first || index >= end) this.remove(index, row);
    let before = null;
    for (let index = end - 1; index >= first; index -= 1) {
      let row = this.rows.get(index);
      if (!row) {
        row = { element: make("div", "row"), drawn: undefined };
        this.rows.set(index, row);
        this.layer.insertBefore(row.element, before);
      }
      before = row.element;
      const data = this.data(index);
      if (data !== undefined && row.drawn !== data) {
        row.drawn = data;
        row.element.classList.remove("row-blank");
        this.source.draw(row.element, data, index);
      } else if (data === undefined && !row.drawn) {
        row.element.classList.add("row-blank");
      }
    }
    const shift = Math.round(this.box.scrollTop - (this.top - first) * this.rowHeight);
    this.layer.style.transform = `translateY(${shift}px)`;
    this.need(first, end);
    this.wasAtEnd = this.total > 0 && this.isAtEnd && this.lastTop > 0;
    this.source.rendered?.();
  }

  remove(index, row) {
    row.element.remove();
    this.rows.delete(index);
  }

  need(first, end) {
    const from = Math.floor(first / PAGE);
    const to = end > first ? Math.floor((end - 1) / PAGE) : from - 1;
    for (const [page, one] of this.loading) if (page < from || page > to) this.abort(page, one);
    clearTimeout(this.soon);
    const wanted = [];
    for (let page = from; page <= to; page += 1) if (!this.pages.has(page) && !this.loading.has(page)) wanted.push(page);
    if (!wanted.length) return;
    // While somebody drags the bar, what flies by is not asked for.
    const load = () => wanted.forEach((page) => this.load(page));
    if (this.lastLoad === undefined || performance.now() - this.lastLoad > 60) load();
    else this.soon = setTimeout(load, 60);
    this.lastLoad = performance.now();
  }

  abort(page, one) {
    one.abort();
    this.loading.delete(page);
  }

  async load(page) {
    if (this.loading.has(page) || this.pages.has(page)) return;
    const one = new AbortController();
    this.loading.set(page, one);
    let rows;
    try {
      rows = await this.source.fetch(page * PAGE, PAGE, one.signal);
    } catch (error) {
      if (error.name === "AbortError" || one.signal.aborted) return;
      this.source.failed(error);
      rows = new Array(PAGE).fill(null);
    }
    if (one.signal.aborted) return;
    this.loading.delete(page);
    this.pages.set(page, rows);
    for (const old of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      if (old !== page) this.pages.delete(old);
    }
    this.render();
    this.waiting.splice(0).forEach((resolve) => resolve());
  }
}
