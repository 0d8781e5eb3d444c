"""Small faults for the ledger, the operator's tool and base/, and needless work of the core."""

from mutant import NO_PART, NOT_SEEN, Mutant

MUTANTS: dict[str, Mutant] = {
    # ---- sql/db ----
    "server_error_at_commit_is_failed": Mutant(
        "a commit that the server answers with an error has an unclear outcome",
        (("sql/db/db_connection.c", "    return DB_UNKNOWN;\n",
          "    return code < CR_MIN_ERROR ? DB_FAILED : DB_UNKNOWN;\n"),),
        "test_db/test_commit_that_the_server_calls_an_error_is_unknown",
        simulated=NO_PART),
    "nobody_is_held_back": Mutant(
        "few sessions stay behind at a server that answers no write",
        (("sql/db/db_client.c", "wait.count >= DB_WAITS_MAX", "wait.count >= SIZE_MAX"),),
        "test_db/test_server_that_answers_no_write_is_left_few_sessions",
        simulated=NO_PART),
    "left_server_is_waited_for": Mutant(
        "nobody waits for an answer of a server that was left for another one",
        (("sql/db/db_client.c", "    db->is_left = is_left;\n", ""),),
        system="engines/test_semisync.py::"
               "test_statement_at_a_primary_that_was_left_is_given_up",
        simulated=NO_PART),
    "answered_write_is_waited_for": Mutant(
        "writes go on as soon as the server answers",
        (("sql/db/db_waits.c", "poll(&answer, 1, 0) == 0", "poll(&answer, 1, 0) >= 0"),),
        "test_db/test_server_that_answers_no_write_is_left_few_sessions",
        simulated=NO_PART),
    "refused_sentinel_is_asked_again": Mutant(
        "a master that refuses writes is looked for at another sentinel",
        (("lua/redis.c", "            redis->next_server++;\n", "            (void)0;\n"),),
        "test_sentinel/test_the_sentinel_of_a_master_that_refuses_writes_is_not_asked_again",
        simulated=NO_PART),
    "look_up_is_not_confirmed": Mutant(
        "a daemon beside a left primary does not deny orders",
        (("service/calls/call.c", "unconfirmed == UINT64_MAX || told == 0", "told <= count"),),
        system="engines/test_semisync.py::"
               "test_daemon_beside_a_left_primary_tells_nothing_of_orders",
        simulated=NO_PART),
    "waiting_commit_counts_as_health": Mutant(
        "the daemon is not ready while the ledger answers no commit",
        (("service/workers/health.c", "return waits ? HEALTH_COMMITS_WAIT : kept;",
          "return kept;"),),
        system="engines/test_semisync.py::"
               "test_primary_without_its_replica_is_not_ready_and_keeps_few_sessions",
        simulated=NO_PART),
    "halves_of_a_cluster_never_split": Mutant(
        "two halves of a Galera cluster that both take writes stop the sales",
        (("sql/db/db_servers.c",
          "bool known = servers->doubted || atomic_load(&servers->split);",
          "bool known = atomic_load(&servers->split);"),),
        "test_db_servers/test_halves_of_a_cluster_are_split_at_the_second_look",
        simulated=NO_PART),

    # ---- sql/orders ----
    "keys_in_any_order": Mutant(
        "batches that carry the same keys do not deadlock",
        (("sql/orders/ledger_commit.c",
          "    qsort(commit->by_key, commit->listed_count, sizeof commit->by_key[0], "
          "compare_keys);\n",
          "    (void)compare_keys;\n"),),
        "test_ledger/test_commits_with_the_same_keys_do_not_deadlock",
        simulated=NO_PART),
    "quotas_in_any_order": Mutant(
        "batches of the same users do not deadlock",
        (("sql/orders/ledger_commit.c",
          "    qsort(commit->limited, commit->limited_count, sizeof commit->limited[0], "
          "compare_limited);\n",
          "    (void)compare_limited;\n"),),
        "test_user_quota/test_batches_of_the_same_users_do_not_deadlock",
        simulated=NO_PART),
    "moments_of_one_second_are_one": Mutant(
        "an order carries its own moments, to the millisecond",
        (("sql/orders/commit_rows.c", "like && like->ms == ms ? like->time : utc_time(ms)",
          "like && like->ms / 1000 == ms / 1000 ? like->time : utc_time(ms)"),),
        "test_ledger/test_batches_of_every_size_are_written_alike",
        simulated=NO_PART),
    "lateness_checked_before_the_rows": Mutant(
        "an order is not committed after its time, whatever hangs while its rows are written",
        (("sql/orders/ledger_commit.c",
          "    enum db_result result = ledger_query(ledger);\n",
          "    commit->late = is_late(commit);\n"
          "    enum db_result result = commit->late ? DB_NO : ledger_query(ledger);\n"),
         ("sql/orders/ledger_commit.c",
          "    commit->late = result == DB_OK && is_late(commit); /* why_last */\n"
          "    return commit->late ? DB_NO : result;\n",
          "    return result;\n")),
        "test_ledger/test_commit_is_refused_when_its_time_ends_amid_it",
        simulated=NO_PART),
    "full_page_of_due_orders_ends_the_rest": Mutant(
        "every unpaid order expires, also when more are due than one call reads",
        (("sql/orders/ledger_due.c", "    if (read == max)\n", "    if (read > max)\n"),),
        "test_status/test_rows_that_overlap_lose_no_due_order",
        simulated=NO_PART),
    "orders_of_a_user_end_at_500": Mutant(
        "a user's list has every order, page by page",
        (("sql/orders/ledger_list.c", "            *last_out = after;", "            break;"),),
        "test_ledger_list/test_user_finds_every_order_whatever_the_page",
        simulated=NO_PART),
    "damaged_row_ends_listing": Mutant(
        "a list leaves out a damaged order and goes on to the orders behind it",
        (("sql/orders/ledger_list.c", "*next_out = rows == max ? last : end;",
          "*next_out = *count_out == max ? last : end;"),),
        system="faults/test_damaged.py::"
        "test_damaged_orders_stop_neither_expiry_nor_other_orders",
        simulated=NO_PART),
    "upgrade_drops_ended_rounds_from_lists": Mutant(
        "after an upgrade a user's list shows each order that it showed before",
        (("sql/migrations/0009_order_key.sql",
          "AND r.round=o.round\n"
          "                    AND (r.step<>'keys' OR o.order_id<=r.purged_to));",
          "AND r.round=o.round);"),),
        "test_ledger_list/test_upgrade_gives_every_order_its_row",
        simulated=NO_PART),
    "cancel_in_an_ended_round_is_only_told": Mutant(
        "an order that was told to be cancelled is cancelled, also when its round is over",
        (("sql/orders/ledger_return.c",
          "    returning->changed_count += order->moved;\n"
          "    if (!order->moved || order->round_over || units == 0)\n"
          "        return;\n",
          "    if (!order->moved || order->round_over || units == 0)\n"
          "        return;\n"
          "    returning->changed_count += order->moved;\n"),),
        "test_status/test_older_rounds_move_their_status_only",
        simulated=NO_PART),
    "payment_does_not_hold_the_sale": Mutant(
        "an order is paid only in its sale's present round, also while a reset is under way",
        (("sql/orders/ledger_status.c", 'STANDING(SHARE_SKIP_LOCKED) ","', 'STANDING("") ","'),),
        "test_status/test_payment_and_reset_wait_for_each_other",
        simulated=NO_PART),
    "lowered_limit_spares_earlier_buyers": Mutant(
        "after the answer to a lower limit no user gets more than that limit",
        (("sql/orders/user_quota.h", "allowed=VALUES(allowed),order_ids=",
          "allowed=GREATEST(allowed,VALUES(allowed)),order_ids="),),
        "test_user_quota/test_lower_limit_is_the_one_that_counts",
        "orders/test_user_limit.py::test_limit_set_and_changed_in_mid_load",
        simulated=NO_PART),

    # ---- sql/sales, sql/server ----
    "reset_over_newer_settings": Mutant(
        "a reset is refused when the sale's settings have changed since they were read",
        (("sql/sales/ledger_reset.c",
          "    bool same = (created ? 0 : beginning->round) == sale->round &&\n"
          "                (created ? 0 : beginning->version) == sale->settings.version;\n",
          "    bool same = (created ? 0 : beginning->round) == sale->round;\n"),),
        "test_ledger/test_reset_begins_only_from_the_settings_that_were_read",
        simulated=NO_PART),
    "retire_overlooks_a_swapped_order": Mutant(
        "a sale with a reserved order is not retired, also when its units were a paid one's",
        (("sql/sales/ledger_retire.c",
          "    uint64_t fences = ledger_u64(row[0]), sold = ledger_u64(row[1]);\n"
          "    return fences == held->fences && sold == held->sold ? DB_OK : DB_NO;\n",
          "    uint64_t sold = ledger_u64(row[1]);\n"
          "    return sold == held->sold ? DB_OK : DB_NO;\n"),),
        "test_ledger_retire/test_order_in_place_of_a_paid_one_keeps_the_sale",
        simulated=NO_PART),
    "keys_of_fresh_rounds_purged_too": Mutant(
        "a key leads to its order until retention_days after the end of its own round",
        (("sql/sales/ledger_purge.c", "AND r.step='keys' AND r.ended_at<'%-s'\"",
          "AND r.step='keys'\""),
         ("sql/sales/ledger_purge.c", "piece->ended_before, piece->purged_to, end,",
          "piece->purged_to, end,")),
        "test_ledger_retire/test_round_that_ended_lately_keeps_its_keys",
        "sales/test_retire.py::test_rounds_that_ended_long_ago_are_purged",
        simulated=NO_PART),
    "node_ids_begin_at_the_own_clock": Mutant(
        "the next holder of a node's number makes no id that the former one could make",
        (("sql/server/ledger_node.c",
          "taken->ids_from_ms = ids_before > node->next_ms ? ids_before : node->next_ms;",
          "taken->ids_from_ms = node->next_ms;"),),
        "test_ledger_node/test_next_holder_begins_behind_all_ids_of_the_last_one",
        simulated=NO_PART),
    "earlier_reset_key_survives_retire": Mutant(
        "a reset's key is refused once its sale was retired, whichever round it began",
        (("sql/sales/ledger_reset.c", "AND e.round>=sale_reset.round)FROM",
          "AND e.round=sale_reset.round)FROM"),),
        "test_ledger_retire/test_keys_of_all_its_resets_end_with_the_sale",
        simulated=NO_PART),
    "ended_connection_is_used": Mutant(
        "a connection that its server has ended is not written to",
        (("sql/db/db_client.c", "poll(&news, 1, 0) > 0", "poll(&news, 1, 0) > 1"),),
        "test_db/test_connection_that_its_server_ended_is_made_again_before_a_statement",
        simulated=NO_PART),
    "semi_sync_day_in_seconds": Mutant(
        "a primary that waits less than a day for its replica is told of",
        (("sql/server/server.h", "LEDGER_SEMI_SYNC_MS_MIN (24LL * 3600 * 1000)",
          "LEDGER_SEMI_SYNC_MS_MIN (24LL * 3600)"),),
        system="engines/test_semisync.py::test_primary_that_may_forget_is_told_of",
        simulated=NO_PART),

    # ---- units that come back ----
    "dirty_segment_is_given_back_as_settled": Mutant(
        "a return leaves a segment dirty that it found so and did not change",
        (("lua/scripts/stock_open.lua", " or segment[2] ~= ''", ""),),
        "test_returns/test_return_of_nothing_leaves_its_segments_as_they_were",
        simulated=NO_PART),
    "return_beside_a_holder_is_dropped": Mutant(
        "units come back to a counter though somebody has its segment open",
        (("lua/scripts/stock_return.lua", "'round', 'settled')", "'round', 'settled', 'open')"),
         ("lua/scripts/stock_return.lua", "segment[2] ~= ARGV[2]",
          "segment[2] ~= ARGV[2] or segment[3] ~= ''")),
        "test_script/test_return_beside_a_holder_is_kept",
        simulated=NO_PART),
    "return_to_a_later_fence": Mutant(
        "units come back to a counter only at the fence at which they were taken",
        (("lua/scripts/stock_return.lua", " or segment[2] ~= ARGV[2]", ""),),
        "test_script/test_return_is_to_the_fence_of_the_take",
        simulated=NO_PART),

    # ---- ctl ----
    "reset_in_doubt_is_failed": Mutant(
        "seckillctl calls the outcome unknown of what the service calls so",
        (("ctl/http.c",
          "reply->code[0] != '\\0' && strcmp(reply->code, \"outcome_unknown\") != 0;",
          "reply->code[0] != '\\0';"),),
        system="tools/test_seckillctl.py::test_reset_in_doubt_is_called_unknown",
        simulated=NO_PART),
    "refused_repeat_ends_the_doubt": Mutant(
        "a repeat that the service refused without a look leaves the first try in doubt",
        (("ctl/http.c", "        if (says_nothing(reply_out))\n",
          "        if (says_nothing(reply_out) && reply_out->outcome == OUTCOME_UNKNOWN)\n"),),
        system="tools/test_seckillctl.py::test_reset_in_doubt_is_called_unknown",
        simulated=NO_PART),
    "answer_of_a_proxy_is_failed": Mutant(
        "seckillctl calls the outcome unknown when only a proxy has answered",
        (("ctl/http.c", "certain || !changes(call) ? OUTCOME_FAILED : OUTCOME_UNKNOWN",
          "certain || reply->text || !changes(call) ? OUTCOME_FAILED : OUTCOME_UNKNOWN"),),
        system="tools/test_seckillctl.py::test_reset_in_doubt_is_called_unknown",
        simulated=NO_PART),
    "repeat_line_without_end_round": Mutant(
        "the command that a message names to find out an outcome repeats the same call",
        (("ctl/commands/round.c",
          "json_is_true(json_object_get(body, \"end_round\")) ? \" --end-round\" : \"\");",
          "\"\");"),),
        system="tools/test_seckillctl.py::test_repeat_ends_the_round_as_it_was_confirmed",
        simulated=NO_PART),
    "later_start_closes_without_asking": Mutant(
        "seckillctl window asks before it closes a sale that is open",
        (("ctl/commands/settings.c",
          "    const char *starts = answer_text(body, \"starts_at\"), "
          "*ends = answer_text(body, \"ends_at\");\n"
          "    bool closed = (*ends && strcmp(ends, text) <= 0) || "
          "(*starts && strcmp(starts, text) > 0);\n",
          "    const char *ends = answer_text(body, \"ends_at\");\n"
          "    bool closed = *ends && strcmp(ends, text) <= 0;\n"),),
        system="tools/test_seckillctl.py::test_window_that_closes_an_open_sale_is_asked_about",
        simulated=NO_PART),
    "audit_keeps_only_the_last_page_of_lost_keys": Mutant(
        "seckillctl audit finds any order whose idempotency key does not lead to it",
        (("ctl/commands/audit_read.c", "sale->unkeyed += answer_integer(sums, \"unkeyed\");",
          "sale->unkeyed = answer_integer(sums, \"unkeyed\");"),),
        "test_ctl_audit/test_faults_of_orders",
        simulated=NO_PART),
    "rotated_tokens_lose_their_readers": Mutant(
        "whoever could read a file of tokens can read it after seckillctl token",
        (("ctl/commands/token.c", "fchmod(fd, tokens->mode) == 0;",
          "fchmod(fd, FILE_MODE) == 0;"),),
        system="tools/test_seckillctl.py::test_tokens_are_rotated_without_a_gap",
        simulated=NO_PART),
    "exit_status_of_the_last_pod": Mutant(
        "the exit status of a command that asks all pods is the largest of all",
        (("ctl/pods.c", "        worst = status > worst ? status : worst;\n",
          "        worst = status;\n"),),
        system="tools/test_seckillctl.py::test_exit_status_is_that_of_the_worst_pod",
        simulated=NO_PART),
    "next_pod_without_its_first_daemon": Mutant(
        "each pod's first daemon that can be reached is asked",
        (("ctl/http.c",
          "    if (http->admin != config->admin) {\n"
          "        http->admin = config->admin;\n"
          "        http->daemon = 0;\n"
          "    }\n",
          "    if (http->admin != config->admin)\n"
          "        http->admin = config->admin;\n"),),
        system="tools/test_seckillctl.py::"
               "test_pod_is_asked_though_a_daemon_of_the_one_before_is_away",
        simulated=NO_PART),
    "public_file_with_the_shops_token": Mutant(
        "a file with a token that everybody can read is refused",
        (("ctl/config.c",
          "values[SETTING_ADMIN_TOKEN].origin || values[SETTING_SHOP_TOKEN].origin",
          "values[SETTING_ADMIN_TOKEN].origin"),),
        "test_ctl_config/test_token_that_everybody_can_read",
        simulated=NO_PART),
    "lagging_replica_is_promoted": Mutant(
        "the replica that is promoted has every acknowledged commit",
        (("ctl/seckill-failover", "        [[ -n $found ]] || return 1\n", ""),),
        system="engines/test_failover.py::test_replica_that_lags_is_not_promoted_under_load",
        simulated=NO_PART),
    "replica_that_is_away_may_have_more": Mutant(
        "no replica is promoted while another one, which may have more, cannot be reached",
        (("ctl/seckill-failover",
          "        refuse \"$place cannot be reached. It may",
          "        { mapfile -t replicas < <(printf '%s\\n' \"${replicas[@]}\" |\n"
          "            grep -vx \"$place\") && return; } ||\n"
          "        refuse \"$place cannot be reached. It may"),),
        system="engines/test_failover.py::test_replica_that_cannot_be_reached",
        simulated=NO_PART),
    "replica_promoted_before_it_has_applied": Mutant(
        "a replica applies all that it has received before it takes writes",
        (("ctl/seckill-failover",
          "    until read_applied \"$new\" && has_all_of \"$answer\" \"${received[$new]}\"; do\n",
          "    until true; do\n"),),
        system="engines/test_failover.py::test_replica_that_has_not_applied_all_is_waited_for",
        simulated=NO_PART),
    "new_primary_acknowledges_alone": Mutant(
        "a new primary with replicas acknowledges no commit that is nowhere else",
        (("ctl/seckill-failover",
          "        change \"$new\" \"SET GLOBAL ${SEMI_SYNC}_enabled = 1\"\n", ""),),
        system="engines/test_failover.py::test_promotion_that_got_half_way_is_finished",
        simulated=NO_PART),

    # ---- base ----
    "second_password_of_a_url_is_shown": Mutant(
        "a URL in a message has *** in the place of each password",
        (("base/url.c", "    while (end && used < size) {\n", "    if (end && used < size) {\n"),),
        "test_url/test_mask_hides_the_password_of_what_need_not_be_a_url",
        simulated=NO_PART),
    "refused_look_ups_count_as_hanging": Mutant(
        "names are looked up again as soon as fewer than 16 look-ups hang",
        (("base/resolve.c",
          "        atomic_fetch_sub(&running, 1);\n"
          "        return \"too many look-ups of names hang\";\n",
          "        return \"too many look-ups of names hang\";\n"),),
        "test_resolve/test_hanging_lookups_are_bounded",
        simulated=NO_PART),
    "late_look_ups_hang_for_ever": Mutant(
        "names are looked up again when the look-ups that hung have ended",
        (("base/resolve.c",
          "    int failure = ask(lookup->host, AI_ADDRCONFIG, &resolved);\n"
          "    atomic_fetch_sub(&running, 1);\n",
          "    int failure = ask(lookup->host, AI_ADDRCONFIG, &resolved);\n"),
         ("base/resolve.c",
          "    *out = lookup->resolved;\n",
          "    atomic_fetch_sub(&running, 1);\n"
          "    *out = lookup->resolved;\n")),
        "test_resolve/test_hanging_lookups_are_bounded",
        simulated=NO_PART),

    # ---- stock ----
    "old_answer_makes_suspect": Mutant(
        "a segment that is as the ledger says is not recovered",
        (("stock/sale_cache.c",
          "(marked & ~SUSPECT_LATER) < fence || marked == (fence | SUSPECT_LATER)",
          "marked < fence || marked & SUSPECT_LATER"),
         ("stock/sale_cache.c", "        atomic_store(&sale->suspects[segment], fence);\n",
          "        marked &= ~SUSPECT_LATER;\n"
          "        atomic_store(&sale->suspects[segment], marked > fence ? marked : fence);\n")),
        "test_returns/test_segment_that_was_sold_from_since_is_not_recovered",
        simulated=NOT_SEEN),
    "least_fence_is_read_too_late": Mutant(
        "an answer of the ledger does not count for a fence that was seen later",
        (("stock/orders/strategy.c",
          "    if (!strategy_fetch(stock, group, rows, &count))\n"
          "        return;\n"
          "    strategy_remember_left(",
          "    if (!strategy_fetch(stock, group, rows, &count))\n"
          "        return;\n"
          "    for (uint32_t i = 0; i < group->snapshot.segments; i++)\n"
          "        least[i] = sale_suspect_least(group->sale, i);\n"
          "    strategy_remember_left("),),
        "test_returns/test_fence_that_is_seen_while_the_ledger_is_asked",
        simulated=NOT_SEEN),
}
