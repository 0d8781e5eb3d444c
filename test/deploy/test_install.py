"""make install and make uninstall, to a folder of their own: what lies there afterwards works."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness.processes import BUILD, PROGRAM, ROOT, clean_environment

PREFIX, SYSCONFDIR = "/opt/seckill", "/opt/etc"
CONFIGURATION = "opt/etc/seckill/seckill.conf"
MONITORING = sorted(path.relative_to(ROOT / "deploy") for folder in ("prometheus", "grafana")
                    for path in (ROOT / "deploy" / folder).iterdir())
SECONDS_MAX = 120

pytestmark = pytest.mark.xdist_group("install")


def make(root, *targets):
    subprocess.run(["make", "-C", ROOT, *targets, f"DESTDIR={root}", f"PREFIX={PREFIX}",
                    f"SYSCONFDIR={SYSCONFDIR}", f"BUILD={BUILD}"],
                   check=True, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX)


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def run(*argv, **env):
    done = subprocess.run([*map(str, argv)], env={**clean_environment(), **env}, text=True,
                          capture_output=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where everything is installed; its paths begin with the prefix."""
    folder = tmp_path_factory.mktemp("install")
    make(folder, "install")
    return folder


@pytest.fixture
def prefix(root):
    return root / PREFIX.strip("/")


def test_programs_are_those_that_were_built(prefix):
    for name in ("seckilld", "seckillctl", "seclock"):
        installed = prefix / "bin" / name
        assert installed.read_bytes() == (BUILD / name).read_bytes(), name
        assert installed.stat().st_mode & 0o777 == 0o755
    assert run(prefix / "bin/seckilld", "--version") == run(PROGRAM, "--version")
    assert "status" in run(prefix / "bin/seckillctl", "help")
    failover = prefix / "bin/seckill-failover"
    assert failover.read_bytes() == (ROOT / "ctl/seckill-failover").read_bytes()
    assert "--dead" in run(failover, "--help")


def test_everything_lies_under_the_prefix_but_the_configuration(root):
    outside = [name for name in files(root) if not name.startswith(PREFIX.strip("/") + "/")]
    assert outside == [CONFIGURATION]
    assert (root / CONFIGURATION).stat().st_mode & 0o777 == 0o600, "it is to hold passwords"
    assert (root / CONFIGURATION).parent.stat().st_mode & 0o777 == 0o700
    run(PROGRAM, "--config", root / CONFIGURATION, "--check-config")


def test_manual_pages_render_without_a_warning(prefix):
    """Those of the lock library's functions are looked at in lock/test_lock_library.py."""
    pages = sorted(str(path.relative_to(prefix / "share/man"))
                   for path in (prefix / "share/man").rglob("*.[1-24-9]"))
    assert pages == ["man1/seckill-failover.1", "man1/seckillctl.1", "man1/seclock.1",
                     "man5/seckill.conf.5", "man8/seckilld.8"]
    for page in pages:
        path = prefix / "share/man" / page
        run("mandoc", "-Tlint", "-W", "warning", path)
        text = re.sub(".\b", "", run("mandoc", "-Tutf8", path))
        name, section = Path(page).stem, page[-1]
        assert f"{name.upper()}({section})" in text.splitlines()[0].upper(), page
        for heading in ("NAME", "DESCRIPTION"):
            assert f"\n{heading}\n" in text, page


def test_completions_are_what_the_shells_load(prefix):
    bash = prefix / "share/bash-completion/completions/seckillctl"
    zsh = prefix / "share/zsh/site-functions/_seckillctl"
    run("bash", "-n", bash)
    assert re.search(r"^complete .*\bseckillctl$", bash.read_text(), re.MULTILINE)
    assert zsh.read_text().startswith("#compdef seckillctl\n")


def test_units_name_what_was_installed(root, prefix):
    units = prefix / "lib/systemd/system"
    assert sorted(path.name for path in units.iterdir()) == [
        "seckilld.service", "seckilld.socket", "seckilld.target", "seckilld@.service"]
    for name, copy in (("seckilld.service", "seckilld"), ("seckilld@.service", "seckilld-%i")):
        unit = (units / name).read_text()
        assert not re.search("@[A-Z]+@", unit)
        program = re.search(r"^ExecStart=(\S+)", unit, re.MULTILINE)[1]
        assert (root / program.strip("/")).samefile(prefix / "bin/seckilld")
        assert len(re.findall(rf" {SYSCONFDIR}/seckill /run/{copy} ", unit)) == 2
        for page, section in re.findall(r"man:([\w.]+)\((\d)\)", unit):
            assert (prefix / f"share/man/man{section}/{page}.{section}").is_file()


def test_interface_rules_and_charts_are_there(prefix):
    share = prefix / "share/seckill"
    assert len(MONITORING) >= 3
    for name in MONITORING:
        assert (share / name).read_bytes() == (ROOT / "deploy" / name).read_bytes()
    rules = (share / "prometheus/prometheus.yml").read_text()
    named = re.search(r"^rule_files: *\n? *-? *\[?\"?([\w./-]+)", rules, re.MULTILINE)[1]
    assert (share / "prometheus" / named).is_file()
    assert (share / "openapi.json").read_bytes() == (ROOT / "service/openapi.json").read_bytes()
    assert (share / "seckill.conf").read_bytes() == (ROOT / "deploy/seckill.conf").read_bytes()


def test_program_links_with_the_library_by_pkg_config(root, prefix, stack, tmp_path):
    """test/lock/test_lock_library.py does more with it, under sanitizers as well."""
    if BUILD.name in ("asan", "tsan"):
        pytest.skip("the program would want the library's sanitizer")

    def ask(*words):
        text = run("pkg-config", *words, "seclock", PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
        assert PREFIX in text or words[0] == "--modversion"
        return text.replace(PREFIX, str(prefix)).split()
    program = tmp_path / "example"
    run("gcc", "-Wall", "-Werror", *ask("--cflags"), "-o", program, ROOT / "lock/examples/report.c",
        *ask("--libs"))
    version = ask("--modversion")[0]
    assert (prefix / f"lib/libseclock.so.{version}").is_file()
    told = run(program, LD_LIBRARY_PATH=str(prefix / "lib"), SECKILL_REDIS_URL=stack.redis_url)
    assert told.startswith("held, fence ")


def test_library_installs_alone_and_goes_again(tmp_path):
    make(tmp_path, "install-lock")
    placed = {name for name in files(tmp_path) if "/man3/" not in name}
    assert len(placed) == 11 and not any("seckilld" in name or "etc/" in name for name in placed)
    make(tmp_path, "uninstall-lock")
    assert files(tmp_path) == set()


def test_uninstall_leaves_the_configuration_and_nothing_else(tmp_path):
    conf = tmp_path / CONFIGURATION
    make(tmp_path, "install")
    conf.write_text("# mine\n")
    make(tmp_path, "install")
    assert conf.read_text() == "# mine\n", "an upgrade wrote over the configuration"
    make(tmp_path, "uninstall")
    assert files(tmp_path) == {CONFIGURATION} and conf.read_text() == "# mine\n"
    assert not os.path.exists(f"{tmp_path}{PREFIX}/share/seckill")
