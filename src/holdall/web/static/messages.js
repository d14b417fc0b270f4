// A message that is opened shows the first of the words that were searched for, however long it is.
"use strict";
document.body.addEventListener("htmx:afterSwap", (event) => {
  event.detail.target.querySelector(".said mark")?.scrollIntoView({ block: "nearest" });
});

// The address may name one of them: it is opened, as is the only one. htmx listens from when the document is there.
addEventListener("load", () => {
  const anchor = location.hash.slice(1);
  const rows = Array.from(document.querySelectorAll("[data-said]"));
  const row = anchor && rows.find((one) => one.dataset.said === anchor);
  if (rows.length === 1) rows[0].open = true;
  if (!row) return;
  row.open = true;
  row.querySelector("summary").focus();
  row.scrollIntoView({ block: "start" });
});
