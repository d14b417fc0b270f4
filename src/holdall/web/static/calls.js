// The address has what was asked of the list of calls: it can be shared, and loading it again shows the same.
"use strict";
(() => {
  const form = document.querySelector(".calls-search");
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.requestConfig.elt !== form) return;
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value && value !== "newest"));
    history.replaceState(null, "", `${form.getAttribute("action")}${asked.size ? `?${asked}` : ""}`);
  });
})();
