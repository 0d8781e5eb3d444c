"""deploy/stack: only the owner of its folder reaches its servers, and they start in any locale."""

import os
import shutil
import stat
import subprocess
from urllib.parse import urlsplit

import pytest

from harness.processes import HarnessError
from harness.redis import Redis
from harness.servers import MYSQLD, run_tool, wrapped


@pytest.fixture
def redis_url(tmp_path):
    directory = tmp_path / "stack"
    try:
        yield run_tool("up", directory, "redis").strip().removeprefix("SECKILL_REDIS_URL=")
    finally:
        run_tool("down", directory)


def test_redis_wants_its_password(redis_url, tmp_path):
    parts = urlsplit(redis_url)
    assert len(parts.password) == 40
    assert Redis(redis_url)("PING") == "PONG"
    for login in ("", ":wrong@"):
        other = Redis(f"redis://{login}127.0.0.1:{parts.port}/0")
        with pytest.raises(RuntimeError, match="NOAUTH|WRONGPASS"):
            other("PING")
    for folder, _, names in os.walk(tmp_path / "stack" / "redis"):
        for name in names:
            assert not os.stat(os.path.join(folder, name)).st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def test_password_stays(redis_url, tmp_path):
    directory = tmp_path / "stack"
    again = run_tool("up", directory, "redis").strip()
    assert again.removeprefix("SECKILL_REDIS_URL=") == redis_url
    run_tool("down", directory, "redis")
    restarted = run_tool("up", directory, "redis").strip().removeprefix("SECKILL_REDIS_URL=")
    assert urlsplit(restarted).password == urlsplit(redis_url).password


def test_ledger_is_the_server_that_a_path_names(tmp_path):
    """After a kill it comes back with its tables, and only with the password."""
    directory = tmp_path / "stack"
    named = {"MYSQLD": shutil.which(MYSQLD, path=f"{os.environ['PATH']}:/usr/sbin")}

    def ask(sql, *options):
        return subprocess.run(
            ["mariadb", f"--defaults-file={directory}/mariadb/client.cnf", *options, "-Ne", sql],
            capture_output=True, text=True, check=False)
    try:
        run_tool("up", directory, "mariadb", env=named)
        assert ask("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)", "seckill").returncode == 0
        run_tool("kill", directory, "mariadb")
        run_tool("up", directory, "mariadb", env=named)
        assert ask("SELECT a FROM t", "seckill").stdout == "7\n"
        for refused in (["--password="], ["--user=root", "--password="]):
            assert "Access denied" in ask("SELECT 1", *refused).stderr
    finally:
        run_tool("down", directory, "mariadb")


def test_ledger_that_is_not_installed_is_named(tmp_path):
    with pytest.raises(HarnessError, match="there is no /none/mysqld"):
        run_tool("up", tmp_path / "stack", "mariadb", env={"MYSQLD": "/none/mysqld"})


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("server, program", [("redis", "redis-server"), ("mariadb", "mariadbd"),
                                             ("etcd", "etcd"), ("zookeeper", "java")])
def test_server_gets_a_locale_that_is_installed(server, program, tmp_path):
    """Redis 8 ends at once in one that is not, which ssh may bring along from another machine."""
    told = tmp_path / "told"
    wrapper = wrapped(program, f'printf %s "$LC_ALL" >{told}', tmp_path / "bin")
    env = {"LC_ALL": "xx_XX.UTF-8", "PATH": f"{wrapper.parent}:{os.environ['PATH']}",
           "MYSQLD": str(wrapper) if server == "mariadb" else MYSQLD,
           "SECKILL_STACK_TEMPLATE": ""}  # which may be a MySQL's
    try:
        run_tool("up", tmp_path / "stack", server, env=env)
    finally:
        run_tool("down", tmp_path / "stack", server)
    assert told.read_text() == "C"
