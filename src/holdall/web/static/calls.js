// The address has what was asked of the list of calls: it can be shared, and loading it again shows the same. Each search
// that somebody has finished is a step of it, not each letter. The list
// follows what is called; where somebody is in the midst of it, it is not replaced, and says that there is more.

import { answerTo, hasEnded } from "./answers.js";

(() => {
  const REST = 2000; // ms
  const NAMES = ["q", "verdict", "sort"];
  const form = document.querySelector(".calls-search");
  if (!form) return; // a session of an agent has a timeline
  const address = form.getAttribute("action");
  const asked = (of = new FormData(form)) => new URLSearchParams([...of].filter(([, value]) => value && value !== "newest"));
  let here = location.pathname + location.search;
  let isTyping = false; // the step of this search is there
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.requestConfig.elt !== form) return;
    const query = new URLSearchParams(location.search); // of a session it has the page of its outputs too
    for (const name of NAMES) query.delete(name);
    // What this is the answer to: something else may stand in the form by now.
    for (const [name, value] of asked(new URL(event.detail.pathInfo.finalRequestPath, location.href).searchParams)) query.append(name, value);
    const next = location.pathname + (query.size ? `?${query}` : "");
    const isTyped = event.detail.requestConfig.triggeringEvent?.type === "input";
    if (next !== here) history[isTyped && isTyping ? "replaceState" : "pushState"](null, "", next);
    isTyping = isTyped;
    here = location.pathname + location.search;
  });
  addEventListener("popstate", () => {
    if (location.pathname + location.search !== here) location.reload(); // back to another order, or to the session
  });

  const shown = () => document.getElementById("calls-found");
  const rows = (list) => list.querySelectorAll("tbody tr:not(.calls-more)").length;
  const replace = (list, fresh) => {
    list.replaceWith(fresh);
    htmx.process(fresh);
  };

  function follow(list, fresh) {
    const isRead = list.contains(document.activeElement) || list.querySelector("details[open]") || rows(list) > rows(fresh) || list.contains(document.getSelection().focusNode);
    if (!isRead) {
      replace(list, fresh);
    } else if (fresh.dataset.stamp !== list.dataset.stamp && !list.querySelector(".calls-newer")) {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "calls-newer", textContent: "There are newer calls" });
      button.addEventListener("click", () => look(true));
      list.prepend(button);
    }
  }

  async function look(isWanted = false) {
    const list = shown();
    if (document.visibilityState !== "visible" || list?.dataset.stamp === undefined) return;
    const query = asked();
    const before = String(query);
    if (!isWanted && list.dataset.runs === undefined) query.set("v", list.dataset.stamp);
    const answer = await answerTo(`${address}?${query}`, { headers: { "HX-Request": "true" } });
    if (answer.status !== 200) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("calls-found");
    if (!fresh || shown() !== list || String(asked()) !== before) return; // something else was asked meanwhile
    if (isWanted) replace(list, fresh);
    else follow(list, fresh);
  }

  const again = () => hasEnded() || setTimeout(() => look().catch(() => {}).finally(again), REST);
  again();
})();
