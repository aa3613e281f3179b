// All that is known of the chosen task, beside the table.

import { byId, el } from "./dom.js";
import { bytes, clock, count, shortWorker } from "./format.js";
import { restoredShare, shown, tone } from "./states.js";

let close;
let drawn = "";

/** Remember what closes it. */
export function start(onClose) {
  close = onClose;
}

/** Show a task; nothing if none is chosen. */
export function update(page, id) {
  const place = byId("detail");
  const task = id && page.document ? page.document.tasks[id] : undefined;
  if (!task) {
    place.hidden = true;
    drawn = "";
    return;
  }
  const events = page.events.filter((event) => [...(event.granted || []), ...(event.revoked || [])].includes(id)).slice(-4);
  const now = JSON.stringify([id, task, events.at(-1)?.at]);
  if (now === drawn) return;
  drawn = now;
  place.hidden = false;
  const app = page.document.app.name;
  const share = restoredShare(task);
  const parts = [
    el("header", {}, el("h3", {}, `Task ${id}`), el("span", { class: `pill ${task.worker ? tone(task.state) : "bad"}` }, shown(task.state)), el("span", { class: "spacer" }), el("button", { type: "button", class: "close", "aria-label": "Close", onclick: close }, "✕")),
    el("p", { class: "why" }, task.why ? task.why : task.worker ? "No reason is known for its place." : "Nobody holds it now."),
    share === undefined ? null : el("div", { class: "progress", role: "progressbar", "aria-valuenow": String(Math.round(share * 100)), "aria-label": "Restore" }, bar(share), `${count(task.restored)} of ${count((task.restored || 0) + task.remaining)} changelog records restored`),
    facts([
      ["Sub-topology", id.split("_")[0]],
      ["Partition", id.split("_")[1]],
      ["Worker", task.worker || "nobody"],
      ["StreamThread", task.slot],
      ["Records per second", count(task.rate)],
      ["Lag", count(task.lag)],
      ["State", task.bytes === undefined ? undefined : bytes(task.bytes)],
    ]),
    list("Copies", Object.entries(task.copies || {}).map(([worker, copy]) => [
      `${shortWorker(worker, app)} · ${copy.role === "Warmup" ? "warm-up" : "standby"}`,
      `${copy.caughtUp ? "caught up" : copy.behind === undefined ? "not known how far" : `${count(copy.behind)} records behind`}${copy.why ? `; ${copy.why}` : ""}`,
    ])),
    list("State left on disk", Object.entries(task.stored || {}).map(([worker, offset]) => [shortWorker(worker, app), `up to offset ${count(offset)}`])),
    list("Decisions", events.reverse().map((event) => [clock(event.at), event.text])),
  ];
  place.replaceChildren(...parts.filter((part) => part !== null));
}

function bar(share) {
  const made = el("i", { class: "meter" });
  made.style.setProperty("--done", `${Math.round(share * 100)}%`);
  return made;
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined);
  return el("dl", {}, ...known.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}

function list(title, pairs) {
  if (!pairs.length) return null;
  return el("div", { class: "more" }, el("h4", {}, title), ...pairs.map(([name, value]) => el("p", {}, el("b", {}, name), ` ${value}`)));
}
