// Numbers, sizes and times for people.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** A count: 41,203, from a million on 1.23 M. */
export function count(value) {
  if (value === undefined || value === null) return "–";
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  return WHOLE.format(value);
}

/** A short count: 980, 1.2k, 41k, 3.4M. */
export function brief(value) {
  if (value === undefined || value === null) return "–";
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)}G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (value >= 1e4) return `${Math.round(value / 1e3)}k`;
  if (value >= 1e3) return `${(value / 1e3).toFixed(1)}k`;
  return value < 10 && value % 1 ? value.toFixed(1) : WHOLE.format(value);
}

/** A number beside an axis: 0.25 and 0.3 are two ticks. */
export function fine(value) {
  return value && Math.abs(value) < 10 && value % 1 ? String(+value.toPrecision(2)) : brief(value);
}

/** Bytes with a unit of 1024: 1.2 MiB. */
export function bytes(value) {
  if (value === undefined || value === null) return "–";
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${size < 10 && unit !== "B" ? size.toFixed(1) : Math.round(size)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

/** Seconds as 4 s, 3 min, 2 h. */
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** A moment's time of day. */
export function clock(ms) {
  return CLOCK.format(ms);
}

/** A moment's time of day, with its date if that is another than today's. */
export function moment(ms) {
  const isToday = new Date(ms).toDateString() === new Date().toDateString();
  return isToday ? clock(ms) : `${DAY.format(ms)}, ${clock(ms)}`;
}

/** A worker's name without the application's: w-1 of counting-w-1. */
export function shortWorker(name, app) {
  return name.startsWith(`${app}-`) ? name.slice(app.length + 1) : name;
}

/** Orders 0_2 before 0_10. */
export function byTask(left, right) {
  const [a, b] = left.split("_");
  const [c, d] = right.split("_");
  return a - c || b - d;
}
