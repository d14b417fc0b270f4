// The keys of this page, beside those that every page has. Whatever has keys of its own keeps them.

const isTyping = (where) =>
  where.isContentEditable || (/^(INPUT|TEXTAREA|SELECT)$/.test(where.tagName) && !/^(radio|checkbox)$/.test(where.type));
const EVERYWHERE = /^(g|G|f|w|Page.*)$/; // also where a button or a link has the focus

export function listenToKeys({ page, text, table, search, goToJump, stopFollowing, toggleFollowing, toggleWrap, toggleSide }) {
  const inTable = () => page.dataset.view === "table" && table.scroller;
  const scroller = () => inTable() || text.scroller;
  const up = (rows) => {
    stopFollowing();
    scroller().moveBy(-rows);
  };
  const start = () => {
    stopFollowing();
    scroller().goTo(0);
  };
  const down = (rows) => scroller().moveBy(rows);
  const end = () => scroller().goTo(Infinity);
  const sheet = () => Math.max(1, scroller().visible - 2);
  const always = { n: () => search.step(1), N: () => search.step(-1), ":": goToJump, s: toggleSide };
  const inRows = {
    Enter: (event) => search.step(event.shiftKey ? -1 : 1), // as in the field, which it came from
    ArrowDown: () => down(1),
    ArrowUp: () => up(1),
    PageDown: () => down(sheet()),
    PageUp: () => up(sheet()),
    " ": (event) => (event.shiftKey ? up(sheet()) : down(sheet())),
    Home: start,
    g: start,
    End: end,
    G: end,
  };
  const inText = { ...inRows, f: toggleFollowing, w: toggleWrap };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.matches("[data-search]")) {
      if (page.dataset.view === "text") text.box.focus();
      else event.target.blur();
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const here = page.dataset.view === "text" ? inText : inTable() ? inRows : {};
    const isTaken = event.target.closest("[role=tablist], button, a, summary, input, [data-own-keys]") && !EVERYWHERE.test(event.key);
    const keys = Object.hasOwn(always, event.key) ? always : isTaken ? {} : here;
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key](event);
  });
}
