"""Small faults of events, as in table.py."""

from mutant import NOT_SEEN, Mutant

EVENTS = "test/simulate/ledger/ledger_events.c"
PAY = "test/simulate/ledger/ledger_pay.c"
ROUNDS = "test/simulate/ledger/ledger_rounds.c"
TESTS = "test_events/"

CORE = {
    "late_event_is_passed_over": Mutant(
        "an event is published whenever its transaction ends",
        (("sql/events/ledger_events.c", "position=0 ORDER BY id LIMIT %d",
          "position=0 AND id>COALESCE((SELECT MAX(b.id)FROM event_batch b WHERE b.position>0)"
          ",0)ORDER BY id LIMIT %d"),
         (EVENTS, "    uint64_t from = 0;", "    uint64_t passed = 0, from = 0;"),
         (EVENTS, "        if (seen->there && seen->event.position <= found->position &&",
          "        if (seen->there && seen->event.position > 0 && seen->event.id > passed)\n"
          "            passed = seen->event.id;\n"
          "        if (seen->there && seen->event.position <= found->position &&"),
         (EVENTS, "        bool is_published = seen->event.position > 0;",
          "        bool is_published = seen->event.position > 0 || seen->event.id <= passed;")),
        unit=TESTS + "test_transaction_that_commits_late_is_not_passed_over",
        system="events/test_feed.py::test_transaction_that_commits_late_is_not_passed_over"),
    "position_is_given_twice": Mutant(
        "each position has one event",
        (("sql/events/ledger_events.c", "WHERE one=1 AND next=%ju;",
          "WHERE one=1 AND next>=%ju*0;"),
         (EVENTS, " || feed->next != placing->next", "")),
        unit=TESTS + "test_second_publisher_of_a_position_is_refused"),
    "extension_makes_no_version": Mutant(
        "each change of an order is a version of it",
        (("sql/payments/ledger_pay.c", 'SET " LEDGER_VERSION_NEXT ",expires_at="',
          'SET expires_at="'),
         (PAY, "    order_becomes(ledger->txn, row, row->now.order.status);\n"
          "    row->now.order.expires_ms = expires_ms;\n",
          "    txn_change(ledger->txn, row)->order.expires_ms = expires_ms;\n")),
        unit=TESTS + "test_cancels_expiries_and_extensions_are_events"),
    "end_of_a_round_is_no_event": Mutant(
        "each change of an order is an event",
        (("sql/sales/ledger_round.c", "            event_list_add(&events, ids[i], NULL);\n",
          "            (void)events;\n"),
         (ROUNDS, "        event_write(ledger, &lines);\n", "")),
        unit=TESTS + "test_orders_of_an_ended_round_expire_with_events"),
}

# The simulation finds these alone: it has several daemons, and a server that dies. It has met the
# first once in a million schedules, which its unit test finds alone.
MUTANTS = {
    "id_given_again_is_published": Mutant(
        "the events of a batch are those that were counted",
        (("sql/events/ledger_events.c", " END WHERE position=0 AND events=CASE id",
          " END WHERE position=0 AND 0<CASE id"),
         (EVENTS, " ||\n        row->now.event.events != batch->events", "")),
        unit=TESTS + "test_batch_with_other_events_than_were_read_is_refused",
        simulated=NOT_SEEN),
    "event_told_before_it_is_durable": Mutant(
        "an event that was told stays, though the ledger's server dies",
        (("service/workers/feed.c",
          "    if (ledger_confirm(ledger, connection) != LEDGER_OK) /* why_confirmed */\n",
          "    if (connection == 0)\n"),)),
    "cursor_of_a_lost_event_is_good": Mutant(
        "a reader of a ledger that has gone back in time hears of it",
        (("service/workers/feed.c", "return mark >= FEED_PODS &&", "return mark == FEED_PODS &&"),),
        simulated=NOT_SEEN,
        system="events/test_feed.py::test_cursor_of_before_a_restore_is_expired"),
    "cursor_of_a_later_look_is_expired": Mutant(
        "a reader goes on at any daemon",
        (("service/workers/feed.c", "feed->looked_ns <= request->arrived_ns", "false"),)),
}

# See REDUNDANT in table.py.
REDUNDANT = {
    "published_batch_is_published_again": Mutant(
        "a batch has one position",
        (("sql/events/ledger_events.c", " END WHERE position=0 AND events=CASE id",
          " END WHERE events=CASE id"),
         (EVENTS, " || row->now.event.position != 0", ""))),
}
