"""DuckDB as a benchmark peer.

Reads one JSON request a line from standard input and answers each with one JSON line on standard
output. A failed request is answered with {"error": ...} and leaves the process ready for the next.

{"op": "open", "database": path, "threads": n}
    Opens or creates the native database file. Answer: {"version": ...}.
{"op": "load", "source": key, "tables": {name: parquet glob}}
    Copies the Parquet files into native tables, unless this database was loaded from the same source
    key before. Answer: {"rows": {name: n}, "loaded": true or false}.
{"op": "query", "sql": text, "result": path or null}
    Runs a query to the end. "ms" covers planning, execution and the conversion to Arrow; writing the
    rows to `result` (an Arrow IPC stream) is not part of it. Answer: {"ms": ..., "rows": n}.
"""

import time

import duckdb
import pyarrow

connection = None


def open_database(request):
    global connection
    connection = duckdb.connect(request["database"])
    connection.execute(f"SET threads = {int(request['threads'])}")
    connection.execute("SET enable_progress_bar = false")
    return {"version": duckdb.__version__}


def scalar(sql):
    # All rows are fetched: DuckDB refuses other work while a result is unfinished.
    return connection.execute(sql).fetchall()[0][0]


def loaded_source():
    known = scalar("SELECT count(*) FROM information_schema.tables WHERE table_name = 'ancho_source'")
    return scalar("SELECT max(source) FROM ancho_source") if known else None


def load(request):
    tables = request["tables"]
    fresh = loaded_source() != request["source"]
    if fresh:
        connection.execute("BEGIN")
        connection.execute("DROP TABLE IF EXISTS ancho_source")
        for name, files in tables.items():
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
            pattern = files.replace("'", "''")
            connection.execute(f"CREATE TABLE \"{name}\" AS SELECT * FROM read_parquet('{pattern}')")
        connection.execute("CREATE TABLE ancho_source (source VARCHAR)")
        connection.execute("INSERT INTO ancho_source VALUES (?)", [request["source"]])
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT")
    counts = {name: scalar(f'SELECT count(*) FROM "{name}"') for name in tables}
    return {"rows": counts, "loaded": fresh}


def query(request):
    start = time.perf_counter()
    table = connection.sql(request["sql"]).to_arrow_table()
    elapsed = time.perf_counter() - start
    if request.get("result"):
        with pyarrow.OSFile(request["result"], "wb") as sink:
            with pyarrow.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
    return {"ms": elapsed * 1000.0, "rows": table.num_rows}


OPERATIONS = {"open": open_database, "load": load, "query": query}


def roll_back():
    if connection is not None:
        try:
            connection.execute("ROLLBACK")
        except duckdb.Error:
            pass


serve(OPERATIONS, roll_back)
