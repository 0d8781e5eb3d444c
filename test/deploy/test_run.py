"""What make run starts: deploy/run."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from harness.client import send
from harness.processes import PROGRAM, ROOT, clean_environment, free_port, spawn, wait_until


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("form", ["address", "socket"])
def test_operators_may_have_an_address_of_their_own(tmp_path, form):
    """There is /readyz then, and nowhere else."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    port, operators = free_port(), f"127.0.0.1:{free_port()}"
    if form == "socket":
        operators = f"unix:{tmp_path}/operators"
    env = {**clean_environment(), "BUILD": str(Path(PROGRAM).parent),
           "SECKILL_LISTEN": f"127.0.0.1:{port}", "SECKILL_ADMIN_LISTEN": operators}
    with open(tmp_path / "log", "wb") as log:
        service = spawn(["deploy/run"], cwd=tmp_path, env=env, stdout=log,
                        stderr=subprocess.STDOUT)
    try:
        def greeted():
            assert service.poll() is None, (tmp_path / "log").read_text()
            return "Ctrl-C stops everything" in (tmp_path / "log").read_text()
        wait_until(greeted, "the greeting", timeout=50)
        order = {"sku": "demo", "user_id": "u1", "qty": 1}
        assert send(("127.0.0.1", port), "POST", "/order", order).status == 201
        assert send(("127.0.0.1", port), "GET", "/readyz").status == 404
    finally:
        os.kill(service.pid, signal.SIGTERM)
        status = service.wait(60)
    assert status == 0
    page = operators.removeprefix("unix:") if form == "socket" else f"http://{operators}/dashboard"
    assert page in (tmp_path / "log").read_text()
