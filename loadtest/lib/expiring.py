"""Unpaid orders that expire in mid-sale: what the sale's buyers notice of it."""

import statistics
import time

from harness.ledger import numbers
from harness.processes import HarnessError
from lib import metrics
from lib.run import Run
from lib.watch import Watch

PAY_WITHIN_S = 3600    # for the orders of the load: they do not expire in the run
LEAD_S = 1.5           # so that wrk runs at full speed when the first orders expire
SAMPLE_S = 0.05
FIRST_IDS = 1_000_000  # far below the service's ids

# Reserved orders that expire in a moment, spread over the segments as if they had been sold.
FILL = """
SET @due = UTC_TIMESTAMP(3) + INTERVAL {lead} SECOND;
START TRANSACTION;
UPDATE sale SET settings_version = settings_version + 1, pay_within_s = {pay} WHERE sku = '{sku}';
INSERT INTO orders(order_id, sku, round, user_id, qty, segment, created_at, expires_at)
    SELECT {first} + seq, '{sku}', 1, CONCAT('u', seq), 1, seq % {segments}, UTC_TIMESTAMP(3), @due
    FROM {numbers};
INSERT INTO order_key(user_id, idempotency_key, order_id)
    SELECT CONCAT('u', seq), CONCAT('#', {first} + seq), {first} + seq FROM {numbers};
INSERT INTO order_expiry SELECT @due, {first} + MIN(seq), {first} + MAX(seq)
    FROM {numbers} GROUP BY seq DIV 128;
UPDATE stock_segment SET settings_version = settings_version + 1, fence = fence + 1,
    sold = {orders} / {segments} WHERE sku = '{sku}';
COMMIT;
"""


class Counters(Watch):
    """Context manager: samples the service's counters as (seconds, accepted, expired)."""

    def __init__(self, fleet):
        self.fleet, self.samples = fleet, []

    def watch(self):
        while not self.ended.wait(SAMPLE_S):
            sample = self.fleet.metrics()
            self.samples.append((time.monotonic(), metrics.outcome(sample, "accepted"),
                                 sample["seckill_orders_expired_total"]))


def rate(samples, column=1):
    first, last = samples[0], samples[-1]
    if len(samples) < 2:
        raise HarnessError("the time that counts was shorter than two samples")
    return (last[column] - first[column]) / (last[0] - first[0])


def moving(samples, column):
    """The samples from the last before a counter's first step to the first after its last one."""
    first = max((n for n, s in enumerate(samples) if s[column] == samples[0][column]), default=0)
    last = min(n for n, s in enumerate(samples) if s[column] == samples[-1][column])
    return samples[first:last + 1]


def steady(samples):
    """Without wrk's start and end."""
    end = samples[-1][0]
    return [s for s in samples if s[0] > samples[0][0] + LEAD_S / 2 and s[0] < end - 0.3]


class ExpiringRun(Run):
    """In each round a sale in which nothing expires, then one of as much stock in which orders do.
    With stock enough their units come on top of it; a sold-out sale sells only the units that come
    back. `of_without` is the rate of accepted orders meanwhile ÷ that of the first sale."""

    def open_sales(self):
        self.skus = []

    def begin(self, total, expiring):
        sku = f"sale-{len(self.skus)}"
        self.skus.append(sku)
        self.asked = [sku]
        segments, count = self.settings["sale.segments"], self.settings["expiring"]
        self.fleet.reset(sku, total, segments)
        if expiring:
            self.shop.stack.ledger.run(FILL.format(
                sku=sku, first=FIRST_IDS * len(self.skus), lead=LEAD_S, pay=PAY_WITHIN_S,
                orders=count, numbers=numbers(count), segments=segments))
            self.fleet.reconcile(sku)

    def sampled(self):
        with Counters(self.fleet) as counters:
            run = self.wrk(self.settings["seconds"])
        return run, counters.samples

    def once(self):
        count, again = self.settings["expiring"], self.settings["sale.total"] != "ample"
        total = count if again else self.total()
        self.begin(total, False)
        _, samples = self.sampled()
        without = rate(moving(samples, 1) if again else steady(samples))
        self.begin(total, True)
        run, samples = self.sampled()
        window = moving(samples, 1 if again else 2)
        column = 1 if again else 2
        if window[-1][column] - window[0][column] != count:
            raise HarnessError(f"not all {count} orders expired, or were sold again, in the run")
        run.update(accepted_per_s=rate(window), without_per_s=without,
                   expired_per_s=rate(moving(samples, 2), 2), of_without=rate(window) / without)
        return run

    def loaded(self):
        result = self.rounds(self.once)
        result["of_without"] = statistics.median(run["of_without"] for run in result["rounds"])
        return result
