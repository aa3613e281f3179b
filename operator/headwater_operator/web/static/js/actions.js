// What may be done from the page, for those who have the token.

import { byId, el } from "./dom.js";

const KEPT = "headwater-token";
let now;

/** Remember where the page's state is. */
export function start(page) {
  now = page;
}

/** Show the buttons if the page was started with a token. */
export function whole(page) {
  const place = byId("actions");
  place.hidden = !page.may;
  if (!page.may || place.children.length) return;
  place.append(
    el("button", { type: "button", class: "button", onclick: () => act(now().document.app.paused ? "resume" : "pause") }, "Pause / resume"),
    el("button", { type: "button", class: "button", onclick: scale }, "Scale"),
  );
}

function scale() {
  const before = now().document.app.replicas;
  const field = el("input", { type: "number", min: "0", max: "1000", step: "1", required: true, value: String(before), "aria-label": "Workers" });
  ask("Scale", `How many workers is ${now().document.app.name} to have?`, field, "Scale", () => act("scale", { replicas: Number(field.value) }));
}

async function act(action, body = {}, isAgain = false) {
  const token = sessionStorage.getItem(KEPT);
  if (!token) {
    askToken(action, body, isAgain ? "The token was refused." : "");
    return;
  }
  let answer;
  try {
    answer = await fetch(`/api/apps/${now().key}/${action}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    tell("Not done", "The server does not answer. Nothing was changed, as far as this page knows.");
    return;
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    sessionStorage.removeItem(KEPT);
    askToken(action, body, `${said.error || "The token was refused"}.`);
  } else if (!answer.ok) tell("Refused", said.error || `The server answered ${answer.status}.`);
  else tell("Done", said.message);
}

function askToken(action, body, problem) {
  const field = el("input", { type: "password", autocomplete: "off", "aria-label": "Token", required: true });
  ask("Token", problem || "Changes need the token that the page was started with. It is kept until this tab is closed.", field, "Go on", () => {
    sessionStorage.setItem(KEPT, field.value.trim());
    act(action, body, true);
  });
}

function tell(title, said) {
  ask(title, said, null, "Close", () => {});
}

function ask(title, said, field, button, done) {
  const form = el("form", { method: "dialog" }, el("h2", {}, title), el("p", {}, said), field, el("div", { class: "row" }, field ? el("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel") : null, el("button", { type: "submit", class: "button main" }, button)));
  const dialog = el("dialog", { class: "dialog", "aria-label": title, onclose: () => dialog.remove() }, form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    done();
  });
  document.body.append(dialog);
  dialog.showModal();
}
