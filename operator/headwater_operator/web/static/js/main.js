// Brings the parts together: what comes from the server goes to those that show it.

import * as actions from "./actions.js";
import * as charts from "./charts.js";
import * as decisions from "./decisions.js";
import * as detail from "./detail.js";
import { byId, classes, eachFrame, el, text } from "./dom.js";
import { clock, duration, moment } from "./format.js";
import * as journey from "./journey.js";
import { follow } from "./link.js";
import { merge } from "./merge.js";
import { shown, tone } from "./states.js";
import * as tasks from "./tasks.js";
import * as topology from "./topology.js";
import * as vitals from "./vitals.js";
import * as workers from "./workers.js";

const KEPT = 1800;
const EVENTS = 500;
const page = { key: "", document: null, events: [], history: { t: [], v: {} }, at: 0, trouble: "", refused: "", may: false, journeys: false };
let chosen = "";
let group = null;
let stop = () => {};
let lost = "";
let early = globalThis.headwaterEarly?.about;

function choose(task, { stays = false } = {}) {
  chosen = task === chosen && !stays ? "" : task;
  workers.mark(chosen);
  tasks.mark(chosen);
  detail.update(page, chosen);
}

function chooseGroup(number) {
  group = group === number ? null : number;
  topology.mark(group);
  tasks.only(group);
}

// -- what comes ---------------------------------------------------------------------------------

function whole(news) {
  const isFirst = page.key !== news.key || !page.document;
  const before = JSON.stringify(page.document?.topology);
  Object.assign(page, { key: news.key, document: { app: {}, workers: {}, tasks: {}, ...news.document }, events: news.events, history: news.history, at: news.at, trouble: news.trouble, refused: news.refused || "", may: news.may, journeys: news.journeys });
  choices(news.apps);
  if (!page.document.app.name) {
    freshen();
    return;
  }
  reveal();
  // What is on the screen first is painted before all workers and tasks are drawn below it.
  top();
  decisions.whole(page);
  vitals.sparks(page.history);
  if (isFirst || JSON.stringify(page.document.topology) !== before) topology.draw(page);
  else topology.update(page);
  actions.whole(page);
  journey.whole(page);
  if (isFirst) {
    isBegun = false;
    painted("headwater-painted", rest);
  } else rest();
}

function rest() {
  isBegun = true;
  if (!page.document?.app.name) return;
  due = {};
  show(null);
  charts.whole(page);
  painted("headwater-complete", () => {});
}

/** Set a mark once the next frame is painted, and go on. */
function painted(mark, then) {
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark(mark);
    then();
  }));
}

/** Show the parts, once there is something to show in them. */
function reveal() {
  document.querySelector("main").hidden = false;
}

function change(news) {
  if (news.trouble !== undefined) page.trouble = news.trouble;
  if (news.at) page.at = news.at;
  if (news.events) {
    page.events = [...page.events, ...news.events].slice(-EVENTS);
    if (page.document) decisions.add(news.events);
  }
  if (news.point) point(news.point);
  const changed = news.change;
  if (changed && page.document) {
    const isFirst = !page.document.app.name;
    merge(page.document, changed);
    if (page.document.app.name) {
      if (isFirst) {
        isBegun = true;
        reveal();
        decisions.whole(page);
        charts.whole(page);
        actions.whole(page);
      }
      if (changed.topology || isFirst) {
        topology.draw(page);
        journey.whole(page);
      }
      later(isFirst ? null : changed.tasks || {});
    }
  }
  freshen();
}

// Ids of tasks that have changed since the last frame; `null`: all are looked at.
let due = {};
let isBegun = false;
const drawn = eachFrame(() => {
  if (!isBegun) return;
  show(due);
  due = {};
  topology.update(page);
});
function later(changed) {
  if (changed === null) due = null;
  else if (due) for (const id in changed) due[id] = true;
  drawn();
}

function show(changed) {
  top();
  workers.update(page, changed);
  tasks.update(page);
  detail.update(page, chosen);
}

function top() {
  const { app } = page.document;
  const state = app.paused ? app.paused : app.state;
  text(byId("state"), shown(state));
  classes(byId("state"), `pill ${tone(state)}`);
  text(byId("reason"), app.reason || "");
  text(byId("scaling"), app.scaling ? scalingOf(app.scaling) : "");
  notice();
  vitals.update(page);
  const foot = [app.kafka ? `Kafka at ${app.kafka}` : "", app.engine === "Native" ? "" : `engine ${app.engine}`, `control loop ${app.generation}`, app.version ? `Headwater ${app.version}` : "", app.inexact || ""];
  text(byId("foot"), foot.filter(Boolean).join(" · "));
  document.title = `${app.name} · Headwater`;
  freshen();
}

function scalingOf({ mode, desired, least, most, reason, since }) {
  const wanted = `${desired} worker${desired === 1 ? "" : "s"} ${mode === "Auto" ? "wanted" : "advised"}`;
  const when = since ? ` since ${moment(Date.parse(since))}` : "";
  return `Autoscaling (${mode}, ${least} to ${most}): ${wanted}${when}${reason ? `: ${reason}` : ""}`;
}

function point({ t, v }) {
  const { history } = page;
  history.t.push(t);
  for (const name of new Set([...Object.keys(history.v), ...Object.keys(v)])) {
    (history.v[name] ||= new Array(history.t.length - 1).fill(null)).push(v[name] ?? null);
  }
  if (history.t.length > KEPT + 60) {
    history.t.splice(0, history.t.length - KEPT);
    for (const name in history.v) history.v[name].splice(0, history.v[name].length - KEPT);
  }
  if (document.hidden) return;
  vitals.sparks(history);
  charts.update(page);
}

// -- how old it is ------------------------------------------------------------------------------

function freshen() {
  const isOld = Boolean(lost || page.trouble);
  const place = byId("freshness");
  classes(place, isOld ? "freshness old" : "freshness");
  if (!page.at) text(place, lost ? "not connected" : "connecting");
  else if (isOld) text(place, `as of ${clock(page.at)}, ${duration(Math.max(0, Date.now() - page.at) / 1000)} ago`);
  else text(place, "live");
  notice();
}

function notice() {
  const app = page.document?.app || {};
  const said = app.failure || page.trouble || (lost && page.at ? `The values are old: ${lost}.` : lost) || page.refused;
  const place = byId("notice");
  place.hidden = !said;
  text(place, said || "");
  classes(place, app.failure ? "notice" : "notice busy");
}

setInterval(() => {
  if (lost || page.trouble) freshen();
}, 1000);

// -- which application --------------------------------------------------------------------------

function choices(apps) {
  const list = byId("apps");
  const said = apps.join("\n");
  if (list.said !== said) {
    list.said = said;
    list.replaceChildren(...apps.map((key) => el("option", { value: key }, key)));
  }
  list.value = page.key;
}

function open(key) {
  stop();
  chosen = "";
  group = null;
  workers.clear();
  document.querySelector("main").hidden = true;
  Object.assign(page, { key: "", document: null, at: 0, trouble: "" });
  history.replaceState(null, "", `${location.pathname}?app=${encodeURIComponent(key)}${location.hash}`);
  stop = follow(key, {
    whole,
    change,
    apps: choices,
    trouble: (said) => {
      if (lost === said) return;
      lost = said;
      freshen();
    },
  });
}

async function begin() {
  const asked = new URLSearchParams(location.search).get("app");
  try {
    const first = early;
    early = null;
    const { apps, refused } = first ? await first : asked ? { apps: [asked] } : await (await fetch("/api/apps", { cache: "no-store" })).json();
    if (apps.length) {
      open(apps[0]);
      return;
    }
    lost = refused || "there is no application yet; this page looks again every two seconds";
  } catch {
    lost = "the server does not answer; this page tries again every two seconds";
  }
  freshen();
  setTimeout(begin, 2000);
}

vitals.start();
decisions.start(choose);
workers.start(choose);
tasks.start(choose);
detail.start(() => choose(""));
topology.start(chooseGroup);
charts.start();
actions.start(() => page);
journey.start(() => page, topology.way);
byId("apps").addEventListener("change", (event) => open(event.target.value));
begin();
