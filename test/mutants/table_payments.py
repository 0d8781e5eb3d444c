"""Small faults of late money, refunds, extended holds and parts of orders, as in table.py."""

from mutant import NO_PART, NOT_SEEN, Mutant

ORDERS = "test/simulate/ledger/ledger_orders.c"
PAY = "test/simulate/ledger/ledger_pay.c"
RETURNS = "test/simulate/ledger/ledger_returns.c"
RETIRE = "test/simulate/ledger/ledger_retire.c"
TEXT = "test/simulate/ledger/ledger_text.c"
TESTS = "orders/test_payments.py::"

CORE = {
    # ---- payments ----
    "due_payment_is_not_listed": Mutant(
        "each payment that is due back is found by its state",
        (("sql/payments/ledger_pay.c",
          "        if (is_due(payment))\n",
          "        if (payment->told && payment->state == LEDGER_PAYMENT_REFUNDED)\n"),
         (PAY, "result == DB_OK && payment->state == LEDGER_PAYMENT_DUE)",
          "result == DB_OK && payment->state == LEDGER_PAYMENT_REFUNDED)")),
        unit="test_payments/test_due_payments_are_listed_counted_and_refunded",
        system=TESTS + "test_payment_in_time_is_taken_once"),
    "second_payment_pays_again": Mutant(
        "an order is paid by one payment at most",
        (("sql/payments/ledger_pay.c", "        return LEDGER_ALREADY_PAID;\n",
          "        return LEDGER_IN_TIME;\n"),
         (PAY, "        return LEDGER_ALREADY_PAID;\n", "        return LEDGER_IN_TIME;\n")),
        unit="test_payments/test_payments_of_one_order_are_decided_in_their_order",
        system=TESTS + "test_payment_in_time_is_taken_once"),
    "late_payment_pays_where_it_is_refunded": Mutant(
        "a sale that has late payments refunded gives none of them its units",
        (("sql/orders/ledger_status.c", "2+s.refund_late,1", "2,1"),
         ("stock/orders/check_settings.c", "if (!settings->refund_late && ", "if ("),
         (TEXT, "row_seen(row, txn)->sale.settings.refund_late ? LEDGER_OVER : LEDGER_OVERDUE",
          "row_seen(row, txn)->there ? LEDGER_OVERDUE : LEDGER_OVER")),
        unit="test_payments/test_late_payment_is_due_where_its_order_cannot_have_units",
        system=TESTS + "test_settings_decide_about_late_payments_and_no_window_does"),
    "grace_ignored": Mutant(
        "a payment within the grace is in time",
        (("sql/orders/ledger_status.c", "o.expires_at<=UTC_TIMESTAMP(3)-INTERVAL o.grace_s SECOND",
          "TRUE"),
         (TEXT, "order->expires_ms + (int64_t)order->grace_s * 1000", "order->expires_ms")),
        unit="test_payments/test_grace_is_the_orders_own",
        system=TESTS + "test_payment_within_the_grace_is_in_time"),

    # ---- units taken again ----
    "retake_is_told_as_in_time": Mutant(
        "a payment is told alike however often it is told",
        (("sql/orders/ledger_commit.c", "LEDGER_PAYMENT_TAKEN, LEDGER_RETAKEN",
          "LEDGER_PAYMENT_TAKEN, LEDGER_IN_TIME"),
         (ORDERS, ".outcome = LEDGER_RETAKEN}", ".outcome = LEDGER_IN_TIME}")),
        unit="test_payments/test_expired_order_is_paid_with_its_units",
        system=TESTS + "test_late_payment_gets_its_units_again"),
    "retake_ignores_the_round": Mutant(
        "no order takes units again in a later round",
        (("sql/orders/ledger_status.c", "IF(s.round<>o.round,3", "IF(s.round<o.round,3"),
         ("stock/orders/check_settings.c", "&& order->round == group->snapshot.round)",
          "&& order->round <= group->snapshot.round)"),
         (TEXT, "if (round_of_sale(version->sku, txn) != version->order.round)\n"
          "        return LEDGER_OVER;",
          "if (round_of_sale(version->sku, txn) < version->order.round)\n"
          "        return LEDGER_OVER;")),
        unit="test_payments/test_late_payment_is_due_where_its_order_cannot_have_units",
        system=TESTS + "test_payment_after_the_round_or_the_sale_is_due_back"),
    "late_payment_goes_by_old_settings": Mutant(
        "a sale that refuses late payments as far as a daemon knows is read again",
        (("stock/orders/check_settings.c",
          "    if (group->standing == NOT_ASKED)\n        stock_sale_reload(",
          "    if (group->standing == SILENT)\n        stock_sale_reload("),),
        system=TESTS + "test_late_payment_goes_by_the_setting_that_another_daemon_has_made"),
    "late_payment_forgets_that_it_has_no_units": Mutant(
        "a late payment whose order cannot have its units is due back",
        (("sql/payments/ledger_pay.c", "        if (payment->late != LEDGER_LATE_NO_UNITS)\n",
          "        if (payment->ref)\n"),
         (PAY, "        if (payment->late != LEDGER_LATE_NO_UNITS)\n",
          "        if (payment->ref)\n")),
        unit="test_payments/test_late_payment_is_due_where_its_order_cannot_have_units",
        system=TESTS + "test_late_payment_that_finds_nothing_left_is_due_back"),
    "retake_is_not_counted": Mutant(
        "units taken again count towards their user's limit",
        (("stock/orders/strategy.c",
          ".limit = order->group->snapshot.settings.per_user_limit,",
          ".limit = order->payment_ref ? 0 : order->group->snapshot.settings.per_user_limit,"),),
        system=TESTS + "test_late_payment_gets_its_units_again"),

    # ---- refunds and parts ----
    "refund_always_restocks": Mutant(
        "units of a refund are put back on sale only when the shop says so",
        (("stock/returns/status.c", ".unreturned = to == LEDGER_REFUNDED && !change->restock,",
          ".unreturned = to == LEDGER_RESERVED,"),),
        system=TESTS + "test_refund_returns_units_only_to_be_restocked"),
    "refund_never_restocks": Mutant(
        "units of a refund are put back on sale when the shop says so",
        (("stock/returns/status.c", ".unreturned = to == LEDGER_REFUNDED && !change->restock,",
          ".unreturned = to == LEDGER_REFUNDED,"),),
        system=TESTS + "test_refund_returns_units_only_to_be_restocked"),
    "payment_of_refunded_order_stays_taken": Mutant(
        "an order and the payment that has paid it are refunded together",
        (("sql/orders/ledger_return.c",
          "i < returned->order_count && is_of_payments(returned); i++",
          "i < returned->order_count && returned->to == LEDGER_RESERVED; i++"),
         (RETURNS, "if (!is_of_payments(returning->returned) || order->keep > 0)",
          "if (returning->returned->to != LEDGER_RESERVED || order->keep > 0)")),
        unit="test_payments/test_refund_with_restock_returns_units_once",
        system=TESTS + "test_refund_returns_units_only_to_be_restocked"),
    "refund_of_due_payment_ends_its_order": Mutant(
        "the refund of a payment that is due changes no order",
        (("stock/returns/status.c", "change->payment.state == LEDGER_PAYMENT_DUE)\n",
          "change->payment.state == LEDGER_PAYMENT_REFUNDED)\n"),),
        system=TESTS + "test_late_payment_that_finds_nothing_left_is_due_back"),
    "part_gives_all_units_back": Mutant(
        "of an order that keeps units only the others come back",
        (("sql/orders/ledger_return.c", "none ? 0 : qty - order->keep;", "none ? 0 : qty;"),
         (RETURNS, "none ? 0 : qty - order->keep;", "none ? 0 : qty;")),
        unit="test_payments/test_part_of_an_order_comes_back_once",
        system=TESTS + "test_part_of_an_order_is_given_back"),
    "quota_not_given_back_for_a_part": Mutant(
        "a user may buy again what an order of his has given back",
        (("sql/orders/ledger_return.c",
          "if (!order->moved || order->round_over || units == 0)",
          "if (!order->moved || order->round_over || units == 0 || order->keep > 0)"),
         (RETURNS, "if (moved->units > 0 && order->order.order_id <= counted_to(ledger, order))",
          "if (moved->units > 0 && moved->order->keep == 0 &&\n"
          "            order->order.order_id <= counted_to(ledger, order))")),
        unit="test_payments/test_part_of_an_order_comes_back_once",
        system=TESTS + "test_part_of_an_order_is_given_back"),
    "unreturned_units_are_not_counted": Mutant(
        "units that were refunded and not put back on sale stay sold",
        (("sql/orders/orders.h", "+COALESCE(unreturned,0))", ")"),
         (TEXT, "return (holds ? order->qty : 0) + order->unreturned;",
          "return holds ? order->qty : 0;")),
        unit="test_payments/test_refund_without_restock_leaves_units_sold"),
    "sale_with_refunds_is_retired": Mutant(
        "a sale stays while payments are due back, unless they are refunded elsewhere",
        (("sql/sales/ledger_retire.c", "return held->refunds_due > 0 ? DB_NO : result;",
          "return held->refunds_due > 1000000 ? DB_NO : result;"),
         (RETIRE, "return retirement->held->refunds_due > 0 ? DB_NO : result;",
          "return retirement->held->refunds_due > 1000000 ? DB_NO : result;")),
        system=TESTS + "test_payment_after_the_round_or_the_sale_is_due_back"),

    # ---- extended holds ----
    "held_beyond_the_limit": Mutant(
        "an order is held no longer than its sale allows",
        (("sql/payments/ledger_pay.c",
          "extension->limited = later && extension->expires_ms > order->latest_ms;",
          "extension->limited = later && extension->expires_ms < 0;"),
         (PAY, "extension->limited = later && extension->expires_ms > latest;",
          "extension->limited = later && extension->expires_ms < 0;")),
        unit="test_payments/test_reservation_is_extended_within_its_bounds",
        system=TESTS + "test_hold_is_extended_up_to_its_limit"),
    "extended_order_never_expires": Mutant(
        "an order that was held for longer expires then",
        (("sql/orders/ledger_due.c", '"WHERE order_id=%ju AND expires_at IS NOT NULL "',
          '"WHERE order_id=%ju AND expires_at IS NULL "'),
         (PAY, "    version->there = true;\n    version->expiry =",
          "    version->there = version->there && last_id > 0;\n    version->expiry =")),
        unit="test_payments/test_reservation_is_extended_within_its_bounds",
        system=TESTS + "test_hold_is_extended_up_to_its_limit"),

    "second_payment_pays_nothing": Mutant(
        "an order stays paid while one of its payments has its money",
        (("sql/orders/ledger_return.c", 'is_of_payments(returned) ? NEXT_PAYMENT : "NULL");',
          'returned->order_count == 0 ? NEXT_PAYMENT : "NULL");'),
         (RETURNS, "is_of_payments(returned) ? payment_next(",
          "returned->order_count == 0 ? payment_next(")),
        unit="test_payments/test_due_payment_takes_the_place_of_a_refunded_one",
        system="orders/test_payment_ends.py::test_order_stays_paid_by_the_second_payment"),
    "unpaid_order_is_not_noticed": Mutant(
        "no order becomes reserved again behind the count of a retirement",
        (("sql/orders/ledger_return.c", "SELECT sku,1 FROM orders", "SELECT sku,0 FROM orders"),
         (RETURNS, "        sale->unpaid++;\n", "")),
        unit="test_payments/test_order_whose_payment_has_failed_is_reserved_again"),

    # ---- two calls at the same time, and a commit whose answer is lost ----
    "order_is_retaken_twice": Mutant(
        "an order that is not expired any more takes no units again",
        (("sql/orders/ledger_commit.c",
          "return count == 0 || db_affected(commit->ledger->db, place) == count;",
          "return count == 0 || place < UINT32_MAX;"),
         (ORDERS, "        commit->retaken &= expired;\n", "")),
        unit="test_payments/test_order_that_is_not_expired_is_not_paid_again",
        system=TESTS + "test_order_that_another_daemon_pays_meanwhile_takes_no_units_again"),
    "retake_resolved_by_its_order": Mutant(
        "an order whose row is there anyway tells nothing of a retake in doubt",
        (("sql/orders/ledger_recovery.c", "    if (order->payment_ref)\n",
          "    if (order->payment_ref && order->round == 0)\n"),
         (ORDERS, "row->there && !order->payment_ref &&", "row->there &&")),
        unit="test_payments/test_unknown_commit_of_a_late_payment_is_only_ended"),
    "refusal_decides_a_change_in_doubt": Mutant(
        "what a lost commit has done to an order may not show in it any more",
        (("stock/returns/trial.c", "change->doubt && hidden && !done",
          "change->doubt && hidden && !done && change->record.damaged"),),
        system="orders/test_state.py::"
               "test_change_in_doubt_is_not_refused_for_what_came_behind_it",
        simulated=NOT_SEEN),
    "units_of_a_refund_come_back_twice": Mutant(
        "an order's units come back once, whoever refunds it",
        (("sql/orders/ledger_status.c", "[LEDGER_REFUNDED] = \"o.status='paid'\"",
          "[LEDGER_REFUNDED] = \"TRUE\""),
         (TEXT, "(order->status == (of_paid ? LEDGER_PAID : LEDGER_RESERVED) ||",
          "(to == LEDGER_REFUNDED || order->status == LEDGER_RESERVED ||")),
        unit="test_payments/test_refund_with_restock_returns_units_once"),
    "extended_after_its_time": Mutant(
        "an order whose time to pay is over is not held for longer",
        (("sql/payments/ledger_pay.c",
          "order->standing == LEDGER_IN_ROUND && order->expires_ms != 0",
          "order->standing != LEDGER_OVER && order->expires_ms != 0"),
         (PAY, "paying->standing[at] == LEDGER_IN_ROUND && order->expires_ms != 0",
          "paying->standing[at] != LEDGER_OVER && order->expires_ms != 0")),
        unit="test_payments/test_reservation_is_extended_within_its_bounds"),
    "order_told_as_if_its_sale_stayed": Mutant(
        "a late payment of an order without a sale is due back",
        (("sql/orders/ledger_status.c", "s.sku=o.sku),0,3)", "s.sku=o.sku),0,0)"),),
        unit="test_payments/test_late_payment_of_a_sale_that_is_gone_is_due_at_once",
        system=TESTS + "test_payment_after_the_round_or_the_sale_is_due_back",
        simulated=NO_PART),
}
