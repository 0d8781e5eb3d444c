"""Tests that are slow and rarely wrong, and what each depends on: make test runs it when that has
changed since the revision in docs/proof/test.json, at which all tests passed."""

import contextlib
import functools
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROOF = ROOT / "docs" / "proof" / "test.json"
EVERYONES = ("test/harness/", "test/conftest.py", "test/changed.py", "base/", "deploy/stack",
             "deploy/packages", "Makefile")
LOCKS = ("lua/", "sql/", "lock/", "test/lock/")
SERVERS = ("lua/", "sql/", "lock/", "stock/", "service/")
DEPENDS = {  # file of tests: paths, beside its own and those of everyone
    "test/deploy/test_containers.py": ("deploy/", "service/", "ctl/"),
    "test/deploy/test_dist.py": ("deploy/dist", "CHANGELOG.md", "service/config/options.h"),
    "test/deploy/test_install.py": ("deploy/", "lock/", "ctl/"),
    "test/deploy/test_pods.py": ("deploy/", "ctl/", *SERVERS),
    "test/deploy/test_proxy.py": ("deploy/proxy/", "service/"),
    "test/deploy/test_systemd.py": ("deploy/systemd/", "service/"),
    "test/engines/test_cluster.py": SERVERS,
    "test/engines/test_cluster_tls.py": SERVERS,
    "test/engines/test_galera.py": SERVERS,
    "test/engines/test_mysql_tls.py": SERVERS,
    "test/engines/test_semisync.py": SERVERS,
    "test/engines/test_sentinel.py": SERVERS,
    "test/engines/test_transports.py": SERVERS,
    "test/lock/test_lock_cluster.py": LOCKS,
    "test/lock/test_lock_faults.py": LOCKS,
    "test/lock/test_lock_history.py": LOCKS,
    "test/lock/test_lock_process.py": LOCKS,
    "test/lock/test_lock_zookeeper.py": LOCKS,
    "test/sales/test_counting.py": SERVERS,
    "test/tools/test_docs.py": ("docs/", "README", "deploy/", "ctl/", "loadtest/", *SERVERS),
}


def changed_since(revision):
    """The paths that differ from the revision, committed or not, without those of the results; None
    when that cannot be told."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return [path for words in (["diff", "--name-only", revision],
                                   ["ls-files", "--others", "--exclude-standard"])
                for path in subprocess.run(["git", "-C", ROOT, *words], check=True, text=True,
                                           capture_output=True).stdout.splitlines()
                if not path.startswith("docs/proof")]
    return None


@functools.cache
def unchanged():
    """(files of tests that need not run, the revision since when), nothing in doubt."""
    try:
        proof = json.loads(PROOF.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set(), None
    paths = changed_since(proof["revision"]) if proof["passed"] else None
    if paths is None:
        return set(), None
    return {file for file, depends in DEPENDS.items()
            if not any(path.startswith((file, *EVERYONES, *depends)) for path in paths)
            }, proof["revision"]
