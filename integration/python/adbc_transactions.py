"""Transactions as Python's DB-API has them: autocommit off, commit, rollback.

usage: adbc_transactions.py URL
"""

import sys

import adbc_driver_flightsql.dbapi as flightsql

from checks import connect, fails, run, same

URL = sys.argv[1]


def rows(sql):
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def of(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def execute(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def commit_and_rollback():
    """The driver begins a transaction with the connection, and another one with the end of each."""
    with flightsql.connect(URL) as connection:
        execute(connection, "CREATE TABLE x_t (k BIGINT, v BIGINT) PARTITION BY (bucket(3, k))")
        execute(connection, "INSERT INTO x_t VALUES (1, 10), (2, 20)")
        same(of(connection, "SELECT sum(v) FROM x_t"), [(30,)], "its own rows")
        same(rows("SELECT count(*) FROM x_t"), [(0,)], "rows that others see before the commit")
        connection.commit()
        same(rows("SELECT sum(v) FROM x_t"), [(30,)], "rows after the commit")
        execute(connection, "UPDATE x_t SET v = v + ? WHERE k = ?", (5, 1))
        execute(connection, "DELETE FROM x_t WHERE k = 2")
        same(of(connection, "SELECT k, v FROM x_t"), [(1, 15)], "its own changes")
        connection.rollback()
        same(of(connection, "SELECT k, v FROM x_t ORDER BY k"), [(1, 10), (2, 20)], "rows after the rollback")
    same(rows("SELECT sum(v) FROM x_t"), [(30,)], "rows at the end")


def many_rows_of_parameters():
    with flightsql.connect(URL) as connection:
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO x_t VALUES (?, ?)", [(n, n) for n in range(10, 30)])
        same(of(connection, "SELECT count(*) FROM x_t WHERE k >= 10"), [(20,)], "its own rows")
        connection.rollback()
        same(rows("SELECT count(*) FROM x_t WHERE k >= 10"), [(0,)], "rows after the rollback")


def conflicts():
    one, other = flightsql.connect(URL), flightsql.connect(URL)
    with one, other:
        execute(one, "UPDATE x_t SET v = v + 1 WHERE k = 1")
        execute(other, "UPDATE x_t SET v = v + 1 WHERE k = 1")
        one.commit()
        fails(other.commit, "ancho[conflict]")
    # The driver has no transaction any more after a commit that failed.
    with flightsql.connect(URL) as other:
        execute(other, "UPDATE x_t SET v = v + 1 WHERE k = 1")
        other.commit()
    same(rows("SELECT v FROM x_t WHERE k = 1"), [(12,)], "two of three updates")


def errors_end_it():
    with flightsql.connect(URL) as connection:
        execute(connection, "DELETE FROM x_t")
        fails(lambda: of(connection, "SELECT assert(count(*) > 0, 'it is empty') FROM x_t"), "it is empty")
        fails(lambda: of(connection, "SELECT 1"), "roll it back")
        connection.rollback()
        same(of(connection, "SELECT count(*) FROM x_t"), [(2,)], "rows after the rollback")
        execute(connection, "DELETE FROM x_t")
        fails(lambda: of(connection, "SELECT nothing FROM x_t"), "nothing")
        fails(connection.commit, "nothing was committed")
    same(rows("SELECT count(*) FROM x_t"), [(2,)], "rows after the commit that failed")


if __name__ == "__main__":
    run([commit_and_rollback, many_rows_of_parameters, conflicts, errors_end_it])
