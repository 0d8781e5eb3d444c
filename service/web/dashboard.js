// The dashboard: joins the feed, the views and the admin actions.
import { create } from "./actions.js";
import { token } from "./admin.js";
import { note, showConditions } from "./alarm_view.js";
import { Watch, changesOf, conditionsOf, lostCondition, serversOf } from "./alarms.js";
import { Daemons } from "./daemons.js";
import { find, setData, setText, show } from "./dom.js";
import { Feed } from "./feed.js";
import { Figures } from "./figures.js";
import { clock, plural, shortName } from "./format.js";
import { History } from "./history.js";
import { Journal } from "./journal.js";
import { askToken, perform } from "./perform.js";
import { Receivers } from "./receivers.js";
import { Refunds } from "./refunds.js";
import { Sales } from "./sales.js";
import { themeButton } from "./theme.js";

const TICK_MS = 250;
const DONE_MS = 8000;

const history = new History();
const watch = new Watch();
const figures = new Figures(history);
const feed = new Feed("dashboard/live", receive);
const now = () => feed.now();
const sales = new Sales((action, sale) => perform(action, sale.sku, context), now);
const daemons = new Daemons((name, length) => history.last(name, "accepted", length), now);
const journal = new Journal(now, showToken);
const refunds = new Refunds(now, showToken);
const receivers = new Receivers();
const context = { now, onDone: finish };
let last = null; // the last state
let doneTimer;

// ---- the feed ----

function receive(state) {
  history.add(Date.parse(state.at), state.daemons);
  note(changesOf(last, state), Date.parse(state.at));
  last = state;
  setText(find("serving"), shortName(state.daemon));
  figures.update(state);
  sales.update(state);
  daemons.update(state);
  refunds.update(state.refunds);
  receivers.update(state.events);
  judge();
}

function calm() {
  const servers = serversOf(last.daemons).length;
  return `All well: ${plural(last.daemons.length, "daemon")}, ${plural(servers, "server")}`;
}

// What is wrong: the feed itself, and what its last event said.
function judge() {
  const lost = feed.lost();
  const conditions =
    [...(lost ? [lostCondition(feed)] : []), ...(last ? conditionsOf(last) : [])];
  setData(document.body, "lost", lost);
  setData(find("link"), "state", lost ? "bad" : last ? "good" : "wait");
  setText(find("link"), feed.refused ? "wants the token"
    : lost ? `no answer since ${feed.silentSeconds()} s`
    : last ? "live" : "connecting");
  note(watch.compare(conditions, performance.now()), now());
  if (lost || last) {
    showConditions(conditions, lost ? "" : calm());
  }
}

function tick() {
  setText(find("clock"), clock(now()));
  sales.tick();
  judge();
}

// ---- the token and the actions ----

function showToken() {
  setText(find("token"), token.get() ? "Forget token" : "Enter token");
  setData(document.body, "token", Boolean(token.get()));
}

function clickToken() {
  if (token.get()) {
    token.forget();
    finish("The token is forgotten");
  } else {
    askToken(() => finish("The token is good"));
  }
}

// An action has ended, or the token has changed (no text).
function finish(text) {
  showToken();
  feed.changeToken();
  journal.refresh();
  refunds.refresh();
  if (text) {
    setText(find("done"), text);
    show(find("done"), true);
    clearTimeout(doneTimer);
    doneTimer = setTimeout(() => show(find("done"), false), DONE_MS);
  }
}

find("token").addEventListener("click", clickToken);
find("create").addEventListener("click", () => perform(create(), null, context));
themeButton(find("theme"), () => figures.redraw());
showToken();
setInterval(tick, TICK_MS);
