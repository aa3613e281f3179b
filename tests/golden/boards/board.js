// Draws a dashboard of Grafana's JSON with what Prometheus has answered, for pictures.

import { el } from "/static/js/dom.js";
import { brief, bytes, duration, fine } from "/static/js/format.js";

const UNIT = 30; // pixels of one row of Grafana's grid
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC" });
const style = getComputedStyle(document.documentElement);
const colour = (name) => style.getPropertyValue(name).trim();
const COLOURS = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => colour(`--series-${number}`));
const STATES = { green: "--good", orange: "--busy", red: "--bad", text: "--idle" };
const MOST = 12;
const BINARY = Array.from({ length: 45 }, (_, power) => 2 ** power);

const { board, answers, marks, range } = await (await fetch(`/answers.json`)).json();

function formatter(unit) {
  if (unit === "bytes") return bytes;
  if (unit === "Bps") return (value) => `${bytes(value)}/s`;
  if (unit === "percentunit") return (value) => `${Math.round(value * 100)} %`;
  if (unit === "ms") return (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${brief(value)} ms`);
  if (unit === "ns") return (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} ms` : value >= 1e3 ? `${brief(value / 1e3)} µs` : `${brief(value)} ns`);
  if (unit === "s") return (value) => (value && value < 0.1 ? `${(value * 1000).toPrecision(2)} ms` : value < 10 ? `${+value.toPrecision(2)} s` : duration(value));
  if (unit === "cps") return (value) => `${brief(value)}/s`;
  return brief;
}

/** The same for ticks, which may lie closer together. */
function ticksOf(unit) {
  if (unit === "percentunit") return (value) => `${fine(value * 100)} %`;
  if (unit === "ms") return (value) => (value >= 1000 ? `${fine(value / 1000)} s` : `${fine(value)} ms`);
  if (unit === "ns") return (value) => (value >= 1e6 ? `${fine(value / 1e6)} ms` : value >= 1e3 ? `${fine(value / 1e3)} µs` : `${fine(value)} ns`);
  if (unit === "cps") return (value) => `${fine(value)}/s`;
  return formatter(unit) === brief ? fine : formatter(unit);
}

function named(target, labels) {
  if (target.legendFormat === "__auto") return "";
  return target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, label) => labels[label] ?? "").trim();
}

/** All series of a panel, by name, the greatest first if there are many. */
function seriesOf(panel) {
  const found = [];
  panel.targets.forEach((target, place) => {
    for (const { labels, points } of answers[panel.id][place]) {
      found.push({ name: named(target, labels) || panel.title, labels, points, place });
    }
  });
  const all = found.length;
  if (found.length > MOST && panel.type === "timeseries") {
    found.sort((a, b) => Math.max(...b.points.map((each) => each[1] ?? 0)) - Math.max(...a.points.map((each) => each[1] ?? 0)));
    found.length = MOST;
  }
  found.sort((a, b) => a.place - b.place || a.name.localeCompare(b.name, "en", { numeric: true }));
  return Object.assign(found, { all });
}

function aligned(series) {
  const times = [];
  for (let at = range.start; at <= range.end; at += range.step) times.push(at);
  return [times, ...series.map(({ points }) => {
    const known = new Map(points.map(([at, value]) => [Math.round((at - range.start) / range.step), value]));
    return times.map((_, place) => known.get(place) ?? null);
  })];
}

function markColour(place) {
  return colour(place ? "--warmup" : "--accent");
}

function drawMarks(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  marks.forEach(({ points }, place) => {
    ctx.strokeStyle = markColour(place);
    ctx.globalAlpha = 0.6;
    ctx.setLineDash([4, 4]);
    for (const at of points) {
      const x = plot.valToPos(at, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
  });
  ctx.restore();
}

function legendOf(series) {
  return el("div", { class: "legend" }, ...series.map(({ name }, number) => {
    const key = el("i");
    const line = COLOURS[number % COLOURS.length];
    key.style.background = number < COLOURS.length ? line : `repeating-linear-gradient(to right, ${line} 0 4px, transparent 4px 6px)`;
    return el("span", {}, key, name);
  }));
}

/** Leave the names that find room in two rows, and say how many there are besides. */
function shorten(legend, all) {
  const names = [...legend.children];
  const isTooHigh = () => new Set([...legend.children].map((each) => each.offsetTop)).size > 2;
  if (all === names.length && !isTooHigh()) return;
  const rest = el("span", {}, "");
  legend.append(rest);
  do {
    rest.textContent = `and ${all - names.length} more`;
  } while (isTooHigh() && names.pop().remove() === undefined);
}

function timeSeries(panel, box, height) {
  const series = seriesOf(panel);
  if (!series.length) return false;
  const data = aligned(series);
  const isStacked = panel.fieldConfig.defaults.custom?.stacking?.mode === "normal";
  const drawn = isStacked ? stacked(data) : data;
  const show = ticksOf(panel.fieldConfig.defaults.unit);
  const axis = { stroke: colour("--quiet"), font: "11px Inter, sans-serif", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const place = el("div");
  const legend = legendOf(series);
  box.append(place, legend);
  shorten(legend, series.all);
  new globalThis.uPlot({
    width: box.clientWidth - 24,
    height: height - 48 - legend.offsetHeight,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: true, range: () => [range.start, range.end] }, y: { range: (_, low, high) => [Math.min(0, low || 0), high > 0 ? high * 1.12 : 1] } },
    axes: [
      { ...axis, space: 90, size: 26, values: (_, ticks) => ticks.map((at) => CLOCK.format(at * 1000)) },
      { ...axis, size: 66, values: (_, ticks) => ticks.map(show), incrs: panel.fieldConfig.defaults.unit.startsWith("b") || panel.fieldConfig.defaults.unit === "Bps" ? BINARY : undefined },
    ],
    series: [{}, ...series.map((_, number) => ({
      stroke: COLOURS[number % COLOURS.length],
      dash: number >= COLOURS.length ? [5, 3] : undefined,
      width: 1.6,
      fill: isStacked ? `${COLOURS[number % COLOURS.length]}66` : series.length === 1 ? `${COLOURS[0]}22` : undefined,
      points: { show: false },
    }))],
    bands: isStacked ? series.slice(1).map((_, number) => ({ series: [number + 2, number + 1] })) : undefined,
    hooks: { draw: [drawMarks] },
  }, drawn, place);
  return true;
}

function stacked([times, ...values]) {
  const sums = times.map(() => 0);
  // What is missing is no part of the pile; where all is missing there is none.
  const isKnown = times.map((_, place) => values.some((line) => line[place] !== null));
  return [times, ...values.map((line) => line.map((value, place) => (isKnown[place] ? (sums[place] += value ?? 0) : null)))];
}

function stat(panel, box) {
  const series = seriesOf(panel);
  if (!series.length) return false;
  const show = formatter(panel.fieldConfig.defaults.unit);
  box.append(el("div", { class: "values" }, ...series.map(({ name, points }) => el("div", { class: "value" }, series.length > 1 || panel.targets[0].legendFormat !== "__auto" ? el("small", {}, name) : null, show(points.at(-1)[1])))));
  return true;
}

function table(panel, box) {
  const rows = new Map();
  const labels = new Set();
  panel.targets.forEach((target, place) => {
    for (const one of answers[panel.id][place]) {
      const key = JSON.stringify(one.labels);
      Object.keys(one.labels).forEach((label) => labels.add(label));
      if (!rows.has(key)) rows.set(key, { labels: one.labels, values: [] });
      rows.get(key).values[place] = one.points.at(-1)?.[1];
    }
  });
  if (!rows.size) return false;
  const { excludeByName } = panel.transformations.find((each) => each.id === "organize").options;
  const shown = excludeByName.Value ? [] : panel.targets;
  const shows = panel.targets.map((target) => {
    const unit = panel.fieldConfig.overrides.find((each) => each.matcher.options === target.legendFormat);
    return formatter(unit?.properties[0].value);
  });
  box.append(el("table", {},
    el("thead", {}, el("tr", {}, ...[...labels].map((name) => el("th", {}, name)), ...shown.map((target) => el("th", { class: "number" }, target.legendFormat)))),
    el("tbody", {}, ...[...rows.values()].map((row) => el("tr", {}, ...[...labels].map((name) => el("td", {}, row.labels[name] ?? "")), ...shown.map((_, place) => el("td", { class: "number" }, row.values[place] === undefined ? "" : shows[place](row.values[place]))))))));
  return true;
}

function timeline(panel, box) {
  const series = seriesOf(panel);
  if (!series.length) return false;
  const states = panel.fieldConfig.defaults.mappings[0].options;
  const seen = new Set();
  const width = range.end - range.start;
  for (const { name, points } of series) {
    const lane = el("div");
    const runs = [];
    for (const [at, value] of points) {
      const last = runs.at(-1);
      if (last && last.value === value && at - last.end <= 2 * range.step) last.end = at;
      else runs.push({ value, start: at, end: at });
    }
    for (const run of runs) {
      const state = states[run.value];
      seen.add(run.value);
      const bar = el("i", { title: state?.text ?? "" });
      bar.style.background = colour(STATES[state?.color] || "--idle");
      bar.style.left = `${(100 * (run.start - range.start)) / width}%`;
      bar.style.width = `${(100 * (run.end - run.start + range.step)) / width}%`;
      lane.append(bar);
    }
    box.append(el("div", { class: "lane" }, el("b", {}, name), lane));
  }
  box.append(el("div", { class: "times" }, ...[0, 0.25, 0.5, 0.75, 1].map((share) => el("span", {}, CLOCK.format((range.start + share * width) * 1000)))));
  box.append(el("div", { class: "legend" }, ...[...seen].sort().map((value) => {
    const key = el("i", { class: "box" });
    key.style.background = colour(STATES[states[value]?.color] || "--idle");
    return el("span", {}, key, states[value]?.text ?? String(value));
  })));
  return true;
}

function heatMap(panel, box, height) {
  const series = answers[panel.id][0].filter(({ labels }) => labels.le !== "+Inf").sort((a, b) => a.labels.le - b.labels.le);
  if (!series.length) return false;
  const [times, ...sums] = aligned(series);
  const cells = sums.map((line, place) => line.map((value, at) => Math.max(0, (value ?? 0) - (place ? sums[place - 1][at] ?? 0 : 0))));
  const most = Math.max(...cells.flat(), 1e-9);
  const canvas = el("canvas");
  const [wide, high] = [box.clientWidth - 24, height - 64];
  Object.assign(canvas, { width: wide, height: high });
  box.append(canvas, el("div", { class: "times" }, ...[0, 0.5, 1].map((share) => el("span", {}, CLOCK.format((range.start + share * (range.end - range.start)) * 1000)))));
  box.lastChild.style.marginLeft = "58px";
  const ctx = canvas.getContext("2d");
  const [left, step, tall] = [58, (wide - 58) / times.length, high / cells.length];
  ctx.font = "11px Inter, sans-serif";
  cells.forEach((line, place) => {
    const top = high - (place + 1) * tall;
    ctx.fillStyle = colour("--quiet");
    ctx.textAlign = "right";
    ctx.fillText(formatter("s")(Number(series[place].labels.le)), left - 8, top + tall / 2 + 4);
    line.forEach((value, at) => {
      ctx.globalAlpha = value ? 0.18 + 0.82 * Math.sqrt(value / most) : 0;
      ctx.fillStyle = colour("--accent");
      ctx.fillRect(left + at * step, top + 1, step + 0.5, tall - 2);
    });
    ctx.globalAlpha = 1;
  });
  return true;
}

const KINDS = { timeseries: timeSeries, stat, table, "state-timeline": timeline, heatmap: heatMap };
const flat = board.panels.flatMap((panel) => [panel, ...(panel.panels || [])]);
document.querySelector("h1").textContent = board.title;
document.querySelector("header p").textContent = board.description;
document.querySelector("header").append(el("div", { class: "legend marks" }, ...marks.map(({ name }, place) => {
  const key = el("i");
  key.style.borderTopColor = markColour(place);
  return el("span", {}, key, name);
})));
await document.fonts.ready;
await document.fonts.load("11px Inter");
for (const panel of flat) {
  if (panel.type === "row") {
    document.querySelector("main").append(el("div", { class: "row" }, panel.title));
    continue;
  }
  const height = panel.gridPos.h * UNIT - 10;
  const box = el("section", { class: `panel ${panel.type}`, id: `panel-${panel.id}` }, el("h2", {}, panel.title));
  box.style.gridColumn = `span ${panel.gridPos.w}`;
  const isFixed = panel.type === "timeseries" || panel.type === "heatmap" || panel.type === "stat";
  box.style[isFixed ? "height" : "minHeight"] = isFixed ? `${height}px` : "60px";
  document.querySelector("main").append(box);
  if (!KINDS[panel.type](panel, box, height)) box.append(el("p", { class: "empty" }, panel.fieldConfig.defaults.noValue));
}
document.body.dataset.drawn = "yes";
