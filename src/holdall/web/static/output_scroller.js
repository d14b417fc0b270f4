// Scrolling through any number of rows of one height. Only the rows in sight are in the document, and only they are
// asked for. Browsers end an element's height at some tens of millions of pixels: a longer list is scaled in its
// middle, while short ways (a wheel, a finger, a key) still move by the pixel.
//
// Wrapped rows have heights of their own, known for those in the document. The bar then shows the share of the rows that
// is above; short ways move by the pixel here too, and the bar follows when they end.

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
    this.isWrapped = false;
    this.heights = new Map(); // of wrapped rows in the document
    this.mean = rowHeight;
    this.kept = null; // the row that somebody landed on: it stays in sight until they scroll
    this.layer = make("div", "rows-layer");
    this.spacer = make("div", "rows-spacer");
    box.replaceChildren(this.spacer, this.layer);
    box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(box);
  }

  // Rows that are in sight.
  get visible() {
    return Math.max(1, this.below(this.top, this.box.clientHeight) - this.top);
  }

  get lastTop() {
    if (!this.isWrapped) return Math.max(0, this.total - this.visible);
    let room = this.box.clientHeight;
    for (let at = this.total - 1; at >= 0; at -= 1) {
      const height = this.heights.get(at);
      if (height === undefined) return this.total - 1; // what is there is not known yet
      if (height >= room) return at + 1 - room / height;
      room -= height;
    }
    return 0;
  }

  heightOf(index) {
    return this.isWrapped ? (this.heights.get(index) ?? this.mean) : this.rowHeight;
  }

  // The row, with its fraction, that is so many pixels below `top`, or above it.
  below(top, pixels) {
    if (!this.isWrapped) return top + pixels / this.rowHeight;
    let at = Math.floor(top);
    let left = pixels + (top - at) * this.heightOf(at);
    while (left < 0 && at > 0) left += this.heightOf((at -= 1));
    while (at < this.total - 1 && left >= this.heightOf(at)) left -= this.heightOf(at++);
    return Math.min(this.total, at + left / this.heightOf(at));
  }

  wrap(on) {
    if (this.isWrapped === on) return;
    this.isWrapped = on;
    this.mean = this.rowHeight;
    this.heights.clear();
    this.stretch();
    this.moveTo(this.top);
  }

  get mostScroll() {
    return Math.max(0, this.height - this.box.clientHeight);
  }

  get isScaled() {
    return this.isWrapped || this.total * this.rowHeight > MOST_PIXELS;
  }

  get height() {
    return Math.min(this.total * this.mean, MOST_PIXELS);
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
    this.stretch();
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
    this.wasAtEnd = top >= this.lastTop && this.lastTop > 0;
    this.top = Math.max(0, Math.min(top, this.lastTop));
    this.sync();
    this.render();
  }

  // Somebody scrolls: what they landed on need not stay in sight.
  goTo(top) {
    this.kept = null;
    this.moveTo(top);
  }

  moveBy(rows) {
    this.goTo(this.top + rows);
  }

  center(index) {
    this.kept = index;
    if (index < this.top || index >= this.top + this.visible - 1) this.moveTo(this.centered(index));
    else this.render();
  }

  centered(index) {
    return this.below(index, (this.heightOf(index) - this.box.clientHeight) / 2);
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
    if (this.isWrapped) return this.lastTop ? (top / this.lastTop) * this.mostScroll : 0;
    const zone = ZONE / this.rowHeight;
    if (top <= zone) return top * this.rowHeight;
    if (top >= this.lastTop - zone) return this.mostScroll - (this.lastTop - top) * this.rowHeight;
    return ZONE + ((top - zone) / (this.lastTop - 2 * zone)) * (this.mostScroll - 2 * ZONE);
  }

  toTop(scroll) {
    if (!this.isScaled) return scroll / this.rowHeight;
    if (this.isWrapped) return this.mostScroll ? (scroll / this.mostScroll) * this.lastTop : 0;
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
    const top = this.isScaled && isShort ? this.below(this.top, way) : this.toTop(now);
    this.top = Math.max(0, Math.min(top, this.lastTop));
    this.wasAtEnd = top >= this.lastTop;
    this.render();
    this.source.moved?.(way);
    if (this.isScaled) {
      clearTimeout(this.idle);
      this.idle = setTimeout(() => this.moveTo(this.top), 150);
    }
  }

  resized() {
    if (!this.box.clientHeight) return;
    this.heights.clear();
    this.top = Math.min(this.wasAtEnd ? this.lastTop : this.top, this.lastTop);
    this.sync();
    if (this.kept === null) this.render();
    else this.center(this.kept);
  }

  render() {
    if (!this.box.clientHeight) return;
    // As wrapped rows get their heights, what somebody landed on stays in sight, and the end at the edge.
    let [first, end] = this.place();
    for (let again = 0; this.isWrapped && again < 3 && this.measure(first, end); again += 1) {
      const isKept = this.kept !== null && (this.kept < this.top || this.kept + 1 > this.top + this.visible);
      const top = Math.max(0, Math.min(this.wasAtEnd ? Infinity : isKept ? this.centered(this.kept) : this.top, this.lastTop));
      if (top === this.top) break;
      this.top = top;
      [first, end] = this.place();
    }
    let above = (this.top - Math.floor(this.top)) * this.heightOf(Math.floor(this.top));
    for (let index = first; index < Math.floor(this.top); index += 1) above += this.heightOf(index);
    this.layer.style.transform = `translateY(${Math.round(this.box.scrollTop - above)}px)`;
    this.need(first, end);
    this.wasAtEnd = this.total > 0 && this.isAtEnd && this.lastTop > 0;
    this.source.rendered?.();
  }

  // Put the rows in sight, and some beyond, into the document; from which to which they are.
  place() {
    const most = this.box.clientHeight / this.rowHeight;
    const first = Math.max(0, Math.floor(this.top) - OVER - (this.isWrapped ? Math.ceil(most) : 0));
    const end = Math.min(this.total, Math.ceil(this.top + most) + OVER);
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
        this.heights.delete(index);
        this.source.draw(row.element, data, index);
      } else if (data === undefined && !row.drawn) {
        row.element.classList.add("row-blank");
      }
    }
    return [first, end];
  }

  // The heights of rows that have none yet; whether there were any.
  measure(first, end) {
    let isNew = false;
    for (let index = first; index < end; index += 1) {
      const row = this.rows.get(index);
      if (this.heights.has(index) || !row.drawn) continue;
      this.heights.set(index, Math.max(1, row.element.offsetHeight));
      isNew = true;
    }
    if (!isNew) return false;
    const known = [...this.heights.values()];
    this.mean = known.reduce((sum, one) => sum + one, 0) / known.length;
    this.stretch();
    return true;
  }

  // As high as the list now seems to be. Where that is less than before, the browser moves the bar: nobody scrolled.
  stretch() {
    const before = this.box.scrollTop;
    this.spacer.style.height = `${this.height}px`;
    this.last += this.box.scrollTop - before;
  }

  remove(index, row) {
    row.element.remove();
    this.rows.delete(index);
    this.heights.delete(index);
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
