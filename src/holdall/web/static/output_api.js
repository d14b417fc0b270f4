// Questions to the server. An answer is JSON; a refusal becomes an error with the words of whoever refused.

import { answerTo, hasEnded, OVER } from "./answers.js";

export class Refused extends Error {}

async function reached(address, options) {
  try {
    return await answerTo(address, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused(hasEnded() ? OVER : "The viewer does not answer. If it was ended, start it again: holdall view");
  }
}

export class Api {
  constructor(base) {
    this.base = base;
  }

  address(what, values = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(values)) {
      if (value !== undefined && value !== null && value !== false) query.set(name, value === true ? "1" : String(value));
    }
    return `${this.base}/${what}?${query}`;
  }

  async ask(what, values = {}, signal = undefined) {
    const answer = await reached(this.address(what, values), { signal });
    let told;
    try {
      told = await answer.json();
    } catch {
      throw new Refused(`The viewer answered ${answer.status} and no more. Is it still running?`);
    }
    if (!answer.ok) throw new Refused(told.error || `The viewer answered ${answer.status}.`);
    return told;
  }

  // As text, and whether that is all of them: what is not UTF-8 has no text.
  async bytes(from, to) {
    const answer = await reached(`${this.base}/raw`, { headers: { Range: `bytes=${from}-${to - 1}` } });
    if (!answer.ok) throw new Refused(`The viewer answered ${answer.status}.`);
    const data = await answer.arrayBuffer();
    try {
      return { words: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data), isExact: true };
    } catch {
      return { words: new TextDecoder("utf-8", { ignoreBOM: true }).decode(data), isExact: false };
    }
  }
}

const NUMBER = new Intl.NumberFormat("en-US");

export const grouped = (number) => NUMBER.format(number);

export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000;
    unit += 1;
  }
  return unit === 0 ? `${NUMBER.format(bytes)} B` : `${bytes.toFixed(1)} ${units[unit]}`;
}

export const plural = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;

export function make(tag, classes = "", text = undefined) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text !== undefined) element.textContent = text;
  return element;
}
