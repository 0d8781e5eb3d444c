// The table of the last admin actions, for whoever holds the token.
import { call, explain, token } from "./admin.js";
import { find, make, setText, show } from "./dom.js";
import { moment, shortName } from "./format.js";

const EVERY_MS = 5000;

function row(action, now) {
  const cell = (text, name = "td") => make(name, { text: text ?? "" });
  const good = action.status >= 200 && action.status < 300;
  return make("tr", { "data-state": good ? "good" : "bad" },
    cell(moment(action.at, now)), cell(action.action), cell(action.sku ?? ""), cell(action.detail),
    cell(`${good ? "✓" : "✕"} ${action.status}`), cell(action.address),
    cell(shortName(action.daemon ?? "")));
}

// Asks again every few seconds while a token is held and the page is seen.
export class Journal {
  // now(): the daemon's clock; onRefused(): the token is no longer good.
  constructor(now, onRefused) {
    Object.assign(this, { now, onRefused, shown: "" });
    setInterval(() => document.hidden || this.refresh(), EVERY_MS);
    this.refresh();
  }

  async refresh() {
    if (!token.get()) {
      this.tell("Enter the token to see them.");
      return;
    }
    const reply = await call({ method: "GET", path: "admin/actions" });
    if (reply.status === 401) {
      token.forget();
      this.onRefused();
      this.tell("The token was refused. Enter another to see them.");
    } else if (reply.outcome !== "ok") {
      this.tell(`They could not be read. ${explain(reply)}`, true);
    } else {
      this.fill(reply.json.actions ?? []);
    }
  }

  tell(text, keepsTable = false) {
    setText(find("actions-note"), text);
    show(find("actions-note"), text !== "");
    if (!keepsTable) {
      this.shown = "";
      find("actions").replaceChildren();
      show(find("actions-table"), false);
    }
  }

  fill(actions) {
    const text = JSON.stringify(actions);
    this.tell(actions.length === 0 ? "There was none since the daemons started." : "", true);
    show(find("actions-table"), actions.length > 0);
    if (text !== this.shown) {
      this.shown = text;
      find("actions").replaceChildren(...actions.map((action) => row(action, this.now())));
    }
  }
}
