// Drives a headless Chromium: reads one command a line as JSON, answers each with a line of JSON.
//
// Commands: {"do": NAME, ...}; answers: {"value": ...} or {"error": TEXT}. See class Chrome in
// chrome.py, which speaks to it.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { setTimeout } from "node:timers/promises";
import { chromium } from "playwright-core";

const axe = createRequire(import.meta.url)("axe-core");
const ACTION_MS = 100_000; // a bound for hangs, as wait_until has it
const POLL_MS = 50; // between two looks at a condition, at first
const POLL_MS_MAX = 200;
const LAUNCH = {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  headless: true,
  chromiumSandbox: false,
  timeout: ACTION_MS,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage"],
};

const browser = await chromium.launch(LAUNCH);
const pages = new Map(); // by the name that the test gave: {page, context, errors}

// What a user would find in the console of this page, from its first byte on.
function watch(page, errors) {
  page.on("console", (message) => {
    if (message.type() === "error") {
      errors.push(`${message.text()} ${message.location().url}`);
    }
  });
  page.on("pageerror", (error) => errors.push(String(error.stack || error)));
}

// Accessibility findings that axe calls serious or worse, one line each.
async function findings(page) {
  if (!await page.evaluate("'axe' in globalThis")) {
    await page.evaluate(axe.source);
  }
  // It need not describe what passes.
  const { violations } = await page.evaluate(
    () => globalThis.axe.run({ resultTypes: ["violations"] }));
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${help}: ${target}: ${failureSummary}`));
}

const commands = {
  async open({ name, url, width, height, options }) {
    await commands.close({ name });
    const context = await browser.newContext({ viewport: { width, height }, ...options });
    context.setDefaultTimeout(ACTION_MS);
    const page = await context.newPage();
    const errors = [];
    watch(page, errors);
    pages.set(name, { page, context, errors });
    await page.goto(url, { waitUntil: "load" });
  },
  async close({ name }) {
    await pages.get(name)?.context.close();
    pages.delete(name);
  },
  async close_all() {
    await Promise.all([...pages.keys()].map((name) => commands.close({ name })));
  },
  async page({ name, method, args }) {
    const [object, verb] = method.includes(".") ? method.split(".") : [null, method];
    const { page } = pages.get(name);
    const target = object ? page[object] : page;
    const value = await target[verb](...args);
    return isPlain(value) ? value : null;
  },
  async locator({ name, selector, method, args }) {
    const value = await pages.get(name).page.locator(selector)[method](...args);
    return isPlain(value) ? value : null;
  },
  // Not waitForFunction: it makes a function of the text in the page; a strict policy forbids that.
  async wait({ name, code, timeout }) {
    const began = Date.now();
    while (!await pages.get(name).page.evaluate(code)) {
      const waited = Date.now() - began;
      if (waited > timeout) {
        throw new Error(`Timeout of ${timeout} ms`);
      }
      await setTimeout(Math.min(Math.max(waited / 10, POLL_MS), POLL_MS_MAX));
    }
  },
  axe: ({ name }) => findings(pages.get(name).page),
  errors: ({ name }) => pages.get(name).errors.splice(0),
};

// Not a handle, a buffer or a response, which JSON cannot carry.
function isPlain(value) {
  return value === null || ["string", "number", "boolean"].includes(typeof value) ||
    Array.isArray(value) || Object.getPrototypeOf(value ?? 0) === Object.prototype;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { do: what, ...how } = JSON.parse(line);
  let answer;
  try {
    answer = { value: await commands[what](how) ?? null };
  } catch (error) {
    answer = { error: String(error.message || error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
