// The feed of events, and the receivers of webhooks: how far each has got, and what is wrong.
import { List, find, make, setData, setText, show } from "./dom.js";
import { about, count, words } from "./format.js";

const STATES = { active: "good", paused: "warn", disabled: "bad" };
const COLUMNS = ["name", "state", "lag", "delivered", "failing", "answer", "wait", "undelivered"];

function rowView() {
  const cells = Object.fromEntries(COLUMNS.map((name) => [name, make("td")]));
  return {
    element: make("tr", {}, ...Object.values(cells)),
    update({ name, state, reason, lag, delivered, failing_s: failing, last_status: answer,
      wait_s: wait, waits_for: why, undelivered }) {
      setText(cells.name, name);
      setText(cells.state, reason ? `${words(state)}: ${words(reason)}` : words(state));
      setData(cells.state, "state", failing > 0 && state === "active" ? "warn" : STATES[state]);
      setText(cells.lag, count(lag));
      setText(cells.delivered, count(delivered));
      setText(cells.failing, failing > 0 ? about(failing) : "–");
      setText(cells.answer, answer > 0 ? answer : "–");
      setText(cells.wait, wait > 0 ? `${about(wait)}: ${words(why)}` : "–");
      setText(cells.undelivered, undelivered > 0 ? count(undelivered) : "–");
      setData(cells.undelivered, "state", undelivered > 0 ? "bad" : "");
    },
  };
}

export class Receivers {
  constructor() {
    this.rows = new List(find("receivers-rows"), ({ name }) => name, rowView);
  }

  // What the live data says of events; undefined: they are off, or not known yet.
  update(events) {
    show(find("receivers"), Boolean(events));
    if (!events) {
      return;
    }
    setText(find("events-kept"), count(events.kept));
    setText(find("events-waiting"), events.waiting_s > 0 ? about(events.waiting_s) : "–");
    this.rows.update(events.webhooks);
    show(find("receivers-list"), events.webhooks.length > 0);
    show(find("receivers-none"), events.webhooks.length === 0);
  }
}
