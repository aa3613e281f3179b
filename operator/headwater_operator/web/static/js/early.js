// Asks for the first values while the other files are still on their way: link.js takes over.
globalThis.headwaterEarly = (() => {
  const early = { key: "", source: null, heard: [], about: null };
  const asked = new URLSearchParams(location.search).get("app");
  const note = (event) => early.heard.push(event);
  early.take = (key) => {
    const { source } = early;
    early.source = null;
    if (!source || early.key !== key || source.readyState === EventSource.CLOSED) {
      source?.close();
      return null;
    }
    for (const kind of ["whole", "change"]) source.removeEventListener(kind, note);
    return source;
  };
  early.about = (asked ? Promise.resolve({ apps: [asked] }) : fetch("/api/apps", { cache: "no-store" }).then((answer) => answer.json())).then((about) => {
    [early.key = ""] = about.apps;
    if (early.key) {
      early.source = new EventSource(`/api/apps/${early.key}/events`);
      for (const kind of ["whole", "change"]) early.source.addEventListener(kind, note);
    }
    return about;
  });
  early.about.catch(() => {}); // main.js asks again, and says so
  return early;
})();
