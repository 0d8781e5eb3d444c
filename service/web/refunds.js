// The payments that the shop is to pay back: how many, how old the oldest is, and, for whoever
// holds the token, a list of them.
//
// why_no_button: only the shop knows that it has paid money back, and says so by a call of its own,
// which may want the shop token. This page has the admin token alone.
import { call, explain, token } from "./admin.js";
import { find, make, setText, show } from "./dom.js";
import { about, count, moment, words } from "./format.js";

const EVERY_MS = 5000;
const ROWS = 20; // of one page of the list
const COUNTED_MAX = 100_000; // the service counts no further

function row(payment, now) {
  const cell = (text, name = "td") => make(name, { text });
  return make("tr", {}, cell(payment.order_id), cell(payment.payment_ref), cell(payment.sku),
    cell(words(payment.outcome)), cell(words(payment.order_status)),
    cell(moment(payment.told_at, now)));
}

function path(place) {
  const after = place === "" ? "" : `&after=${encodeURIComponent(place)}`;
  return `admin/payments?state=refund_due&limit=${ROWS}${after}`;
}

// Reads the page of the list again every few seconds while there is anything in it to see.
export class Refunds {
  // now(): the daemon's clock; onRefused(): the token is no longer good.
  constructor(now, onRefused) {
    Object.assign(this, { now, onRefused, due: null, places: [""], next: null, shown: "" });
    find("refunds-next").addEventListener("click", () => this.turn([...this.places, this.next]));
    find("refunds-back").addEventListener("click", () => this.turn(this.places.slice(0, -1)));
    setInterval(() => document.hidden || this.refresh(), EVERY_MS);
  }

  // What the live data says of them; undefined: not known yet.
  update(refunds) {
    const due = refunds?.due ?? null;
    setText(find("refunds-due"), due >= COUNTED_MAX ? `${count(due)} or more` : count(due));
    setText(find("refunds-oldest"), due > 0 ? about(refunds.oldest_s) : "–");
    if (due !== this.due) {
      this.due = due;
      this.refresh();
    }
  }

  // `places` leads to another page: where each page up to it begins.
  turn(places) {
    this.places = places;
    this.refresh();
  }

  async refresh() {
    if (!(this.due > 0) || !token.get()) {
      this.clear(this.due === 0 ? "There are none."
        : token.get() ? "" : "Enter the token to see them.");
      return;
    }
    const place = this.places.at(-1);
    const reply = await call({ method: "GET", path: path(place) });
    if (reply.status === 401) {
      token.forget();
      this.onRefused();
      this.clear("The token was refused. Enter another to see them.");
    } else if (reply.outcome !== "ok") {
      this.tell(`They could not be read. ${explain(reply)}`);
    } else if (place === this.places.at(-1) && token.get()) { // nothing else is wanted meanwhile
      this.fill(reply.json, place);
    }
  }

  tell(text) {
    setText(find("refunds-note"), text);
    show(find("refunds-note"), text !== "");
  }

  clear(text) {
    this.tell(text);
    Object.assign(this, { places: [""], shown: "" });
    find("refunds-rows").replaceChildren();
    show(find("refunds-list"), false);
  }

  fill({ payments, next }, place) {
    if (payments.length === 0 && place !== "") {
      this.turn([""]); // those of this page have been paid back
      return;
    }
    const text = JSON.stringify(payments);
    this.tell("");
    this.next = next ?? null;
    find("refunds-back").disabled = place === "";
    find("refunds-next").disabled = this.next === null;
    setText(find("refunds-page"), `page ${this.places.length}`);
    show(find("refunds-list"), true);
    if (text !== this.shown) {
      this.shown = text;
      find("refunds-rows").replaceChildren(...payments.map((one) => row(one, this.now())));
    }
  }
}
