"""What operators do in the middle of everything else: resets, restocks, changes, an end of a sale.

Each call that takes a key comes twice, at two daemons: the second one must change nothing."""

import time
from datetime import datetime, timedelta, timezone

from chaos.cluster import DAEMONS
from chaos.kinds import kind, one_of, seconds, times

a_daemon = one_of(*range(DAEMONS))
STEADY = {"total": 60_000, "segments": 3}
LIMITED = {"total": 3000, "segments": 8}
BRIEF = {"total": 60, "segments": 2}
TERMS = {"limited": {"per_user_limit": 6, "pay_within_s": 5, "hold_max_s": 12},
         "brief": {"pay_within_s": 4, "hold_max_s": 8}}
SHAPES = {"steady": STEADY, "limited": LIMITED, "brief": BRIEF}
OPEN = {"starts_at": None, "ends_at": None, "paused": False}


def reset_body(sku):
    return {**SHAPES[sku], "end_round": True, **OPEN, "per_user_limit": None, "pay_within_s": None,
            "late_payment": "retake", "hold_max_s": None, "grace_s": None, **TERMS.get(sku, {})}


def twice(cluster, daemon, what, sku, body):
    operator = cluster.operator
    key = f"{what}{operator.record.number()}"
    for number in (daemon, (daemon + 1) % DAEMONS):
        operator.change(what, number, sku, body, key)


@kind("operator", daemon=a_daemon, sku=one_of(*SHAPES))
def reset(cluster, daemon, sku):
    twice(cluster, daemon, "reset", sku, reset_body(sku))


@kind("operator", daemon=a_daemon, sku=one_of(*SHAPES), units=times(1, 500))
def restock(cluster, daemon, sku, units):
    twice(cluster, daemon, "add", sku, {"units": units})


@kind("operator", daemon=a_daemon, limit=times(2, 9))
def change_limit(cluster, daemon, limit):
    cluster.operator.change("patch", daemon, "limited", {"per_user_limit": limit})


@kind("operator", daemon=a_daemon, limit=times(2, 9))
def limit_set_anew(cluster, daemon, limit):
    """No limit for a moment: what users have must be counted again."""
    for value in (None, limit):
        cluster.operator.change("patch", daemon, "limited", {"per_user_limit": value})


@kind("operator", daemon=a_daemon, pay_within_s=times(1, 8))
def change_time_to_pay(cluster, daemon, pay_within_s):
    cluster.operator.change("patch", daemon, "limited", {"pay_within_s": pay_within_s})


@kind("operator", daemon=a_daemon, sku=one_of("limited", "brief"), lasts=seconds(0.5, 4))
def refund_late_payments(cluster, daemon, sku, lasts):
    """Late money is paid back for a while."""
    cluster.operator.change("patch", daemon, sku, {"late_payment": "refund"})
    time.sleep(lasts)
    cluster.operator.change("patch", (daemon + 1) % DAEMONS, sku, {"late_payment": "retake"})


@kind("operator", daemon=a_daemon, sku=one_of("limited", "brief"), grace_s=one_of(None, 0, 1, 3))
def change_grace(cluster, daemon, sku, grace_s):
    cluster.operator.change("patch", daemon, sku, {"grace_s": grace_s})


@kind("operator", daemon=a_daemon, hold_max_s=one_of(None, 4, 8, 16))
def change_longest_hold(cluster, daemon, hold_max_s):
    cluster.operator.change("patch", daemon, "limited", {"hold_max_s": hold_max_s})


@kind("operator", daemon=a_daemon, lasts=seconds(0.1, 1))
def pause_sale(cluster, daemon, lasts):
    cluster.operator.change("patch", daemon, "limited", {"paused": True})
    time.sleep(lasts)
    cluster.operator.change("patch", (daemon + 1) % DAEMONS, "limited", {"paused": False})


@kind("operator", daemon=a_daemon, lasts=seconds(0.1, 1))
def change_window(cluster, daemon, lasts):
    """The sale ends soon, and then it does not."""
    ends = datetime.now(timezone.utc) + timedelta(seconds=lasts / 2)
    text = ends.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    cluster.operator.change("patch", daemon, "limited", {"ends_at": text})
    time.sleep(lasts)
    cluster.operator.change("patch", (daemon + 1) % DAEMONS, "limited", {"ends_at": None})


@kind("operator", daemon=a_daemon, gone=seconds(0, 0.5), elsewhere=one_of(False, True),
      paused=one_of(False, True, True))
def retire(cluster, daemon, gone, elsewhere, paused):
    """The sale ends for good, and the sku gets a new one. Reserved orders would forbid it, so they
    end first, by a reset; new ones may come in between if it is not paused. Refunds that are due
    forbid it, unless the operator says that they are made elsewhere; the shop makes them later all
    the same."""
    twice(cluster, daemon, "reset", "brief", {**reset_body("brief"), "paused": paused})
    cluster.operator.change("retire", daemon, "brief", {"refunds_elsewhere": elsewhere})
    time.sleep(gone)
    twice(cluster, daemon, "reset", "brief", reset_body("brief"))


@kind("operator", daemon=a_daemon, sku=one_of(*SHAPES))
def reconcile(cluster, daemon, sku):
    cluster.operator.change("reconcile", daemon, sku)
