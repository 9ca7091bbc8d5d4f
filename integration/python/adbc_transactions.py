"""Transactions as Python's DB-API has them: autocommit off, commit, rollback, bulk ingestion inside.

usage: adbc_transactions.py URL
"""

import sys

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa

from checks import check, connect, fails, run, same

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
        error = fails(other.commit)
        check(error.sqlstate == "40001", f"a conflict has SQLSTATE 40001, not {error.sqlstate}")
        other.rollback()
        execute(other, "UPDATE x_t SET v = v + 1 WHERE k = 1")
        other.commit()
    same(rows("SELECT v FROM x_t WHERE k = 1"), [(12,)], "two of three updates")


def errors_end_it():
    with flightsql.connect(URL) as connection:
        execute(connection, "DELETE FROM x_t")
        fails(lambda: of(connection, "SELECT assert(count(*) > 0, 'it is empty') FROM x_t"), "it is empty")
        fails(lambda: of(connection, "SELECT 1"), "roll it back")
        fails(connection.commit, "nothing was committed")
        connection.rollback()
        same(of(connection, "SELECT count(*) FROM x_t"), [(2,)], "rows after the rollback")


def bulk_ingestion():
    table = pa.table({"v": pa.array([1, 2], pa.int64()), "k": pa.array([100, 101], pa.int64())})
    with flightsql.connect(URL) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("x_t", table, mode="append")
        same(of(connection, "SELECT k, v FROM x_t WHERE k >= 100 ORDER BY k"), [(100, 1), (101, 2)], "its own rows")
        connection.rollback()
        same(rows("SELECT count(*) FROM x_t WHERE k >= 100"), [(0,)], "rows after the rollback")
        with connection.cursor() as cursor:
            cursor.adbc_ingest("x_t", table, mode="append")
            cursor.adbc_ingest("x_t", table, mode="append")
        connection.commit()
        same(rows("SELECT count(*) FROM x_t WHERE k >= 100"), [(4,)], "rows after the commit")
        with connection.cursor() as cursor:
            cursor.adbc_ingest("x_new", table, mode="create")
        same(of(connection, "SELECT count(*) FROM x_new"), [(2,)], "rows of a new table")


if __name__ == "__main__":
    run([commit_and_rollback, many_rows_of_parameters, conflicts, errors_end_it, bulk_ingestion])
