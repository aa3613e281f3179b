// A card for each worker, with a tile for each task that it holds or follows.

import { byId, classes, el, text } from "./dom.js";
import { brief, byTask, duration, shortWorker } from "./format.js";
import { restoredShare, shown, tone } from "./states.js";

const ROOM_FOR_NAMES = 160;
const NOBODY = "";
const cards = new Map();
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

/** Show what there is now, touching only what is other than before. */
export function update(page, isFirst) {
  const { app, workers, tasks } = page.document;
  const held = heldBy(workers, tasks);
  const isLarge = app.total > ROOM_FOR_NAMES;
  for (const name of [...held.keys()].sort(inOrder)) {
    let card = cards.get(name);
    if (!card) {
      card = cardOf(name, app.name);
      cards.set(name, card);
      byId("worker-cards").append(card.root);
    }
    fill(card, name, workers[name], held.get(name), isLarge, isFirst);
  }
  for (const [name, card] of cards) {
    if (!held.has(name)) {
      card.root.remove();
      cards.delete(name);
    }
  }
  const alive = Object.values(workers).filter((worker) => worker.state === "running").length;
  text(byId("workers-note"), alive ? `${alive} running` : "");
}

/** Forget all, before another application is shown. */
export function clear() {
  for (const card of cards.values()) card.root.remove();
  cards.clear();
}

/** Mark the tiles of a task. */
export function mark(task) {
  for (const card of cards.values()) {
    for (const tile of card.tiles.values()) {
      if (tile.task === chosen || tile.task === task) tile.toggleAttribute("data-chosen", tile.task === task);
    }
  }
  chosen = task;
}

function inOrder(left, right) {
  return left.localeCompare(right, "en", { numeric: true });
}

function heldBy(workers, tasks) {
  const held = new Map(Object.keys(workers).map((name) => [name, new Map()]));
  const put = (worker, id, look) => {
    if (!held.has(worker)) held.set(worker, new Map());
    held.get(worker).set(id, look);
  };
  for (const id in tasks) {
    const task = tasks[id];
    const share = restoredShare(task);
    put(task.worker || NOBODY, id, { kind: `active ${task.worker ? tone(task.state) : "bad"}`, share, copy: false, state: task.state });
    for (const worker in task.copies || {}) {
      const copy = task.copies[worker];
      put(worker, `${id} `, { kind: `${copy.role.toLowerCase()}${copy.caughtUp ? "" : " behind"}`, copy: true, state: copy.role });
    }
  }
  return held;
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

function fill(card, name, worker, held, isLarge, isFirst) {
  if (worker) {
    text(card.state, worker.state);
    classes(card.state, `pill ${tone(worker.state)}`);
    const facts = [`${brief(worker.rate)}/s`, `${worker.tasks} task${worker.tasks === 1 ? "" : "s"}`];
    if (worker.copies) facts.push(`${worker.copies} ${worker.copies === 1 ? "copy" : "copies"}`);
    if (worker.node) facts.push(worker.node);
    if (worker.pid) facts.push(`pid ${worker.pid}`);
    if (worker.filling) facts.push(`reads ${brief(worker.filling)} records of global stores`);
    if (worker.lease) facts.push(`Lease ${duration(worker.lease)} old`);
    text(card.facts, facts.join(" · "));
    text(card.problem, worker.problem || "");
    card.problem.hidden = !worker.problem;
    classes(card.root, `worker ${tone(worker.state)}`);
  } else {
    text(card.state, `${held.size}`);
    classes(card.state, "pill bad");
    classes(card.root, "worker bad");
  }
  classes(card.box, isLarge ? "tiles small" : "tiles");
  let isNew = false;
  for (const [key, look] of held) {
    let tile = card.tiles.get(key);
    if (!tile) {
      tile = tileOf(key.trim(), isLarge);
      if (!isFirst) tile.setAttribute("data-new", "");
      card.tiles.set(key, tile);
      isNew = true;
    }
    const share = look.share === undefined ? "" : Math.round(look.share * 20) * 5;
    const said = `${look.kind} ${share}`;
    if (tile.look !== said) {
      tile.look = said;
      tile.className = `tile ${look.kind}${look.share === undefined ? "" : " filling"}`;
      tile.style.setProperty("--done", `${share}%`);
      tile.setAttribute("aria-label", `task ${tile.task}, ${look.copy ? look.state.toLowerCase() : `active, ${shown(look.state).toLowerCase()}`}`);
      if (tile.task === chosen) tile.setAttribute("data-chosen", "");
    }
  }
  for (const [key, tile] of card.tiles) {
    if (!held.has(key)) {
      tile.remove();
      card.tiles.delete(key);
    }
  }
  if (isNew) order(card);
}

function order(card) {
  const keys = [...card.tiles.keys()].sort((a, b) => a.endsWith(" ") - b.endsWith(" ") || byTask(a.trim(), b.trim()));
  card.box.append(...keys.map((key) => card.tiles.get(key)));
  keys.forEach((key, place) => {
    card.tiles.get(key).tabIndex = place ? -1 : 0;
  });
}

function tileOf(task, isLarge) {
  const tile = el("button", { type: "button", class: "tile" }, isLarge ? "" : task);
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
