"""Small faults for the ledger, the operator's tool and base/, beside the core."""

from mutant import NO_PART, Mutant

MUTANTS: dict[str, Mutant] = {
    # ---- sql/db ----
    "server_error_at_commit_is_failed": Mutant(
        "a commit that the server answers with an error has an unclear outcome",
        (("sql/db/db_client.c", "    return DB_UNKNOWN;\n",
          "    return code < CR_MIN_ERROR ? DB_FAILED : DB_UNKNOWN;\n"),),
        "test_db/test_commit_that_the_server_calls_an_error_is_unknown",
        simulated=NO_PART),
    "halves_of_a_cluster_never_split": Mutant(
        "two halves of a Galera cluster that both take writes stop the sales",
        (("sql/db/db_servers.c",
          "bool known = servers->doubted || atomic_load(&servers->split);",
          "bool known = atomic_load(&servers->split);"),),
        "test_db_servers/test_halves_of_a_cluster_are_split_at_the_second_look",
        simulated=NO_PART),
}
