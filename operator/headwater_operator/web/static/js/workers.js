// A card for each worker, with a tile for each task that it holds or follows.

import { byId, classes, el, text } from "./dom.js";
import { brief, byTask, clock, duration, shortWorker } from "./format.js";
import { driverOf, restoredShare, shown, tone } from "./states.js";

const ROOM_FOR_NAMES = 160;
const NOBODY = "";
const cards = new Map();
/** Of each task, how it looks on each worker. */
const placed = new Map();
let choose;
let chosen = "";

/** Draw the legend. */
export function start(chooseTask) {
  choose = chooseTask;
  for (const [kind, label] of [
    ["active good", "active"],
    ["active busy", "restoring"],
    ["standby", "standby"],
    ["warmup", "warm-up"],
    ["active bad", "unassigned"],
  ]) {
    byId("legend").append(el("li", {}, el("i", { class: `tile mini ${kind}` }), label));
  }
  byId("worker-cards").addEventListener("click", (event) => {
    const tile = event.target.closest(".tile");
    if (tile) choose(tile.task);
  });
  byId("worker-cards").addEventListener("keydown", walk);
}

/**
 * Show what there is now, touching only what is other than before.
 * @param {object} page what is known
 * @param {object | null} changed ids of tasks that have changed; `null`: look at all
 */
export function update(page, changed) {
  const { app, tasks } = page.document;
  const workers = { ...page.document.workers, ...driverRow(driverOf(app)) };
  const isSmall = app.total > ROOM_FOR_NAMES;
  const isFirst = placed.size === 0;
  const touched = new Set();
  for (const name in workers) if (!cards.has(name)) touched.add(cardAt(name, app.name));
  for (const id in changed || tasks) place(id, tasks[id], app.name, isSmall, isFirst, touched);
  if (!changed) for (const id of [...placed.keys()]) if (!tasks[id]) place(id, undefined, app.name, isSmall, isFirst, touched);
  for (const card of touched) order(card);
  for (const [name, card] of cards) {
    if (!workers[name] && !card.tiles.size) {
      card.root.remove();
      cards.delete(name);
    } else tell(card, workers[name], isSmall);
  }
  const alive = Object.values(workers).filter((worker) => worker.state === "running" && !worker.heard).length;
  text(byId("workers-note"), alive ? `${alive} running` : "");
}

/** Spark's driver as a worker: its card tells of the last micro-batch. */
function driverRow(driver) {
  if (!driver) return {};
  const batch = driver.last_batch === undefined ? "" : `micro-batch ${driver.last_batch}: ${brief(driver.batch_rows || 0)} records in ${brief(driver.batch_ms || 0)} ms`;
  return { driver: { state: driver.state.toLowerCase(), rate: driver.input_rows_per_s || 0, tasks: driver.tasks || 0, pid: driver.pid, problem: driver.problem, batch } };
}

/** Forget all, before another application is shown. */
export function clear() {
  for (const card of cards.values()) card.root.remove();
  cards.clear();
  placed.clear();
}

/** Mark the tiles of a task. */
export function mark(task) {
  for (const [id, isChosen] of [[chosen, false], [task, true]]) {
    for (const worker of (placed.get(id) || new Map()).keys()) {
      cards.get(worker)?.tiles.get(id)?.toggleAttribute("data-chosen", isChosen);
    }
  }
  chosen = task;
}

function inOrder(left, right) {
  return left.localeCompare(right, "en", { numeric: true });
}

/** How a task looks on each worker that has it in any role. */
function looksOf(task) {
  const looks = new Map();
  if (!task) return looks;
  for (const worker in task.copies || {}) {
    const copy = task.copies[worker];
    looks.set(worker, { kind: `${copy.role.toLowerCase()}${copy.caughtUp ? "" : " behind"}`, isCopy: true, said: copy.role === "Warmup" ? "warm-up" : "standby" });
  }
  const share = restoredShare(task);
  const done = share === undefined ? undefined : Math.round(share * 20) * 5;
  looks.set(task.worker || NOBODY, { kind: `active ${task.worker ? tone(task.state) : "bad"}`, done, isCopy: false, said: `active, ${shown(task.state).toLowerCase()}` });
  return looks;
}

function place(id, task, app, isSmall, isFirst, touched) {
  const looks = looksOf(task);
  const before = placed.get(id);
  if (before) {
    for (const worker of before.keys()) {
      if (looks.has(worker)) continue;
      const card = cards.get(worker);
      card?.tiles.get(id)?.remove();
      card?.tiles.delete(id);
    }
  }
  const said = new Map();
  for (const [worker, look] of looks) {
    const signature = `${look.kind} ${look.done}`;
    said.set(worker, signature);
    if (before?.get(worker) === signature) continue;
    const card = cardAt(worker, app);
    let tile = card.tiles.get(id);
    if (!tile) {
      tile = tileOf(id, isSmall);
      if (!isFirst) tile.setAttribute("data-new", "");
      if (id === chosen) tile.setAttribute("data-chosen", "");
      card.tiles.set(id, tile);
      touched.add(card);
    }
    if (tile.isCopy !== look.isCopy) touched.add(card);
    tile.isCopy = look.isCopy;
    tile.className = `tile ${look.kind}${look.done === undefined ? "" : " filling"}`;
    if (look.done !== undefined) tile.style.setProperty("--done", `${look.done}%`);
    else if (tile.style.length) tile.style.removeProperty("--done");
    tile.setAttribute("aria-label", `task ${id}, ${look.said}`);
  }
  if (looks.size) placed.set(id, said);
  else placed.delete(id);
}

function cardAt(name, app) {
  let card = cards.get(name);
  if (!card) {
    card = cardOf(name, app);
    cards.set(name, card);
    const next = [...cards.keys()].sort(inOrder);
    const after = cards.get(next[next.indexOf(name) + 1]);
    byId("worker-cards").insertBefore(card.root, after ? after.root : null);
  }
  return card;
}

function cardOf(name, app) {
  const state = el("span", { class: "pill" });
  const facts = el("div", { class: "worker-facts" });
  const problem = el("div", { class: "worker-problem", hidden: true });
  const tiles = el("div", { class: "tiles", role: "group", "aria-label": name ? `Tasks of ${name}` : "Tasks that nobody holds" });
  const root = el(
    "article",
    { class: "worker", "data-worker": name },
    el("header", {}, el("h3", { title: name }, name ? shortWorker(name, app) : "Nobody"), state),
    facts,
    problem,
    tiles,
  );
  return { root, state, facts, problem, box: tiles, tiles: new Map() };
}

function tell(card, worker, isSmall) {
  classes(card.box, isSmall ? "tiles small" : "tiles");
  if (!worker) {
    text(card.state, `${card.tiles.size}`);
    classes(card.state, "pill bad");
    classes(card.root, "worker bad");
    return;
  }
  const looks = worker.heard ? "busy" : tone(worker.state);
  text(card.state, worker.heard ? "no answer" : worker.state);
  classes(card.state, `pill ${looks}`);
  classes(card.root, `worker ${looks}`);
  const facts = worker.heard ? [`${worker.state} at ${clock(worker.heard)}, silent since`] : [`${brief(worker.rate)}/s`];
  facts.push(`${worker.tasks} task${worker.tasks === 1 ? "" : "s"}`);
  if (worker.copies) facts.push(`${worker.copies} ${worker.copies === 1 ? "copy" : "copies"}`);
  if (worker.batch) facts.push(worker.batch);
  if (worker.node) facts.push(worker.node);
  if (worker.pid) facts.push(`pid ${worker.pid}`);
  if (worker.filling) facts.push(`reads ${brief(worker.filling)} records of global stores`);
  if (worker.lease) facts.push(`Lease ${duration(worker.lease)} old`);
  text(card.facts, facts.join(" · "));
  text(card.problem, worker.problem || "");
  card.problem.hidden = !worker.problem;
}

function order(card) {
  const tiles = [...card.tiles.values()].sort((a, b) => a.isCopy - b.isCopy || byTask(a.task, b.task));
  card.box.append(...tiles);
  tiles.forEach((tile, number) => {
    tile.tabIndex = number ? -1 : 0;
  });
}

function tileOf(task, isSmall) {
  const tile = el("button", { type: "button", class: "tile" }, isSmall ? "" : task);
  tile.task = task;
  tile.title = `task ${task}`;
  return tile;
}

function walk(event) {
  const tile = event.target.closest(".tile");
  if (!tile) return;
  const tiles = [...tile.parentElement.children];
  const here = tiles.indexOf(tile);
  const across = Math.max(1, tiles.findIndex((each) => each.offsetTop > tiles[0].offsetTop));
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  const next = event.key === "Home" ? tiles[0] : event.key === "End" ? tiles.at(-1) : tiles[here + step];
  if (!next) return;
  event.preventDefault();
  tile.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
