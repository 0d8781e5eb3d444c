// The live stream: it connects again by itself, however the connection was lost.
//
// why_a_watchdog: EventSource alone gives up after an HTTP error, and does not notice a connection
// that is silently dead. So whoever has heard nothing for SILENT_MS begins anew.

const SILENT_MS = 5000;
const LOST_MS = 3000; // from then on the figures count as old
const RETRY_MS = 1000;

// Calls onState(state) for every event. `age()` tells how old the last one is.
export class Stream {
  constructor(url, onState) {
    Object.assign(this, { url, onState, source: null, heardAt: null, begunAt: 0, offset: 0 });
    this.connect();
    setInterval(() => this.watch(), RETRY_MS);
  }

  connect() {
    this.source?.close();
    this.begunAt = performance.now();
    this.source = new EventSource(this.url);
    this.source.addEventListener("state", (event) => this.receive(event));
  }

  receive(event) {
    let state;
    try {
      state = JSON.parse(event.data);
    } catch {
      return; // cut off on its way: the next one comes in a second
    }
    this.heardAt = performance.now();
    this.offset = Date.parse(state.at) - Date.now() || 0;
    this.onState(state);
  }

  watch() {
    const closed = this.source.readyState === EventSource.CLOSED;
    const since = performance.now() - Math.max(this.begunAt, this.heardAt ?? 0);
    if (since > SILENT_MS || (closed && since > RETRY_MS)) {
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
    const age = this.age();
    return age === null ? performance.now() > LOST_MS : age > LOST_MS;
  }

  // The time by the daemon's clock: countdowns must not follow a wrong clock of this machine.
  now() {
    return Date.now() + this.offset;
  }
}
