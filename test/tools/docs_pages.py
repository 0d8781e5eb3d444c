"""Pages of the documentation as tests read them: their code blocks, run as a reader would run them.

A block marked `sh` is a script. A block marked `console` has commands behind "$ " and what they
print, in which digits stand for any digits, "…" for any text, and a line "…" for any lines.
Blocks of one page run in one shell, in the order of the page.
"""

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass

from harness.daemon import PATIENT
from harness.processes import BUILD, ROOT, clean_environment, free_port
from harness.servers import TEMPLATE_VARIABLE

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"\b127\.0\.0\.1:(\d+)")
SECONDS_MAX = 120
MARK = "--- block {} command {} ---"
MARKED = re.compile(r"^--- block (\d+) command (\d+) ---\n", re.MULTILINE)


@dataclass
class Block:
    language: str
    text: str
    line: int

    def first_line(self):
        return self.text.splitlines()[0].removeprefix("$ ")


def blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2)
            for found in FENCE.finditer(text)]


def commands(block):
    """[(command, what the page says it prints, None for nothing said)]"""
    if block.language == "sh":
        return [(block.text, None)]
    found = []
    for line in block.text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif found and found[-1][0].endswith("\\\n"):
            found[-1][0] += line
        else:
            found[-1][1] += line
    return [tuple(pair) for pair in found]


def pattern(printed):
    """The page's text as a pattern for the real output."""
    parts = []
    for line in printed.splitlines():
        if line == "…":
            parts.append(r"(?:[^\n]*\n)*[^\n]*")
            continue
        blurred = re.sub(r"\d+", "0", line.rstrip())
        parts.append(r"[^\n]*".join(re.escape(part) for part in blurred.split("…")))
    return "\n".join(parts)


def blur(printed):
    return "\n".join(re.sub(r"\d+", "0", line.rstrip()) for line in printed.splitlines())


class Reader:
    """Somebody who types what a page says, in a copy of the project's folder.

    Only addresses differ from the page: each 127.0.0.1:PORT becomes a free port. Daemons have as
    much time for their servers as those of other tests, so that a slow machine alone changes no
    answer. A daemon or a server that a block starts ends with the reader."""

    def __init__(self, directory, env):
        self.directory, self.ports = directory / "seckill", {}
        template = os.environ.get(TEMPLATE_VARIABLE)  # other tests begin without one
        self.env = {**clean_environment(), "SECKILL_STACK_LOG_SIZE": "16M",
                    "SECKILL_STACK_BUFFER_POOL": "24M", "HOME": str(directory),
                    **{f"SECKILL_{name.upper()}": str(ms) for name, ms in PATIENT.items()},
                    **({TEMPLATE_VARIABLE: template} if template else {}),
                    "LC_ALL": "C.UTF-8", "BUILD": "build", **env}
        self.directory.mkdir()
        for path in ROOT.iterdir():
            if path.name not in ("run", "build", ".git"):
                (self.directory / path.name).symlink_to(path)
        (self.directory / "build").symlink_to(BUILD)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        run = self.directory / "run"
        if run.exists():
            subprocess.run([ROOT / "deploy" / "stack", "kill", run], check=True, timeout=60,
                           stdout=subprocess.DEVNULL)
            shutil.rmtree(run, ignore_errors=True)

    def port(self, shown):
        return self.ports.setdefault(shown, free_port())

    def typed(self, text):
        return ADDRESS.sub(lambda found: f"127.0.0.1:{self.port(found[1])}", text)

    def execute(self, script, out, log):
        """The exit status, None when it took too long. What the script has left behind ends, too:
        it may hold the files, so these are no pipes."""
        with open(out, "wb") as printed, open(log, "wb") as errors:
            child = subprocess.Popen(["bash", script], stdin=subprocess.DEVNULL, stdout=printed,
                                     stderr=errors, cwd=self.directory, env=self.env,
                                     start_new_session=True)
        try:
            return child.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def run(self, page, skipped=()):
        """Runs the page; raises AssertionError with its log where it does not do what it says."""
        script, expected = ["set -euo pipefail\n"], {}
        for number, block in enumerate(blocks(page)):
            if block.language not in ("sh", "console") or block.first_line() in skipped:
                continue
            for index, (command, printed) in enumerate(commands(block)):
                script.append(f"echo '{MARK.format(number, index)}'\n{self.typed(command)}")
                if printed:
                    expected[number, index] = block.line, command, printed
        files = [self.directory / name for name in ("script", "out", "log")]
        files[0].write_text("".join(script), encoding="utf-8")
        status = self.execute(*files)
        out, log = (file.read_text(encoding="utf-8") for file in files[1:])
        told = f"{page}: exit status {status}\n{out[-6000:]}\n--- standard error\n{log[-6000:]}"
        assert status == 0, told
        pieces = MARKED.split(out)[1:]
        printed = {(int(number), int(index)): text for number, index, text
                   in zip(pieces[::3], pieces[1::3], pieces[2::3])}
        for place, (line, command, said) in expected.items():
            assert re.fullmatch(pattern(said), blur(printed[place])), \
                f"{page}:{line}: {command}printed\n{printed[place]}\nand not\n{said}\n{told}"
        return out
