// A message that is opened shows the first of the words that were searched for, however long it is.
"use strict";
document.body.addEventListener("htmx:afterSwap", (event) => {
  event.detail.target.querySelector(".said mark")?.scrollIntoView({ block: "nearest" });
});
