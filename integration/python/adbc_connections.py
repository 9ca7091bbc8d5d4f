"""Several connections, to one scheduler and to all of them, at the same time.

usage: adbc_connections.py URL [URL…]
"""

import concurrent.futures
import sys

from checks import check, connect, run, same

URLS = sys.argv[1:]
THREADS = 8


def at_once(work):
    """Runs `work(number, url)` in threads and gives the results by number."""
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda n: work(n, URLS[n % len(URLS)]), range(THREADS)))


def writes_are_seen_through_every_scheduler():
    for number, url in enumerate(URLS * 3):
        with connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE n_{number} (id BIGINT) PARTITION BY (bucket(2, id))")
            cursor.execute(f"INSERT INTO n_{number} VALUES ({number})")
        for other in URLS:
            with connect(other) as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT id FROM n_{number}")
                same(cursor.fetchall(), [(number,)], f"n_{number}, written through {url}, read through {other}")


def bindings_do_not_mix():
    """The same text with other values on many connections."""

    def work(number, url):
        with connect(url) as connection, connection.cursor() as cursor:
            for i in range(20):
                cursor.execute("SELECT ? + CAST(1000 AS BIGINT) AS n", (number * 100 + i,))
                same(cursor.fetchall(), [(number * 100 + i + 1000,)], "a bound value")

    at_once(work)


def tables_are_created_once():
    """Of many who create one table, one succeeds."""

    def work(_, url):
        try:
            with connect(url) as connection, connection.cursor() as cursor:
                cursor.execute("CREATE TABLE n_contended (id BIGINT)")
            return True
        except Exception as error:
            check("exists" in str(error), f"an odd error: {error}")
            return False

    same(sum(at_once(work)), 1, "number of successful CREATE TABLE")


def writers_and_readers():
    with connect(URLS[0]) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE n_shared (writer BIGINT, i BIGINT) PARTITION BY (bucket(4, i))")

    def work(number, url):
        retries = 0
        with connect(url) as connection, connection.cursor() as cursor:
            for i in range(5):
                while True:
                    try:
                        cursor.execute(f"INSERT INTO n_shared SELECT {number}, value FROM generate_series(1, 40) AS g(value)")
                        break
                    except Exception as error:
                        # Another writer came first: nothing of this one is there.
                        check("conflict" in str(error), f"an odd error: {error}")
                        retries += 1
                        check(retries < 200, "too many conflicts")
                cursor.execute(f"SELECT count(*) FROM n_shared WHERE writer = {number}")
                same(cursor.fetchall(), [((i + 1) * 40,)], f"rows of writer {number}")

    at_once(work)
    for url in URLS:
        with connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT writer, count(*), sum(i) FROM n_shared GROUP BY writer ORDER BY writer")
            same(cursor.fetchall(), [(n, 200, 5 * 820) for n in range(THREADS)], f"rows through {url}")


run(
    [
        writes_are_seen_through_every_scheduler,
        bindings_do_not_mix,
        tables_are_created_once,
        writers_and_readers,
    ]
)
