"""DuckDB and SQLite as peers of the storage benchmark.

Reads one JSON request a line from standard input and answers each with one JSON line on standard
output. A failed request is answered with {"error": ...}. Times are in seconds and taken here.

{"op": "open", "dir": path, "threads": n}
    Makes an empty DuckDB database below `dir`, in place of an older one. Answer: {"version": ...}.
{"op": "load", "table": name, "files": parquet glob, "key": [column, ...]}
    Makes a native table, with a primary key unless `key` is empty, and copies the files into it; the time ends when
    the rows are in the database file. Answer: {"seconds": ..., "rows": n}.
{"op": "change", "sql": text}
    Runs a statement that changes rows. Answer: {"seconds": ..., "rows": n}.
{"op": "query", "sql": text}
    Runs a query and fetches its rows. Answer: {"seconds": ..., "rows": [[...], ...]}, values as text.
{"op": "inserts", "clients": n, "seconds": s}
    Threads that insert single rows, each in a transaction of its own. Answer: {"seconds": ..., "rows": n}.
{"op": "numbers", "rows": n}
    Makes the tables of the look-ups, the same rows in DuckDB (no index) and SQLite (primary key).
{"op": "lookups", "engine": "duckdb" or "sqlite", "keys": [n, ...]}
    Finds rows by key, one after the other. Answer: {"seconds": ..., "sum": sum of the values found}.
{"op": "parquet", "table": name, "file": path}
    Writes a table as Parquet compressed with zstd. Answer: {"bytes": n}.
"""

import os
import sqlite3
import threading
import time

import duckdb

directory = None
connection = None
sqlite = None


def open_database(request):
    global directory, connection
    directory = request["dir"]
    os.makedirs(directory, exist_ok=True)
    for name in ("storage.duckdb", "storage.duckdb.wal", "numbers.sqlite"):
        try:
            os.remove(os.path.join(directory, name))
        except FileNotFoundError:
            pass
    connection = duckdb.connect(os.path.join(directory, "storage.duckdb"))
    connection.execute(f"SET threads = {int(request['threads'])}")
    connection.execute("SET enable_progress_bar = false")
    return {"version": duckdb.__version__}


def load(request):
    table = request["table"]
    source = "read_parquet('" + request["files"].replace("'", "''") + "')"
    start = time.perf_counter()
    connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {source} LIMIT 0")
    if request["key"]:
        connection.execute(f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(request['key'])})")
    rows = connection.execute(f"INSERT INTO {table} SELECT * FROM {source}").fetchall()[0][0]
    connection.execute("CHECKPOINT")
    return {"seconds": time.perf_counter() - start, "rows": rows}


def change(request):
    start = time.perf_counter()
    rows = connection.execute(request["sql"]).fetchall()[0][0]
    return {"seconds": time.perf_counter() - start, "rows": rows}


def query(request):
    start = time.perf_counter()
    rows = connection.execute(request["sql"]).fetchall()
    return {"seconds": time.perf_counter() - start, "rows": [[str(value) for value in row] for row in rows]}


def inserts(request):
    connection.execute("CREATE TABLE singles (client INTEGER, number BIGINT, text VARCHAR)")
    counts = [0] * request["clients"]
    start = time.perf_counter()
    end = start + request["seconds"]

    def client(own):
        cursor = connection.cursor()
        while time.perf_counter() < end:
            row = [own, counts[own], f"row {counts[own]} of client {own}"]
            cursor.execute("INSERT INTO singles VALUES (?, ?, ?)", row)
            counts[own] += 1

    threads = [threading.Thread(target=client, args=(own,)) for own in range(request["clients"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    stored = connection.execute("SELECT count(*) FROM singles").fetchall()[0][0]
    assert stored == sum(counts), f"{sum(counts)} rows inserted and {stored} stored"
    return {"seconds": seconds, "rows": stored}


def numbers(request):
    global sqlite
    rows = int(request["rows"])
    select = f"SELECT i AS k, i * 7 AS v, 'row ' || i AS t FROM range({rows}) r(i)"
    connection.execute(f"CREATE TABLE numbers AS {select}")
    connection.execute("CHECKPOINT")
    sqlite = sqlite3.connect(os.path.join(directory, "numbers.sqlite"))
    sqlite.execute("CREATE TABLE numbers (k INTEGER PRIMARY KEY, v INTEGER, t TEXT)")
    sqlite.executemany("INSERT INTO numbers VALUES (?, ?, ?)", ((i, i * 7, f"row {i}") for i in range(rows)))
    sqlite.commit()
    return {}


def lookups(request):
    engine = {"duckdb": connection, "sqlite": sqlite}[request["engine"]]
    total = 0
    start = time.perf_counter()
    for key in request["keys"]:
        ((_, value, _),) = engine.execute("SELECT k, v, t FROM numbers WHERE k = ?", (key,)).fetchall()
        total += value
    return {"seconds": time.perf_counter() - start, "sum": total}


def parquet(request):
    file = request["file"].replace("'", "''")
    connection.execute(f"COPY {request['table']} TO '{file}' (FORMAT parquet, COMPRESSION zstd)")
    return {"bytes": os.path.getsize(request["file"])}


OPERATIONS = {
    "open": open_database,
    "load": load,
    "change": change,
    "query": query,
    "inserts": inserts,
    "numbers": numbers,
    "lookups": lookups,
    "parquet": parquet,
}


serve(OPERATIONS)
