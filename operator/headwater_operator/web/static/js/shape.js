// From a topology's nodes to boxes and arrows with places: pure but for the width of texts.

import * as dagre from "../vendor/dagre.esm.js";

const HEAD = 34;
const PAD = 14;
const STORE = 38;
const OTHER = 18;
const WORDS = {
  FLATMAPVALUES: "flat_map_values", MAPVALUES: "map_values", FLATMAP: "flat_map", TOSTREAM: "to_stream",
  "KEY-SELECT": "select_key", TRANSFORMVALUES: "transform_values", PROCESSVALUES: "process_values",
  LEFTJOIN: "left_join", OUTERJOIN: "outer_join", SOURCE: "table", FOREACH: "for_each", TOTABLE: "to_table", SUPPRESS: "suppress", BRANCHCHILD: "branch",
};

/** The words for a generated name, such as "aggregate" and "3"; a name that was given stays. */
export function words(name) {
  const found = /^(?:KSTREAM|KTABLE|COGROUPKSTREAM)-(.+)-(\d{10})(.*)$/.exec(name);
  if (!found) return { label: name, number: "" };
  const label = WORDS[found[1]] || found[1].toLowerCase().replaceAll("-", "_");
  return { label, number: String(Number(found[2])) };
}

/**
 * The graph that is drawn. Sources and sinks are drawn as their topics, and a store at the first
 * processor that uses it.
 * @param {{nodes: Array, globals: Array}} topology as the server sends it
 */
export function graphOf(topology) {
  const nodes = new Map(topology.nodes.map((node) => [node.name, node]));
  const users = new Map();
  for (const node of topology.nodes) {
    for (const store of node.stores || []) users.set(store, [...(users.get(store) || []), node.name]);
  }
  const busy = new Set(topology.nodes.filter((node) => node.kind === "processor").map((node) => node.group));
  const boxes = new Map();
  const arrows = new Map();
  const groups = new Map();
  const written = new Set(topology.nodes.filter((node) => node.kind === "sink").flatMap((node) => node.topics || []));
  const read = new Set(topology.nodes.filter((node) => node.kind === "source").flatMap((node) => node.topics || []));

  const topic = (name) => {
    const id = `topic ${name}`;
    boxes.set(id, { id, kind: "topic", name, isInternal: written.has(name) && read.has(name) && name.endsWith("-repartition"), isOutput: !read.has(name) });
    return id;
  };
  const arrow = (from, to, about) => {
    const id = `${from} → ${to}`;
    if (!arrows.has(id)) arrows.set(id, { id, from, to, ...about });
  };
  const reading = (node, name) => ({ kind: "read", topic: name, node: node.name, isOnly: node.topics.length === 1, group: node.group });
  const isDrawn = (node) => node.kind === "processor" || !busy.has(node.group);

  for (const node of topology.nodes) {
    if (!groups.has(node.group)) groups.set(node.group, { id: node.group, isGlobal: (topology.globals || []).includes(node.group), sources: [], topics: new Set() });
    const own = groups.get(node.group);
    if (node.kind === "source") {
      own.sources.push(node.name);
      (node.topics || []).forEach((name) => own.topics.add(name));
    }
    if (node.kind === "sink" || !isDrawn(node)) continue;
    // A store stands at the first of its processors; the others name it.
    const stores = (node.stores || []).filter((store) => users.get(store)[0] === node.name);
    const others = (node.stores || []).filter((store) => users.get(store)[0] !== node.name);
    boxes.set(node.name, { id: node.name, kind: "node", name: node.name, group: node.group, ...words(node.name), stores, others });
  }
  for (const node of topology.nodes) {
    const group = node.group;
    if (node.kind === "source" && !isDrawn(node)) {
      for (const name of node.topics || []) {
        for (const child of node.children || []) {
          const to = nodes.get(child);
          if (to && to.kind === "processor") arrow(topic(name), child, reading(node, name));
          else if (to) for (const target of to.topics || []) arrow(topic(name), topic(target), reading(node, name));
        }
      }
      continue;
    }
    if (node.kind === "sink") continue;
    if (node.kind === "source") for (const name of node.topics || []) arrow(topic(name), node.name, reading(node, name));
    for (const child of node.children || []) {
      const to = nodes.get(child);
      if (!to) continue;
      if (to.kind === "sink") for (const name of to.topics || []) arrow(node.name, topic(name), { kind: "write", topic: name, node: to.name, group });
      else arrow(node.name, child, { kind: "forward", group });
    }
  }
  return { boxes, arrows, groups };
}

/** Give every box a size and a place, every arrow its points. */
export function laidOut(graph, direction, measure) {
  const layout = new dagre.Graph({ compound: true, multigraph: false });
  layout.setGraph({ rankdir: direction, nodesep: 30, ranksep: direction === "LR" ? 60 : 46, edgesep: 18, marginx: 16, marginy: 16 });
  layout.setDefaultEdgeLabel(() => ({}));
  const held = new Set();
  for (const box of graph.boxes.values()) {
    Object.assign(box, sizeOf(box, measure));
    layout.setNode(box.id, { width: box.width, height: box.height });
    if (box.group !== undefined) held.add(box.group);
  }
  for (const group of held) layout.setNode(`group ${group}`, {});
  for (const box of graph.boxes.values()) if (box.group !== undefined) layout.setParent(box.id, `group ${box.group}`);
  for (const arrow of graph.arrows.values()) layout.setEdge(arrow.from, arrow.to, { weight: arrow.kind === "forward" ? 3 : 1 });
  // What comes from outside stands at the beginning, in one line: a root that is not drawn pulls.
  layout.setNode("root", { width: 1, height: 1 });
  for (const box of graph.boxes.values()) if (box.kind === "topic" && !written(graph, box.id)) layout.setEdge("root", box.id, { weight: 6 });
  dagre.layout(layout);
  for (const box of graph.boxes.values()) {
    const { x, y } = layout.node(box.id);
    Object.assign(box, { x: x - box.width / 2, y: y - box.height / 2 });
  }
  for (const arrow of graph.arrows.values()) arrow.points = layout.edge(arrow.from, arrow.to).points;
  for (const group of graph.groups.values()) {
    const own = [...graph.boxes.values()].filter((box) => box.group === group.id);
    if (!own.length) continue;
    const left = Math.min(...own.map((box) => box.x)), top = Math.min(...own.map((box) => box.y));
    const right = Math.max(...own.map((box) => box.x + box.width)), bottom = Math.max(...own.map((box) => box.y + box.height));
    Object.assign(group, { x: left - PAD, y: top - HEAD, width: Math.max(right - left + 2 * PAD, 218), height: bottom - top + HEAD + PAD });
  }
  const all = [...graph.boxes.values(), ...[...graph.groups.values()].filter((group) => group.width)];
  const left = Math.min(...all.map((each) => each.x)) - 12, top = Math.min(...all.map((each) => each.y)) - 12;
  const right = Math.max(...all.map((each) => each.x + each.width)) + 12, bottom = Math.max(...all.map((each) => each.y + each.height)) + 12;
  return { x: left, y: top, width: right - left, height: bottom - top };
}

function written(graph, id) {
  for (const arrow of graph.arrows.values()) if (arrow.to === id) return true;
  return false;
}

const MOST = 176;

function sizeOf(box, measure) {
  if (box.kind === "topic") {
    box.shown = fitted(box.name, "600 13px", measure);
    return { width: Math.max(112, measure(box.shown, "600 13px") + 44), height: 48 };
  }
  box.label = fitted(box.label, "600 13px", measure);
  box.shownOthers = box.others.map((store) => fitted(store, "500 11px", measure));
  box.shownStores = box.stores.map((store) => fitted(store, "600 12px", measure));
  const own = measure(box.label, "600 13px") + (box.number ? 26 : 0) + 30;
  const stores = box.shownStores.map((store) => Math.max(150, measure(store, "600 12px") + 56));
  const others = box.shownOthers.map((store) => measure(store, "500 11px") + 44);
  return { width: Math.max(96, own, ...stores, ...others), height: 38 + box.stores.length * (STORE + 3) + box.others.length * OTHER };
}

/** A name that is too long without its middle: names differ at their ends. */
function fitted(name, font, measure) {
  if (measure(name, font) <= MOST) return name;
  let kept = name.length - 2;
  const cut = () => `${name.slice(0, Math.ceil(kept * 0.4))}…${name.slice(name.length - Math.floor(kept * 0.6))}`;
  while (kept > 8 && measure(cut(), font) > MOST) kept -= 1;
  return cut();
}

/** A smooth path through points. */
export function path(points) {
  const at = (point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
  if (points.length < 3) return `M${points.map(at).join("L")}`;
  let drawn = `M${at(points[0])}`;
  for (let place = 1; place < points.length - 1; place += 1) {
    const here = points[place], next = points[place + 1];
    const end = place === points.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    drawn += `Q${at(here)} ${at(end)}`;
  }
  return drawn;
}
