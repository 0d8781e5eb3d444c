// The live stream: it connects again by itself, however the connection was lost.
//
// why_no_EventSource: that cannot send the admin token, gives up after an HTTP error, and does not
// notice a connection that is silently dead. Here whoever has heard nothing for SILENT_MS begins
// anew.
import { token } from "./admin.js";

const SILENT_MS = 5000;
const LOST_MS = 3000; // from then on the figures count as old
const RETRY_MS = 1000;

// Calls onState(state) for every event. `age()` tells how old the last one is; `refused` that there
// will be none before another token is held.
export class Stream {
  constructor(url, onState) {
    Object.assign(this, { url, onState, heardAt: null, begunAt: 0, offset: 0, refused: false });
    this.connect();
    setInterval(() => this.watch(), RETRY_MS);
  }

  connect() {
    const connection = new AbortController();
    this.connection?.abort();
    Object.assign(this, { connection, begunAt: performance.now(), secret: token.get() });
    this.read(connection).catch(() => {}).finally(() => connection.abort());
  }

  // Another token is held, or none any more.
  changeToken() {
    if (this.secret !== token.get()) {
      this.connect();
    }
  }

  async read({ signal }) {
    const response = await fetch(this.url, {
      headers: this.secret ? { Authorization: `Bearer ${this.secret}` } : {},
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal,
    });
    if (signal.aborted) {
      return;
    }
    this.refused = response.status === 401;
    if (!response.ok) {
      return;
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = "", piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const events = (text + piece.value).split("\n\n");
      text = events.pop();
      events.forEach((event) => this.receive(event));
    }
  }

  receive(event) {
    const data = event.split("\n").find((line) => line.startsWith("data: "));
    if (!data) {
      return;
    }
    const state = JSON.parse(data.slice("data: ".length));
    this.heardAt = performance.now();
    this.offset = Date.parse(state.at) - Date.now() || 0;
    queueMicrotask(() => this.onState(state)); // its errors are no reason to connect again
  }

  watch() {
    const { aborted } = this.connection.signal;
    const since = performance.now() - Math.max(this.begunAt, this.heardAt ?? 0);
    if (!this.refused && (since > SILENT_MS || (aborted && since > RETRY_MS))) {
      this.connect();
    }
  }

  // Milliseconds since the last event; null before the first.
  age() {
    return this.heardAt === null ? null : performance.now() - this.heardAt;
  }

  // Since the last event, or since the page was opened.
  silentSeconds() {
    return Math.round((this.age() ?? performance.now()) / 1000);
  }

  lost() {
    if (this.refused) {
      return true;
    }
    const age = this.age();
    return age === null ? performance.now() > LOST_MS : age > LOST_MS;
  }

  // The time by the daemon's clock: countdowns must not follow a wrong clock of this machine.
  now() {
    return Date.now() + this.offset;
  }
}
