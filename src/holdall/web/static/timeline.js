// A session that runs: what was opened stays open when the page gets what is new, and what is said of it is the newest; what
// takes time is counted on, in the list of sessions too, where ages are.
"use strict";
(() => {
  const duration = (seconds) => {
    if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
    const minutes = Math.floor(Math.round(seconds) / 60);
    if (minutes < 60) return `${minutes} min ${String(Math.round(seconds) % 60).padStart(2, "0")} s`;
    return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  };
  const AGES = [[60, 1, "s"], [3600, 60, "m"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
  const age = (seconds) => {
    const [, divisor, unit] = AGES.find(([limit]) => seconds < limit);
    return `${Math.floor(seconds / divisor)}${unit} ago`;
  };
  const since = (at) => Math.max(0, Date.now() / 1000 - Number(at));
  setInterval(() => {
    if (document.querySelector(".viewer-ended")) return;
    for (const one of document.querySelectorAll("[data-since]")) one.textContent = duration(since(one.dataset.since));
    for (const one of document.querySelectorAll("[data-age]")) one.textContent = age(since(one.dataset.age));
  }, 1000);

  const runs = (head) => head.querySelector(".is-running") !== null;

  // What is read stays where it is, whatever is added above it.
  let read = null;
  const isSeen = (one) => one.getBoundingClientRect().bottom > 0 && one.getBoundingClientRect().top < innerHeight;
  const hold = () => {
    const all = scrollY ? Array.from(document.querySelectorAll("#live details.op-open")).filter(isSeen) : [];
    const one = all.find((row) => row.contains(document.activeElement)) ?? all.find((row) => row.open) ?? all[0];
    read = one ? { id: one.id, top: one.getBoundingClientRect().top } : null;
  };
  const stay = () => {
    const one = read && document.getElementById(read.id);
    if (one) scrollBy(0, one.getBoundingClientRect().top - read.top);
  };
  for (const name of ["htmx:afterSwap", "htmx:afterSettle"]) document.body.addEventListener(name, (event) => event.detail.target.id === "live" && stay());

  // htmx keeps each row that can be opened as it is: its head is replaced here, and what it opens to if it has ended since.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "live" || event.detail.xhr.status !== 200) return;
    hold();
    const fresh = new DOMParser().parseFromString(event.detail.serverResponse, "text/html");
    for (const row of fresh.querySelectorAll("details.op-open")) {
      const kept = document.getElementById(row.id);
      if (!kept) continue;
      const [head, newHead] = [kept, row].map((one) => one.querySelector("summary"));
      const hasEnded = runs(head) && !runs(newHead);
      head.replaceChildren(...newHead.childNodes);
      const body = kept.querySelector(".op-body");
      if (hasEnded && !body.querySelector(".is-waiting")) htmx.ajax("GET", body.getAttribute("hx-get"), { target: body, swap: "innerHTML" });
    }
  });
})();
