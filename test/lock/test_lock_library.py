"""The installed library as another program uses it."""

import os
import re
import subprocess

import pytest

from harness.processes import BUILD, ROOT, wait_until
from installation import build, need, run_built, sanitizers
from locks import DRIVER, LOOP_DRIVER, Driver, run_seclock


@pytest.mark.parametrize("kind", ("static", "shared"))
def test_a_program_may_have_functions_of_the_same_names(kind, flags, installed, stack, tmp_path):
    program = tmp_path / "embedded"
    library = flags("--libs")
    if kind == "static":
        library = [f"{installed}/lib/libseclock.a", *flags("--libs", "--static")]
        library = [word for word in library if word != "-lseclock"]
    build(("gcc", "-std=c99", "-Wextra"), ROOT / "test/lock/embedded.c", program, flags, library)
    done = run_built(installed, program, stack.redis_url)
    assert done.stdout.splitlines() == [
        "own 1 2 3 4",
        "library ok ok ok",
        "later ok config",
        "unsized config: a struct has no size: make it with SECLOCK_REQUEST(...) or its like",
        "status 0",
    ]


CPLUSPLUS = ("g++", "-x", "c++", "-std=c++20")


@pytest.mark.parametrize("compiler", (("gcc", "-Wextra"), CPLUSPLUS))
def test_the_example_is_compiled_with_what_is_installed(compiler, flags, installed, stack,
                                                        tmp_path):
    program = tmp_path / "example"
    build(compiler, ROOT / "lock/examples/report.c", program, flags)
    done = run_built(installed, program, SECKILL_REDIS_URL=stack.redis_url)
    assert done.stdout.startswith("held, fence ")


@pytest.mark.parametrize("waits_by,library", (("epoll", ()), ("libuv", ("-luv",)),
                                              ("libevent", ("-levent",))))
def test_the_example_of_each_event_loop_runs(waits_by, library, flags, installed, stack, tmp_path):
    program = tmp_path / waits_by
    build(("gcc", "-Wextra"), ROOT / f"lock/examples/{waits_by}.c", program, flags,
          [*flags("--libs"), *library])
    done = run_built(installed, program, SECKILL_REDIS_URL=stack.redis_url)
    assert sorted(done.stdout.splitlines()) == ["held backup", "held invoice", "held report"]
    assert done.stderr == ""


def test_the_library_has_only_names_with_its_prefix(installed):
    for words in (("nm", "-D", "--defined-only", installed / "lib/libseclock.so"),
                  ("nm", "-g", "--defined-only", installed / "lib/libseclock.a")):
        listed = subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout
        names = re.findall(r"^[0-9a-f]+ [TDBRWVi] ([\w@]+)$", listed, flags=re.MULTILINE)
        assert names, listed
        assert [name for name in names if not name.startswith("seclock_")] == []


def exported(installed):
    listed = subprocess.run(["nm", "-D", "--defined-only", installed / "lib/libseclock.so"],
                            check=True, text=True, stdout=subprocess.PIPE).stdout
    return set(re.findall(r"^[0-9a-f]+ T (seclock_\w+)@@SECLOCK_1$", listed, flags=re.MULTILINE))


def test_each_function_has_a_manual_page(installed):
    pages = {page.stem: page for page in (installed / "share/man/man3").glob("*.3")}
    inline = {"seclock_resign"}
    assert set(pages) == exported(installed) | inline | {"seclock"}
    for name, page in pages.items():
        text = page.read_text(encoding="utf-8")
        alias = re.fullmatch(r"\.so man3/(\w+)\.3\n", text)
        if alias:
            text = pages[alias[1]].read_text(encoding="utf-8")
        else:
            subprocess.run(["mandoc", "-Tlint", "-W", "warning", page], check=True)
        assert name == "seclock" or f".SS {name}\n" in text


def test_what_the_comparison_names_is_a_test():
    sources = [*ROOT.glob("lock/test_*.c"), *ROOT.glob("test/lock/test_*.py")]
    tests = {name for source in sources for name in re.findall(
        r"^(?:static void|def) (test_\w+)\(", source.read_text(encoding="utf-8"), re.MULTILINE)}
    rows = re.findall(r"^\| [^|]+ \|.*\| ([^|]+) \|$",
                      (ROOT / "docs/locks.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        named = set(re.findall(r"`(\w+)`", row))
        assert named and named <= tests, row


def interface_changes(frozen):
    """What a program that was built with the frozen interface would not find as it was."""
    return subprocess.run(["abidiff", "--no-added-syms", frozen, BUILD / "libseclock.so.1"],
                          text=True, capture_output=True, check=False)


@pytest.mark.skipif(sanitizers() != [], reason="the sanitizers' own symbols are not the library's")
def test_the_interface_stays_as_it_was_frozen(tmp_path):
    frozen = (ROOT / "lock/library/seclock.abi").read_text(encoding="utf-8")
    field = re.search(r" *<data-member [^>]*>\s*<var-decl name='wait_ms'.*?</data-member>\n",
                      frozen, flags=re.DOTALL)[0]
    for name, other, changed in (
            ("same", frozen, False), ("field", frozen.replace(field, ""), True),
            ("function", frozen.replace("seclock_release", "seclock_let_go"), True),
            ("result", frozen.replace("'SECLOCK_LOST' value='", "'SECLOCK_LOST' value='1"), True)):
        dump = tmp_path / f"{name}.abi"
        dump.write_text(other, encoding="utf-8")
        done = interface_changes(dump)
        assert (done.returncode != 0) == changed, (name, done.stdout, done.stderr)


CLIENT_LIBRARIES = {"mysql": ("table", "libmariadb.so.3"),
                    "zookeeper": ("queue", "libzookeeper_mt.so.2"),
                    "etcd": ("etcd", "libcurl.so.4")}


def test_a_program_with_redis_alone_needs_no_other_client_library(installed):
    needed = subprocess.run(["readelf", "-d", installed / "lib/libseclock.so"], check=True,
                            text=True, stdout=subprocess.PIPE).stdout
    assert "libhiredis" in needed
    assert [name for _, name in CLIENT_LIBRARIES.values() if name in needed] == []


@pytest.mark.parametrize("scheme", CLIENT_LIBRARIES)
@pytest.mark.parametrize("what,told", (("text", "needs a library that is not installed: "),
                                       ("empty", " is too old: it has no ")))
def test_a_client_library_that_cannot_be_loaded_is_named(scheme, what, told, tmp_path):
    """One in its place that is no library, and one that has none of its functions."""
    kind, name = CLIENT_LIBRARIES[scheme]
    if what == "text":
        (tmp_path / name).write_text("not a library")
    else:
        subprocess.run(["gcc", "-shared", "-o", tmp_path / name, "-x", "c", os.devnull], check=True)
    done = run_seclock("--kind", kind, "name", "--", "true", server=f"{scheme}://127.0.0.1/x",
                       LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == os.EX_CONFIG
    assert told in done.stderr and name in done.stderr


def servers_of(place, stack, request):
    """The URLs of the servers that a kind uses, by the place that the README's table names."""
    redis = stack.redis_url.rpartition("/")[0]
    return {"Redis": lambda: [stack.redis_url], "MySQL": lambda: [stack.mysql_url],
            "N Redis": lambda: [f"{redis}/{db}" for db in (3, 4, 5)]}.get(
                place, lambda: [request.getfixturevalue(place.lower()).url])()


PLACES = {"red": "N Redis", "table": "MySQL", "get-lock": "MySQL", "queue": "ZooKeeper",
          "etcd": "etcd"}


@pytest.mark.parametrize("program", (DRIVER, LOOP_DRIVER), ids=("waits", "loop"))
@pytest.mark.parametrize("kind", ("simple", "reentrant", "timestamp", "spin", "fair", "read-write",
                                  "semaphore", *PLACES))
def test_all_memory_is_the_program_s(program, kind, stack, request, monkeypatch):
    """A block that goes to another free than its malloc's aborts the driver."""
    monkeypatch.setattr(Driver, "program", program)
    place = PLACES.get(kind, "Redis")
    limit = {"limit": 1} if kind == "semaphore" else {}
    with Driver(*servers_of(place, stack, request), memory="own", poll=50) as driver:
        assert driver.acquire(kind, "own", hold=1, **limit)["result"] == "ok"
        driver.acquire(kind, "own", hold=2, wait=60)
        driver("status", kind, "own")
        for hold in (1, 2):
            driver("renew", hold)
            driver("release", hold)
        if kind in ("simple", "table"):
            assert driver("add", int(kind == "table"), "value")["result"] == "ok"
        driver.process.stdin.close()
        ended = driver.read()
        assert ended["allocations"] > 0 and ended["blocks"] == 0
        assert driver.process.wait() == 0


def test_the_readme_says_which_kinds_are_reentrant(stack, request):
    """Its table, row by row: what a second acquisition by the same owner gives."""
    rows = re.findall(r"^\| `([\w-]+)` \| ([\w ]+) \| [\w ]+ \| (yes|no) \|",
                      (ROOT / "lock/README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(rows) >= 9
    for kind, place, reentrant in rows:
        with Driver(*servers_of(place, stack, request)) as driver:
            assert driver.acquire(kind, "readme", hold=1)["result"] == "ok"
            second = driver.acquire(kind, "readme", hold=2)["result"]
            assert second == {"yes": "ok", "no": "busy"}[reentrant], kind


@pytest.fixture
def advised(stack):
    """The transaction that the README advises: the lock's prefix and name, and the statements."""
    text = (ROOT / "lock/README.md").read_text(encoding="utf-8")
    block = re.search(r"START TRANSACTION;\n(.*?)```", text, flags=re.DOTALL)[1]
    prefix, name = re.search(r"CONCAT\('(.*?)', CHAR\(0\), '(.*?)'\)", block).groups()
    *statements, commit, rest = re.sub("--.*", "", block).replace("?", "1").split(";")
    assert (commit.strip(), rest.strip()) == ("COMMIT", "")
    stack.ledger.run("CREATE TABLE report(id INT PRIMARY KEY, body TEXT);"
                     "INSERT INTO report VALUES(1,'')")
    yield prefix, name, statements
    stack.ledger.run("DROP TABLE report")


def test_the_advised_transaction_keeps_the_lock(stack, advised):
    """The watchdog renews after each statement but the last, which is the check."""
    prefix, name, statements = advised
    with Driver(stack.mysql_url, prefix=prefix, timeout=9000) as driver:
        hold = driver.acquire("table", name, lease=6000)
        with stack.ledger.transaction("DO 1") as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                due = driver("stats")["renewals"] + 2
                if statement != statements[-1]:
                    wait_until(lambda: driver("stats")["renewals"] >= due, "renewals")
            assert cursor.fetchall() == ((str(hold["fence"]),),)
            connection.commit()
        assert driver("release", 1)["result"] == "ok"
    assert stack.ledger.run("SELECT body FROM report") == [("1",)]


def test_the_advised_transaction_finds_that_another_has_the_lock(stack, advised):
    prefix, name, statements = advised
    with Driver(stack.mysql_url, prefix=prefix, timeout=9000) as driver, \
            stack.ledger.transaction("DO 1") as connection, connection.cursor() as cursor:
        late = driver.acquire("table", name)
        for statement in statements[:-1]:
            cursor.execute(statement)
        assert driver("break", "table", name)["result"] == "ok"
        with Driver(stack.mysql_url, prefix=prefix, timeout=9000) as other:
            assert other.acquire("table", name)["fence"] > late["fence"]
            cursor.execute(statements[-1])
            assert int(cursor.fetchall()[0][0]) > late["fence"]
            connection.rollback()


@pytest.mark.parametrize("compiler", (("gcc", "-Wextra"), CPLUSPLUS))
def test_the_lines_of_the_readme_are_compiled(compiler, installed, tmp_path):
    need(compiler)
    text = (ROOT / "lock/README.md").read_text(encoding="utf-8")
    include, body = re.search(r"```c\n(.*?)\n\n(.*?)```", text, flags=re.DOTALL).groups()
    source = tmp_path / "readme.c"
    source.write_text(f"{include}\nint complain(const char *);\nvoid write_report(uint64_t);\n"
                      f"void check_the_report(void);\nint run(void);\n"
                      f"int run(void)\n{{\n{body}return 0;\n}}\n")
    subprocess.run([*compiler, "-Wall", "-Werror", "-fsyntax-only", f"-I{installed}/include",
                    source], check=True)
