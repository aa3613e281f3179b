// Brings a document up to date, in place: the same rule as `merged` in document.py.

/** Apply `changes` to `target`: objects key by key, `null` takes a key out, all else replaces. */
export function merge(target, changes) {
  for (const key in changes) {
    if (key === "__proto__") continue; // it would change every object
    const value = changes[key];
    const old = target[key];
    if (value === null) {
      delete target[key];
    } else if (isObject(old) && isObject(value)) {
      merge(old, value);
    } else {
      target[key] = value;
    }
  }
  return target;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
