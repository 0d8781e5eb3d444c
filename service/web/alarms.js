// What is wrong now, and what has changed since the last look.
import { about, clock, plural, rate, serverName, shortName, words } from "./format.js";

export const SILENT_MS = 3000;
const QUEUE_FULL = 0.8;
const CALM_MS = 3000;
const REFUND_LATE_S = 3600;
const EVENTS_LATE_S = 10;
const RECEIVER_LATE_S = 600;

export const isSilent = (daemon) => daemon.age_ms > SILENT_MS;

// Every server that a daemon speaks of, with what each says: [{kind, name, reports: [...]}].
export function serversOf(daemons) {
  const servers = new Map();
  for (const daemon of daemons) {
    for (const server of daemon.servers ?? []) {
      const key = serverName(server);
      if (!servers.has(key)) {
        servers.set(key, { ...server, key, reports: [] });
      }
      servers.get(key).reports.push({ ...server, daemon: daemon.name, silent: isSilent(daemon) });
    }
  }
  return [...servers.values()];
}

// What most deserves to be seen: a bad state that any daemon reports.
export function worstReport(server) {
  const fresh = server.reports.filter((report) => !report.silent);
  return fresh.find(({ state }) => state !== "ok") ?? fresh[0] ?? server.reports[0];
}

const bad = (key, text) => ({ key, level: "bad", text });
const warning = (key, text) => ({ key, level: "warn", text });

function ofServers(daemons) {
  return serversOf(daemons).flatMap((server) => {
    const { state, silent } = worstReport(server);
    if (state === "ok" || silent) {
      return [];
    }
    const seen = server.reports.filter((report) => report.state === state).length;
    return [bad(`server ${server.key} ${state}`,
      `${server.key} is ${words(state)}, say ${seen} of ${plural(daemons.length, "daemon")}`)];
  });
}

function ofDaemon(daemon) {
  const name = shortName(daemon.name);
  const found = [];
  if (isSilent(daemon)) {
    return [bad(`silent ${daemon.name}`,
      `Daemon ${name} is silent since ${Math.round(daemon.age_ms / 1000)} s`)];
  }
  if (daemon.state === "not_ready") {
    found.push(bad(`not ready ${daemon.name}`, `Daemon ${name} is not ready`));
  } else if (daemon.state === "draining") {
    found.push(warning(`draining ${daemon.name}`, `Daemon ${name} is draining: it stops soon`));
  }
  if (daemon.per_s?.errors > 0) {
    found.push(bad(`errors ${daemon.name}`,
      `Daemon ${name} answers ${rate(daemon.per_s.errors)} orders a second with an error`));
  }
  if (daemon.queue_max > 0 && daemon.queue >= QUEUE_FULL * daemon.queue_max) {
    found.push(warning(`queue ${daemon.name}`, `The queue of daemon ${name} is nearly full`));
  }
  return found;
}

function ofRefunds({ due, oldest_s: oldest } = {}) {
  const waiting = plural(due, "payment is", "payments are");
  return oldest > REFUND_LATE_S
    ? [warning("refunds", `${waiting} to be paid back, the oldest for ${about(oldest)}`)] : [];
}

function ofEvents({ waiting_s: waiting, webhooks } = { webhooks: [] }) {
  const found = waiting > EVENTS_LATE_S
    ? [warning("events", `Events are published late: the oldest waits for ${about(waiting)}`)] : [];
  for (const { name, state, reason, failing_s: failing } of webhooks) {
    if (state === "disabled") {
      found.push(bad(`webhook ${name}`, `Webhook ${name} is disabled: ${words(reason)}`));
    } else if (state === "active" && failing > RECEIVER_LATE_S) {
      found.push(warning(`webhook ${name}`, `Webhook ${name} fails for ${about(failing)}`));
    }
  }
  return found;
}

const SERVERS = { redis: "Redis", ledger: "The ledger" };

// The conditions of this state, the bad ones first. A key names one condition from tick to tick.
export function conditionsOf(state) {
  const found = [...ofServers(state.daemons), ...state.daemons.flatMap(ofDaemon),
    ...ofRefunds(state.refunds), ...ofEvents(state.events)];
  if (state.error) {
    const server = SERVERS[state.error.server] ?? state.error.server;
    found.push(bad(`error ${state.error.server}`,
      `${server} could not be asked, so the sales’ figures are old: ${state.error.detail}`));
  }
  return found.sort((a, b) => (a.level === b.level ? 0 : a.level === "bad" ? -1 : 1));
}

// The feed gives nothing: the figures are those of the last state.
export function lostCondition(feed) {
  if (feed.refused) {
    return warning("token", "The figures are shown to holders of the admin token: enter it.");
  }
  const age = feed.age();
  const figures = age === null ? "there are no figures yet"
    : `all figures are those of ${clock(feed.now() - age)}`;
  return bad("lost", `No answer since ${feed.silentSeconds()} s: ${figures}. ` +
    "The page goes on trying.");
}

// ---- what has changed ----

const SALE_CHANGES = {
  sold_out: ["warn", "is sold out"],
  paused: ["warn", "is paused"],
  ended: ["warn", "has ended"],
  open: ["good", "is open"],
  scheduled: ["good", "is not open yet"],
  counting: ["warn", "counts what each user has"],
};

function saleChanges(before, now) {
  const known = new Map(before.map((sale) => [sale.sku, sale]));
  const changes = now.flatMap((sale) => {
    const was = known.get(sale.sku);
    known.delete(sale.sku);
    if (!was) {
      return [["good", `Sale ${sale.sku} is new: round ${sale.round}`]];
    }
    const next = was.round === sale.round ? []
      : [["good", `Sale ${sale.sku} has begun round ${sale.round}`]];
    const [level, what] = SALE_CHANGES[sale.state] ?? ["warn", `is ${words(sale.state)}`];
    return was.state === sale.state ? next : [...next, [level, `Sale ${sale.sku} ${what}`]];
  });
  return [...changes, ...[...known.keys()].map((sku) => ["warn", `Sale ${sku} is gone`])];
}

function daemonChanges(before, now) {
  const [had, has] = [before, now].map((daemons) => new Set(daemons.map(({ name }) => name)));
  return [
    ...[...has].filter((name) => !had.has(name)).map((name) => ["good", `Daemon ${name} is here`]),
    ...[...had].filter((name) => !has.has(name)).map((name) => ["warn", `Daemon ${name} is gone`]),
  ];
}

// What an operator would want to have noticed between two states: [[level, text], ...].
export function changesOf(before, now) {
  if (!before) {
    return [];
  }
  const sales = now.error || before.error ? [] : saleChanges(before.sales, now.sales);
  return [...daemonChanges(before.daemons, now.daemons), ...sales];
}

// Conditions that began and ended since the last look. One that comes and goes every second is told
// once: it has ended when it was not seen for CALM_MS.
export class Watch {
  constructor() {
    this.present = new Map(); // by key: {text, seen}
  }

  compare(conditions, now) {
    const changes = [];
    for (const { key, level, text } of conditions) {
      if (!this.present.has(key)) {
        changes.push([level, text]);
      }
      this.present.set(key, { text, seen: now });
    }
    for (const [key, { text, seen }] of this.present) {
      if (now - seen > CALM_MS) {
        this.present.delete(key);
        changes.push(["good", `No longer: ${text}`]);
      }
    }
    return changes;
  }
}
