// Performs an admin action: asks for the token, shows fresh figures, asks, sends, and says what
// came of it. A call without an answer is repeated with the same key and body, and so never done
// twice.
import { call, explain, newKey, token } from "./admin.js";
import { Dialog } from "./dialog.js";

// ---- the token ----

async function tryToken(dialog, secret, then) {
  const reply = await call({ method: "GET", path: "admin/actions" }, secret);
  if (reply.status === 401) {
    dialog.result("bad", "The token was refused.");
  } else if (reply.outcome === "unknown") {
    dialog.result("bad", `The token could not be checked. ${explain(reply)}`);
  } else {
    token.set(secret);
    dialog.close();
    then();
  }
}

// Calls then() once a token is held.
export function askToken(then) {
  const dialog = new Dialog({
    title: "Admin token",
    verb: "Use the token",
    fields: [{ name: "token", label: "Token", type: "password", required: true, value: "",
      pattern: "[\\x21-\\x7e]+", title: "printable ASCII without blanks" }],
    tell: () => ["It is kept in this tab until you forget it or close the tab, and sent to this " +
      "daemon alone."],
    onSubmit: (values) => tryToken(dialog, values.token, then),
  });
  dialog.open();
}

// ---- one action ----

class Performance {
  constructor(action, sku, stock, { now, onDone }) {
    Object.assign(this, { action, sku, stock, now, onDone });
    this.request = null; // that was sent last, with its key
    this.repeats = false;
    this.dialog = new Dialog({
      title: action.title(sku),
      verb: action.verb,
      danger: action.danger,
      fields: action.fields?.(stock),
      tell: (values) => action.tell(values, stock, now()),
      onSubmit: (values) => this.send(values),
    });
  }

  async send(values) {
    if (this.request === null) {
      this.request = this.withKey(this.action.send(values, this.stock));
    }
    const reply = await call(this.request);
    if (reply.outcome === "ok" || this.action.isDone?.(reply, this.repeats)) {
      this.succeed(reply.json);
    } else if (reply.outcome === "unknown") {
      this.leaveOpen(reply);
    } else {
      this.refuse(reply);
    }
  }

  withKey(request) {
    return this.action.keyed ? { ...request, key: newKey() } : request;
  }

  succeed(json) {
    this.dialog.close();
    const what = this.action.done?.(json);
    this.onDone(what ?? `Done: ${this.action.title(json.sku ?? this.sku)}`);
  }

  leaveOpen(reply) {
    this.repeats = true;
    this.dialog.fix("Repeat it");
    const how = this.action.keyed ? "is sent with the same key" : "is the same change again";
    this.dialog.result("warn", `It is unknown whether this was done. ${explain(reply)} A repeat ` +
      `is safe: it ${how}, so nothing is done twice.`);
  }

  refuse(reply) {
    const again = this.action.again?.(reply.json, this.request);
    if (reply.json.code === "unauthorized") {
      token.forget();
      this.onDone(null);
    }
    if (again) {
      this.request = this.withKey(again.request);
      this.dialog.fix(again.verb, again.tell);
      this.dialog.result("warn", "Not done yet.");
      return;
    }
    this.request = null; // the next try is another one
    const told = this.action.explain?.(reply) ?? explain(reply);
    this.dialog.result("bad", `Not done. ${told}`);
    if (this.repeats || reply.json.code === "round_mismatch" || reply.status === 401) {
      this.dialog.finish();
    }
  }
}

function complain(action, sku, reply) {
  const dialog = new Dialog({ title: action.title(sku), verb: "", tell: () => [], onSubmit() {} });
  dialog.open();
  dialog.finish();
  dialog.result("bad", `The sale could not be read, so nothing is asked. ${explain(reply)}`);
}

// `sku` is null for a new sale. context: {now(), onDone(text or null)}.
export async function perform(action, sku, context) {
  if (!token.get()) {
    askToken(() => {
      context.onDone(null);
      perform(action, sku, context);
    });
    return;
  }
  if (action.isNew) {
    new Performance(action, sku, null, context).dialog.open();
    return;
  }
  const reply = await call({ method: "GET", path: `admin/stock/${encodeURIComponent(sku)}` });
  if (reply.status === 401) {
    token.forget();
    context.onDone(null);
  }
  if (reply.outcome === "ok") {
    new Performance(action, sku, reply.json, context).dialog.open();
  } else {
    complain(action, sku, reply);
  }
}
