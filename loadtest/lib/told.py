"""The orders that clients were told of: each of their ids is looked for in the ledger."""

import os
import subprocess
from array import array
from urllib.parse import unquote, urlsplit

from harness.audit import some
from harness.ledger import Ledger
from harness.processes import HarnessError

# The orders that a run puts into the ledger by SQL, of which nobody is told, have ids below.
FIRST_ID = 1 << 40
LOOKED_FOR_MAX = 10_000  # of lost ids, in other sales
POD_SHIFT, POD_MASK = 8, 15


def read(path):
    """The ids in a file that record_ids.c or pace has written."""
    ids = array("Q")
    if path.exists():
        size = path.stat().st_size
        if size % ids.itemsize:
            raise HarnessError(f"{path}: {size} bytes are no list of ids")
        with open(path, "rb") as file:
            ids.fromfile(file, size // ids.itemsize)
    return ids


def of_pod(ids, pod):
    return array("Q", (one for one in ids if one >> POD_SHIFT & POD_MASK == pod))


def ids_of_sales(url, skus):
    """The ids of all orders that clients placed in these sales, in every round. By the client
    program: PyMySQL takes many times as long."""
    parts, names = urlsplit(url), ",".join(f"'{sku}'" for sku in skus)
    argv = ["mariadb", "--no-defaults", "--batch", "--quick", "--skip-column-names",
            f"--host={parts.hostname}", f"--port={parts.port}", f"--user={parts.username}",
            parts.path.strip("/")]
    query = f"SELECT order_id FROM orders WHERE order_id >= {FIRST_ID} AND sku IN ({names})"
    env = {**os.environ, "MYSQL_PWD": unquote(parts.password or "")}
    with subprocess.Popen([*argv, "--execute", query], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=env) as client:
        ids = array("Q", map(int, client.stdout))
        failure = client.stderr.read().decode(errors="replace").strip()
    if client.returncode != 0:
        raise HarnessError(f"mariadb: {failure}")
    return ids


def in_other_sales(url, ids):
    """Which of the ids the ledger has at all; of very many, some."""
    wanted = ",".join(map(str, sorted(ids)[:LOOKED_FOR_MAX]))
    rows = Ledger(url).run(f"SELECT order_id FROM orders WHERE order_id IN ({wanted})")
    return {int(row[0]) for row in rows}


def repeated(ids):
    ordered = sorted(ids)
    return {one for one, other in zip(ordered, ordered[1:]) if one == other}


def differences(twice, missing, elsewhere):
    for ids, fault in ((missing - elsewhere, "clients were told of are not in the ledger"),
                       (elsewhere, "clients were told of are in the ledger of another sale"),
                       (twice, "clients were told of twice, as new")):
        if ids:
            yield f"{len(ids)} orders that {fault}: {some(map(str, ids))}"


def compare(ids, url, skus):
    """What the ids of orders that clients of these sales were told of, as new, say of the ledger:
    their number, `lost` ones, those that are in `other_sales`, ids told `twice`, and `untold`:
    orders that were committed although no client was told, as it had hung up."""
    missing, placed = set(ids), ids_of_sales(url, skus)
    told = len(missing)
    missing.difference_update(placed)
    elsewhere = in_other_sales(url, missing) if missing else set()
    twice = repeated(ids) if told < len(ids) else set()
    return {"told": told, "lost": len(missing - elsewhere), "other_sales": len(elsewhere),
            "twice": len(twice), "untold": len(placed) - (told - len(missing)),
            "differences": list(differences(twice, missing, elsewhere))}


def add(report, found):
    """Adds what `compare` found to an audit's report."""
    for name in ("told", "lost", "other_sales", "twice", "untold"):
        report[name] = report.get(name, 0) + found[name]
    report["differences"] += found["differences"]
    report["consistent"] = not report["differences"]
    return report
