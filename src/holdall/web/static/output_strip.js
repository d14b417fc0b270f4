// The strip beside the bar: what the model has seen of the whole, where matches are, and what is in sight now.

const SVG = "http://www.w3.org/2000/svg";

function rect(parent, y, height, classes, x = 0, width = 10) {
  const one = document.createElementNS(SVG, "rect");
  one.setAttribute("x", String(x));
  one.setAttribute("width", String(width));
  one.setAttribute("y", String(y));
  one.setAttribute("height", String(height));
  one.setAttribute("class", classes);
  parent.append(one);
  return one;
}

export class Strip {
  constructor(svg, jump) {
    this.svg = svg;
    this.steps = 400;
    svg.setAttribute("viewBox", `0 0 10 ${this.steps}`);
    this.seen = svg.appendChild(document.createElementNS(SVG, "g"));
    this.ticks = svg.appendChild(document.createElementNS(SVG, "g"));
    this.sight = rect(svg, 0, 0, "sight");
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      jump((event.clientY - box.top) / box.height);
    });
  }

  show(seen) {
    this.seen.replaceChildren();
    for (const [from, steps, level] of seen.searched) rect(this.seen, from, steps, `searched level-${level}`, 4, 3);
    for (const [from, steps, level] of seen.shown) rect(this.seen, from, steps, `shown level-${level}`, 0, 4);
    const share = seen.share >= 1 ? "all" : `${(seen.share * 100).toFixed(seen.share < 0.1 ? 2 : 1)} %`;
    this.svg.setAttribute("aria-label", `The model has seen ${share} of this output`);
  }

  // `spread`: the steps in which a match begins, of that share of the whole that was searched.
  showMatches(spread, share) {
    this.ticks.replaceChildren(); // a tick is higher than a step, so that a single one is seen
    for (const step of spread) rect(this.ticks, step * share - 0.25, 1.5, "tick", 7, 3);
  }

  showSight(from, to) {
    this.sight.setAttribute("y", String(from * this.steps));
    this.sight.setAttribute("height", String(Math.max(2, (to - from) * this.steps)));
  }
}
