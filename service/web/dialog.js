// A modal dialog with a form: what it says, its buttons, and what came of it.
import { make, setText, show } from "./dom.js";
import { lockFields, makeFields, readFields } from "./form.js";

let numbers = 0;

// `onSubmit()` runs at the last button, once at a time; closing gives the focus back to whoever had
// it. tell(values) gives the sentences of what will happen.
export class Dialog {
  constructor({ title, verb, danger = false, fields = [], tell, onSubmit, onClose = () => {} }) {
    const id = `dialog-${++numbers}`;
    this.tell = tell;
    this.parts = {
      told: make("div", { class: "told", id: `${id}-told` }),
      result: make("p", { class: "result", role: "alert" }),
      cancel: make("button", { type: "button", text: "Cancel", autofocus: fields.length === 0,
        onclick: () => this.element.close() }),
      submit: make("button", { type: "submit", text: verb, class: danger ? "danger" : "primary",
        "aria-describedby": `${id}-told` }),
    };
    const { told, result, cancel, submit } = this.parts;
    this.form = make("form", { novalidate: false },
      make("h2", { id, text: title }), ...makeFields(fields), told, result,
      make("div", { class: "buttons" }, cancel, submit));
    this.element = make("dialog", { "aria-labelledby": id, onclose: () => this.end(onClose) },
      this.form);
    this.form.addEventListener("input", () => this.refresh());
    this.form.addEventListener("submit", (event) => this.submit(event, onSubmit));
  }

  open() {
    this.opener = document.activeElement;
    document.body.append(this.element);
    this.refresh();
    this.element.showModal();
  }

  end(onClose) {
    this.element.remove();
    if (this.opener?.isConnected) {
      this.opener.focus();
    }
    onClose();
  }

  values() {
    return readFields(this.form);
  }

  refresh() {
    this.say(this.tell(this.values()));
  }

  say(sentences) {
    this.parts.told.replaceChildren(...sentences.map((text) => make("p", { text })));
  }

  // What came of it: level "bad", "warn", or "" for nothing to say.
  result(level, text) {
    this.parts.result.dataset.level = level;
    setText(this.parts.result, text);
  }

  // From here on it says and sends what is fixed: the fields no longer count.
  fix(verb, sentences = null) {
    lockFields(this.form, true);
    setText(this.parts.submit, verb);
    if (sentences) {
      this.tell = () => sentences;
      this.say(sentences);
    }
  }

  // Only reading and closing are left.
  finish() {
    show(this.parts.submit, false);
    setText(this.parts.cancel, "Close");
    this.parts.cancel.focus();
  }

  async submit(event, onSubmit) {
    event.preventDefault();
    const { submit } = this.parts;
    if (submit.disabled) {
      return;
    }
    submit.disabled = true;
    this.result("", "Sending…");
    try {
      await onSubmit(this.values());
    } finally {
      submit.disabled = false;
      if (this.element.open && !submit.hidden) {
        submit.focus();
      }
    }
  }

  close() {
    this.element.close();
  }
}
