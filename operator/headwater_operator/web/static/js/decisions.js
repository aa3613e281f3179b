// The log of what was decided, done and found, the newest first.

import { byId, el } from "./dom.js";
import { clock, shortWorker } from "./format.js";

const SHOWN = 200;
let page;
let choose;
let words = "";

/** Listen for what is searched. */
export function start(chooseTask) {
  choose = chooseTask;
  byId("decisions-search").addEventListener("input", (event) => {
    words = event.target.value.toLowerCase();
    draw();
  });
}

/** Show all anew. */
export function whole(now) {
  page = now;
  draw();
}

/** Put new ones on top. */
export function add(events) {
  const log = byId("log");
  log.querySelector(".empty")?.remove();
  const isAtTop = log.scrollTop < 8;
  for (const event of events) if (matches(event)) log.prepend(entry(event));
  while (log.children.length > SHOWN) log.lastElementChild.remove();
  if (isAtTop) log.scrollTop = 0;
}

function draw() {
  const found = page.events.filter(matches).slice(-SHOWN).reverse();
  byId("log").replaceChildren(...found.map(entry));
  if (!found.length) byId("log").append(el("li", { class: "empty" }, words ? "Nothing matches." : "Nothing has been decided yet."));
}

function matches(event) {
  if (!words) return true;
  return [event.kind, event.text, event.worker, ...(event.granted || []), ...(event.revoked || [])].join(" ").toLowerCase().includes(words);
}

function entry(event) {
  const worker = event.worker ? shortWorker(event.worker, page.document.app.name) : "";
  const moved = [
    ...(event.granted || []).map((task) => chip(task, "plus", "+")),
    ...(event.revoked || []).map((task) => chip(task, "minus", "−")),
  ];
  return el(
    "li",
    {},
    el("time", { datetime: new Date(event.at).toISOString() }, clock(event.at)),
    el(
      "div",
      { class: "said" },
      el("span", { class: `kind ${event.kind.toLowerCase()}` }, worker ? `${event.kind} · ${worker}` : event.kind),
      event.text,
      moved.length ? el("div", { class: "moved" }, ...moved.slice(0, 24), moved.length > 24 ? `and ${moved.length - 24} more` : null) : null,
    ),
  );
}

function chip(task, kind, sign) {
  const what = kind === "plus" ? "granted" : "revoked";
  return el("button", { type: "button", class: `chip ${kind}`, "aria-label": `task ${task} ${what}`, onclick: () => choose(task) }, `${sign}${task}`);
}
