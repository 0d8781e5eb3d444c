// What the daemon says each second: asked for again and again, whatever the answer.
import { token } from "./admin.js";

const ASK_MS = 1000;
const TIMEOUT_MS = 5000;
const LOST_MS = 3000; // from then on the figures count as old

// Calls onState(state) for every state that is new. `age()` tells how old the last one is;
// `refused` that there will be none before another token is held.
export class Feed {
  constructor(url, onState) {
    Object.assign(this, { url, onState, at: null, heardAt: null, offset: 0, refused: false });
    this.ask();
    setInterval(() => this.ask(), ASK_MS);
  }

  // Another token is held, or none any more.
  changeToken() {
    this.refused = false;
    this.ask();
  }

  // One question at a time: a server that hangs is not asked again before the time limit.
  async ask() {
    if (this.asking || this.refused) {
      return;
    }
    this.asking = true;
    try {
      this.receive(await this.fetch(token.get()));
    } catch { // no answer: the next question may have one
    } finally {
      this.asking = false;
    }
  }

  // The state, or nothing.
  async fetch(secret) {
    const response = await fetch(this.url, {
      headers: secret ? { Authorization: `Bearer ${secret}` } : {},
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    this.refused = response.status === 401 && secret === token.get();
    return response.ok ? response.json() : null;
  }

  receive(state) {
    if (!state || state.at === this.at) {
      return;
    }
    Object.assign(this, { at: state.at, heardAt: performance.now() });
    this.offset = Date.parse(state.at) - Date.now() || 0;
    queueMicrotask(() => this.onState(state)); // its errors are none of the network's
  }

  // Milliseconds since the last state; null before the first.
  age() {
    return this.heardAt === null ? null : performance.now() - this.heardAt;
  }

  // Since the last state, or since the page was opened.
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
