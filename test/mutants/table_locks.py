"""Small faults for the lock library and its scripts."""

from mutant import NO_PART, Mutant

MUTANTS: dict[str, Mutant] = {
    # ---- the lease ----
    "lease_without_its_margin": Mutant(
        "a holder forgoes 1 % and 2 ms of its lease",
        (("lock/handle.c",
          "return lease_ns - lease_ns / 100 - 2 * NS_PER_MS;",
          "return lease_ns;"),),
        unit="test_lock/test_hold_is_valid_for_less_than_its_lease",
        simulated=NO_PART),
    "late_renewal_counts": Mutant(
        "a renewal that is answered after the lease does not count",
        (("lock/handle.c",
          "if (result == SECLOCK_LOST || now_ns >= handle->deadline_ns)",
          "if (result == SECLOCK_LOST)"),),
        unit="test_lock/test_renewal_answered_after_the_lease_is_a_loss",
        simulated=NO_PART),
    "watchdog_dates_answers_back": Mutant(
        "nor does one of the watchdog's",
        (("lock/watchdog.c",
          "if (handle_extend(handle, result, sent_ns, watchdog->now_ns()))",
          "if (handle_extend(handle, result, sent_ns, sent_ns))"),),
        unit="test_lock/test_watchdogs_renewal_answered_after_the_lease_is_a_loss",
        simulated=NO_PART),
    "renewal_counts_from_its_answer": Mutant(
        "a renewed lease counts from the sending of the request",
        (("lock/handle.c",
          "handle->deadline_ns = sent_ns + handle_valid_ns(handle->lease_ms);\n"
          "        atomic_",
          "handle->deadline_ns = now_ns + handle_valid_ns(handle->lease_ms);\n"
          "        atomic_"),),
        unit="test_lock/test_renewed_lease_counts_from_the_sending",
        simulated=NO_PART),
    "watchdog_sleeps_ten_seconds": Mutant(
        "a loss is told within a second when the host had slept",
        (("lock/watchdog.c", "SLEEP_MS_MAX = 1000 }", "SLEEP_MS_MAX = 10000 }"),),
        unit="test_suspend/test_hold_is_lost_while_the_host_sleeps",
        simulated=NO_PART),

    # ---- waiting ----
    "outage_counts_from_the_first_failure_ever": Mutant(
        "an answer ends an outage: a later one has outage_ms of its own",
        (("lock/lock.c", "wait->failed_ns = wait->retry_ms = 0;", "wait->retry_ms = 0;"),),
        unit="test_lock/test_waiter_bears_a_second_outage",
        simulated=NO_PART),
}
