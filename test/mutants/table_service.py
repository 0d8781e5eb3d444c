"""Small faults for the process: HTTP, requests, workers, configuration, metrics."""

from mutant import NO_PART, Mutant

MUTANTS: dict[str, Mutant] = {
    # ---- heads ----
    "library_answers_by_itself": Mutant(
        "what libmicrohttpd refuses is answered with a problem document",
        (("service/http/refusal.c",
          "    reply_past_libmicrohttpd(connection,", "    (void)(connection,"),),
        system="http/test_heads.py::test_first_line_that_is_none",
        simulated=NO_PART),
    "head_fills_the_memory": Mutant(
        "a head that leaves no memory for an answer is refused, never closed in silence",
        (("service/http/head.c", "MEMORY_MAX = CONNECTION_MEMORY - REPLY_BYTES,",
          "MEMORY_MAX = CONNECTION_MEMORY,"),),
        system="http/test_heads.py::test_long_head",
        simulated=NO_PART),
    "head_with_gaps": Mutant(
        "a head that a proxy may read otherwise is refused",
        (("service/http/head_0_9.c", "    return !gaps->broken;", "    return true;"),),
        system="http/test_heads.py::test_head_that_others_may_read_otherwise",
        simulated=NO_PART),
    # ---- the time of a call ----
    "deadlines_twice_as_long": Mutant(
        "every call is answered within the bound of its class",
        (("service/request/request.c",
          "request->http.until_ns = request->arrived_ns + bound_ms * CLOCK_NS_PER_MS;",
          "request->http.until_ns = request->arrived_ns + 2 * bound_ms * CLOCK_NS_PER_MS;"),),
        system="orders/test_deadline.py::test_calls_are_answered_within_the_deadline"),
    "bounds_twice_as_long": Mutant(
        "a call takes deadline_ms at most, or lease_ms and half of it when it waits for locks",
        (("service/request/request.c", "int usual_ms = (int)config->deadline_ms,",
          "int usual_ms = 2 * (int)config->deadline_ms,"),),
        unit="test_call_kind/test_locks_give_more_time_and_never_less",
        system="orders/test_deadline.py::"
        "test_every_class_has_its_bound_while_a_server_stands_still[maria_server]",
        simulated=NO_PART),
    "incomplete_request_waits_twice": Mutant(
        "a request that is not complete in time hears so at its deadline",
        (("service/http/exchange.c",
          "thread->now_ns + (int64_t)thread->service->config.deadline_ms * CLOCK_NS_PER_MS;",
          "thread->now_ns + (int64_t)thread->service->config.deadline_ms * 2000000;"),),
        system="orders/test_deadline.py::test_request_that_is_not_complete_in_time_hears_so[body]",
        simulated=NO_PART),
    "time_counts_from_complete_request": Mutant(
        "the time of an order counts from its first line, however slowly its client sends it",
        (("service/request/request.c",
          "request->http.until_ns = request->arrived_ns + bound_ms * CLOCK_NS_PER_MS;",
          "request->http.until_ns = request->http.complete_ns + bound_ms * CLOCK_NS_PER_MS;"),),
        system="orders/test_deadline.py::test_time_of_an_order_counts_from_its_first_line",
        simulated=NO_PART),
    "operators_held_for_four_seconds": Mutant(
        "operators' calls are held for a quarter of a second at most",
        (("service/http/fair.c",
          "HOLD_OPERATORS_MS_MAX = 250,", "HOLD_OPERATORS_MS_MAX = 4000,"),),
        unit="test_orders_first/test_operators_wait_for_a_quarter_of_a_second_at_most",
        simulated=NO_PART),
    "probes_count_as_buyers": Mutant(
        "operators' calls and probes do not wait behind buyers'",
        (("service/http/fair.c", "ROUTE_BIT(route->class) & ROUTE_OPERATORS_OWN ? 2 : 0",
          "route->class == ROUTE_ADMIN ? 2 : 0"),),
        unit="test_orders_first/test_operators_wait_for_a_quarter_of_a_second_at_most",
        simulated=NO_PART),
    "calls_held_though_orders_stand_still": Mutant(
        "no call is held while orders stand still",
        (("service/http/fair.c", "return crowd && since(thread, fair->answered_ns, STUCK_MS);",
          "return crowd;"),),
        unit="test_orders_first/test_nobody_waits_while_orders_stand_still",
        simulated=NO_PART),

    # ---- what is told at the deadline and at the end ----
    "id_at_the_deadline_is_not_the_orders": Mutant(
        "outcome_unknown names the id under which the order is found",
        (("service/workers/orders.c",
          "        atomic_store_explicit(&request->published_id, id, memory_order_relaxed);\n",
          ""),),
        system="orders/test_deadline.py::"
        "test_order_accepted_after_its_deadline_has_the_id_that_was_told",
        simulated=NO_PART),
    "untaken_order_called_unclear": Mutant(
        "an order that no worker has taken at its deadline is unavailable, and never accepted",
        (("service/request/request.c",
          "    if (state == REQUEST_WITHDRAWN || (!order && !request->call.changes))",
          "    if (!order && !request->call.changes)"),),
        system="orders/test_deadline.py::"
        "test_order_past_its_deadline_is_timed_and_counted_once"),
    "late_order_is_put_back": Mutant(
        "an order whose client has gone takes no place beyond its deadline",
        (("service/workers/orders.c",
          "bool over = again && stock_order_late(&request->order, now_ns);",
          "bool over = false;"),),
        system="orders/test_deadline.py::"
        "test_orders_whose_clients_have_gone_end_with_their_deadline",
        simulated=NO_PART),
    "orders_stay_in_a_stopped_queue": Mutant(
        "a daemon that stops takes what waits out of its queues",
        (("service/workers/orders.c", "while (!queue_stopped(queue) || queue_waiting(queue)) {",
          "while (!queue_stopped(queue)) {"),),
        system="process/test_lifecycle.py::test_drain_out_of_time_leaves_nobody_waiting",
        simulated=NO_PART),
    "calls_stay_in_a_stopped_queue": Mutant(
        "a daemon that stops takes what waits out of its queues",
        (("service/workers/calls.c", "while (!queue_stopped(queue) || queue_depth(queue) > 0) {",
          "while (!queue_stopped(queue)) {"),),
        system="process/test_lifecycle.py::test_drain_out_of_time_answers_every_call",
        simulated=NO_PART),
    "end_leaves_orders_without_an_answer": Mutant(
        "when drain_ms are over, orders that still wait are answered",
        (("service/http/loop.c",
          "    thread->ending = true; /* time is up: treat every deadline as passed */\n", ""),),
        system="process/test_lifecycle.py::test_drain_out_of_time_leaves_nobody_waiting",
        simulated=NO_PART),
    "drain_forgets_requests_being_sent": Mutant(
        "a daemon that drains waits for requests that are still being sent",
        (("service/http/loop.c",
          "bool waiting = thread->in_flight > 0 || thread->lists[CONNECTION_BUSY].count > 0 ||\n"
          "                       thread->lists[CONNECTION_SENDING].count > 0;",
          "bool waiting = thread->in_flight > 0 || thread->lists[CONNECTION_BUSY].count > 0;"),),
        system="process/test_lifecycle.py::test_drain_waits_for_the_rest_of_a_request",
        simulated=NO_PART),
    "signal_does_not_shorten_late_drain": Mutant(
        "a signal after a drain call ends the daemon within lame_duck_ms",
        (("service/drain.c",
          "        drain->half_ns = (usual_ns - now_ns) / 2;\n"
          "        pthread_cond_signal(&drain->sooner);\n",
          "        drain->half_ns = (usual_ns - now_ns) / 2;\n"),),
        system="process/test_logs.py::"
        "test_a_signal_in_the_second_half_does_not_wait_for_the_longer_time_of_a_call",
        simulated=NO_PART),
    "started_only_when_redis_is_up": Mutant(
        "the service manager hears READY=1 at the latest 30 s after the ledger is prepared",
        (("service/supervise.c",
          "if (view->prepared && manager.prepared_ns == 0)",
          "if (view->prepared)"),),
        unit="test_supervise/test_ready_comes_without_redis_after_a_while",
        simulated=NO_PART),

    # ---- what is known of the servers ----
    "old_answers_of_probes_count": Mutant(
        "a server whose last answer is older than a second is down in /readyz",
        (("service/workers/health.c", "ANSWER_AGE_MS = 1000, ", "ANSWER_AGE_MS = 20000,"),),
        system="faults/test_faults.py::"
        "test_readyz_trusts_no_answer_that_is_older_than_a_second[redis]",
        simulated=NO_PART),

    # ---- what is remembered ----
    "sold_out_remembered_for_long": Mutant(
        "a daemon that misses a message hears of units that came back after a second",
        (("service/service.c", "REMEMBER_LEFT_MS = 1000,", "REMEMBER_LEFT_MS = 20000,"),),
        system="orders/test_memory.py::test_sold_out_is_forgotten_in_time_without_a_message",
        simulated=NO_PART),
    "subscription_forgets_nothing": Mutant(
        "what changed while a daemon was not subscribed is not refused by its memory afterwards",
        (("service/workers/invalidation.c",
          "    sale_cache_invalidate(cache); /* after subscribing: no later message is missed */\n",
          ""),),
        system="orders/test_memory.py::test_sold_out_is_forgotten_with_the_subscription",
        simulated=NO_PART),
    "last_units_known_short": Mutant(
        "an order for exactly what is left is taken",
        (("service/calls/order.c",
          "sale_known_short(sale, order->qty, now_ns)",
          "sale_known_short(sale, order->qty + 1, now_ns)"),),
        system="orders/test_order.py::test_sold_out_is_409_and_a_smaller_qty_may_still_succeed",
        simulated=NO_PART),
    "change_of_unread_sale_not_counted": Mutant(
        "after a change its daemon's stock page shows what the ledger says after it",
        (("service/request/stock_snapshot.c",
          "    set->changes++;\n    if (place)\n        drop(snapshots, place, &dropped);",
          "    if (place) {\n"
          "        set->changes++;\n"
          "        drop(snapshots, place, &dropped);\n"
          "    }"),),
        unit="test_stock_snapshot/test_what_was_asked_before_a_change_is_not_kept",
        simulated=NO_PART),

    # ---- connections and clients ----
    "first_forwarded_headers_kept": Mutant(
        "the client is the right-most address that is no trusted proxy, however many it "
        "has named",
        (("service/http/head.c",
          "if (value && strcasecmp(name, \"X-Forwarded-For\") == 0)",
          "if (value && strcasecmp(name, \"X-Forwarded-For\") == 0 && forwarded->count < "
          "FORWARDED_MAX)"),),
        system="orders/test_rate.py::"
        "test_address_is_the_proxys_word_whatever_the_client_has_sent",
        simulated=NO_PART),
    "unread_answers_count_as_served": Mutant(
        "clients that never read their answers displace each other, not those that are served",
        (("service/http/exchange.c",
          "        connection_move(connection, CONNECTION_STRANGER);\n    return result;",
          "        connection_move(connection, CONNECTION_SERVED);\n    return result;"),),
        system="http/test_connections.py::"
        "test_connection_that_was_served_outlives_answers_that_nobody_reads",
        simulated=NO_PART),
    "second_daemon_on_many_threads_address": Mutant(
        "a second daemon on the same address ends, whatever its threads",
        (("service/http/listen.c",
          "if (shared && share == LISTENER_OWN && !is_free(where))",
          "if (!shared && share == LISTENER_OWN && !is_free(where))"),),
        unit="test_listen/test_own_address_is_refused_to_a_second_listener",
        system="process/test_lifecycle.py::test_second_daemon_on_a_port_is_told[2]",
        simulated=NO_PART),

    # ---- calls ----
    "if_round_zero_ignored": Mutant(
        "a reset with if_round 0 creates a sale only when there is none",
        (("service/calls/sale.c",
          "asked->only_if = (asked->found & 1U) != 0; /* the first field, if_round */",
          "asked->only_if = asked->if_round != 0;"),),
        system="sales/test_reset.py::test_if_round_lets_one_of_two_operators_through",
        simulated=NO_PART),
    "payment_waits_until_deadline": Mutant(
        "a payment whose order is locked is unavailable after half of its time",
        (("service/calls/order_state.c",
          "return (int)(worker->service->config.deadline_ms / 2 - passed_ms);",
          "return (int)(worker->service->config.deadline_ms - passed_ms);"),),
        system="orders/test_state.py::"
        "test_payment_of_an_order_that_is_changing_is_refused_before_its_deadline",
        simulated=NO_PART),
    "negative_offset_minutes_added": Mutant(
        "a time is read with any offset",
        (("service/calls/fields.c",
          "*minutes_out = (hours * 60 + minutes) * (*at == '-' ? -1 : 1);",
          "*minutes_out = hours * 60 * (*at == '-' ? -1 : 1) + minutes;"),),
        unit="test_sale_time/test_times_are_read_to_the_ms",
        simulated=NO_PART),
    "shop_lists_fill_all_memory": Mutant(
        "the shop's lists leave memory for the operators'",
        (("service/calls/list.c",
          "bool shop = asked->filter.user_id[0] != '\\0';",
          "bool shop = asked->filter.sku[0] != '\\0';"),),
        system="http/test_overload.py::"
        "test_long_answers_that_nobody_reads_do_not_fill_the_memory",
        simulated=NO_PART),
    "address_burst_needs_restart": Mutant(
        "SIGHUP changes every rate at once",
        (("service/service.c",
          " [OPTION_rate_address_burst] = true,",
          ""),),
        system="process/test_lifecycle.py::"
        "test_sighup_takes_over_rates_proxies_and_the_log_level",
        simulated=NO_PART),
    "access_log_needs_restart": Mutant(
        "SIGHUP applies access_log",
        (("service/service.c", "    [OPTION_access_log] = true,\n", ""),),
        system="process/test_logs.py::test_the_access_log_follows_the_configuration",
        simulated=NO_PART),

    # ---- background work ----
    "next_holder_starts_within_used_ms": Mutant(
        "the next holder of a node number starts behind the last id of the former one",
        (("service/request/order_id.c",
          "uint64_t next_ms = (ids->next + SEQUENCE_MASK) >> ORDER_ID_SEQUENCE_BITS;",
          "uint64_t next_ms = ids->next >> ORDER_ID_SEQUENCE_BITS;"),),
        unit="test_order_id/test_next_holder_makes_greater_ids",
        simulated=NO_PART),
    "failed_expirer_stays_elected": Mutant(
        "a daemon that cannot reach the ledger lets another one expire orders",
        (("service/workers/workers.c",
          "            result = ELECTION_NONE;\n            election_resign(&worker->election);\n",
          "            result = ELECTION_NONE;\n"),),
        system="orders/test_expiry.py::"
        "test_daemon_cut_off_from_the_ledger_leaves_its_office[hold]",
        simulated=NO_PART),
    "node_in_doubt_not_renewed_soon": Mutant(
        "a node number that another server may not know is renewed at once",
        (("service/node.c",
          "    node->due_ns = 0;\n    node->answered = false;",
          "    node->answered = false;"),),
        unit="test_node/test_lease_in_doubt_is_renewed_at_once",
        simulated=NO_PART),
    "backward_clock_step_unnoticed": Mutant(
        "a step of the ledger's clock in either direction is followed",
        (("service/synced_clock.c",
          "int64_t beyond_ns = llabs(change_ns) - half_ns - error_ns;",
          "int64_t beyond_ns = change_ns - half_ns - error_ns;"),),
        unit="test_synced_clock/test_step_is_followed_and_told_of",
        simulated=NO_PART),
    "durability_warned_once_only": Mutant(
        "the log tells of each time at which the ledger's settings begin to lose orders",
        (("service/workers/health.c",
          "strcmp(weakness.setting, probe->weakness.setting) != 0)\n",
          "strcmp(weakness.setting, probe->weakness.setting) != 0) {\n"),
         ("service/workers/health.c",
          "LOG_QUOTE(weakness.effect), LOG_QUOTE(weakness.advice));\n"
          "    probe->weakness = weakness;\n",
          "LOG_QUOTE(weakness.effect), LOG_QUOTE(weakness.advice));\n"
          "        probe->weakness = weakness;\n"
          "    }\n")),
        system="engines/test_semisync.py::"
        "test_primary_that_may_forget_is_told_of_again_when_it_comes_back",
        simulated=NO_PART),

    # ---- figures and the log ----
    "timed_log_level_ends_a_later_one": Mutant(
        "a log level without a time holds, whatever was set before it",
        (("service/log/log.c",
          "    level_until_ns = 0;\n    log_level = level;\n    if (for_s > 0)",
          "    log_level = level;\n    if (for_s > 0)"),),
        unit="test_log/test_a_level_set_for_a_time_falls_back",
        simulated=NO_PART),
    "retired_sales_stay_shown": Mutant(
        "the live page shows no sale that is retired",
        (("service/live/live_sales.c",
          "        sales->known[kept] = sales->known[i];\n"
          "        sales->known[kept++].seen = false;",
          "        sales->known[kept++] = sales->known[i];"),),
        unit="test_live_sales/test_figures_follow_the_ledger",
        simulated=NO_PART),
    "soon_in_seconds": Mutant(
        "a sale that opens within the hour has figures, however many sales there are",
        (("service/live/live_sales.c", "SOON_MS = 3600 * 1000", "SOON_MS = 3600"),),
        unit="test_live_sales/test_sale_that_runs_or_opens_within_the_hour_is_shown",
        simulated=NO_PART),
    "value_at_bound_in_next_bucket": Mutant(
        "a bucket of a histogram counts values up to and including its bound",
        (("service/metrics/metrics.c",
          "while (bucket < kind->bound_count && value > kind->bounds[bucket])",
          "while (bucket < kind->bound_count && value >= kind->bounds[bucket])"),),
        unit="test_metrics/test_seconds_are_cumulative",
        simulated=NO_PART),
    # ---- what the simulation of whole daemons finds ----
    "taken_order_is_unavailable": Mutant(
        "an order that a worker has taken is never told as not done",
        (("service/request/request.c",
          "    answer_unknown_outcome(answer_out, atomic_load(&request->published_id));",
          "    answer_problem(answer_out, PROBLEM_UNAVAILABLE);"),)),
    "withdrawn_order_is_taken": Mutant(
        "an order that was told as not done is never carried out",
        (("service/workers/orders.c",
          "if (!request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {",
          "if (!request_move(request, REQUEST_QUEUED, REQUEST_TAKEN) && false) {"),)),
    "id_is_not_published": Mutant(
        "an order in doubt is told with its id",
        (("service/workers/orders.c",
          "        atomic_store_explicit(&request->published_id, id, memory_order_relaxed);\n",
          ""),)),
    "order_put_back_after_its_deadline": Mutant(
        "an order that has had its answer is not carried out again",
        (("service/workers/orders.c",
          "    if (!request_move(request, REQUEST_TAKEN, REQUEST_QUEUED))\n"
          "        return false;\n",
          "    atomic_store(&request->state, REQUEST_QUEUED);\n"),)),
    "nobody_is_woken_at_the_stop": Mutant(
        "workers that wait for orders end with the daemon",
        (("service/request/queue.c",
          "    pthread_cond_broadcast(&queue->arrived);\n", ""),)),
    "cancel_ends_with_the_buyers": Mutant(
        "a cancel waits for a holder that died",
        (("service/request/request.c",
          "    return locks && locks_ms > usual_ms ? locks_ms : usual_ms;",
          "    return (void)locks, (void)locks_ms, usual_ms;"),)),
    "first_order_wakes_nobody": Mutant(
        "an order does not wait for the next one",
        (("service/request/queue.c",
          "queue->sleepers > 0 && (was_empty || whole_batch_waits(queue))",
          "queue->sleepers > 0 && whole_batch_waits(queue)"),)),
    "flow_loses_its_turn": Mutant(
        "each sale's orders have their turn",
        (("service/request/queue.c",
          "    if (flow->first)\n        line_up(queue, flow);\n    return count;",
          "    return count;"),)),
    "answered_requests_wake_nobody": Mutant(
        "an answer does not wait for the next request",
        (("service/request/request.c", "    if (!head) /* otherwise",
          "    if (head) /* otherwise"),)),
    "ids_come_twice": Mutant(
        "no two orders have one id",
        (("service/request/order_id.c", "    ids->next = first + n;",
          "    ids->next = first + n - 1;"),)),
    "replay_is_a_new_order": Mutant(
        "a repeated key is answered 200 with the first order",
        (("service/request/order_answer.c",
          "answer_accepted(answer, 200, order->status, order);",
          "answer_accepted(answer, 201, order->status, order);"),)),
    "expiry_ends_with_the_first_failure": Mutant(
        "unpaid orders expire though the ledger was away",
        (("service/workers/workers.c",
          "            result = ELECTION_NONE;\n            election_resign(&worker->election);\n"
          "            pause_ms += FAILED_MS;",
          "            return;"),)),
}
