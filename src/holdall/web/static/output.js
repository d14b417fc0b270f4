// The page of one output: puts its parts together. Data goes into the document as text, never as markup.

import { Api, grouped, plural, size } from "./output_api.js";
import { Follow } from "./output_follow.js";
import { listenToKeys } from "./output_keys.js";
import { Search } from "./output_search.js";
import { Sql } from "./output_sql.js";
import { Strip } from "./output_strip.js";
import { TableView } from "./output_table.js";
import { TextView } from "./output_text.js";
import { lookingWords, Tree } from "./output_tree.js";

const page = document.getElementById("output");
const one = (name) => page.querySelector(`[data-part="${name}"]`);
const api = new Api(page.dataset.base);
const status = one("status");
const place = one("place");
const followButton = one("follow");
let total = { bytes: Number(page.dataset.bytes), lines: Number(page.dataset.lines), chars: 0 };
let isRunning = page.dataset.state === "running" || page.dataset.state === "queued";
let isFollowing = false;
let hasBegun = false;
const WITH_LEVELS = new Set(["log", "text", "ndjson"]);
const isGone = page.dataset.gone !== undefined; // expired, or removed by hand
let landing = null; // {view, at, end, line, kind}: where somebody landed last

let lost = ""; // why it is not followed any more: rows that cannot be read then have the same reason
const say = (words, isWrong = false) => {
  status.textContent = words;
  status.classList.remove("is-looking");
  status.classList.toggle("is-wrong", isWrong);
};

// Tabs: which panel of the side is shown, and on a narrow page whether it is the output instead; which view of it.

function chooseTab(tab, focus = false) {
  for (const other of tab.parentElement.querySelectorAll("[role=tab]")) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    const panel = document.getElementById(other.getAttribute("aria-controls"));
    if (panel && other.dataset.side !== "output") panel.hidden = !chosen;
  }
  if (focus) tab.focus();
  if (tab.dataset.side) page.dataset.side = tab.dataset.side;
  if (tab.dataset.view) opened(tab.dataset.view);
}

const sideTab = (name) => page.querySelector(`[data-side="${name}"][role=tab]`);
const isPhone = () => getComputedStyle(one("show-search")).display !== "none";
const isNarrow = () => getComputedStyle(sideTab("output")).display !== "none";

for (const list of page.querySelectorAll("[role=tablist]")) {
  const tabs = () => [...list.querySelectorAll("[role=tab]")].filter((tab) => tab.offsetParent !== null);
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (!tab) return;
    chooseTab(tab);
    landHere();
  });
  list.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way || !event.target.matches("[role=tab]")) return;
    const all = tabs();
    chooseTab(all[(all.indexOf(event.target) + way + all.length) % all.length], true);
    landHere();
    event.preventDefault();
    event.stopPropagation();
  });
}

function showText() {
  if (isNarrow()) chooseTab(sideTab("output"));
  const tab = page.querySelector('[data-view="text"]');
  if (tab.getAttribute("aria-selected") !== "true") chooseTab(tab);
}

// The address leads to what is looked at: it can be copied, and loading it again shows the same. Back leads to the view
// before this one, or to the answer of SQL before it: another order, another page.

let isReady = false;
let here = location.pathname + location.search;

function keepAddress(values, isNext = false) {
  if (!hasBegun) return;
  if (values.view !== "sql" && values.view !== "compare") values = { ...values, ...search.address };
  const isOther = isReady && (new URLSearchParams(location.search).get("view") ?? "text") !== (values.view ?? "text");
  const asked = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== false && value !== ""));
  const address = `${location.pathname}${asked.size ? `?${asked}` : ""}`;
  history[isOther || (isNext && address !== here) ? "pushState" : "replaceState"](null, "", address);
  here = location.pathname + location.search;
}

// The place in the address stays, with what is searched for now.
function keepQuestion() {
  const { q, case: matchCase, pattern, ...place } = Object.fromEntries(new URLSearchParams(location.search));
  keepAddress(place);
}

addEventListener("popstate", () => {
  if (location.pathname + location.search !== here) location.reload();
});

function opened(view) {
  place.hidden = view !== "text" && view !== "table";
  page.dataset.view = view;
  if (status.classList.contains("is-wrong")) say(""); // it was about another view
  keepAddress(view === "sql" ? { view, ...sql.last } : view === "compare" ? { view, other } : view !== "text" ? { view } : text.mark ? { byte: text.mark.from, to: text.mark.to } : {});
  if (view === "tree") tree.open();
  else tree?.stopLooking();
  if (view === "table") table.open(total);
  if (view === "sql") sql.open();
  if (view === "text") text.scroller.resized();
}

// The text

const text = new TextView(one("text"), api, {
  rendered: () => {
    tellPlace();
    if (hasBegun) search.sees(text.firstByte(), text.lastByte());
  },
  moved: (way) => {
    if (way < 0 && isFollowing && !text.scroller.isAtEnd) setFollowing(false);
  },
  landed: (line, mark) => {
    const words = `line ${grouped(line)}, byte ${grouped(mark.from)}`;
    say(mark.to - mark.from > 1 ? `${words} to ${grouped(mark.to)}` : words);
    keepAddress({ byte: mark.from, to: mark.to });
    landing = { view: "text", at: mark.from, end: mark.to, line, kind: mark.kind };
  },
  switched: (by) => markWay(by),
  failed: (error) => say(lost || error.message, true),
});

function tellPlace() {
  const { scroller } = text;
  if (!total.bytes) {
    place.textContent = isRunning ? "nothing written yet" : isGone ? "" : "empty";
    return;
  }
  const first = Math.min(scroller.total, Math.floor(scroller.top) + 1);
  const last = Math.min(scroller.total, Math.floor(scroller.top + scroller.visible));
  const lines = text.by === "lines";
  const words = lines
    ? `lines ${grouped(first)}–${grouped(last)} of ${grouped(total.lines)}`
    : `bytes ${grouped((first - 1) * text.row)}–${grouped(Math.min(total.bytes, last * text.row))} of ${grouped(total.bytes)}`;
  if (place.textContent !== words) place.textContent = words;
  strip.showSight(scroller.top / Math.max(1, scroller.total), Math.min(1, (scroller.top + scroller.visible) / Math.max(1, scroller.total)));
}

async function land(from, to, options) {
  setFollowing(false);
  showText();
  try {
    await text.land(from, to, options);
  } catch (error) {
    say(error.message, true);
  }
}

function markWay(by) {
  for (const radio of page.querySelectorAll('input[name="by"]')) radio.checked = radio.value === by;
}

one("ways").addEventListener("change", (event) => {
  text.switchTo(event.target.value).catch((error) => say(error.message, true));
});

// How somebody likes to read stays from one output to the next. On a narrow page long lines are wrapped.

const likes = (what, usual) => {
  try {
    return (localStorage.getItem(`holdall-${what}`) ?? String(usual)) === "true";
  } catch {
    return usual; // the browser keeps nothing
  }
};

function remember(what, on) {
  try {
    localStorage.setItem(`holdall-${what}`, String(on));
  } catch {
    // As above.
  }
}

const wrap = one("wrap");

function setWrap(on) {
  wrap.checked = on;
  text.wrap(on);
}

function toggleWrap() {
  setWrap(!text.wraps);
  remember(isNarrow() ? "wrap-narrow" : "wrap", text.wraps);
}

wrap.addEventListener("change", toggleWrap);

const fold = one("fold");

function setSide(on) {
  fold.setAttribute("aria-expanded", String(on));
  page.toggleAttribute("data-folded", !on);
}

function toggleSide() {
  if (isNarrow()) return;
  setSide(fold.getAttribute("aria-expanded") !== "true");
  remember("side", fold.getAttribute("aria-expanded") === "true");
}

fold.addEventListener("click", toggleSide);

// What a narrow page has no room for until it is asked for.

function setShown(name, on) {
  one(`show-${name}`).setAttribute("aria-expanded", String(on));
  page.toggleAttribute(`data-shows-${name}`, on);
}

for (const name of ["search", "tools"]) {
  one(`show-${name}`).addEventListener("click", () => {
    const on = one(`show-${name}`).getAttribute("aria-expanded") !== "true";
    setShown(name, on);
    if (on && name === "search") one("search-field").focus();
  });
}

document.addEventListener(
  "keydown",
  (event) => {
    if (event.key === "/" && !event.target.matches("input, textarea")) setShown("search", true);
  },
  { capture: true }, // before the field gets the focus
);

const strip = new Strip(one("strip"), (share) => {
  setFollowing(false);
  text.scroller.goTo(share * text.scroller.total - text.scroller.visible / 2);
});

// Jump

const jump = one("jump");
const numberIn = (words) => Number(words.replace(/[,_\s.']/g, ""));

async function jumpTo(words) {
  const asked = words.trim().toLowerCase();
  const inTable = page.dataset.view === "table";
  let found;
  if (!total.bytes) {
    say("There is nothing to jump to.", true);
  } else if (asked === "start" || asked === "end") {
    setFollowing(false);
    if (!inTable) showText();
    (inTable ? table : text).scroller.goTo(asked === "start" ? 0 : Infinity);
  } else if ((found = /^(\d+(?:\.\d+)?)\s*%$/.exec(asked))) {
    const share = Number(found[1]);
    await goTo({ at: Math.floor((Math.min(100, share) / 100) * Math.max(0, total.bytes - 1)) });
    if (share > 100) say(`There is no ${found[1]}%: this is the end.`, true);
  } else if ((found = /^(?:b|bytes?|@)\s*(\d[\d,_']*)(?:\s*(?:-|–|:|to)\s*(\d[\d,_']*))?$/.exec(asked))) {
    const wanted = numberIn(found[1]);
    await goToByte(wanted, found[2] ? numberIn(found[2]) : undefined);
  } else if ((found = /^(?:l|lines?)?\s*(\d[\d,_']*)$/.exec(asked))) {
    setFollowing(false);
    const wanted = numberIn(found[1]);
    const there = Math.max(1, wanted);
    let line;
    if (inTable) {
      const place = await api.ask("place", { line: there });
      line = place.line;
      await goTo({ at: place.byte, line });
    } else {
      showText();
      line = await text.landOnLine(there);
    }
    if (line !== wanted) say(`There is no line ${grouped(wanted)}: this is the ${wanted ? `last, ${grouped(line)}` : "first"}.`, true);
  } else {
    say("Jump to a line (1200 or L1200), a byte (byte 403118, or byte 10 to 20), a share (50%), start or end.", true);
  }
}

async function goToByte(wanted, end) {
  await goTo({ at: wanted, end });
  if (wanted >= total.bytes) say(`There is no byte ${grouped(wanted)}: this is the last, ${grouped(Math.max(0, total.bytes - 1))}.`, true);
  else if (end <= wanted) say(`To byte ${grouped(end)} there is nothing from byte ${grouped(wanted)} on: that one is marked.`, true);
}

jump.addEventListener("submit", (event) => {
  event.preventDefault();
  jumpTo(jump.elements.to.value)
    .then(() => page.dataset.view === "table" && table.box.focus({ preventScroll: true }))
    .catch((error) => say(error.message, true));
});

// Search: a match is shown in the view that somebody looks at, where it can be.

async function goTo(match, options) {
  const { view } = page.dataset;
  let why; // it is not shown in this view: then in the text
  if (view === "tree" || view === "table") {
    if (isNarrow()) chooseTab(sideTab("output"));
    try {
      const line = match.line ?? (await api.ask("place", { byte: match.at })).line;
      landing = { ...match, line, view: "", kind: options?.kind }; // who does not wait finds it in the text
      if (view === "tree") why = await lookInTree(match, options);
      else if (table.showLine(line)) why = "";
      if (view === "table" && why === "" && options?.focus) table.box.focus({ preventScroll: true });
      if (why === "") tellLanding({ ...landing, view });
      if (why === "" || why === null) return;
    } catch (error) {
      say(error.message, true);
      return;
    }
  }
  await land(match.at, match.end, options);
  if (why) say(why, true);
}

async function lookInTree(match, options) {
  let told;
  const looking = (share) => {
    say((told = lookingWords(share)));
    status.classList.add("is-looking"); // a phone has no room for less
  };
  const why = await tree.reveal(match.at, match.end, { ...options, looking });
  if (why === null && status.textContent === told) say("");
  return why;
}

function tellLanding(place) {
  const { view, at, end, line } = place;
  landing = place;
  keepAddress({ view, byte: at, to: end });
  say(`line ${grouped(line)}, byte ${grouped(at)}${end ? ` to ${grouped(end)}` : ""}`);
}

// The text and the table open where somebody has landed in another view since.
function landHere() {
  const { view } = page.dataset;
  if (!landing || landing.view === view) return;
  const { at, end, line, kind } = landing;
  if (view === "text" && text.mark?.from !== at) land(at, end, { focus: false, kind });
  else if (view === "table" && table.marked !== line && table.showLine(line)) tellLanding({ ...landing, view });
}

const search = new Search(
  { form: one("search"), field: one("search-field"), status: one("search-status"), error: one("search-error"), list: one("matches"), more: one("more-matches") },
  api,
  {
    land: (match) => goTo(match, { kind: "current", focus: document.activeElement !== one("search-field") || search.isAsked }),
    matches: (now) => {
      if (!hasBegun) return; // there are none, and not all views
      text.setMatches(now.marked);
      tree?.setMatches(now.matches);
      table?.setMatches(now.matches);
      strip.showMatches(now.spread, now.searched / Math.max(1, total.bytes));
      one("matches-none").hidden = now.matches.length > 0;
    },
    opened: () => {
      if (!isNarrow()) chooseTab(sideTab("matches"));
      keepQuestion();
    },
    cleared: () => keepQuestion(),
  },
);

// JSON, tables, SQL

const tree =
  one("tree") &&
  new Tree({ root: one("tree"), form: one("tree-path"), status: one("path-status"), copy: one("copy-path") }, api, {
    land,
    revealed: async (at, end, signal) => {
      const before = landing;
      const { line } = await api.ask("place", { byte: at }, signal);
      if (landing === before) tellLanding({ view: "tree", at, end, line }); // else somebody went on meanwhile
    },
    failed: (words) => say(words, true),
  });
const table =
  one("table") &&
  new TableView(one("table"), one("table-head"), api, {
    sort: (column) => {
      sql.open({ sort: column });
      chooseTab(page.querySelector('[data-view="sql"]'));
    },
    rendered: (first, last) => (place.textContent = `lines ${grouped(first)}–${grouped(last)} of ${grouped(total.lines)}`),
  });
const sqlParts = { form: one("sql"), result: one("sql-result"), columns: one("sql-columns-list"), at: one("sql-at"), tables: one("sql-tables"), csv: one("sql-csv") };
const sql =
  one("sql") &&
  new Sql({ ...sqlParts, hasTree: tree !== null }, api, {
    land,
    jump: (words) => jumpTo(words).catch((error) => say(error.message, true)),
    asked: (asked, isNext) => page.dataset.view === "sql" && keepAddress({ view: "sql", ...asked }, isNext),
  });
if (sql && isPhone()) one("sql-columns").open = false;

// Comparing: the address has the other one.

let other = new URLSearchParams(location.search).get("other");
document.getElementById("panel-compare")?.addEventListener("change", (event) => {
  other = event.target.value;
  keepAddress({ view: "compare", other }, true);
});

// Following what is written

function setFollowing(on) {
  isFollowing = on && isRunning;
  followButton.setAttribute("aria-pressed", String(isFollowing));
  if (isFollowing) text.scroller.goTo(Infinity);
}

followButton.addEventListener("click", () => setFollowing(!isFollowing));

const follow = new Follow(api, {
  changed: (answer) => {
    total = answer.total;
    text.grow(total);
    table?.grow(total);
    one("size").textContent = size(total.bytes);
    one("lines").textContent = plural(total.lines, "line");
    strip.show(answer.seen);
    strip.showMatches(search.spread, search.searched / Math.max(1, total.bytes));
    search.grown(total.bytes, false);
    if (isFollowing) text.scroller.goTo(Infinity);
    tellPlace();
  },
  ended: (answer) => {
    isRunning = false;
    setFollowing(false);
    followButton.hidden = true;
    const badge = one("state");
    badge.textContent = answer.state;
    badge.dataset.state = answer.state;
    search.grown(total.bytes, true);
    document.body.dispatchEvent(new Event("ended")); // what was told of it while it ran is told again
    say(answer.error ? `It has ended: ${answer.state}, ${answer.error}` : `It has ended: ${answer.state}. Load the page again for its facts.`);
  },
  failed: (error) => {
    setFollowing(false);
    followButton.hidden = true;
    lost = `It is not followed any more: ${error.message}`;
    say(lost, true);
  },
});

// Copy

one("copy").addEventListener("click", async () => {
  const selected = String(document.getSelection());
  try {
    let words = selected;
    let what = "the selection";
    let note = selected && [...page.querySelectorAll(".esc")].some((one) => document.getSelection().containsNode(one, true)) ? " It has the escapes that are shown, not what they stand for." : "";
    if (!selected) {
      const chosen = page.dataset.view === "tree" ? tree.chosen() : null;
      const { from, to: end } = chosen ?? text.mark ?? { from: text.firstByte(), to: text.lastByte() };
      const to = Math.min(end, from + 1_000_000);
      const copied = await api.bytes(from, to);
      words = copied.words;
      if (!copied.isExact) note = " Bytes that are not UTF-8 became \ufffd: the download has them as they are.";
      what = `${chosen ? "the value at this path" : text.mark ? "what is marked" : "what is in sight"}, bytes ${grouped(from)} to ${grouped(to)}`;
    }
    await navigator.clipboard.writeText(words);
    say(`Copied ${what}.${note}`);
  } catch (error) {
    say(`Nothing could be copied: ${error.message}`, true);
  }
});

// Links that land on bytes of this output, wherever they stand on the page

page.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-from]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  land(Number(link.dataset.from), Number(link.dataset.to));
});

listenToKeys({
  page,
  text,
  table,
  search,
  goToJump: () => {
    if (page.dataset.view !== "table") showText();
    else if (isNarrow()) chooseTab(sideTab("output"));
    setShown("tools", true);
    jump.elements.to.select();
  },
  toggleWrap,
  toggleSide,
  stopFollowing: () => setFollowing(false),
  toggleFollowing: () => !followButton.hidden && setFollowing(!isFollowing),
});

// Begin: where the address says, else at the start; a running output at its end.

// What stands beside the rows comes after them; htmx listens from when the document is there.
function besides() {
  const tell = () => document.body.dispatchEvent(new Event("rows"));
  if (document.readyState === "complete") tell();
  else addEventListener("load", tell, { once: true });
}

async function begin() {
  if (isGone) {
    for (const form of [jump, one("search"), one("text-tools")]) form.hidden = true;
    one("copy").hidden = true;
    besides();
    return;
  }
  const asked = new URLSearchParams(location.search);
  if (isNarrow()) chooseTab(sideTab("output"));
  setSide(likes("side", true));
  setWrap(isNarrow() ? likes("wrap-narrow", true) : likes("wrap", false));
  text.hasLevels = WITH_LEVELS.has(page.dataset.kind);
  text.show(page.dataset.by, total);
  markWay(text.by);
  hasBegun = true;
  const view = asked.get("view") && page.querySelector(`[data-view="${CSS.escape(asked.get("view"))}"][role=tab]`);
  if (view && asked.has("sql")) {
    const sort = Number(asked.get("sort")) || null;
    sql?.open({ sql: asked.get("sql"), at: asked.get("at"), sort, down: asked.has("down"), skip: Number(asked.get("skip")) || 0 });
  }
  if (view) chooseTab(view);
  const side = asked.get("side") && sideTab(CSS.escape(asked.get("side")));
  if (side) chooseTab(side);
  let isFound = false;
  if (asked.has("q")) {
    one("search-field").value = asked.get("q");
    for (const name of ["case", "pattern"]) one("search").elements[name].checked = asked.has(name);
    setShown("search", true);
    const isPlace = asked.has("byte") || asked.has("line"); // a line is no match: it is gone to below
    isFound = await search.start(isPlace ? Number(asked.get("byte") ?? -1) : null);
  }
  if (isFound) {
    // It is there, and has the focus.
  } else if (["byte", "to"].some((name) => asked.has(name) && !/^\d+$/.test(asked.get(name)))) {
    say("The address names no byte: ?byte= and &to= are numbers, from 0 on.", true);
  } else if (asked.has("byte")) {
    await goToByte(Number(asked.get("byte")), asked.has("to") ? Number(asked.get("to")) : undefined);
  } else if (asked.has("line") && !/^\d+$/.test(asked.get("line"))) {
    say("The address names no line: that is a number, from 1 on.", true);
  } else if (asked.has("line") && view) {
    const { byte, line } = await api.ask("place", { line: Math.max(1, Number(asked.get("line"))) });
    await goTo({ at: byte, line });
  } else if (asked.has("line")) {
    await jumpTo(`L${asked.get("line")}`);
  } else if (isRunning) {
    setFollowing(true);
  }
  if (asked.get("view") && !view) {
    const views = [...page.querySelectorAll("[data-view][role=tab]")].map((tab) => tab.dataset.view);
    say(`This output has no view “${asked.get("view").slice(0, 40)}”. It has: ${views.join(", ")}.`, true);
  }
  isReady = true;
  followButton.hidden = !isRunning;
  await text.scroller.row(Math.floor(text.scroller.top));
  besides();
  if (isRunning) follow.run(total.bytes);
  strip.show(await api.ask("seen"));
}

begin().catch((error) => {
  say(lost || error.message, true);
  besides();
});
