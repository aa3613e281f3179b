// Time series of the dashboards, drawn by uPlot, which is loaded once they are near.

import { byId, el } from "./dom.js";
import { bytes, fine } from "./format.js";

const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const SECONDS = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const RANGES = [["5 min", 300], ["15 min", 900], ["1 h", 3600]];
const DASHBOARDS = [["Application", "application"], ["State", "state"], ["Workers", "worker"]];
const HEIGHT = 160;
const KEPT = 1800;

let key = "";
let dashboard = "application";
let range = 900;
let isSeen = false;
let isAsking = false;
let loading = null;
let had = null;
const drawn = new Map();

/** Make the buttons, and wait until the section comes near. */
export function start() {
  choice("ranges", RANGES, () => range, (value) => { range = value; show(); });
  choice("dashboards", DASHBOARDS, () => dashboard, (value) => { dashboard = value; forget(); refresh(); });
  new IntersectionObserver((entries) => {
    isSeen = entries.at(-1).isIntersecting;
    if (isSeen) refresh();
  }, { rootMargin: "300px" }).observe(byId("charts"));
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => {
    clear();
    show();
  });
}

function choice(place, pairs, chosen, choose) {
  for (const [label, value] of pairs) {
    byId(place).append(el("button", {
      type: "button",
      "aria-pressed": String(value === chosen()),
      onclick: (event) => {
        for (const each of byId(place).children) each.setAttribute("aria-pressed", String(each === event.target));
        choose(value);
      },
    }, label));
  }
}

/** Another application, or the same from the beginning. */
export function whole(page) {
  if (page.key !== key) {
    key = page.key;
    forget();
  }
  refresh();
}

/** A moment has passed: ask for what is new, if anybody sees it. */
export function update() {
  refresh();
}

function forget() {
  had = null;
  clear();
}

function clear() {
  for (const chart of drawn.values()) chart.gone();
  drawn.clear();
  byId("chart-grid").replaceChildren();
}

async function refresh() {
  if (!isSeen || !key || isAsking || document.hidden) return;
  isAsking = true;
  const asked = `${key}/history/${dashboard}`;
  try {
    await library();
    const last = had && had.t.length ? had.t.at(-1) : 0;
    const answer = await fetch(`/api/apps/${asked}?since=${last}`, { cache: "no-store" });
    if (!answer.ok) return;
    const news = await answer.json();
    if (asked !== `${key}/history/${dashboard}`) return;
    had = had && last ? joined(had, news) : news;
    show();
  } catch {
    // The connection is lost, which the top of the page says. The next point asks again.
  } finally {
    isAsking = false;
  }
}

function joined(before, news) {
  const t = [...before.t, ...news.t].slice(-KEPT);
  const v = {};
  for (const name of new Set([...Object.keys(before.v), ...Object.keys(news.v)])) {
    const old = before.v[name] || new Array(before.t.length).fill(null);
    const fresh = news.v[name] || new Array(news.t.length).fill(null);
    v[name] = [...old, ...fresh].slice(-KEPT);
  }
  return { panels: before.panels, t, v };
}

function library() {
  loading ||= new Promise((done, failed) => document.head.append(
    el("link", { rel: "stylesheet", href: "/static/vendor/uPlot.min.css" }),
    el("script", { src: "/static/vendor/uPlot.iife.min.js", onload: done, onerror: failed }),
  ));
  return loading;
}

function show() {
  if (!had?.panels) return;
  const { t } = had;
  const first = Math.max(0, t.findIndex((at) => at >= t.at(-1) - range));
  const times = t.slice(first);
  const lines = new Map(had.panels.map((panel) => [panel.id, []]));
  for (const name of Object.keys(had.v)) lines.get(name.split("/", 2).join("/"))?.push(name);
  for (const [place, panel] of had.panels.entries()) {
    const names = lines.get(panel.id).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    if (!names.length) continue;
    const data = [times, ...names.map((name) => had.v[name].slice(first))];
    const said = names.join("\n");
    const chart = drawn.get(panel.id);
    if (chart && chart.said === said) {
      chart.plot.setData(data);
      continue;
    }
    const fresh = made(panel, names, data, chart?.box);
    fresh.box.style.order = String(place);
    drawn.set(panel.id, { ...fresh, said });
  }
  byId("chart-grid").dataset.empty = drawn.size ? "" : "No worker has told any numbers yet.";
}

function formatter(unit) {
  if (unit === "bytes") return bytes;
  if (unit === "bytes/s") return (value) => `${bytes(value)}/s`;
  if (unit === "0 to 1") return (value) => `${fine(value * 100)} %`;
  if (unit === "ms") return (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${fine(value)} ms`);
  if (unit === "ns") return (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} ms` : `${fine(value / 1e3)} µs`);
  if (unit === "s") return (value) => `${fine(value)} s`;
  return fine;
}

function made(panel, names, data, before) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const box = el("figure", { class: "chart" }, el("figcaption", {}, el("b", {}, panel.title), el("span", { class: "quiet" }, panel.unit ? ` ${panel.unit}` : ""), el("span", { class: "about" }, panel.about)));
  if (before) before.replaceWith(box);
  else byId("chart-grid").append(box);
  const colours = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6", "--series-7", "--series-8"].map(colour);
  const shown = formatter(panel.unit);
  const axis = { stroke: colour("--quiet"), font: "11px Inter, sans-serif", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const plot = new globalThis.uPlot({
    width: box.clientWidth - 22 || 360,
    height: HEIGHT,
    cursor: { sync: { key: "page" }, points: { size: 7 } },
    legend: { live: true },
    scales: { y: { range: (_, low, high) => [Math.min(0, low || 0), high > 0 ? high * 1.12 : 1] } },
    axes: [
      { ...axis, space: 80, size: 30, values: (_, ticks, __, ___, step) => ticks.map((at) => (step < 60 ? SECONDS : CLOCK).format(at * 1000)) },
      { ...axis, size: 58, values: (_, ticks) => ticks.map(shown) },
    ],
    series: [
      { label: "at", value: (_, at) => (at ? SECONDS.format(at * 1000) : "") },
      ...names.map((name, place) => ({
        label: name.split("/").slice(3).join("/"),
        stroke: colours[place % colours.length],
        dash: place >= colours.length ? [5, 3] : undefined,
        width: 1.6,
        fill: names.length === 1 ? `${colours[0]}22` : undefined,
        value: (_, value) => (value === null || value === undefined ? "" : shown(value)),
        points: { show: false },
      })),
    ],
  }, data, box);
  const watch = new ResizeObserver(() => {
    if (box.clientWidth) plot.setSize({ width: box.clientWidth - 22, height: HEIGHT }); // else it is hidden
  });
  watch.observe(box);
  return {
    plot,
    box,
    gone: () => {
      watch.disconnect();
      plot.destroy();
      box.remove();
    },
  };
}
