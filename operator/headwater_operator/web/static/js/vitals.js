// The five numbers on top, each with its last minutes.

import { byId, classes, el, svg, text } from "./dom.js";
import { brief, bytes, count } from "./format.js";
import { driverOf } from "./states.js";

const POINTS = 150;
const parts = {};

function vital(name, label, hasSpark) {
  const value = el("div", { class: "vital-value" });
  const note = el("div", { class: "vital-note" });
  const area = svg("path", { class: "area" });
  const edge = svg("path", { class: "edge" });
  const spark = svg("svg", { class: "spark", viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" }, area, edge);
  const card = el("div", { class: "vital" }, hasSpark ? spark : null, el("div", { class: "vital-label" }, label), value, note);
  parts[name] = { card, value, note, area, edge };
  return card;
}

/** Draw the cards. */
export function start() {
  byId("vitals").append(
    vital("rate", "Records per second", true),
    vital("lag", "Lag, records", true),
    vital("tasks", "Tasks running", false),
    vital("workers", "Workers", false),
    vital("bytes", "State", true),
  );
}

/** Show what there is now. */
export function update(page) {
  const { app } = page.document;
  const driver = driverOf(app);
  text(parts.rate.value, count(Math.round(app.rate)));
  text(parts.rate.note, app.paused || app.guarantee || "");
  if (driver) {
    onSpark(driver);
    return;
  }
  text(parts.lag.value, count(app.lag));
  text(parts.lag.note, app.unread ? `${brief(app.unread)} in partitions that no task reads` : app.lag ? "not processed yet" : "all is processed");
  classes(parts.lag.card, app.lag > 0 ? "vital lagging" : "vital");
  fraction(parts.tasks.value, app.running, app.total);
  text(parts.tasks.note, copiesNote(page.document.tasks, app));
  fraction(parts.workers.value, app.live, app.replicas);
  text(parts.workers.note, app.threads > 1 ? `${app.threads} StreamThreads each` : `assignment ${app.epoch || "–"}`);
  const stores = Object.values(page.document.stores || {});
  const size = stores.length ? stores.reduce((sum, store) => sum + (store.bytes || 0), 0) : app.bytes;
  text(parts.bytes.value, size === undefined ? "–" : bytes(size));
  const keys = stores.reduce((sum, store) => sum + (store.keys || 0), 0);
  text(parts.bytes.note, stores.length ? `about ${brief(keys)} keys, copies counted` : "no stores");
}

/** What is known where Spark's driver has the tasks: no lag, and no sizes of stores. */
function onSpark(driver) {
  const tasks = driver.tasks || 0;
  text(parts.lag.value, "–");
  text(parts.lag.note, "not told by Spark's driver");
  classes(parts.lag.card, "vital");
  fraction(parts.tasks.value, driver.state === "RUNNING" ? tasks : 0, tasks);
  text(parts.tasks.note, "on Spark, no standbys");
  text(parts.workers.value, "–");
  text(parts.workers.note, "a driver instead");
  text(parts.bytes.value, "–");
  text(parts.bytes.note, "not told by Spark's driver");
}

function fraction(node, part, whole) {
  const said = `${part}/${whole}`;
  if (node.said === said) return;
  node.said = said;
  node.replaceChildren(count(part), el("small", {}, ` of ${count(whole)}`));
}

function copiesNote(tasks, app) {
  if (app.filling) return `${brief(app.filling)} records of global stores to read first`;
  let standbys = 0, warmups = 0;
  for (const id in tasks) {
    for (const worker in tasks[id].copies || {}) {
      if (tasks[id].copies[worker].role === "Warmup") warmups += 1;
      else standbys += 1;
    }
  }
  const found = [];
  if (standbys) found.push(`${standbys} standby${standbys > 1 ? "s" : ""}`);
  if (warmups) found.push(`${warmups} warming up`);
  return found.join(", ") || "no standbys";
}

/** Draw the lines of the last minutes. */
export function sparks(history) {
  for (const name of ["rate", "lag", "bytes"]) {
    const values = (history.v[name] || []).slice(-POINTS);
    if (values.length < 2) continue;
    const top = Math.max(1, ...values.map((value) => value || 0));
    const step = 100 / (values.length - 1);
    const line = values.map((value, place) => `${place ? "L" : "M"}${(place * step).toFixed(1)} ${(38 - ((value || 0) / top) * 34).toFixed(1)}`).join("");
    parts[name].edge.setAttribute("d", line);
    parts[name].area.setAttribute("d", `${line}L100 40L0 40Z`);
  }
}
