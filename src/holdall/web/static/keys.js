// The keyboard, on every page. Pages say what is what by attributes: data-search is the field that "/" goes to, or a link to where there is one,
// data-row marks what "j" and "k" step through, data-up is the link that "u" follows.
"use strict";
(() => {
  const dialog = document.getElementById("keys");
  const rows = () => Array.from(document.querySelectorAll("[data-row]")).filter((one) => one.offsetParent !== null || one.getClientRects().length);
  const isTyping = (where) =>
    where.isContentEditable || (/^(INPUT|TEXTAREA|SELECT)$/.test(where.tagName) && !/^(radio|checkbox)$/.test(where.type));
  const step = (by) => {
    const all = rows();
    if (!all.length) return false;
    const at = all.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
    all[next].focus();
    all[next].scrollIntoView({ block: "nearest" });
    return true;
  };
  const actions = {
    "/": () => { const field = document.querySelector("[data-search]"); if (field?.href) field.click(); else if (field) { field.focus(); field.select(); } return Boolean(field); },
    "?": () => { dialog.showModal(); return true; },
    j: () => step(1),
    k: () => step(-1),
    u: () => { const up = document.querySelector("[data-up]"); if (up) up.click(); return Boolean(up); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target)) { if (event.key === "Escape") event.target.blur(); return; }
    if (dialog.open) return;
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (action && action()) event.preventDefault();
  });
  document.querySelector(".keys-button").addEventListener("click", () => dialog.showModal());
})();
