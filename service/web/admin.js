// Calls of the admin interface: the token, and what became of a call in one of four outcomes.

const STORED = "seckill.token"; // for this tab only, and gone with it
const ANSWER_MS = 15_000;

export const token = {
  get: () => sessionStorage.getItem(STORED),
  set: (text) => sessionStorage.setItem(STORED, text),
  forget: () => sessionStorage.removeItem(STORED),
};

// A key for one action and its repeats. Not randomUUID: plain HTTP does not have it.
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function headersOf({ body, key }, secret) {
  return {
    Authorization: `Bearer ${secret}`,
    ...(body ? { "Content-Type": "application/json" } : {}),
    ...(key ? { "Idempotency-Key": key } : {}),
  };
}

// null: there is none, or the answer was cut off.
async function readJson(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

// "ok"; "no": refused; "failed": certainly not done; "unknown": perhaps done.
function outcomeOf(status, code) {
  if (status >= 200 && status < 300) {
    return "ok";
  }
  if (status < 500) {
    return "no";
  }
  return ["unavailable", "overloaded"].includes(code) ? "failed" : "unknown";
}

// {outcome, status, json}; it never throws. Without a whole answer the outcome is unknown.
export async function call({ method, path, body, key }, secret = token.get()) {
  try {
    const response = await fetch(path, {
      method,
      headers: headersOf({ body, key }, secret),
      body: body ? JSON.stringify(body) : undefined,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const json = await readJson(response);
    if (response.ok && json === null) {
      throw new Error("it was cut off");
    }
    const { status } = response;
    return { outcome: outcomeOf(status, json?.code), status, json: json ?? {} };
  } catch (error) {
    return { outcome: "unknown", status: 0, json: {}, error: String(error.message ?? error) };
  }
}

// A refusal or failure as a sentence.
export function explain({ status, json, error }) {
  if (json.code === "unauthorized") {
    return "The token was refused.";
  }
  if (json.code === "round_mismatch") {
    return json.round === 0 ? "There is no such sale any more."
      : `The sale is in round ${json.round} now: somebody has reset it meanwhile.`;
  }
  if (json.detail) {
    return `${json.detail} (${status} ${json.code})`;
  }
  return status > 0 ? `The service answered ${status}.` : `No complete answer came (${error}).`;
}
