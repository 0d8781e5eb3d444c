"""Statements for the ledger's database, by PyMySQL."""

from contextlib import contextmanager, suppress
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.constants import CLIENT

from harness.processes import HarnessError


def as_text(cell):
    return cell.decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else cell


def numbers(count):
    """For statements: a table of the numbers from 1 on, in its column seq."""
    return (f"JSON_TABLE(CONCAT('[0', REPEAT(',0', {count} - 1), ']'), '$[*]'"
            " COLUMNS(seq FOR ORDINALITY)) numbers")


def kill_sessions(connection, which):
    """Kills the sessions for which the condition holds; returns how many there were."""
    killed = 0
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM information_schema.processlist WHERE {which}")
        for number, in cursor.fetchall():
            with suppress(pymysql.MySQLError):  # the session has ended already
                cursor.execute(f"KILL {int(number)}")
                killed += 1
    return killed


class Ledger:
    """Every call opens a connection of its own, so that the client does not care what became of the
    server in between."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.user, self.password = parts.username or "root", unquote(parts.password or "")
        self.host, self.port, self.database = parts.hostname, parts.port, parts.path.strip("/")

    def connect(self, database, timeout=60, socket=None):
        """Without converters every cell stays the text that the server sends."""
        return pymysql.connect(
            host=self.host, port=self.port, unix_socket=socket, user=self.user,
            password=self.password, database=database or None, charset="utf8mb4", autocommit=True,
            conv={}, connect_timeout=10, read_timeout=timeout, write_timeout=timeout,
            client_flag=CLIENT.MULTI_STATEMENTS)

    @contextmanager
    def transaction(self, sql):
        """Gives the connection of a transaction that has run the statement; it is rolled back when
        the context is left."""
        with self.connect(self.database) as connection, connection.cursor() as cursor:
            connection.begin()
            cursor.execute(sql)
            yield connection

    def run(self, sql, database=None, timeout=60):
        """Runs statements. Returns the rows of all their results as tuples of strings, NULL as
        None."""
        database = self.database if database is None else database
        try:
            connection = self.connect(database, timeout)
            with connection, connection.cursor() as cursor:
                cursor.execute(sql)
                rows = list(cursor.fetchall())
                while cursor.nextset():
                    rows += cursor.fetchall()
        except (pymysql.MySQLError, OSError) as error:
            raise HarnessError(f"{error}\n{sql[:1000]}") from error
        return [tuple(map(as_text, row)) for row in rows]

    def number(self, sql):
        return int(self.run(sql)[0][0])

    def status(self, name):
        """A status variable that counts."""
        return int(self.run(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])

    def recreate(self, statements=""):
        """An empty database, and in it what the statements make."""
        self.run(f"DROP DATABASE IF EXISTS `{self.database}`; CREATE DATABASE `{self.database}`"
                 f" CHARACTER SET utf8mb4; USE `{self.database}`; {statements}", database="")

    def changes(self):
        """How often anybody has changed tables on this server, and may have changed rows."""
        tables, rows = 0, 0
        for name, count in self.run(
                "SHOW GLOBAL STATUS WHERE Variable_name RLIKE '^Com_(create|alter|drop|rename|"
                "insert|update|delete|replace|load|truncate|call|stmt_execute)'", database=""):
            if name.startswith(("Com_create", "Com_alter", "Com_drop", "Com_rename")):
                tables += int(count)
            else:
                rows += int(count)
        return tables, rows

    def answers(self):
        try:
            return bool(self.run("SELECT 1", database=""))
        except HarnessError:
            return False
