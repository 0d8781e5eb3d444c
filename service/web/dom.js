// Elements of the page: made, found and changed only where something differs.
//
// Names of sales, servers and callers are text of others: they enter the page through textContent
// and attributes, never as markup.

export const find = (id) => document.getElementById(id);

// An element with properties ("text", "class", "data-…", "on…" or any attribute) and children.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") {
      element.textContent = value;
    } else if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) {
    element.textContent = wanted;
  }
}

export function setData(element, name, value) {
  const wanted = String(value);
  if (element.dataset[name] !== wanted) {
    element.dataset[name] = wanted;
  }
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

export function show(element, visible) {
  if (element.hidden === visible) {
    element.hidden = !visible;
  }
}

// Keeps the children of `parent` in step with `items`: each item has a view, found again by its
// key, so that focus and open menus survive. make(item) gives {element, update(item)}.
export class List {
  constructor(parent, keyOf, makeView) {
    Object.assign(this, { parent, keyOf, makeView, views: new Map() });
  }

  update(items) {
    const gone = new Set(this.views.keys());
    let before = this.parent.firstChild;
    for (const item of items) {
      const key = this.keyOf(item);
      gone.delete(key);
      if (!this.views.has(key)) {
        this.views.set(key, this.makeView(item));
      }
      const view = this.views.get(key);
      view.update(item);
      if (view.element === before) {
        before = before.nextSibling;
      } else {
        this.parent.insertBefore(view.element, before);
      }
    }
    for (const key of gone) {
      this.views.get(key).element.remove();
      this.views.delete(key);
    }
  }
}
