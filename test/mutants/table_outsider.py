"""Small faults that somebody who had not seen the tests put in, and that no test found then."""

from mutant import NO_PART, NOT_SEEN, Mutant

MUTANTS = {
    "request_sent_again_is_soon_given_up": Mutant(
        "a request that is sent again has all its time",
        (("sql/events/webhooks.c",
          '                : "UPDATE webhook_undelivered SET '
          'given_up_at=NULL,failing_since=UTC_TIMESTAMP(3)",\n',
          '                : "UPDATE webhook_undelivered SET given_up_at=NULL",\n'),),
        unit="test_webhooks/test_calls_of_operators_begin_the_tries_anew",
        simulated=NO_PART),
    "full_list_forgets_what_it_has": Mutant(
        "giving up is noted for requests that are set aside already",
        (("sql/events/webhooks.c",
          '               "FROM webhook_undelivered WHERE webhook=%s AND '
          'id<>%s)<%d ON DUPLICATE KEY UPDATE "\n'
          '               "given_up_at=VALUES(given_up_at),answer=VALUES(answer);"\n'
          '               "SELECT 1 FROM webhook_undelivered WHERE webhook=%s AND '
          'id=%s",\n'
          "               aside->id, aside->events, webhook->name, "
          "webhook->generation, webhook->name,\n"
          "               aside->id, WEBHOOK_UNDELIVERED_MAX, webhook->name, "
          "aside->id);\n",
          '               "FROM webhook_undelivered WHERE webhook=%s)<%d ON '
          'DUPLICATE KEY UPDATE "\n'
          '               "given_up_at=VALUES(given_up_at),answer=VALUES(answer);"\n'
          '               "SELECT 1 FROM webhook_undelivered WHERE webhook=%s AND '
          'id=%s",\n'
          "               aside->id, aside->events, webhook->name, "
          "webhook->generation, webhook->name,\n"
          "               WEBHOOK_UNDELIVERED_MAX, webhook->name, aside->id);\n"),),
        unit="test_webhooks/test_requests_set_aside_are_bounded",
        simulated=NO_PART),
    "orders_of_an_ended_round_are_not_counted": Mutant(
        "every order that expires is counted",
        (("service/workers/expiry.c",
          "    metrics_add(METRIC_ORDERS_EXPIRED, ended);\n",
          ""),),
        system="sales/test_reset.py::test_end_round_ends_reserved_orders_and_keeps_paid_ones",
        simulated=NOT_SEEN),
    "rotation_forgets_a_setting": Mutant(
        "a new secret changes no setting of a webhook",
        (("ctl/events/webhooks.c",
          '                                           "concurrency", "timeout_s", '
          '"retry_max_s", "give_up_s",\n',
          '                                           "concurrency", "timeout_s", '
          '"retry_max_s",\n'),),
        system="tools/test_seckillctl_webhooks.py::test_rotation_keeps_the_settings",
        simulated=NO_PART),
    "failing_receiver_hides_the_older_request": Mutant(
        "the oldest failure is shown",
        (("service/live/live_events.c",
          "    return receiver_ms > 0 && (ms == 0 || receiver_ms < ms) ? "
          "receiver_ms : ms;\n",
          "    return receiver_ms > 0 ? receiver_ms : ms;\n"),),
        system="events/test_webhooks.py::test_dead_and_slow_receivers_delay_nobody",
        simulated=NO_PART),
    "waiter_of_etcd_oversleeps_its_lease": Mutant(
        "a waiter keeps its place, however seldom it polls",
        (("lock/etcd/kind.c",
          "    const struct claim *claim = handle->driver_data;\n"
          "    int most_ms = claim->lease ? etcd_lease_ms(claim->lease) / 3 : "
          "*wait_ms;\n"
          "    *wait_ms = *wait_ms < most_ms ? *wait_ms : most_ms;\n",
          "    (void)wait_ms;\n"
          "    const struct claim *claim = handle->driver_data;\n"),),
        system="lock/test_lock_etcd.py::test_waiter_keeps_its_place_however_seldom_it_polls",
        simulated=NO_PART),
    "second_removal_wakes_nobody": Mutant(
        "a hold that has ended keeps nobody out",
        (("lock/etcd/removal.c",
          "    pthread_cond_signal(&removals->changed);\n",
          ""),),
        system="lock/test_lock_etcd.py::test_hold_that_has_ended_keeps_nobody_out",
        simulated=NO_PART),
    "refusal_ends_a_doubt_of_zookeeper": Mutant(
        "unknown never becomes failed",
        (("lock/zookeeper/session.c",
          "    return first == ZK_UNKNOWN && result == ZK_FAILED ? ZK_UNKNOWN : "
          "result;\n",
          "    return result;\n"),),
        system="lock/test_lock_zookeeper.py::test_refusal_after_a_lost_answer_leaves_the_doubt",
        simulated=NO_PART),
    "outage_that_is_over_still_counts": Mutant(
        "an observer bears each outage for its time",
        (("lock/election/election.c",
          "        if (result == SECLOCK_OK)\n"
          "            failed_ns = 0;\n"
          "        else if (failed_ns == 0)\n",
          "        if (result != SECLOCK_OK && failed_ns == 0)\n"),),
        unit="test_election/simple: observer_bears_a_second_outage",
        simulated=NO_PART),
    "receivers_are_noted_each_second": Mutant(
        "rest costs nothing for each webhook",
        (("service/workers/webhook_sender.c",
          "    if (receiver->changed || position != progress->position) {\n",
          "    if (receiver->changed || position >= progress->position) {\n"),),
        system="orders/test_statements.py::test_rest_costs_nothing_for_each_sale_and_webhook",
        simulated=NO_PART),
    "publisher_looks_sales_up_one_by_one": Mutant(
        "rest costs nothing for each sale",
        (("service/workers/publisher.c",
          "    if (result == LEDGER_OK && count > 0)\n"
          "        result = ledger_event_sales(ledger, publisher->sales, count);\n",
          "    for (size_t i = 0; i < count && result == LEDGER_OK; i++)\n"
          "        result = ledger_event_sales(ledger, &publisher->sales[i], 1);\n"),),
        system="orders/test_statements.py::test_rest_costs_nothing_for_each_sale_and_webhook",
        simulated=NO_PART),
    "look_ups_are_read_one_by_one": Mutant(
        "look-ups of many orders share a read",
        (("service/calls/order_state.c",
          "    enum ledger_result result = ledger_orders_find(ledger, records, "
          "count);\n"
          "    for (size_t i = 0; i < count; i++)\n"
          "        answer_found(worker, requests[i], result, &found[i]);\n",
          "    for (size_t i = 0; i < count; i++)\n"
          "        answer_found(worker, requests[i], ledger_orders_find(ledger, "
          "&records[i], 1), &found[i]);\n"),),
        system="orders/test_statements.py::test_many_calls_share_reads_and_commits",
        simulated=NO_PART),
    "each_sale_commits_its_returns": Mutant(
        "returns of many sales share a commit",
        (("stock/returns/returns.c",
          "        size_t together = held_rows_expected(stock) ? 1 : part_count;\n",
          "        size_t together = 1;\n"),),
        system="orders/test_statements.py::test_many_calls_share_reads_and_commits",
        simulated=NOT_SEEN),
}
