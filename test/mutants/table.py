"""Small faults for the core, one at a time: each breaks one promise. Those for the other folders
are in table_*.py.

A fault of a ledger's statement is put into the statement and into the simulation's model of it.
`unit` and `system` name a test that is known to find the mutant; it is tried before others."""

import table_events
import table_locks
import table_payments
import table_outsider
import table_rest
import table_service
from mutant import NO_PART, NOT_SEEN, Mutant

ORDERS = "test/simulate/ledger/ledger_orders.c"
PAY = "test/simulate/ledger/ledger_pay.c"
RETURNS = "test/simulate/ledger/ledger_returns.c"
RETIRE = "test/simulate/ledger/ledger_retire.c"
ROUNDS = "test/simulate/ledger/ledger_rounds.c"
SALES = "test/simulate/ledger/ledger_sales.c"
TEXT = "test/simulate/ledger/ledger_text.c"

CORE = {
    # ---- the lock and its fence ----
    "lock_taken_from_its_holder": Mutant(
        "a lock has one holder",
        (("lua/scripts/lock_acquire.lua", "'NX', 'PX', ARGV[2])", "'PX', ARGV[2])"),
         ("lua/scripts/stock_take.lua", "'NX', 'PX', lease)", "'PX', lease)")),
        "test_script/test_acquire_is_busy_while_another_holds_it",
        "orders/test_sellout.py::test_one_unit_is_sold_once"),
    "release_of_others_locks": Mutant(
        "only its holder releases a lock",
        (("lua/scripts/lock_release.lua", "call('GET', KEYS[1]) ~= ARGV[1]", "false"),),
        "test_script/test_release_by_another_leaves_the_lock"),
    "late_acquisition_takes_the_lock": Mutant(
        "a request that was released acquires nothing",
        (("lua/scripts/include/refuse_released.lua",
          "released == request or released == '-' .. request", "false"),),
        "test_script/test_token_that_was_released_acquires_nothing",
        "lock/test_lock_faults.py::"
        "test_acquisition_that_comes_after_its_release_takes_nothing[waits-simple-mode0]",
        simulated=NO_PART),
    "full_redis_settles_nothing": Mutant(
        "a full Redis settles and releases segments",
        (("lua/scripts/stock_settle.lua", "  call('DEL', lock)\n", ""),
         ("lua/scripts/stock_settle.lua", "return 1", "call('DEL', lock)\nreturn 1")),
        "test_script/test_full_redis_settles_and_releases",
        "faults/test_faults.py::test_redis_that_fills_up_under_an_order_settles_it",
        simulated=NO_PART),
    "fences_forget_the_last_one": Mutant(
        "fences grow though the server's clock is set back",
        (("lua/scripts/include/fence_next.lua",
          "tonumber(stored_fence) >= tonumber(fence)", "false"),),
        "test_script/test_fence_grows_though_its_key_is_ahead_of_the_clock",
        "faults/test_faults.py::test_ledger_that_has_seen_later_fences_than_redis",
        simulated=NOT_SEEN),
    "take_without_the_lock": Mutant(
        "only the lock's holder takes units",
        (("lua/scripts/stock_take.lua", "call('GET', lock) ~= token", "false"),),
        "test_script/test_take_is_busy_while_another_holds_the_lock"),
    "joined_calls_share_their_arguments": Mutant(
        "each segment is locked and settled by its own hold's token",
        (("lua/scripts/include/joined.lua", "keys_each, i * args_each", "keys_each, 0"),),
        "test_script/test_joined_takes_and_settles_are_each_answered"),
    "settle_without_the_lock": Mutant(
        "only the lock's holder settles its round",
        (("lua/scripts/stock_settle.lua",
          "call('GET', lock) ~= token or call('HGET', segment, 'open') ~= token",
          "false"),),
        "test_script/test_settle_without_the_lock_is_lost"),
    "load_without_the_lock": Mutant(
        "only the lock's holder loads a segment",
        (("lua/scripts/stock_load.lua", "redis.call('GET', KEYS[1]) ~= ARGV[1]", "false"),),
        "test_script/test_load_without_the_lock_is_lost"),

    # ---- take, settle, recover ----
    "no_dirty_mark": Mutant(
        "units of a holder that died are sold",
        (("lua/scripts/stock_take.lua", "'available', available - taken, 'open', token)",
          "'available', available - taken)"),),
        "test_script/test_take_decrements_and_marks_the_round_open",
        "faults/test_crash.py::test_kill_9_at_each_step_of_an_order"),
    "take_ignores_the_mark": Mutant(
        "nobody takes from a segment whose last round is not settled",
        (("lua/scripts/stock_take.lua", "    or segment[3] ~= '' then", "    then"),),
        "test_script/test_take_from_an_open_round_is_dirty"),
    "return_without_its_mark": Mutant(
        "a return that broke off leaves its segments dirty",
        (("lua/scripts/stock_open.lua", "redis.call('HSET', KEYS[2], 'open', ARGV[1])\n", ""),),
        "test_returns/test_return_that_broke_off_leaves_its_segments_dirty"),
    "settle_at_the_old_fence": Mutant(
        "Redis is settled at the fence that the ledger has",
        (("stock/orders/segment_lock.c",
          "segment_post_settle(stock, hold, hold->lock.fence, hold->taken - hold->used);",
          "segment_post_settle(stock, hold, hold->settled, hold->taken - hold->used);"),),
        "test_stock/test_sells_exactly_the_total_and_is_sold_out_after",
        "orders/test_sellout.py::test_mixed_quantities_sell_the_last_unit_too"),
    "settle_keeps_too_few": Mutant(
        "units that were taken and not sold come back",
        (("stock/orders/segment_lock.c",
          "segment_post_settle(stock, hold, hold->lock.fence, hold->taken - hold->used);",
          "segment_post_settle(stock, hold, hold->lock.fence, 0);"),),
        "test_settings/test_users_refused_late_leave_the_others_their_units",
        "orders/test_sellout.py::test_large_and_small_orders_together_sell_out"),
    "give_back_at_the_new_fence": Mutant(
        "a segment that was not sold from keeps its fence",
        (("stock/segment.c", "segment_post_settle(stock, hold, hold->settled, hold->taken);",
          "segment_post_settle(stock, hold, hold->lock.fence, hold->taken);"),),
        "test_returns/test_segment_that_lost_some_units_is_recovered"),
    "recovery_loads_one_more": Mutant(
        "a recovered segment has what the ledger has left",
        (("stock/segment.c",
          "segment_post_load(stock, &hold->lock, row->capacity - row->sold,",
          "segment_post_load(stock, &hold->lock, row->capacity - row->sold + 1,"),),
        "test_stock/test_redis_that_forgot_everything_is_filled_again"),
    "fence_behind_the_ledger_is_kept": Mutant(
        "a segment sells on though Redis forgot its fences",
        (("stock/segment.c", "else if (row->fence > hold->lock.fence) {", "else if (false) {"),),
        "test_stock/test_ledger_ahead_of_redis_clock_is_caught_up_with",
        "faults/test_faults.py::test_ledger_that_has_seen_later_fences_than_redis",
        simulated=NOT_SEEN),
    "refused_segments_stay_as_they_are": Mutant(
        "a segment whose update the ledger refused is recovered",
        (("stock/orders/segment_lock.c", "        recover_refused(stock, batch);",
          "        (void)recover_refused;"),),
        "test_stock/test_segment_put_back_in_time_is_not_oversold",
        "faults/test_faults.py::test_redis_goes_back_in_time"),

    # ---- commit ----
    "fence_guard_dropped": Mutant(
        "a segment's row changes only from the fence it was settled at",
        (("sql/orders/ledger_commit.c",
          "update->guard == LEDGER_CHAIN || update->guard == LEDGER_EPOCH",
          "update->guard == LEDGER_EPOCH"),
         ("sql/orders/commit_rows.c", '"AND fence=? AND', '"AND(fence=? OR 1)AND'),
         (ORDERS, "(!exact || row->fence == update->settled) &&", "")),
        "test_ledger/test_commit_is_refused_by_each_guard"),
    "update_of_an_older_fence": Mutant(
        "a segment's fence only grows",
        (("sql/orders/ledger_commit.c", "\" AND fence<%ju\"", "\" AND fence<>%ju*0\""),
         ("sql/orders/commit_rows.c", "AND fence<VALUES(fence)", ""),
         (ORDERS, "(!is_fenced(update) || row->fence < update->fence) &&", "")),
        "test_ledger/test_commit_is_refused_by_each_guard"),
    "settings_guard_dropped": Mutant(
        "no order is accepted under settings that are not in force",
        (("sql/orders/ledger_commit.c", "round=%u AND settings_version=%u\"",
          "round=%u AND settings_version>=%u*0\""),
         ("sql/orders/commit_rows.c",
          "round=VALUES(round)AND settings_version=VALUES(settings_version)",
          "round=VALUES(round)"),
         (ORDERS, "row->settings_version == update->settings_version &&", "true &&")),
        "test_ledger/test_move_under_older_settings_is_refused",
        "sales/test_window.py::test_daemon_that_hears_no_news_accepts_nothing_under_old_terms"),
    "late_orders_are_committed": Mutant(
        "a first try is not accepted after its repeat was refused",
        (("sql/orders/ledger_commit.c", "commit->late = result == DB_OK && is_late(commit);",
          "(void)is_late;"),
         (ORDERS, "commit->late = result == DB_OK && is_late(commit);", "(void)is_late;")),
        "test_ledger/test_commit_is_refused_when_its_time_ends_amid_it",
        "orders/test_deadline.py::test_order_past_its_deadline_is_timed_and_counted_once",
        simulated=NOT_SEEN),
    "nobody_looks_at_an_orders_time": Mutant(
        "a first try is not accepted after its repeat was refused",
        (("stock/stock_core.c", "return order->until_ns != 0 && now_ns >= order->until_ns;",
          "return order->until_ns != 0 && now_ns < 0;"),
         ("sql/orders/ledger_commit.c", "commit->late = result == DB_OK && is_late(commit);",
          "(void)is_late;"),
         (ORDERS, "commit->late = result == DB_OK && is_late(commit);", "(void)is_late;")),
        "test_stock/test_order_whose_time_is_over_is_not_accepted",
        "orders/test_deadline.py::test_order_past_its_deadline_is_timed_and_counted_once"),
    "key_under_way_is_not_seen": Mutant(
        "a repeat is not refused while its first try is being committed",
        (("sql/orders/ledger_lookup.c", "LEVEL READ UNCOMMITTED", "LEVEL READ COMMITTED"),
         ("test/simulate/ledger/ledger_reads.c",
          "row && row->owner ? &row->now : row ? &row->was : NULL",
          "row ? &row->was : NULL")),
        "test_ledger/test_key_of_a_transaction_under_way_is_found"),
    "held_row_is_waited_for_again": Mutant(
        "a row that others hold costs the orders of its sale alone",
        (("stock/orders/held_rows.c",
          "return sale_cache_held_expected(stock->sale_cache, clock_now_ns());",
          "return stock == NULL;"),),
        "test_stock/test_held_row_costs_the_orders_of_its_sale_alone",
        "faults/test_faults.py::test_held_row_of_one_sale_leaves_the_others_alone",
        simulated=NOT_SEEN),
    "held_row_is_tried_five_times": Mutant(
        "a row that others hold costs the orders of its sale alone",
        (("sql/db/db_client.c", "result == DB_SOFT && !db->held", "result == DB_SOFT"),
         ("test/simulate/ledger/ledger_session.c", "result == DB_SOFT && !ledger->held",
          "result == DB_SOFT")),
        "test_ledger/test_held_row_is_waited_for_once",
        "faults/test_faults.py::test_held_row_of_one_sale_leaves_the_others_alone"),
    "refused_update_taken_for_made": Mutant(
        "orders are committed only with their units",
        (("sql/orders/ledger_commit.c", "db_affected(db, i) != 1", "db_affected(db, i) > 1"),
         ("sql/orders/commit_rows.c", "affected == 2 * count", "affected <= 2 * count"),
         (ORDERS, "    update->refused = true;", "    update->refused = false;")),
        "test_ledger/test_commit_is_refused_by_each_guard",
        "faults/test_faults.py::test_redis_goes_back_in_time"),
    "keys_not_written": Mutant(
        "a key has one order",
        (("sql/orders/ledger_commit.c",
          "COMMIT_KEYS, commit->by_key, commit->listed_count", "COMMIT_KEYS, commit->by_key, 0"),
         (ORDERS, "result = for_orders(ledger, commit, is_new, insert_key);",
          "(void)insert_key;")),
        "test_ledger/test_commit_with_a_known_key_is_duplicate",
        "orders/test_idempotency.py::test_repeat_is_200_with_the_first_answer"),
    "limit_not_counted": Mutant(
        "no user has more units than the limit",
        (("sql/orders/ledger_commit.c",
          "commit->limited_count);", "0 * commit->limited_count);"),
         (ORDERS, "result = for_orders(ledger, commit, has_limit, add_quota);",
          "(void)has_limit, (void)add_quota;")),
        "test_user_quota/test_units_are_counted_up_to_the_limit",
        "orders/test_user_limit.py::test_refusal_names_the_limit_and_the_orders"),
    "failed_answered_as_accepted": Mutant(
        "an order is accepted only when it is committed",
        (("stock/orders/strategy.c",
          "case LEDGER_FAILED: /* certainly not committed */\n"
          "            batch_order_fail(entry, reachable);",
          "case LEDGER_FAILED:\n            (void)reachable, accept_order(entry);"),),
        "test_stock/test_unreachable_ledger_is_unavailable_and_gives_back",
        "faults/test_faults.py::test_ledger_unreachable_by_the_network"),

    # ---- unknown outcomes, and what is only visible ----
    "unknown_taken_for_failed": Mutant(
        "an order whose commit was not answered is not tried anew",
        (("stock/orders/strategy.c", "result = resolve(stock, batch);",
          "result = LEDGER_FAILED;"),),
        "test_stock/test_commit_whose_answer_is_lost_is_asked_after_and_accepted",
        "faults/test_faults.py::test_connection_to_the_ledger_lost_in_an_order"),
    "unknown_taken_for_done": Mutant(
        "an order whose commit was lost is not accepted",
        (("stock/orders/strategy.c", "result = resolve(stock, batch);", "result = LEDGER_OK;"),),
        "test_stock/test_commit_that_is_lost_is_tried_again",
        "faults/test_faults.py::test_connection_to_the_ledger_lost_in_an_order"),
    "ack_before_the_commit": Mutant(
        "an order in doubt is not accepted",
        (("stock/orders/strategy.c",
          "case LEDGER_UNKNOWN:\n            entry->order->outcome = STOCK_IN_DOUBT;",
          "case LEDGER_UNKNOWN:\n            accept_order(entry);"),),
        "test_stock/test_commit_that_cannot_be_asked_after_is_in_doubt"),
    "resolve_only_looks": Mutant(
        "a commit that is said to be lost does not come later",
        (("sql/orders/ledger_recovery.c",
          "text_raise(sql, update->sku, update->segment, update->fence);",
          "(void)update;"),
         (ORDERS, "? raise_fence(ledger, update->sku, update->segment, update->fence)",
          "? DB_OK")),
        "test_ledger/test_resolve_forbids_the_late_commit",
        "faults/test_faults.py::test_transaction_that_arrives_late"),
    "confirm_without_a_write": Mutant(
        "what others have committed is on the disk when it is answered",
        (("sql/orders/ledger_recovery.c", "ledger_do(ledger, \"%-s\", ledger_confirm_text);",
          "ledger_do(ledger, \"DO 1\");"),
         ("test/simulate/ledger/ledger_session.c", "    ledger->txn->wrote = true;\n", "")),
        "test_ledger/test_resolve_says_yes_after_a_write"),

    # ---- sold out ----
    "sold_out_by_redis": Mutant(
        "the ledger alone says that a sale is sold out",
        (("stock/orders/strategy.c",
          "strategy_remember_left(stock, group, look_again(group->sale, rows, count, least));",
          "look_again(group->sale, rows, count, least);\n"
          "    strategy_remember_left(stock, group, 0);"),),
        "test_returns/test_segment_that_knows_too_few_units_is_recovered",
        "faults/test_faults.py::test_segment_that_says_something_else_than_the_ledger"),
    "redis_is_believed_for_good": Mutant(
        "where the ledger has more units than Redis said the ledger is right",
        (("stock/orders/strategy.c",
          "sale_suspect(sale, rows[i].segment, fence, units);", "(void)fence;"),),
        "test_returns/test_segment_that_knows_too_few_units_is_recovered"),
    "units_that_exist_cannot_be_bought": Mutant(
        "after a return whose load is lost an order for more than Redis says is filled",
        (("stock/orders/strategy.c", "if (units > sale_hint(sale, rows[i].segment)) {",
          "if (units > 0 && sale_hint(sale, rows[i].segment) == 0) {"),),
        "test_returns/test_segment_that_lost_some_units_is_recovered",
        "faults/test_faults.py::test_order_for_more_than_redis_knows_of"),
    "old_shortage_is_remembered": Mutant(
        "units that came back end the memory of a shortage",
        (("stock/sale_cache.c",
          "if (sale->snapshot.epoch == epoch) {\n        /* left_until_ns last",
          "if (epoch != UINT32_MAX) {\n        /* left_until_ns last"),),
        "test_sale/test_finding_older_than_returned_units_is_not_remembered",
        "orders/test_state.py::"
        "test_unit_that_comes_back_while_the_ledger_is_asked_for_units_is_sold",
        simulated=NOT_SEEN),

    # ---- keys ----
    "keys_not_looked_up_last": Mutant(
        "a repeat is not refused when its first try was accepted",
        (("stock/sell.c", "if (!replay_find(stock, orders, count))", "if (false)"),),
        "test_stock/test_repeat_gets_the_first_order_even_after_the_end",
        "orders/test_idempotency.py::test_repeat_after_the_sale_sold_out_gives_the_order"),
    "repeat_not_confirmed": Mutant(
        "an order that a repeat is told of is on the disk",
        (("stock/sell.c", "    replay_confirm(stock, orders, count);\n", ""),),
        "test_stock/test_repeat_is_answered_after_a_write"),
    "key_with_another_body_is_replayed": Mutant(
        "a key with another body is refused",
        (("stock/orders/check_replay.c",
          "return order->qty == qty && strcmp(order->sku, sku) == 0;",
          "return order->qty == qty || strcmp(order->sku, sku) == 0;"),),
        "test_stock/test_key_with_another_body_is_reused",
        "orders/test_idempotency.py::test_same_key_with_another_body_is_422"),
    "refused_without_a_look_at_the_key": Mutant(
        "while keys cannot be looked up no repeat is refused",
        (("stock/sell.c", "        fail_refused(orders, count);\n}", "        (void)orders;\n}"),),
        "test_stock/test_keyed_order_is_not_refused_when_its_key_cannot_be_looked_up"),
    "end_not_told_to_the_ledger": Mutant(
        "after a repeat was told that the sale has ended its first try is not accepted",
        (("stock/sell.c", "    settings_fence_ended(stock, orders, count);\n", ""),),
        "test_settings/test_repeat_past_the_end_stops_its_first_try",
        "sales/test_window.py::test_first_try_is_not_accepted_after_its_repeat_was_told_of_the_end",
        simulated=NOT_SEEN),

    # ---- limits, windows and other settings ----
    "limit_off_by_one": Mutant(
        "no user has more units than the limit",
        (("stock/orders/strategy.c", ".limit = order->group->snapshot.settings.per_user_limit,",
          ".limit = order->group->snapshot.settings.per_user_limit + 1,"),),
        "test_settings/test_race_through_two_processes_never_passes_the_limit",
        "orders/test_user_limit.py::test_10000_requests_of_100_users_make_100_orders"),
    "limit_refuses_too_early": Mutant(
        "a user may have as many units as the limit",
        (("stock/orders/check_settings.c", "(uint64_t)quota->units + order->qty > limit_of(order)",
          "(uint64_t)quota->units + order->qty >= limit_of(order)"),),
        "test_settings/test_limit_counts_units_in_both_processes",
        "orders/test_user_limit.py::test_refusal_names_the_limit_and_the_orders"),
    "quota_not_given_back": Mutant(
        "a user may buy again what was cancelled",
        (("sql/orders/ledger_return.c",
          "return return_to_quotas(returning);",
          "(void)return_to_quotas;\n    return result;"),
         (RETURNS, "return result == DB_OK ? return_to_quotas(ledger, returning) : result;",
          "(void)return_to_quotas;\n    return result;")),
        "test_status/test_users_may_buy_again_what_they_gave_back",
        "orders/test_state.py::test_user_may_buy_again_what_was_cancelled"),
    "window_not_confirmed": Mutant(
        "an order is refused only by settings in force",
        (("stock/orders/check_settings.c", "group->standing = ask(stock, group);",
          "group->standing = CONFIRMED;"),),
        "test_settings/test_fronts_refuse_only_what_the_ledger_confirmed",
        "sales/test_window.py::test_daemon_that_hears_no_news_accepts_nothing_under_old_terms"),
    "change_overwrites_anothers": Mutant(
        "changes of settings at the same time all happen",
        (("sql/sales/ledger_sale.c", "settings_version=%u WHERE settings_version=%u AND sku=",
          "settings_version=%u WHERE settings_version>=%u*0 AND sku="),
         (SALES, "row->now.sale.settings.version == version)", "true)")),
        "test_ledger/test_settings_change_only_from_the_version_given",
        "sales/test_window.py::test_change_does_not_undo_another_that_came_in_between",
        simulated=NOT_SEEN),
    "lost_settings_are_learnt": Mutant(
        "settings that the ledger's server forgets were never in force anywhere",
        (("stock/stock_core.c",
          "if (row_changed(known, result, &row) && ledger_confirm(stock->ledger, connection) != "
          "LEDGER_OK)", "if (row_changed(known, result, &row) && connection == UINT64_MAX)"),),
        "test_stock/test_settings_changed_elsewhere_are_learnt_after_a_write"),
    "rate_is_not_asked_again": Mutant(
        "an order whose rate was not told is asked for again",
        (("stock/orders/check_rate.c", "        order->rate_passed = false;\n        if (fail",
          "        if (fail"),),
        "test_stock/test_order_whose_rate_was_not_told_is_asked_for_again",
        "orders/test_rate.py::test_question_lost_while_the_ledger_writes", simulated=NO_PART),
    "rate_never_refuses": Mutant(
        "no user orders faster than the rate limit",
        (("lua/scripts/rate_limit.lua",
          "if user > 0 and user_due > latest[1] then", "if false then"),),
        "test_script/test_orders_above_the_burst_are_refused_and_told_when",
        "orders/test_rate.py::test_user_gets_the_burst_and_then_429_while_others_buy",
        simulated=NO_PART),
    "rate_counts_retries": Mutant(
        "an order counts once against the rate limit, however often it is tried",
        (("stock/orders/check_rate.c",
          "orders[i]->outcome == STOCK_OPEN && !orders[i]->rate_passed)",
          "orders[i]->outcome == STOCK_OPEN)"),),
        "test_stock/test_order_that_is_tried_again_is_rated_once",
        "orders/test_rate.py::test_order_that_is_tried_again_is_counted_once",
        simulated=NO_PART),

    # ---- units that come back ----
    "returned_twice": Mutant(
        "an order's units come back once",
        (("sql/orders/ledger_return.c", "ledger_status_condition(returned->to));",
          "\"TRUE\");"),
         (RETURNS, "return version_may(order, to, ledger->txn);", "return true;")),
        "test_status/test_only_open_orders_move",
        "orders/test_state.py::test_racing_cancels_of_two_daemons_return_units_once"),
    "cancel_answered_too_early": Mutant(
        "a cancellation that is answered is committed",
        (("stock/returns/returns.c", "result == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT",
          "result == LEDGER_UNKNOWN ? STOCK_STATE_OK"),),
        "test_returns/test_ledger_that_stays_away_leaves_it_in_doubt",
        "orders/test_state.py::test_commit_of_a_move_lost"),
    "seen_cancel_not_confirmed": Mutant(
        "a cancellation that somebody else made is on the disk when it is answered",
        (("stock/returns/status.c", "if (ending.ended_count > 0 && !confirmed &&",
          "if (ending.ended_count > 0 && !confirmed && false &&"),),
        "test_returns/test_decision_of_others_is_on_the_disk_when_a_cancel_is_answered"),
    "return_not_published": Mutant(
        "units that came back end the memory of a sold-out sale in every process",
        (("stock/returns/returns.c",
          "        redis_publish(stock->redis, STOCK_CHANNEL, sale_sku(work->parts[i].sale));\n",
          ""),),
        "test_returns/test_return_is_published",
        "orders/test_state.py::test_every_daemon_is_told_of_a_return",
        simulated=NOT_SEEN),
    "return_without_its_units": Mutant(
        "the units of an order that ends can be sold again",
        (("sql/orders/ledger_return.c", "order->round_over || take_off(",
          "order->round_over || true || take_off("),
         (RETURNS, "order->round_over || take_off(", "order->round_over || true || take_off(")),
        "test_status/test_units_come_back_to_any_segments",
        "orders/test_state.py::test_cancel_ends_the_memory_of_a_sold_out_sale_everywhere"),
    "return_of_more_than_was_sold": Mutant(
        "an order ends only together with all of its units",
        (("sql/orders/ledger_return.c",
          "if (units > left_sold)", "if (units > left_sold && sold == 0)"),
         (RETURNS, "if (units > left_sold)", "if (units > left_sold && sold == 0)")),
        "test_status/test_no_segment_returns_more_than_it_has_sold"),
    "return_to_another_round": Mutant(
        "units come back to the round that they were sold in",
        (("sql/orders/ledger_return.c",
          "segment->row.round == round && segment->row.fence < segment->fence",
          "segment->row.round >= round && segment->row.fence < segment->fence"),
         (RETURNS, "segment->row.round == order->order.round",
          "segment->row.round >= order->order.round")),
        "test_status/test_segment_that_cannot_take_them_gets_none"),
    "return_twice_to_one_segment": Mutant(
        "what a batch has taken off a segment no other order of it gives back there",
        (("sql/orders/ledger_return.c", "segments[i].row.sold -= part;", "(void)part;"),
         (RETURNS, "segment->row.sold -= part;", "(void)part;")),
        "test_status/test_no_segment_returns_more_than_it_has_sold"),
    "return_looks_no_further": Mutant(
        "an order ends though others have sold what this process thinks was sold elsewhere",
        (("stock/returns/returns.c", "if (parts[i].moved ||", "if (true || parts[i].moved ||"),),
        "test_returns/test_units_come_back_though_the_hints_are_wrong"),
    "return_waits_for_an_order": Mutant(
        "an order whose row is held keeps no other from ending",
        (("sql/orders/ledger_return.c",
          "o.order_id FOR UPDATE SKIP LOCKED", "o.order_id FOR UPDATE"),),
        "test_status/test_return_waits_for_no_segment_and_no_order",
        "orders/test_state.py::test_order_whose_row_is_held_keeps_no_other_from_being_cancelled",
        simulated=NO_PART),
    "order_without_its_units": Mutant(
        "the segments have sold what the orders hold",
        (("stock/orders/strategy.c", "uint32_t units = entry->filled ? entry->order->qty : 0;",
          "uint32_t units = entry->filled ? 1 : 0;"),),
        "test_stock/test_order_that_no_segment_can_fill_is_filled_from_several",
        "orders/test_sellout.py::test_qty_that_no_segment_can_fill_comes_from_several"),
    # ---- payment and expiry ----
    "payment_without_the_row_lock": Mutant(
        "an order ends in one status",
        (("sql/payments/ledger_pay.c", "\"FOR UPDATE SKIP LOCKED\"", "\" \""),
         (PAY, "if (!row || !row->was.there || !txn_take(ledger->txn, row))",
          "if (!row || !row->was.there)"),
         (PAY, "return row && row->owner == ledger->txn && row->now.there ? row : NULL;",
          "return row && ledger && row->was.there ? row : NULL;"),
         (PAY, "    order_becomes(ledger->txn, row, LEDGER_PAID);\n",
          "    if (session_lock(ledger, row) != DB_OK)\n        return;\n"
          "    order_becomes(ledger->txn, row, LEDGER_PAID);\n")),
        "test_payments/test_locked_order_is_not_decided"),
    "payment_in_a_round_that_is_over": Mutant(
        "no order of a round that is over is paid",
        (("sql/orders/ledger_status.c",
          'STANDING(SHARE_SKIP_LOCKED) ","', 'STANDING("") ","'),
         (TEXT, "    if (!txn_take(txn, row))\n        return LEDGER_UNSEEN;\n", "")),
        "test_status/test_payment_and_reset_wait_for_each_other",
        "sales/test_reset.py::test_reset_waits_for_a_payment_under_way",
        simulated=NOT_SEEN),
    "paid_after_its_time": Mutant(
        "an order that is overdue is not paid",
        (("sql/orders/ledger_status.c", "IF(\" OVERDUE \",2+s.refund_late,1))FROM",
          "1)FROM"),
         (TEXT, "!late && order->round == round", "order->round == round"),
         (TEXT, "    if (!is_overdue(version))\n        return LEDGER_IN_ROUND;",
          "    if (version)\n        return LEDGER_IN_ROUND;")),
        "test_status/test_time_to_pay_is_over_at_its_moment",
        "orders/test_expiry.py::test_too_late_to_pay_even_if_nobody_has_expired_it"),
    "due_orders_forgotten": Mutant(
        "an order that could not be expired is found again",
        (("sql/orders/ledger_due.c", "        if (ranges[i].due)\n", "        if (false)\n"),
         ("test/simulate/ledger/ledger_reads.c",
          "        if (range->due)\n", "        if (false)\n"),
         ("test/simulate/ledger/ledger_reads.c", "        if (!question->ranges[i].due)\n",
          "        if (true)\n")),
        "test_returns/test_held_segment_keeps_no_more_orders_from_expiring_than_it_has_sold",
        "orders/test_expiry.py::test_order_whose_segment_was_busy_when_it_was_due_expires_later"),

    # ---- restock and reset ----
    "restock_repeats_without_a_key": Mutant(
        "a restock without a key happens at most once",
        (("stock/sales/lock.c", "(unknown && keyed)", "(unknown && (keyed || unknown))"),),
        "test_restock/test_without_a_key_it_is_called_unclear",
        "sales/test_restock.py::test_commit_of_a_restock_lost"),
    "restock_key_not_written": Mutant(
        "a restock with a key happens once",
        (("sql/sales/ledger_restock.c", "    if (restock->key[0] != '\\0')\n",
          "    if (!restock->key)\n"),
         (SALES, "    if (restock->key[0] == '\\0')\n", "    if (restock->key)\n")),
        "test_restock/test_key_adds_once",
        "sales/test_restock.py::test_key_adds_once_whoever_repeats_it"),
    "repeated_restock_not_published": Mutant(
        "a repeat tells every process of units whose first try told nobody",
        (("stock/sales/restock.c",
          "if (result == STOCK_ADMIN_OK) /* the", "if (false) /* the"),),
        "test_restock/test_repeat_tells_every_process_of_the_units",
        "sales/test_restock.py::"
        "test_repeat_tells_every_daemon_of_units_whose_first_try_told_nobody",
        simulated=NOT_SEEN),
    "restock_leaves_the_fences": Mutant(
        "what Redis said before a restock counts no more",
        (("sql/sales/ledger_restock.c", "fence=GREATEST(fence+1,%ju)WHERE",
          "fence=GREATEST(fence,%ju*0)WHERE"),
         (SALES, "greater(segment->fence + 1, restock->fences[i])", "segment->fence")),
        "test_user_quota/test_units_added_while_the_orders_are_counted"),
    "reset_key_not_written": Mutant(
        "a reset with a key happens once",
        (("sql/sales/ledger_reset.c", "    if (!reset->key || reset->key[0] == '\\0')\n",
          "    if (!reset->key || reset->key[0] != '\\1')\n"),
         (ROUNDS, "    if (!reset->key || reset->key[0] == '\\0')\n",
          "    if (!reset->key || reset->key[0] != '\\1')\n")),
        "test_ledger/test_key_begins_one_round",
        "sales/test_reset.py::test_key_makes_a_reset_happen_once"),
    "reset_key_ignores_pay_within": Mutant(
        "a key of a reset that comes again with other terms is refused",
        (("stock/sales/reset.c", "limit=%u pay=%u paused=%d \"", "limit=%u paused=%d \""),
         ("stock/sales/reset.c", "to->per_user_limit, to->pay_within_s, to->paused,",
          "to->per_user_limit, to->paused,")),
        "test_stock/test_key_of_a_reset_stands_for_all_its_terms",
        "sales/test_reset.py::test_key_makes_a_reset_happen_once",
        simulated=NO_PART),
    "reset_ends_a_round_in_use": Mutant(
        "a reset ends reserved orders only when it is told to",
        (("sql/sales/ledger_reset.c",
          "return held > 0 && !beginning->reset->end_round ? DB_NO : DB_OK;",
          "return DB_OK;"),
         (ROUNDS, "result == DB_OK && refused ? DB_NO : result", "refused ? result : result")),
        "test_ledger/test_round_in_use_is_not_ended_unless_that_is_asked_for",
        "sales/test_reset.py::"
        "test_order_that_is_committed_before_a_reset_is_not_ended_without_a_word",
        simulated=NOT_SEEN),
    "old_round_not_ended": Mutant(
        "no order of a round that is over stays reserved",
        (("sql/sales/ledger_reset.c",
          "    if (held > 0)\n", "    if (held > 1000000)\n"),
         (ROUNDS, "    if (beginning->reset->held == 0)\n",
          "    if (beginning->reset->held < 1000000)\n")),
        "", "sales/test_reset.py::test_end_round_ends_reserved_orders_and_keeps_paid_ones"),
    "changes_not_published": Mutant(
        "every process hears of a reset, a restock and a change",
        (("stock/sales/lock.c",
          "    redis_publish(stock->redis, STOCK_CHANNEL, row->sku);\n", ""),),
        "test_stock/test_reset_is_published",
        "sales/test_restock.py::test_every_daemon_is_told_of_each_change_of_a_sale",
        simulated=NOT_SEEN),

    # ---- the end of a sale, and node numbers ----
    "order_behind_the_count_is_overlooked": Mutant(
        "a sale with reserved orders is not retired",
        (("sql/sales/ledger_retire.c", "fences == held->fences && sold == held->sold",
          "fences >= held->fences || sold == held->sold"),
         (RETIRE, "fences == retirement->held->fences && sold == retirement->held->sold",
          "fences >= retirement->held->fences || sold == retirement->held->sold")),
        "test_ledger_retire/test_order_behind_the_count_keeps_the_sale",
        "sales/test_retire.py::test_order_that_comes_while_the_orders_are_counted_keeps_the_sale"),
    "orders_before_the_guess_are_overlooked": Mutant(
        "a sale with reserved orders is not retired, whatever clocks have made of their ids",
        (("sql/sales/ledger_retire.c", "held->units >= held->sold || (last && held->from_zero)",
          "held->units >= held->sold || last"),),
        "test_ledger_retire/test_orders_before_the_guess_are_counted",
        "sales/test_retire.py::test_id_ahead_of_its_time_hides_no_reserved_order",
        simulated=NO_PART),
    "round_under_its_end_is_retired": Mutant(
        "a sale with reserved orders is not retired",
        (("sql/sales/ledger_retire.c",
          "held->begun = ledger_u64(row[1]) == 0;", "held->begun = true;"),
         (RETIRE, "counting->held->begun = false;", "continue;")),
        "test_ledger_retire/test_orders_that_hold_units_are_counted",
        "sales/test_retire.py::test_order_of_an_earlier_round_is_ended_before_its_sale_is",
        simulated=NOT_SEEN),
    "users_before_the_guess_are_overlooked": Mutant(
        "a limit set in mid-sale counts every order",
        (("sql/sales/ledger_count.c",
          "result == LEDGER_OK && ledger_u32(row[0]) == 0 ? LEDGER_NO : result",
          "result"),
         ("test/simulate/ledger/ledger_counts.c", "if (!step.all && !step.equal)", "if (false)")),
        "test_settings/test_counting_misses_no_order_for_a_clock",
        "sales/test_counting.py::test_order_of_a_sale_that_is_counted_may_be_tried_again",
        simulated=NOT_SEEN),
    "orders_dated_by_the_daemons_clock": Mutant(
        "an order's time to pay and its sale's window go by the ledger's clock",
        (("service/synced_clock.c",
          "(clock_boot_ns() + atomic_load(&clock->ahead_ns)) / CLOCK_NS_PER_MS",
          "atomic_load(&clock->ahead_ns) != 0 ? clock_wall_ms() : 0"),),
        "test_synced_clock/test_first_answer_counts_however_far_it_is",
        "process/test_clock.py::test_time_to_pay_goes_by_the_clock_of_the_ledger",
        simulated=NO_PART),
    "reserved_orders_end_with_their_sale": Mutant(
        "a sale with reserved orders is not retired",
        (("sql/sales/ledger_retire.c", "held->reserved += ledger_u64(row[3]);",
          "held->paid += ledger_u64(row[3]);"),
         (RETIRE, "held->reserved += seen->order.status == LEDGER_RESERVED;",
          "held->paid += seen->order.status == LEDGER_RESERVED;")),
        "test_ledger_retire/test_orders_that_hold_units_are_counted",
        "sales/test_retire.py::test_sale_with_reserved_orders_stays"),
    "rounds_of_a_sku_begin_again": Mutant(
        "an order of a retired sale belongs to no later sale of its sku",
        (("sql/sales/ledger_reset.c", '",COALESCE(MAX(round),0),0,0,"', '",0,0,0,"'),
         (ROUNDS, "    version->sale.round = last->sale_round.round;\n", "")),
        "test_ledger_retire/test_order_behind_the_count_keeps_the_sale",
        "sales/test_retire.py::test_sku_that_comes_again_counts_its_rounds_on"),
    "node_begins_behind_its_own_clock": Mutant(
        "no two orders have one id, though clocks differ",
        (("sql/server/ledger_node.c", "ids_before > node->next_ms ? ids_before : node->next_ms",
          "ids_before > UINT64_MAX / 2 ? ids_before : node->next_ms"),),
        "test_ledger_node/test_next_holder_begins_behind_all_ids_of_the_last_one",
        "process/test_node.py::test_next_holder_begins_behind_the_ids_of_the_last",
        simulated=NO_PART),
    "node_renewed_though_taken": Mutant(
        "a daemon that slept beyond its lease gives its number up",
        (("sql/server/ledger_node.c", "sql_printf(&ledger->sql, \" AND holder=%s\", node->holder);",
          "(void)0;"),),
        "test_ledger_node/test_lease_that_ended_is_renewed_unless_it_was_taken",
        "process/test_node.py::test_daemon_that_slept_beyond_its_lease_goes_on_with_another_number",
        simulated=NO_PART),
    "node_taken_from_its_holder": Mutant(
        "two daemons have no number in common",
        (("sql/server/ledger_node.c",
          '" OR leased_until<=UTC_TIMESTAMP(6)"', '" OR leased_until>0"'),),
        "test_ledger_node/test_number_in_use_is_refused_with_its_holder",
        "process/test_node.py::test_second_daemon_with_the_same_node_id_ends", simulated=NO_PART),
}

CORE |= table_payments.CORE | table_events.CORE
MUTANTS = {**CORE, **table_events.MUTANTS, **table_service.MUTANTS, **table_locks.MUTANTS,
           **table_outsider.MUTANTS, **table_rest.MUTANTS}

# Guards that can be dropped with no loss, as the simulation shows; README.md says why.
REDUNDANT = {
    "update_of_another_round": Mutant(
        "an order moves a segment of its own round",
        (("sql/orders/ledger_commit.c", "AND segment=%u AND round=%u AND settings_version=%u\"",
          "AND segment=%u AND round>=%u*0 AND settings_version=%u\""),
         (ORDERS, "return row->round == update->round && row->settings_version",
          "return row->settings_version"))),
    "recovery_leaves_the_ledgers_fence": Mutant(
        "after a recovery no update of an earlier holder is accepted",
        (("sql/orders/ledger_recovery.c",
          "text_raise(sql, sku, segments[places[i]].segment, segments[places[i]].fence);",
          "(void)places;"),
         (ORDERS, "result = raise_fence(ledger, recovery->sku, recovery->segments[i].segment, "
          "fences[i]);", "(void)fences;"))),
    "older_settings_are_learnt": Mutant(
        "settings that arrive late do not replace newer ones",
        (("stock/sale_cache.c", "row->settings.version > sale->snapshot.settings.version)",
          "row->settings.version != sale->snapshot.settings.version)"),)),
    "take_from_another_round": Mutant(
        "nobody takes units of another round",
        (("lua/scripts/stock_take.lua", " or segment[2] ~= ARGV[arg + 3]", ""),)),
    "return_sets_the_fence_back": Mutant(
        "a return that comes late changes no segment that others have sold from",
        (("sql/orders/ledger_return.c",
          "segment->row.round == round && segment->row.fence < segment->fence",
          "segment->row.round == round"),
         ("sql/orders/ledger_return.c", "AND round=%u AND fence<%ju AND",
          "AND round=%u AND fence<>%ju AND"),
         (RETURNS, " &&\n           segment->row.fence < segment->fence", ""))),
    "settles_wait_for_a_trip": Mutant(
        "no segment stays locked behind the last batch",
        (("stock/sell.c", "    if (stock->stats.redis_calls == trips)\n        "
          "stock_flush(stock);", "    (void)trips;"),)),
    "later_round_not_loaded": Mutant(
        "who cancels an order of a round that is news to the process makes it known",
        (("stock/returns/returns.c",
          "if (!part->sale || sale_snapshot(part->sale).round < latest || to == LEDGER_RESERVED)",
          "if (!part->sale || (false && latest) || to == LEDGER_RESERVED)"),)),
} | table_events.REDUNDANT

# What the system column tries when the test that the table names does not find a mutant: of each
# thing that may happen to an order and its units a quick test.
SYSTEM_TESTS = (
    "orders/test_order.py::test_order_answers_201_with_its_fields",
    "orders/test_order.py::test_stock_counts_every_order_on_every_daemon",
    "orders/test_order.py::test_sold_out_is_409_and_a_smaller_qty_may_still_succeed",
    "orders/test_sellout.py::test_mixed_quantities_sell_the_last_unit_too[1]",
    "orders/test_sellout.py::test_qty_that_no_segment_can_fill_comes_from_several",
    "orders/test_sellout.py::test_large_and_small_orders_together_sell_out",
    "orders/test_sellout.py::test_sold_out_memory_ends_in_every_daemon_with_a_reset",
    "orders/test_idempotency.py::test_repeat_after_the_sale_sold_out_gives_the_order",
    "orders/test_idempotency.py::test_simultaneous_repeats_over_two_daemons_make_one_order",
    "orders/test_idempotency.py::"
    "test_first_try_is_accepted_elsewhere_while_the_repeat_is_under_way",
    "orders/test_user_limit.py::test_refusal_names_the_limit_and_the_orders",
    "sales/test_window.py::test_closed_sale_refuses_and_says_until_when",
    "sales/test_window.py::test_repeat_of_an_accepted_order_is_answered_whatever_the_terms",
    "orders/test_state.py::test_paid_and_cancelled_orders_are_shown_and_stay",
    "orders/test_state.py::test_older_rounds_orders_give_nothing_back",
    "orders/test_state.py::test_racing_cancels_of_two_daemons_return_units_once",
    "orders/test_state.py::test_payments_and_cancels_in_the_same_moment",
    "orders/test_state.py::test_commit_of_a_move_lost",
    "orders/test_state.py::test_cancel_after_redis_lost_everything",
    "orders/test_expiry.py::test_unpaid_orders_expire_and_paid_ones_do_not",
    "sales/test_restock.py::test_added_units_are_spread_and_sold_by_every_daemon",
    "sales/test_reset.py::test_reset_while_a_segment_is_dirty_or_redis_is_empty",
    "sales/test_reset.py::test_orders_of_an_ended_round_give_the_next_one_no_units",
    "faults/test_crash.py::test_lane_that_sleeps_through_its_lease_is_fenced_off",
    "faults/test_faults.py::test_redis_goes_back_in_time",
    "faults/test_faults.py::test_key_of_the_wrong_type",
    "faults/test_faults.py::test_redis_answers_lost",
)
