// What a page believes: answers with the mark of the viewer that it came from, and no others. A tab outlives its viewer,
// and then anybody on this machine may answer at that port. The mark is never sent, so nobody there learns it.

const NAME = "holdall-viewer";
const MARK = document.querySelector(`meta[name="${NAME}"]`).content;
const MOST_FAILURES = 5; // in a row; a viewer that is gone does not come back at this address
const PAUSE = 200; // ms
const LINK = 'a[href]:not([href^="#"])';
const LEAVES = { click: LINK, auxclick: LINK, submit: 'form:not([method="dialog"])' };
let failures = 0;
let isOver = false;

export const OVER = "This viewer has ended, or another program answers in its place. What is here stays as it was. Start it again: holdall view";
export const hasEnded = () => isOver;

function end() {
  if (isOver) return;
  isOver = true;
  const told = Object.assign(document.createElement("p"), { className: "viewer-ended", textContent: OVER });
  told.setAttribute("role", "alert");
  document.getElementById("main").prepend(told);
  // Whatever stands at this address now, it is not the viewer.
  for (const [name, leaving] of Object.entries(LEAVES)) addEventListener(name, (event) => event.target.closest(leaving) && event.preventDefault(), true);
}

function failed() {
  failures += 1;
  if (failures >= MOST_FAILURES) end();
}

function isOurs(mark) {
  failures = 0;
  if (mark !== MARK) end();
  return mark === MARK;
}

// Like fetch, for an address of the viewer. An answer that is not its own is an error.
export async function answerTo(address, options = {}) {
  if (isOver) throw new Error(OVER);
  let answer;
  try {
    answer = await fetch(address, { ...options, credentials: "same-origin" });
  } catch (error) {
    if (!options.signal?.aborted) failed();
    throw error;
  }
  if (!isOurs(answer.headers.get(NAME))) throw new Error(OVER);
  return answer;
}

// htmx looks at no header of its own before this, whatever became of the element that asked.
document.addEventListener("htmx:beforeRequest", (event) => {
  const { xhr } = event.detail;
  if (isOver) event.preventDefault();
  const loaded = xhr.onload;
  xhr.onload = () => isOurs(xhr.getResponseHeader(NAME)) && loaded();
  xhr.addEventListener("error", failed);
});

const isThere = () => answerTo(document.querySelector('link[rel="icon"]').href, { method: "HEAD" });

// A page on which nothing runs asks nothing: it looks when somebody comes back to it.
let isLooking = false;
async function look() {
  if (isLooking || document.visibilityState !== "visible") return;
  isLooking = true;
  for (let left = MOST_FAILURES; left && !isOver; left -= 1) {
    try {
      await isThere();
      break;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }
  isLooking = false;
}
document.addEventListener("visibilitychange", look);
addEventListener("focus", look); // of the window: another one was in front of it

// A download goes past the page, so the viewer is asked first whether it is there.
let sure = null;
document.addEventListener("click", async (event) => {
  const link = event.target.closest('a[download], a[data-part="sql-csv"]');
  if (!link || link === sure) return;
  event.preventDefault();
  try {
    await isThere();
  } catch {
    return; // it is told at the top, or fails the next time too
  }
  sure = link;
  link.click();
  sure = null;
});
