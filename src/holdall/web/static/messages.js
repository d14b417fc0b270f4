// A message that is opened shows the first of the words that were searched for, however long it is.
"use strict";
document.body.addEventListener("htmx:afterSwap", (event) => {
  event.detail.target.querySelector(".said mark")?.scrollIntoView({ block: "nearest" });
});

// The address may name one of them: it is opened. htmx listens from when the document is there.
addEventListener("load", () => {
  const anchor = location.hash.slice(1);
  const row = anchor && Array.from(document.querySelectorAll("[data-said]")).find((one) => one.dataset.said === anchor);
  if (!row) return;
  row.open = true;
  row.querySelector("summary").focus();
  row.scrollIntoView({ block: "start" });
});
