// Figures and times as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTH = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const NOTHING = "–"; // where there is no figure

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export const count = (value) => (isNumber(value) ? WHOLE.format(value) : NOTHING);

// A rate: small ones with a decimal, since 0.4 a second is not nothing.
export function rate(value) {
  if (!isNumber(value)) {
    return NOTHING;
  }
  return Math.abs(value) < 10 ? TENTH.format(value) : WHOLE.format(value);
}

export const ms = (value) => rate(value);

export const percent = (part) => (isNumber(part) ? `${WHOLE.format(part * 100)} %` : NOTHING);

export const megabytes = (bytes) => (isNumber(bytes) ? `${WHOLE.format(bytes / 1e6)} MB` : NOTHING);

export const plural = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

const two = (number) => String(number).padStart(2, "0");

// 75 s: "1:15"; a day and more: "1 d 02:03:04".
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24];
  const [minutes, rest] = [Math.floor(whole / 60) % 60, whole % 60];
  if (days > 0) {
    return `${days} d ${two(hours)}:${two(minutes)}:${two(rest)}`;
  }
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

// About how long, for what needs no second: "12 min".
export function about(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, name] of units) {
    if (seconds >= 2 * size) {
      return `${Math.round(seconds / size)} ${name}`;
    }
  }
  return `${Math.max(0, Math.round(seconds))} s`;
}

export const clock = (time) => new Date(time).toISOString().slice(11, 19);

// A moment as a line of a table: the date only where it is another day.
export function moment(text, now) {
  const time = Date.parse(text);
  if (Number.isNaN(time)) {
    return NOTHING;
  }
  const written = new Date(time).toISOString();
  const today = new Date(now).toISOString().slice(0, 10);
  const day = written.slice(0, 10);
  return day === today ? written.slice(11, 19) : `${day} ${written.slice(11, 19)}`;
}

// "sold_out" as words.
export const words = (code) => String(code ?? "").replaceAll("_", " ");

// The part of a daemon's name that people know it by: its host and port, without the process.
export const shortName = (name) => String(name).split("#")[0];

const KINDS = { redis: "Redis", ledger: "Ledger" };
export const serverName = ({ kind, name }) => `${KINDS[kind] ?? kind} ${name}`;
