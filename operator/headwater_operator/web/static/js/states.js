// Which tone a state has: good, busy, bad or quiet.

const GOOD = new Set(["RUNNING", "running", "Running"]);
const BAD = new Set(["ended", "silent", "fenced", "ERROR", "PENDING_ERROR", "UNASSIGNED", "FAILED", "gone"]);
const QUIET = new Set(["NOT_RUNNING", "stopped", "paused"]);

/** The tone of a state: what is neither good nor bad is on its way. */
export function tone(state) {
  if (GOOD.has(state)) return "good";
  if (BAD.has(state)) return "bad";
  return QUIET.has(state) ? "quiet" : "busy";
}

/** A state for people: RUNNING becomes Running. */
export function shown(state) {
  const words = String(state).toLowerCase().replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Spark's driver, if it has the tasks. */
export function driverOf(app) {
  return app.engine === "Spark" && !app.live ? app.driver : undefined;
}

/** How much of a restore is done, 0 to 1; undefined if the task does not restore. */
export function restoredShare(task) {
  if (task.remaining === undefined) return undefined;
  const all = (task.restored || 0) + task.remaining;
  return all > 0 ? (task.restored || 0) / all : 0;
}
