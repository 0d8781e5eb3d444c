"""deploy/stack: only the owner of its folder reaches its servers."""

import os
import stat
from urllib.parse import urlsplit

import pytest

from harness.redis import Redis
from harness.servers import run_tool


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
