// A record's journey: piped into the topology in memory, drawn as the way that it took.

import { byId, el } from "./dom.js";
import { words } from "./shape.js";

let now;
let highlight;

/**
 * Make the form.
 * @param {() => object} page returns what is known
 * @param {(journey: object | null) => void} draw marks the way in the topology
 */
export function start(page, draw) {
  now = page;
  highlight = draw;
}

/** Show the form if topologies can be run here. */
export function whole(page) {
  const sources = topics(page);
  byId("journey").hidden = byId("journey-jump").hidden = !page.journeys || !sources.length;
  const body = byId("journey-body");
  if (body.dataset.of === `${page.key} ${sources}`) return;
  body.dataset.of = `${page.key} ${sources}`;
  highlight(null);
  const topic = el("select", { "aria-label": "Topic" }, ...sources.map((name) => el("option", {}, name)));
  const key = el("input", { "aria-label": "Key", placeholder: "key (empty: null)", autocomplete: "off" });
  const value = el("input", { "aria-label": "Value", placeholder: "value, such as hello world or {\"a\": 1}", autocomplete: "off" });
  const answer = el("div", { class: "journey-answer", role: "status" });
  const form = el("form", { class: "journey-form" }, topic, key, value, el("button", { type: "submit", class: "button main" }, "Pipe in"), el("button", { type: "button", class: "button", onclick: () => { highlight(null); answer.replaceChildren(); } }, "Clear"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send({ topic: topic.value, key: key.value === "" ? null : key.value, value: value.value }, answer);
  });
  body.replaceChildren(el("p", { class: "quiet journey-about" }, "Runs a record through the topology in memory, with a state of its own. Kafka and the running application see nothing of it."), form, answer);
}

function topics(page) {
  const nodes = page.document?.topology?.nodes || [];
  const written = new Set(nodes.filter((node) => node.kind === "sink").flatMap((node) => node.topics || []));
  const read = nodes.filter((node) => node.kind === "source").flatMap((node) => node.topics || []);
  return [...new Set(read.filter((name) => !written.has(name)))];
}

async function send(record, place) {
  place.replaceChildren(el("p", { class: "quiet" }, "…"));
  let found;
  try {
    const answer = await fetch(`/api/apps/${now().key}/journey`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(record) });
    found = await answer.json();
  } catch {
    found = { error: "The server does not answer." };
  }
  if (found.error) {
    highlight(null);
    place.replaceChildren(el("p", { class: "journey-problem" }, found.error));
    return;
  }
  highlight({ ...found, topic: record.topic });
  place.replaceChildren(
    el("p", {}, `It reached ${found.nodes.length} node${found.nodes.length === 1 ? "" : "s"}: ${found.nodes.map((name) => words(name).label).join(", ") || "none"}.`),
    ...found.warnings.map((said) => el("p", { class: "journey-problem" }, said)),
    found.written.length
      ? el("table", {}, el("thead", {}, el("tr", {}, ...["Written to", "Key", "Value"].map((said) => el("th", { scope: "col" }, said)))), el("tbody", {}, ...found.written.map(row)))
      : el("p", { class: "quiet" }, "Nothing was written."),
  );
}

function row(written) {
  const shown = (text) => (text === null ? el("td", { class: "quiet" }, "null") : el("td", { class: "mono" }, text));
  return el("tr", {}, el("td", {}, written.store ? `store ${written.store}` : written.topic), shown(written.key), shown(written.value));
}
