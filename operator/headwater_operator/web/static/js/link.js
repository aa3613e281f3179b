// The stream of events: connects, connects again, and says how old the values are.

// A turn waits up to 5 s for workers' numbers, and 5 s for their metrics.
const SILENT_MS = 15000;
const AGAIN_MS = 1000;

/**
 * Follow an application.
 * @param {string} key its key
 * @param {{whole: Function, change: Function, trouble: Function, apps: Function}} told is called with what comes
 * @returns {() => void} ends it
 */
export function follow(key, told) {
  let source = null;
  let heardAt = performance.now();
  let triedAt = heardAt;
  let timer = 0;
  let isOver = false;

  function hear(event) {
    heardAt = performance.now();
    told.trouble("");
    told[event.type](JSON.parse(event.data));
  }

  function connect() {
    if (isOver) return;
    triedAt = performance.now();
    const early = globalThis.headwaterEarly;
    const taken = early?.take(key);
    source = taken || new EventSource(`/api/apps/${key}/events`);
    source.addEventListener("whole", hear);
    source.addEventListener("change", hear);
    if (taken) early.heard.splice(0).forEach(hear);
    source.onerror = () => {
      // The browser connects again by itself unless the answer was refused.
      told.trouble("the connection is lost; connecting again");
      if (source.readyState === EventSource.CLOSED) {
        source.close();
        clearTimeout(timer);
        timer = setTimeout(again, AGAIN_MS);
      }
    };
  }

  async function again() {
    const asking = new AbortController();
    setTimeout(() => asking.abort(), SILENT_MS);
    try {
      const answer = await fetch("/api/apps", { cache: "no-store", signal: asking.signal });
      const { apps } = await answer.json();
      if (isOver) return;
      if (!apps.includes(key)) {
        heardAt = performance.now();
        told.apps(apps);
        told.trouble(`there is no application ${key} here`);
        timer = setTimeout(again, 5 * AGAIN_MS);
        return;
      }
      // An EventSource does not say why it was refused.
      const stream = await fetch(`/api/apps/${key}/events`, { signal: asking.signal });
      if (isOver) {
        asking.abort();
        return;
      }
      if (!stream.ok) {
        const { error } = await stream.json();
        if (isOver) return;
        heardAt = performance.now();
        told.trouble(error);
        timer = setTimeout(again, 5 * AGAIN_MS);
        return;
      }
      asking.abort();
    } catch {
      if (!isOver) timer = setTimeout(again, AGAIN_MS);
      return;
    }
    connect();
  }

  const watch = setInterval(() => {
    const now = performance.now();
    if (now - heardAt <= SILENT_MS) return;
    told.trouble("nothing has come for a while; connecting again");
    // The connections of a machine that is gone do not end: only a new one finds who serves now.
    if (source.readyState === EventSource.CLOSED || now - triedAt <= SILENT_MS) return;
    source.close();
    connect();
  }, 1000);
  connect();
  return () => {
    isOver = true;
    clearInterval(watch);
    clearTimeout(timer);
    if (source) source.close();
  };
}
