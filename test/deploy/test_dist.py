"""make dist: the archive of a version builds what the tree builds, whoever makes it."""

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.processes import ROOT, clean_environment, server_folder


def run(*argv, cwd):
    return subprocess.run(argv, cwd=cwd, env=clean_environment(), text=True, capture_output=True)


@pytest.fixture
def clone():
    """The tree as it is, committed; in memory, for its files are many."""
    folder = Path(server_folder())
    try:
        yield commit_tree(folder)
    finally:
        shutil.rmtree(folder)


def commit_tree(folder):
    if run("git", "rev-parse", "--git-dir", cwd=ROOT).returncode != 0:
        pytest.skip("not a repository")
    run("git", "clone", "-q", ROOT, "clone", cwd=folder)
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "clone" / name).write_bytes((ROOT / name).read_bytes())
            (folder / "clone" / name).chmod((ROOT / name).stat().st_mode)
    run("git", "add", "-A", cwd=folder / "clone")
    run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t",
        cwd=folder / "clone")
    return folder / "clone"


@pytest.mark.long
def test_archive_has_the_version_and_the_same_bytes_each_time(clone):
    sums = []
    for folder in ("one", "two"):
        done = run("deploy/dist", folder, cwd=clone)
        assert done.returncode == 0, done
        sums.append(done.stdout.split()[0])
        archive = clone / folder / done.stdout.split()[1]
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == sums[-1]
        (clone / ".git" / "info" / "exclude").write_text("one\ntwo\n")
    assert sums[0] == sums[1]
    with tarfile.open(archive) as packed:
        packed.extractall(clone / "two")
    tree = clone / "two" / archive.name.removesuffix(".tar.gz")
    assert run("make", "-n", "all", cwd=tree).returncode == 0
    assert {"Makefile", "README.md", "CHANGELOG.md"} <= {path.name for path in tree.iterdir()}


def test_nothing_is_made_of_a_tree_with_changes_or_a_version_without_its_section(clone):
    (clone / "CHANGELOG.md").write_text("# Changes\n")
    done = run("deploy/dist", "out", cwd=clone)
    assert done.returncode != 0 and "commit first" in done.stderr
    run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qam", "t", cwd=clone)
    done = run("deploy/dist", "out", cwd=clone)
    assert done.returncode != 0 and "CHANGELOG.md has no section" in done.stderr
    assert not (clone / "out").exists()
