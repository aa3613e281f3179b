// Draws the topology once, and its numbers whenever they change.

import { attribute, byId, classes, svg, text } from "./dom.js";
import { brief, bytes } from "./format.js";
import { graphOf, laidOut, path } from "./shape.js";
import { tone } from "./states.js";

const STORE = 38;
const OTHER = 18;
let graph = null;
let view = null;
let whole = null;
let picture = null;
let onGroup;
let direction = "";
let last = null;
const ruler = document.createElement("canvas").getContext("2d");

function measure(words, font) {
  ruler.font = `${font} Inter, system-ui, sans-serif`;
  return ruler.measureText(words).width;
}

/** Listen to buttons, and to the width of the page. */
export function start(chooseGroup) {
  onGroup = chooseGroup;
  byId("zoom-in").addEventListener("click", () => zoom(1 / 1.3));
  byId("zoom-out").addEventListener("click", () => zoom(1.3));
  byId("zoom-fit").addEventListener("click", fit);
  new ResizeObserver(() => {
    const isShown = last?.document && byId("drawing").clientWidth;
    if (isShown && wanted() !== direction) draw(last);
  }).observe(byId("drawing"));
}

function wanted() {
  return byId("drawing").clientWidth < 620 ? "TB" : "LR";
}

/** Draw another topology. */
export function draw(page) {
  last = page;
  const { topology } = page.document;
  const place = byId("drawing");
  place.replaceChildren();
  graph = null;
  if (!topology?.nodes?.length) {
    place.append(Object.assign(document.createElement("p"), { className: "empty", textContent: "No worker has told its topology yet." }));
    return;
  }
  direction = wanted();
  graph = graphOf(topology);
  whole = laidOut(graph, direction, measure);
  // One that is much wider than its place gets the whole width of the page.
  const main = document.querySelector("main");
  main.toggleAttribute("data-wide", direction === "LR" && whole.width > 1.12 * (main.clientWidth - 450));
  const layers = { groups: svg("g"), arrows: svg("g"), boxes: svg("g", { class: "boxes" }), labels: svg("g") };
  for (const group of graph.groups.values()) if (group.width) layers.groups.append(groupOf(group));
  for (const arrow of graph.arrows.values()) arrowOf(arrow, layers);
  for (const box of graph.boxes.values()) {
    box.root = boxOf(box);
    layers.boxes.append(box.root);
  }
  picture = svg("svg", { class: "topology", role: "img", tabindex: "0", "aria-label": summary(topology) }, head(), ...Object.values(layers));
  place.append(picture);
  listen();
  fit();
  update(page);
}

function summary(topology) {
  const kinds = (kind) => topology.nodes.filter((node) => node.kind === kind);
  const topics = (kind) => [...new Set(kinds(kind).flatMap((node) => node.topics || []))].join(", ") || "nothing";
  return `Topology of ${topology.nodes.length} nodes: reads ${topics("source")}; writes ${topics("sink")}. Arrow keys move the picture, plus and minus zoom.`;
}

function head() {
  const arrow = (id, kind) => svg("marker", { id, class: kind, viewBox: "0 0 10 10", refX: "8.5", refY: "5", markerWidth: "9", markerHeight: "9", markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M1 1L9 5L1 9z" }));
  return svg("defs", {}, arrow("head", "still"), arrow("head-flow", "flow"));
}

function groupOf(group) {
  const { x, y, width, height } = group;
  group.facts = svg("text", { class: "group-facts", x: x + width - 12, y: y + 21, "text-anchor": "end" });
  group.box = svg("rect", { class: "group", x, y, width, height, rx: 12 });
  const name = group.isGlobal ? "Global store" : `Sub-topology ${group.id}`;
  group.root = svg("g", { class: "group-root", tabindex: "0", role: "button", "aria-label": `${name}: show its tasks` }, group.box, svg("text", { class: "group-name", x: x + 13, y: y + 21 }, name), group.facts);
  const pick = () => onGroup(group.id);
  group.root.addEventListener("click", pick);
  group.root.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pick();
    }
  });
  return group.root;
}

function arrowOf(arrow, layers) {
  arrow.line = svg("path", { class: `arrow ${arrow.kind}`, d: path(arrow.points), "marker-end": "url(#head)" });
  layers.arrows.append(arrow.line);
  if (arrow.kind !== "read" && arrow.kind !== "write") return;
  const middle = nearTopic(arrow);
  arrow.tag = tagOf(middle, "", layers.labels);
  if (arrow.kind !== "read") return;
  // Beneath the rate, or beside it where the arrow goes down.
  const { x, y } = middle;
  arrow.late = tagOf(direction === "LR" ? { x, y: y + 20 } : { x: x + 58, y }, "late ", layers.labels);
}

/** A few words on an arrow, not shown before there are some. */
function tagOf(middle, kind, layer) {
  const ground = svg("rect", { class: `${kind}label-ground`, rx: 8, height: 18, y: middle.y - 9 });
  const label = svg("text", { class: `${kind}label`, x: middle.x, y: middle.y + 4, "text-anchor": "middle" });
  const root = svg("g", { visibility: "hidden" }, ground, label);
  layer.append(root);
  return { root, ground, label, middle };
}

function say(tag, said) {
  if (tag.label.said === said) return;
  text(tag.label, said);
  attribute(tag.root, "visibility", said ? "visible" : "hidden");
  const room = measure(said, "600 11px") + 12;
  attribute(tag.ground, "width", String(room));
  attribute(tag.ground, "x", String(tag.middle.x - room / 2));
}

/** Where an arrow's label stands: a little way from its topic, outside of the sub-topology. */
function nearTopic(arrow) {
  const points = arrow.kind === "read" ? arrow.points : [...arrow.points].reverse();
  let ahead = direction === "LR" ? 38 : 20;
  for (const [place, to] of points.slice(1).entries()) {
    const from = points[place];
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    if (ahead <= length || place === points.length - 2) {
      const share = Math.min(place ? 1 : 0.5, ahead / length);
      return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
    }
    ahead -= length;
  }
}

function boxOf(box) {
  const { x, y, width, height } = box;
  if (box.kind === "topic") {
    box.facts = svg("text", { class: "facts", x: x + 30, y: y + 36 });
    return svg(
      "g",
      { class: `topic${box.isInternal ? " internal" : ""}` },
      svg("title", {}, `topic ${box.name}`),
      svg("rect", { class: "ground", x, y, width, height, rx: 10 }),
      svg("path", { class: "icon", d: `M${x + 12} ${y + 17}h10M${x + 12} ${y + 24}h10M${x + 12} ${y + 31}h10` }),
      svg("text", { class: "name", x: x + 30, y: y + 21 }, box.shown),
      box.facts,
    );
  }
  const root = svg("g", { class: "node" }, svg("title", {}, box.name), svg("rect", { class: "ground", x, y, width, height, rx: 9 }), svg("text", { class: "name", x: x + 14, y: y + 24 }, box.label));
  if (box.number) root.append(svg("text", { class: "number", x: x + width - 11, y: y + 24, "text-anchor": "end" }, box.number));
  box.inner = box.stores.map((store, place) => {
    const inner = { facts: null };
    inner.root = storeOf(inner, store, box.shownStores[place], x + 5, y + 35 + place * (STORE + 3), width - 10);
    root.append(inner.root);
    return inner;
  });
  const below = y + 35 + box.stores.length * (STORE + 3);
  box.shownOthers.forEach((store, place) => {
    const at = below + place * OTHER;
    root.append(svg("g", { class: "other" }, svg("title", {}, `also uses store ${box.others[place]}`), svg("path", { class: "icon", d: cylinder(x + 18, at + 2, at + 11, 5) }), svg("text", { class: "name", x: x + 30, y: at + 11 }, store)));
  });
  return root;
}

function storeOf(box, name, shown, x, y, width) {
  box.facts = svg("text", { class: "facts", x: x + 30, y: y + 30 });
  const icon = cylinder(x + 16, y + 11, y + 27, 7);
  return svg("g", { class: "store" }, svg("title", {}, `store ${name}`), svg("rect", { class: "ground", x, y, width, height: STORE, rx: 7 }), svg("path", { class: "icon", d: icon }), svg("text", { class: "name", x: x + 30, y: y + 16 }, shown), box.facts);
}

function cylinder(middle, top, bottom, half) {
  const left = middle - half, across = 2 * half, bow = half * 0.42;
  return `M${left} ${top}a${half} ${bow} 0 0 1 ${across} 0v${bottom - top}a${half} ${bow} 0 0 1 ${-across} 0zM${left} ${top}a${half} ${bow} 0 0 0 ${across} 0`;
}

/** Show numbers, touching only those that are others than before. */
export function update(page) {
  if (!graph) return;
  const { topics = {}, nodes = {}, reads = {}, stores = {}, tasks } = page.document;
  const ofGroups = totals(tasks);
  for (const group of graph.groups.values()) {
    if (!group.facts) continue;
    const own = ofGroups.get(group.id) || { running: 0, all: 0, lag: 0, bad: false };
    text(group.facts, group.isGlobal || !own.all ? "" : `${own.running}/${own.all} running${own.lag ? ` · lag ${brief(own.lag)}` : ""}`);
    classes(group.box, `group ${group.isGlobal || !own.all ? "" : own.bad ? "bad" : own.running === own.all ? "good" : "busy"}`);
  }
  for (const box of graph.boxes.values()) {
    if (box.kind === "topic") text(box.facts, topicFacts(box, row(topics, box.name)));
    (box.inner || []).forEach((inner, place) => text(inner.facts, storeFacts(stores[box.stores[place]])));
  }
  for (const arrow of graph.arrows.values()) flow(arrow, arrow.kind === "read" ? readBy(arrow, reads) : row(nodes, arrow.node), ofGroups);
}

/** What a source node reads by an arrow: of its topic, or all that it reads if it has a single topic or pattern. */
function readBy(arrow, reads) {
  const start = `${arrow.node} `;
  if (!arrow.isOnly) return reads[`${start}${arrow.topic}`];
  const own = Object.keys(reads).filter((name) => name.startsWith(start)).map((name) => reads[name]);
  return { rate: sum(own, "rate"), lag: sum(own, "lag") };
}

function sum(rows, key) {
  const known = rows.map((each) => each[key]).filter((value) => value !== undefined);
  return known.length ? known.reduce((all, value) => all + value) : undefined;
}

function row(rows, name) {
  if (name === undefined) return undefined;
  if (rows[name]) return rows[name];
  // Internal topics are described without the application's id, which their names begin with.
  const found = Object.keys(rows).find((key) => key.endsWith(`-${name}`));
  return found ? rows[found] : undefined;
}

function totals(tasks) {
  const found = new Map();
  for (const id in tasks) {
    const group = Number(id.split("_")[0]), task = tasks[id];
    if (!found.has(group)) found.set(group, { running: 0, all: 0, lag: 0, rate: 0, bad: false });
    const own = found.get(group);
    own.all += 1;
    own.running += task.state === "RUNNING";
    own.lag += task.lag || 0;
    own.rate += task.rate || 0;
    own.bad ||= !task.worker || tone(task.state) === "bad";
  }
  return found;
}

function topicFacts(box, about) {
  if (!about) return box.isInternal ? "repartition" : box.isOutput ? "output" : "input";
  const rate = box.isOutput ? about.in : about.out ?? about.in;
  return rate === undefined ? "" : `${brief(rate)} records/s`;
}

function storeFacts(about) {
  if (!about) return "";
  return `${bytes(about.bytes || 0)}${about.keys === undefined ? "" : ` · ${brief(about.keys)} keys`}`;
}

function flow(arrow, about, ofGroups) {
  const own = ofGroups.get(arrow.group);
  const rate = about ? about.rate : arrow.kind === "forward" ? own?.rate : undefined;
  const isFlowing = rate > 0;
  classes(arrow.line, `arrow ${arrow.kind}${isFlowing ? " flow" : ""}`);
  const width = isFlowing ? (1.4 + Math.min(3.4, Math.log10(1 + rate) * 0.8)).toFixed(1) : "1.5";
  attribute(arrow.line, "stroke-width", width);
  attribute(arrow.line, "marker-end", isFlowing ? "url(#head-flow)" : "url(#head)");
  if (arrow.tag) say(arrow.tag, rate === undefined ? "" : `${brief(rate)}/s`);
  if (arrow.late) say(arrow.late, about?.lag ? `lag ${brief(about.lag)}` : "");
}

/** Mark a sub-topology. */
export function mark(number) {
  if (!graph) return;
  for (const group of graph.groups.values()) group.root?.toggleAttribute("data-chosen", group.id === number);
}

/** Mark the way of a record; `null`: none. */
export function way(journey) {
  if (!graph || !picture) return;
  picture.toggleAttribute("data-way", Boolean(journey));
  const nodes = new Set(journey?.nodes || []);
  const stores = new Set(journey?.stores || []);
  const topics = new Set([journey?.topic, ...(journey?.written || []).map((each) => each.topic)]);
  // Topics of Headwater's own are written with the application's name before theirs.
  const isOwn = (name) => /-(repartition|changelog)$/.test(name);
  const has = (name) => [...topics].some((topic) => topic === name || (isOwn(name) && topic?.endsWith(`-${name}`)));
  for (const box of graph.boxes.values()) {
    box.root?.toggleAttribute("data-reached", box.kind === "topic" ? has(box.name) : nodes.has(box.name));
    (box.inner || []).forEach((inner, place) => inner.root?.toggleAttribute("data-reached", stores.has(box.stores[place])));
  }
  for (const arrow of graph.arrows.values()) {
    const ends = [arrow.from, arrow.to].every((id) => graph.boxes.get(id)?.root?.hasAttribute("data-reached"));
    arrow.line.toggleAttribute("data-reached", Boolean(journey) && ends && (!arrow.node || nodes.has(arrow.node)));
  }
  if (journey) byId("topology").scrollIntoView({ block: "start" });
}

// -- what is seen of it ---------------------------------------------------------------------------

function fit() {
  if (!picture) return;
  const place = byId("drawing");
  const room = { width: place.clientWidth || 800, height: 0 };
  const scale = Math.min(1.15, room.width / whole.width);
  room.height = Math.min(direction === "TB" ? 900 : 520, Math.max(230, whole.height * scale));
  picture.style.height = `${Math.round(room.height)}px`;
  const zoomed = Math.min(scale, room.height / whole.height);
  const width = room.width / zoomed, height = room.height / zoomed;
  view = { x: whole.x - (width - whole.width) / 2, y: whole.y - (height - whole.height) / 2, width, height };
  show();
}

function show() {
  picture.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
}

function zoom(by, at) {
  if (!view) return;
  const to = Math.min(whole.width * 6, Math.max(160, view.width * by)) / view.width;
  const place = at || { x: view.x + view.width / 2, y: view.y + view.height / 2 };
  view = { x: place.x - (place.x - view.x) * to, y: place.y - (place.y - view.y) * to, width: view.width * to, height: view.height * to };
  show();
}

function move(x, y) {
  view = { ...view, x: view.x + x, y: view.y + y };
  show();
}

function listen() {
  let from = null;
  const scale = () => view.width / picture.clientWidth;
  picture.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") from = { x: event.clientX, y: event.clientY };
  });
  picture.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return;
    move((from.x - event.clientX) * scale(), (from.y - event.clientY) * scale());
    from = { x: event.clientX, y: event.clientY };
  });
  picture.addEventListener("pointerup", () => { from = null; });
  picture.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, { x: view.x + (event.clientX - box.left) * scale(), y: view.y + (event.clientY - box.top) * scale() });
  }, { passive: false });
  picture.addEventListener("keydown", (event) => {
    if (event.target !== picture) return;
    const step = view.width / 10;
    const way = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (way) move(...way);
    else if (event.key === "+" || event.key === "=") zoom(1 / 1.3);
    else if (event.key === "-") zoom(1.3);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
}
