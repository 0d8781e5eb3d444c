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
          "if (handle_extend(handle, result, sent_ns, watchdog->options->now_ns()))",
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
        (("lock/acquisition.c", "a->failed_ns = a->retry_ms = 0;", "a->retry_ms = 0;"),),
        unit="test_lock/test_waiter_bears_a_second_outage",
        simulated=NO_PART),
    "multi_does_not_look_at_the_last_member": Mutant(
        "several locks are had all or none, also when one is lost meanwhile",
        (("lock/multi.c",
          "return check_held(handles, count);",
          "return check_held(handles, count - 1);"),),
        unit="test_kinds/test_member_that_is_lost_during_the_wait_fails_all",
        simulated=NO_PART),
    "leader_hands_over_within_its_lock_only": Mutant(
        "messages are read for all who wait, whoever of them goes",
        (("lock/redis/waiter.c",
          "        if (w->sleeping && !w->woken) {\n",
          "        if (w->sleeping && !w->woken && w->channel == waiter->channel) {\n"),),
        unit="test_waiter/test_leader_hands_over_to_a_waiter_for_another_lock",
        simulated=NO_PART),
    "fair_stopped_waiter_never_queues_again": Mutant(
        "a waiter of the fair lock that was stopped queues again at the end",
        (("lua/scripts/lock_fair.lua",
          "  call('LPOP', KEYS[2])\n"
          "  call('ZREM', KEYS[3], head)\n",
          "  call('LPOP', KEYS[2])\n"),),
        unit="test_fair/test_waiter_that_was_stopped_queues_again_at_the_end",
        simulated=NO_PART),
    "queue_waiter_that_left_offline_stays": Mutant(
        "a waiter that gave up while ZooKeeper was away blocks nobody",
        (("lock/zookeeper/queue.c",
          "    if (result == ZK_UNKNOWN || result == ZK_FAILED)\n"
          "        node_delete_later(node);\n",
          "    if (result == ZK_UNKNOWN)\n"
          "        node_delete_later(node);\n"),),
        system="lock/test_lock_zookeeper.py::"
               "test_waiter_that_gives_up_without_a_server_leaves_the_queue",
        simulated=NO_PART),

    # ---- what servers remember ----
    "release_remembered_for_the_rest_only": Mutant(
        "the repeat of a release after a lost answer is ok, not lost",
        (("lock/redis/kind.c",
          "return left_ms > REPEAT_MS_MAX && left_ms < REMEMBER_MS_MAX;",
          "return left_ms < REMEMBER_MS_MAX;"),),
        unit="test_kinds/test_release_is_remembered_beyond_its_lease",
        simulated=NO_PART),
    "table_remembers_one_release": Mutant(
        "the row of a table lock remembers the last eight releases",
        (("lock/mysql/table.c", "RELEASES_SIZE = 640", "RELEASES_SIZE = 64"),),
        unit="test_mysql_table/test_release_is_counted_once",
        system="lock/test_lock_faults.py::"
               "test_answer_to_release_is_lost_and_others_follow[waits-table]",
        simulated=NO_PART),
    "short_read_hold_ends_longer_ones": Mutant(
        "no writer comes while a reader's lease lasts, whoever else reads",
        (("lua/scripts/lock_read.lua",
          "if call('PTTL', KEYS[2]) < tonumber(ARGV[3]) then\n"
          "  call('PEXPIRE', KEYS[2], ARGV[3])\n"
          "end\n",
          "call('PEXPIRE', KEYS[2], ARGV[3])\n"),),
        unit="test_kinds/test_read_holds_end_by_themselves",
        simulated=NO_PART),
    "short_read_hold_hides_who_reads": Mutant(
        "a reader that asks to write is told of the deadlock, whoever else has read",
        (("lua/scripts/lock_read.lua",
          "if call('PTTL', KEYS[3]) < tonumber(ARGV[3]) then\n"
          "  call('PEXPIRE', KEYS[3], ARGV[3])\n"
          "end\n",
          "call('PEXPIRE', KEYS[3], ARGV[3])\n"),),
        unit="test_kinds/test_read_holds_end_by_themselves",
        simulated=NO_PART),
    "semaphore_in_use_forgets_its_limit": Mutant(
        "the number of permits is forgotten a week after its last use",
        (("lua/scripts/lock_permits.lua",
          "call('GETEX', KEYS[2], 'EX', '604800')",
          "call('GET', KEYS[2])"),),
        unit="test_kinds/test_number_of_permits_in_use_is_kept",
        simulated=NO_PART),
    "latch_forgets_requests_after_a_minute": Mutant(
        "a repeated request counts a latch down once until it is set again",
        (("lua/scripts/lock_latch_down.lua",
          "math.max(call('PTTL', KEYS[1]), 1)",
          "math.max(math.min(call('PTTL', KEYS[1]), 60000), 1)"),),
        unit="test_kinds/test_latch_knows_its_requests_as_long_as_it_lives",
        simulated=NO_PART),
    "rate_limit_older_value_wins": Mutant(
        "a user who orders more often than the limit gets 429",
        (("lua/scripts/rate_limit.lua",
          "  read(kind, older)\n"
          "  read(kind, newer)\n",
          "  read(kind, newer)\n"
          "  read(kind, older)\n"),),
        unit="test_script/test_values_are_kept_for_the_time_of_a_burst_and_then_dropped",
        simulated=NO_PART),
    "get_lock_is_given_back_with_its_connection_alone": Mutant(
        "a released get-lock is free",
        (("lock/mysql/get_lock.c",
          "RELEASE_LOCK(@n),0)",
          "1,0)"),),
        unit="test_conformance/get-lock: release_wakes_who_waits",
        simulated=NO_PART),
    "redis_value_of_greatest_size_reads_empty": Mutant(
        "a value of the greatest size is read as it was written",
        (("lock/value/value.c",
          "if (length > value_out->capacity)",
          "if (length >= value_out->capacity)"),),
        unit="test_kinds/test_value_changes_for_who_has_seen_it",
        simulated=NO_PART),

    # ---- etcd ----
    "etcd_waiter_acquires_behind_another": Mutant(
        "a waiter has the lock when nobody is before it",
        (("lock/etcd/kind.c",
          "    if (!first_key(answer))\n        return SECLOCK_OK;\n    watch_start",
          "    if (!first_key(answer) || claim->lease)\n        return SECLOCK_OK;\n"
          "    watch_start"),),
        system="lock/test_lock_history.py::test_etcd",
        simulated=NO_PART),
    "etcd_key_outlives_its_hold": Mutant(
        "a hold that has ended keeps nobody out, though its lease serves other holds",
        (("lock/etcd/kind.c",
          "    if (claim)\n        delete_later(self, claim, 0);",
          "    if (claim && claim->gives_up)\n        delete_later(self, claim, 0);"),),
        system="lock/test_lock_etcd.py::test_hold_that_has_ended_keeps_nobody_out",
        simulated=NO_PART),
    "etcd_any_value_takes_the_place_of_another": Mutant(
        "of two proclamations the later one stands, whichever comes last",
        (("lock/etcd/kind.c",
          "\\\"VALUE\\\",\\\"result\\\":\\\"LESS\\\"",
          "\\\"VALUE\\\",\\\"result\\\":\\\"NOT_EQUAL\\\""),),
        system="lock/test_lock_faults.py::test_late_proclamation_undoes_no_later_one",
        simulated=NO_PART),
    "etcd_keep_alive_by_any_leader_counts": Mutant(
        "a lease goes on when the leader that kept it alive still is the leader of all",
        (("lock/etcd/lease.c",
          "    result = confirm_term(leases, term, until_ms);",
          "    (void)confirm_term(leases, term, until_ms);"),),
        system="lock/test_lock_etcd.py::test_keep_alive_by_a_deposed_leader_does_not_count",
        simulated=NO_PART),

    # ---- event loops ----
    "loop_cancels_at_the_next_poll": Mutant(
        "a wait that is cancelled ends at once",
        (("lock/loop/operation.c",
          "    if (operation->acquisition.step == ACQUISITION_SLEEP)\n        operation_wake",
          "    if (operation->acquisition.step == ACQUISITION_SLEEP && !operation->waiter)\n"
          "        operation_wake"),),
        unit="test_loop/test_wait_is_cancelled",
        simulated=NO_PART),
    "loop_tells_no_loss": Mutant(
        "a hold that is lost is an event",
        (("lock/loop/loop.c",
          "    if (!operation->lost)\n        TAILQ_INSERT_TAIL",
          "    if (operation->lost)\n        TAILQ_INSERT_TAIL"),),
        unit="test_loop/test_loss_is_an_event",
        simulated=NO_PART),
    "loop_message_wakes_nobody": Mutant(
        "a message ends the sleep of a waiter in a loop",
        (("lock/loop/loop.c",
          "    due_put(&operation->loop->sleeping, &operation->timer, 0);\n}",
          "    (void)operation;\n}"),),
        unit="test_conformance_loop/simple: message_wakes_the_waiter_of_its_lock",
        simulated=NO_PART),
    "loop_renewal_counts_from_its_answer": Mutant(
        "a lease that a loop renews counts from the sending",
        (("lock/loop/operation.c",
          "step_answer(handle, LOCK_RENEW, call);\n"
          "        end(operation, lock_renewed(handle, result, operation->sent_ns));",
          "step_answer(handle, LOCK_RENEW, call);\n"
          "        end(operation, lock_renewed(handle, result, handle->now_ns()));"),),
        unit="test_loop/test_renewal_counts_from_its_sending",
        simulated=NO_PART),

    # ---- elections ----
    "value_outlives_its_hold": Mutant(
        "a leader's value counts only while its hold stands",
        (("lock/redis/kind.c",
          "        strcmp(proclaimed, colon ? colon + 1 : stands) == 0) {",
          "        (colon || stands[0] != '\\0')) {"),),
        unit="test_election/simple: former_leader_is_refused",
        simulated=NO_PART),
    "renewal_forgets_the_value": Mutant(
        "a leader's value lives as long as its hold",
        (("lock/redis/kind.c",
          "step_of(handles[i], LOCK_RENEW), &calls[i]);",
          "&steps_of(handles[i])->renew, &calls[i]);"),),
        unit="test_election/fair: value_lives_as_long_as_the_hold",
        simulated=NO_PART),
    "value_that_failed_is_repeated": Mutant(
        "a value that was certainly not proclaimed comes with no renewal",
        (("lock/lock.c", "    if (result == SECLOCK_FAILED) {\n        char *former",
          "    if (result == SECLOCK_RESULT_COUNT) {\n        char *former"),),
        system="lock/test_lock_faults.py::"
               "test_proclamation_that_is_not_sent_has_failed[waits-simple]",
        simulated=NO_PART),
    "late_proclamation_counts_on_redis": Mutant(
        "a proclamation that comes late undoes no later one",
        (("lua/scripts/lock_proclaim.lua",
          "if last[1] ~= ARGV[3] or tonumber(last[2]) <= tonumber(ARGV[4]) then",
          "if last then"),),
        system="lock/test_lock_faults.py::"
               "test_late_proclamation_undoes_no_later_one[waits-simple]",
        simulated=NO_PART),
    "late_proclamation_counts_on_mysql": Mutant(
        "the same in a table",
        (("lock/mysql/table.c", "AND VALUES(number)>=lock_leader.number)", "AND TRUE)"),),
        system="lock/test_lock_faults.py::test_late_proclamation_undoes_no_later_one[waits-table]",
        simulated=NO_PART),

    # ---- answers and time-outs ----
    "timestamp_last_try_decides": Mutant(
        "a write that was not answered is unknown, though its repeat failed",
        (("lock/redis/timestamp.c",
          "return attempt.doubtful ? SECLOCK_UNKNOWN : SECLOCK_FAILED;",
          "return attempt.doubtful ? result : SECLOCK_FAILED;"),),
        system="lock/test_lock_faults.py::"
               "test_acquisition_is_in_doubt_though_its_repeat_certainly_failed[waits-timestamp]",
        simulated=NO_PART),
    "redis_connection_keeps_a_short_time_out": Mutant(
        "a request may take timeout_ms, whatever limit an earlier one had",
        (("lock/redis/server.c",
          "        run_again(redis, calls, count);\n"
          "    if (shorter)\n"
          "        redis_set_timeout(redis, server->timeout_ms);\n",
          "        run_again(redis, calls, count);\n"),),
        unit="test_kinds/test_request_has_its_time_after_a_hasty_one",
        simulated=NO_PART),
    "reply_in_parts_has_no_time_limit": Mutant(
        "timeout_ms bounds the wait for a reply that comes in parts",
        (("lua/wire.c",
          "        if (until_ms == 0)\n"
          "            until_ms = clock_now_ms() + wire->timeout_ms;\n",
          "        until_ms = clock_now_ms() + wire->timeout_ms;\n"),),
        unit="test_redis/test_reply_in_parts_has_no_more_time",
        simulated=NO_PART),
    "red_server_owes_answers_of_a_lost_connection": Mutant(
        "a server of the majority lock that came back counts again",
        (("lua/script_each.c",
          "        lines[i].owed = 0; /* the replies are lost with their connection */\n",
          ""),),
        unit="test_script/test_reply_owed_by_a_lost_connection_is_not_awaited",
        simulated=NO_PART),
    "tryagain_of_a_cluster_fails_at_once": Mutant(
        "a call waits while its slot is being moved",
        (("lua/cluster/run.c",
          "        pipeline->wait = true;\n"
          "        to = from;\n",
          "        pipeline->wait = true;\n"),),
        unit="test_cluster/test_try_again",
        simulated=NO_PART),
    "seed_without_slots_is_asked_for_ever": Mutant(
        "one server of the URL that knows the slots is enough to find a cluster",
        (("lua/cluster/core.c",
          "    if (learn_from(cluster, cluster->seed))\n"
          "        return true;\n"
          "    redis_drop(cluster->seed); /* the next try leads to another server */\n"
          "    return false;\n",
          "    return learn_from(cluster, cluster->seed);\n"),),
        unit="test_cluster/test_server_without_slots_is_left_for_the_next",
        simulated=NO_PART),
    "sentinels_are_asked_in_turn": Mutant(
        "the sentinel that answered last is the first to be asked",
        (("lua/connect.c",
          "        if (!wire)\n"
          "            *first = (*first + 1) % url->server_count;\n",
          "        *first = (*first + 1) % url->server_count;\n"),),
        unit="test_sentinel/test_other_sentinels_are_passed_over_and_the_good_one_kept",
        simulated=NO_PART),
    "keepalive_probes_pause_as_by_default": Mutant(
        "the loss of a server's host is noticed within 20 s",
        (("base/keepalive.c",
          "TCP_KEEPINTVL, KEEPALIVE_PAUSE_S", "TCP_KEEPIDLE, KEEPALIVE_PAUSE_S"),),
        unit="test_redis/test_host_that_is_gone_ends_a_subscription",
        simulated=NO_PART),
    "seclock_kills_its_child_only": Mutant(
        "no process of seclock's command goes on after the grace for a lost lock",
        (("lock/tool/command.c",
          "    signal_command(run, SIGKILL);\n", "    kill(run->pid, SIGKILL);\n"),),
        system="lock/test_lock_seclock.py::test_grace_ends_for_all_processes_of_the_command",
        simulated=NO_PART),
    "seclock_loss_seen_at_release_is_no_failure": Mutant(
        "seclock exits with 74 when the lock was lost while the command ran",
        (("lock/tool/seclock.c",
          "the lock was lost while the command ran\", settings->name);\n"
          "        code = EXIT_LOST;\n",
          "the lock was lost while the command ran\", settings->name);\n"
          "        else\n"
          "            code = EXIT_LOST;\n"),),
        system="lock/test_lock_seclock.py::test_loss_that_only_the_release_finds",
        simulated=NO_PART),
}
