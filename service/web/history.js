// The last minutes of figures, for curves: of each daemon, and of the group as a whole.

const KEPT = 300; // seconds
const GAP_S = 3; // a longer time without figures is a hole in the curves
export const GROUP = "";

const FIELDS = ["accepted", "replayed", "sold_out", "refused", "errors", "p50_ms", "p99_ms"];

const SUMS = ["accepted", "replayed", "sold_out", "refused", "errors"];

const heard = (daemon) => daemon.age_ms <= 3000;

const largest = (values) => values.reduce((most, value) =>
  (value !== null && value !== undefined && (most === null || value > most) ? value : most), null);

// What all daemons together do. Percentiles cannot be added: those of the slowest daemon stand.
export function sumOf(daemons) {
  const alive = daemons.filter(heard);
  const sum = { per_s: {}, count: daemons.length };
  for (const name of SUMS) {
    sum.per_s[name] = alive.reduce((total, daemon) => total + (daemon.per_s?.[name] ?? 0), 0);
  }
  for (const name of ["queue", "queue_max", "connections"]) {
    sum[name] = alive.reduce((total, daemon) => total + (daemon[name] ?? 0), 0);
  }
  for (const name of ["p50_ms", "p99_ms", "batch_orders"]) {
    sum[name] = largest(alive.map((daemon) => daemon[name]));
  }
  return sum;
}

const valueOf = (daemon, field) =>
  (SUMS.includes(field) ? daemon.per_s?.[field] : daemon[field]) ?? null;

class Series {
  constructor() {
    this.times = [];
    this.columns = Object.fromEntries(FIELDS.map((field) => [field, []]));
  }

  add(time, daemon) {
    const last = this.times.at(-1);
    if (last !== undefined && time <= last) {
      return; // a clock that was set back: curves go on when it has come so far again
    }
    if (last !== undefined && time - last > GAP_S) {
      this.push(last + 1, () => null);
    }
    this.push(time, (field) => valueOf(daemon, field));
  }

  push(time, value) {
    this.times.push(time);
    for (const field of FIELDS) {
      this.columns[field].push(value(field));
    }
    while (this.times[0] < time - KEPT) {
      this.times.shift();
      FIELDS.forEach((field) => this.columns[field].shift());
    }
  }
}

export class History {
  constructor() {
    this.series = new Map([[GROUP, new Series()]]);
  }

  add(time, daemons) {
    const seconds = time / 1000;
    this.of(GROUP).add(seconds, sumOf(daemons));
    for (const daemon of daemons.filter(heard)) {
      this.of(daemon.name).add(seconds, daemon);
    }
    this.forget(seconds);
  }

  of(name) {
    if (!this.series.has(name)) {
      this.series.set(name, new Series());
    }
    return this.series.get(name);
  }

  // Names of processes that are gone would pile up over a night of restarts.
  forget(seconds) {
    for (const [name, { times }] of this.series) {
      if (name !== GROUP && times.length > 0 && times.at(-1) < seconds - KEPT) {
        this.series.delete(name);
      }
    }
  }

  // The columns that a chart wants: times, then each field.
  table(name, fields) {
    const { times, columns } = this.of(name);
    return [times, ...fields.map((field) => columns[field])];
  }

  // What was at a place of the columns; undefined where there is none.
  at(name, field, index) {
    return this.of(name).columns[field]?.[index];
  }

  timeAt(name, index) {
    return this.of(name).times[index];
  }

  last(name, field, length) {
    return this.of(name).columns[field].slice(-length);
  }
}
