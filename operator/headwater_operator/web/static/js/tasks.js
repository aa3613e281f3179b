// The table of tasks. Only the rows that are seen exist, however many tasks there are.

import { attribute, byId, classes, eachFrame, el, text } from "./dom.js";
import { brief, bytes, byTask, clock, count, shortWorker } from "./format.js";
import { restoredShare, shown, tone } from "./states.js";

const ROW = 36;
const MOST = 14;
const COLUMNS = [
  { key: "task", label: "Task" },
  { key: "state", label: "State" },
  { key: "worker", label: "Worker" },
  { key: "rate", label: "Records/s", number: true },
  { key: "lag", label: "Lag", number: true },
  { key: "bytes", label: "State size", number: true },
  { key: "copies", label: "Copies" },
  { key: "why", label: "Why here" },
];

let page;
let onChoose;
let body, room, head;
let isSeen = true;
let scrolled = 0;
let height = MOST * ROW;
let keys = [];
let byNumber = [];
let known = new Set();
let words = "";
let group = null;
let sort = { key: "task", down: false };
let chosen = "";
const rows = [];

/** Build head and body, and listen. */
export function start(choose) {
  onChoose = choose;
  head = el("div", { class: "row head", role: "row" });
  for (const column of COLUMNS) {
    head.append(
      el(
        "div",
        { role: "columnheader", class: `cell ${column.key}${column.number ? " number" : ""}`, "aria-sort": "none" },
        el("button", { type: "button", onclick: () => sortBy(column) }, column.label),
      ),
    );
  }
  room = el("div", { class: "room", role: "presentation" });
  body = el("div", { class: "body", role: "rowgroup", tabindex: "-1" }, room);
  byId("grid").append(head, body);
  const redraw = eachFrame(draw);
  body.addEventListener("scroll", () => {
    scrolled = body.scrollTop;
    redraw();
  }, { passive: true });
  new ResizeObserver(redraw).observe(body);
  new IntersectionObserver((entries) => {
    isSeen = entries.at(-1).isIntersecting;
    if (isSeen) redraw();
  }, { rootMargin: "200px" }).observe(byId("grid"));
  byId("grid").addEventListener("keydown", walk);
  byId("tasks-search").addEventListener("input", (event) => {
    words = event.target.value.trim().toLowerCase();
    update(page);
  });
  body.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) onChoose(row.task);
  });
}

/** Show what there is now. */
export function update(now) {
  page = now;
  if (!page?.document) return;
  const { tasks, app } = page.document;
  const ids = Object.keys(tasks);
  const all = ids.length;
  // Which tasks there are rarely changes; their order by number is kept until then.
  if (all !== byNumber.length || ids.some((id) => !known.has(id))) {
    byNumber = ids.sort(byTask);
    known = new Set(byNumber);
  }
  keys = words || group !== null ? byNumber.filter((id) => matches(id, tasks[id])) : byNumber;
  if (sort.key !== "task" || sort.down) keys = [...keys].sort(comparison(tasks));
  text(byId("tasks-note"), keys.length === all ? count(all) : `${count(keys.length)} of ${count(all)}`);
  attribute(byId("grid"), "aria-rowcount", String(keys.length + 1));
  const whole = `${Math.max(1, keys.length) * ROW}px`;
  if (room.style.height !== whole) room.style.height = whole;
  height = Math.min(MOST, Math.max(3, keys.length)) * ROW;
  if (body.style.height !== `${height}px`) body.style.height = `${height}px`;
  classes(byId("grid"), app.bytes === undefined ? "grid no-bytes" : "grid");
  draw();
}

/** Show only the tasks of a sub-topology; `null`: of all. */
export function only(number) {
  group = number;
  const place = byId("tasks-filter");
  place.replaceChildren();
  if (group !== null) {
    place.append(el("button", { type: "button", class: "chip", onclick: () => only(null) }, `sub-topology ${group} ✕`));
  }
  update(page);
}

/** Mark a task, and bring it into view. */
export function mark(task) {
  chosen = task;
  const place = keys.indexOf(task);
  if (place >= 0) {
    const top = place * ROW;
    if (top < body.scrollTop) body.scrollTop = top;
    else if (top + ROW > body.scrollTop + height) body.scrollTop = top + ROW - height;
    scrolled = body.scrollTop;
  }
  draw();
}

function matches(id, task) {
  if (group !== null && Number(id.split("_")[0]) !== group) return false;
  if (!words) return true;
  const said = `${id} ${task.state} ${task.worker || "nobody"} ${task.why || ""} ${Object.entries(task.copies || {}).map(([worker, copy]) => `${worker} ${copy.role}`).join(" ")}`.toLowerCase();
  return words.split(/\s+/).every((word) => said.includes(word));
}

function comparison(tasks) {
  const sign = sort.down ? -1 : 1;
  const value = (id) => {
    const found = tasks[id][sort.key];
    return sort.key === "copies" ? Object.keys(found || {}).length : found;
  };
  if (sort.key === "task") return (a, b) => sign * byTask(a, b);
  return (a, b) => {
    const left = value(a), right = value(b);
    if (left === right) return byTask(a, b);
    if (left === undefined) return 1;
    if (right === undefined) return -1;
    return sign * (left < right ? -1 : 1);
  };
}

function sortBy(column) {
  sort = { key: column.key, down: sort.key === column.key ? !sort.down : Boolean(column.number) };
  [...head.children].forEach((cell, place) => {
    const is = COLUMNS[place].key === sort.key;
    cell.setAttribute("aria-sort", is ? (sort.down ? "descending" : "ascending") : "none");
  });
  update(page);
}

function draw() {
  if (!page?.document || (!isSeen && rows.length)) return;
  // Both are known without asking for a layout.
  const first = Math.max(0, Math.floor(scrolled / ROW) - 2);
  const last = Math.min(keys.length, Math.ceil((scrolled + height) / ROW) + 2);
  let used = 0;
  for (let place = first; place < last; place += 1) fill(rowAt(used++), place);
  for (; used < rows.length; used += 1) rows[used].root.hidden = true;
}

function rowAt(number) {
  if (!rows[number]) {
    const cells = {};
    const root = el("div", { class: "row", role: "row" });
    for (const column of COLUMNS) {
      cells[column.key] = el("div", { role: "gridcell", class: `cell ${column.key}${column.number ? " number" : ""}` });
      root.append(cells[column.key]);
    }
    const pill = el("span", { class: "pill" });
    const bar = el("i", { class: "meter", hidden: true });
    cells.state.append(pill, bar);
    room.append(root);
    rows[number] = { root, cells, pill, bar };
  }
  return rows[number];
}

function fill(row, place) {
  const id = keys[place];
  const task = page.document.tasks[id];
  const { root, cells } = row;
  root.hidden = false;
  const top = `translateY(${place * ROW}px)`;
  if (root.style.transform !== top) root.style.transform = top;
  root.task = id;
  attribute(root, "aria-rowindex", String(place + 2));
  attribute(root, "id", `task-${id}`);
  classes(root, id === chosen ? "row chosen" : "row");
  attribute(root, "aria-selected", String(id === chosen));
  text(cells.task, id);
  text(row.pill, shown(task.state));
  const heard = page.document.workers[task.worker]?.heard;
  classes(row.pill, `pill ${!task.worker ? "bad" : heard ? "busy" : tone(task.state)}`);
  attribute(row.pill, "title", heard ? `as ${task.worker} said at ${clock(heard)}; it has been silent since` : "");
  const share = restoredShare(task);
  row.bar.hidden = share === undefined;
  if (share !== undefined) row.bar.style.setProperty("--done", `${Math.round(share * 100)}%`);
  text(cells.worker, task.worker ? `${shortWorker(task.worker, page.document.app.name)}${task.slot === undefined ? "" : ` · ${task.slot}`}` : "nobody");
  text(cells.rate, brief(task.rate));
  text(cells.lag, task.remaining === undefined ? count(task.lag) : `${brief(task.remaining)} to restore`);
  text(cells.bytes, bytes(task.bytes));
  text(cells.copies, copiesOf(task));
  text(cells.why, task.why || "");
  attribute(cells.why, "title", task.why || "");
}

function copiesOf(task) {
  const app = page.document.app.name;
  return Object.entries(task.copies || {})
    .map(([worker, copy]) => `${shortWorker(worker, app)}${copy.role === "Warmup" ? " warm-up" : ""}${copy.caughtUp ? " ✓" : copy.behind === undefined ? " …" : ` ${brief(copy.behind)} behind`}`)
    .join(", ");
}

function walk(event) {
  if (event.target.closest(".head")) return;
  const here = keys.indexOf(chosen);
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: MOST, PageUp: -MOST, Home: -keys.length, End: keys.length }[event.key];
  if (event.key === "Escape") {
    onChoose("");
    return;
  }
  if (step === undefined || !keys.length) return;
  event.preventDefault();
  const next = keys[Math.min(keys.length - 1, Math.max(0, here + step))];
  onChoose(next, { stays: true });
  attribute(byId("grid"), "aria-activedescendant", `task-${next}`);
}
