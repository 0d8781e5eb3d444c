// The fields of a dialog: {name, label, type, value, and attributes of the input}.
import { make } from "./dom.js";

function input({ name, type, value, label, ...attributes }) {
  const element = make("input", { name, type, autocomplete: "off", spellcheck: "false",
    ...attributes });
  if (type === "checkbox") {
    element.checked = value;
  } else {
    element.value = value ?? "";
  }
  return element;
}

// Labels with inputs; the first gets the focus.
export function makeFields(fields) {
  return fields.map((field, index) => {
    const control = input({ ...field, autofocus: index === 0 });
    const text = make("span", { text: field.label });
    return field.type === "checkbox"
      ? make("label", { class: "field check" }, control, text)
      : make("label", { class: "field" }, text, control);
  });
}

export function readFields(form) {
  return Object.fromEntries([...form.querySelectorAll("input[name]")].map((element) =>
    [element.name, element.type === "checkbox" ? element.checked : element.value.trim()]));
}

export function lockFields(form, locked) {
  for (const element of form.querySelectorAll("input[name]")) {
    element.disabled = locked;
  }
}
