// Makes elements, and touches those that are there only where something has changed.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: el("p", { class: "quiet" }, "text", child). */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Set a node's text if it is another one. */
export function text(node, value) {
  if (node.said !== value) {
    node.said = value;
    node.textContent = value;
  }
}

/** Set a node's class if it is another one. */
export function classes(node, value) {
  if (node.worn !== value) {
    node.worn = value;
    node.setAttribute("class", value);
  }
}

/** Set an attribute if it is another one. */
export function attribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** The element of the page with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Call `work` at most once a frame, and not while the page is not seen. */
export function eachFrame(work) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      work();
    });
  };
}
