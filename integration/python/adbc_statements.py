"""Queries, updates, prepared statements, types, large results and errors through ADBC.

usage: adbc_statements.py URL
"""

import datetime
import decimal
import sys

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa

from checks import check, connect, fails, run, same

URL = sys.argv[1]


def rows(sql, parameters=None):
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def table(sql):
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


def update(sql):
    """Runs an update the way ADBC means it, and gives the number of rows."""
    with connect(URL) as connection:
        with adbc_driver_manager.AdbcStatement(connection.adbc_connection) as statement:
            statement.set_sql_query(sql)
            return statement.execute_update()


def ddl_and_updates():
    same(update("CREATE TABLE s_items (id BIGINT, name VARCHAR, price DECIMAL(10,2)) PARTITION BY (bucket(4, id))"), 0, "CREATE TABLE")
    same(update("INSERT INTO s_items VALUES (1, 'a', 1.50), (2, 'b', 2.25), (3, NULL, NULL)"), 3, "INSERT of three rows")
    same(update("INSERT INTO s_items SELECT value, 'n' || CAST(value AS VARCHAR), 1.00 FROM generate_series(4, 1000) AS g(value)"), 997, "INSERT SELECT")
    same(rows("SELECT count(*), sum(id) FROM s_items"), [(1000, 500500)], "count and sum")
    update("CREATE TABLE s_copy PARTITION BY (id % 3) AS SELECT id FROM s_items WHERE id <= 10")
    same(rows("SELECT count(*) FROM s_copy"), [(10,)], "rows of the copy")
    same(update("DROP TABLE s_copy"), 0, "DROP TABLE")
    fails(lambda: rows("SELECT * FROM s_copy"), "s_copy")


def updates_as_queries():
    """The DBAPI layer runs every statement as a query, also those that change something."""
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE s_q (id INT)")
        cursor.execute("INSERT INTO s_q VALUES (1), (2)")
        cursor.execute("SELECT count(*) FROM s_q")
        same(cursor.fetchall(), [(2,)], "rows after an INSERT run once")
        cursor.execute("DROP TABLE s_q")


def values_and_types():
    found = rows(
        "SELECT CAST(1 AS TINYINT), CAST(2 AS BIGINT), 1.5e0, CAST('3.25' AS DECIMAL(10,2)), 'text', true, "
        "DATE '2024-02-29', TIMESTAMP '2024-02-29T12:30:00', NULL, X'00ff'"
    )
    same(
        found,
        [
            (
                1,
                2,
                1.5,
                decimal.Decimal("3.25"),
                "text",
                True,
                datetime.date(2024, 2, 29),
                datetime.datetime(2024, 2, 29, 12, 30),
                None,
                b"\x00\xff",
            )
        ],
        "values",
    )


def plain_strings_at_the_edge():
    result = table(
        "SELECT name, CAST(id AS VARCHAR) AS t, arrow_cast(name, 'Utf8View') AS v, make_array(name) AS l, "
        "named_struct('f', arrow_cast(name, 'Utf8View')) AS s, arrow_cast(name, 'BinaryView') AS b, "
        "left(name, 3) AS c FROM s_items WHERE id <= 3 ORDER BY id"
    )
    for field in result.schema:
        check("view" not in str(field.type), f"column {field.name} is of type {field.type}")
    same(result.schema.field("name").type, pa.string(), "type of a stored string")
    same(result.column("v").to_pylist(), ["a", "b", None], "values of the former view")
    for name in ["tables", "columns", "schemata"]:
        for field in table(f"SELECT * FROM information_schema.{name}").schema:
            check("view" not in str(field.type), f"information_schema.{name}.{field.name} is of type {field.type}")


def empty_results_have_their_schema():
    for sql in [
        "SELECT id, name, price FROM s_items WHERE false",
        "SELECT id, name, price FROM s_items WHERE id < 0",
        "SELECT id, name, price FROM s_items LIMIT 0",
    ]:
        result = table(sql)
        same(result.num_rows, 0, sql)
        same(
            [(f.name, f.type) for f in result.schema],
            [("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2))],
            f"schema of {sql}",
        )


def announced_schema_is_the_streamed_one():
    with connect(URL) as connection, connection.cursor() as cursor:
        for sql in [
            "SELECT id, max(name) FROM s_items GROUP BY id",
            "SELECT arrow_cast(name, 'Dictionary(Int32, Utf8)') AS d, arrow_cast(name, 'LargeUtf8') AS l FROM s_items",
            "SELECT avg(price), count(*), min(name) FROM s_items WHERE id < 0",
        ]:
            announced = cursor.adbc_execute_schema(sql)
            cursor.execute(sql)
            same(cursor.fetch_arrow_table().schema, announced, f"schema of {sql}")


def prepared_statements():
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.adbc_prepare("SELECT id, name FROM s_items WHERE id = ?")
        for _ in range(20):
            for number in (1, 2, 1000):
                cursor.execute("SELECT id, name FROM s_items WHERE id = ?", (number,))
                name = {1: "a", 2: "b"}.get(number, f"n{number}")
                same(cursor.fetchall(), [(number, name)], f"row {number}")
        cursor.execute("SELECT id FROM s_items WHERE id > $1 AND name < $2 ORDER BY id LIMIT 2", (10, "n12"))
        same(cursor.fetchall(), [(11,), (100,)], "two parameters")


def prepared_updates():
    update("CREATE TABLE s_bound (id BIGINT, name VARCHAR)")
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO s_bound VALUES (?, ?)", [(1, "one"), (2, None), (3, "it's")])
        same(cursor.rowcount, 3, "rows of a bound INSERT")
        cursor.execute("SELECT id, name FROM s_bound ORDER BY id")
        same(cursor.fetchall(), [(1, "one"), (2, None), (3, "it's")], "bound rows")
    update("DROP TABLE s_bound")


def preparing_has_no_effect():
    update("CREATE TABLE s_prepared (id BIGINT)")
    with connect(URL) as connection:
        for sql in ["INSERT INTO s_prepared VALUES (1)", "DROP TABLE s_prepared", "CREATE TABLE s_never (id INT)"]:
            with adbc_driver_manager.AdbcStatement(connection.adbc_connection) as statement:
                statement.set_sql_query(sql)
                statement.prepare()
    same(rows("SELECT count(*) FROM s_prepared"), [(0,)], "rows after preparing an INSERT")
    fails(lambda: rows("SELECT * FROM s_never"), "s_never")
    update("DROP TABLE s_prepared")


def large_results():
    """More than the 4 MiB that gRPC clients take in one message by default."""
    result = table("SELECT value AS id, repeat('x', 1000) AS text FROM generate_series(1, 20000) AS g(value)")
    same(result.num_rows, 20000, "rows")
    check(result.nbytes > 16 << 20, f"only {result.nbytes} bytes")
    same(sorted(result.column("id").to_pylist()), list(range(1, 20001)), "ids")
    update("CREATE TABLE s_wide (id BIGINT, text VARCHAR) PARTITION BY (bucket(4, id))")
    update("INSERT INTO s_wide SELECT value, repeat('y', 1000) FROM generate_series(1, 10000) AS g(value)")
    result = table("SELECT id, text FROM s_wide")
    same(result.num_rows, 10000, "stored rows")
    same(len(set(result.column("id").to_pylist())), 10000, "stored ids")
    check(all(len(t) == 1000 for t in result.column("text").to_pylist()), "length of a text")
    update("DROP TABLE s_wide")


def large_rows():
    """A row of more than 4 MiB, for a client that says that it takes larger messages."""
    limit = str(64 << 20)
    options = {
        "adbc.flight.sql.client_option.with_max_msg_size": limit,
        "adbc.flight.sql.rpc.call_header.x-ancho-max-message-bytes": limit,
    }
    statement = "SELECT repeat('x', 6000000)"
    fails(lambda: rows(statement), "x-ancho-max-message-bytes")
    with flightsql.connect(URL, autocommit=True, db_kwargs=options) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        same(len(cursor.fetchone()[0]), 6000000, "length of the text")


def columns_of_one_name():
    """A result may have them; they keep their names."""
    same(table("SELECT count(*), count(*) FROM s_items").column_names, ["count(*)", "count(*)"], "names")
    same(table("SELECT id, s_items.* FROM s_items WHERE id = 1").column_names[:2], ["id", "id"], "names with a wildcard")


def numbers_that_do_not_fit():
    """Arithmetic fails rather than wrap around."""
    fails(lambda: rows("SELECT 9223372036854775807 + 1"), "out_of_range", "9223372036854775807 + 1")
    fails(lambda: rows("SELECT sum(9223372036854775807) FROM generate_series(1, 2)"), "out_of_range", "BIGINT")


def parameters_decide_columns():
    """A table made from parameters has their types."""
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE s_made AS SELECT ? AS x, ? AS y", (5, "five"))
    same([str(t) for t in table("SELECT x, y FROM s_made").schema.types], ["int64", "string"], "types")
    update("DROP TABLE s_made")


def errors_are_typed():
    error = fails(lambda: rows("SELEC 1"), "ancho[invalid/42601]")
    check(isinstance(error, adbc_driver_manager.ProgrammingError), f"a wrong statement is a {type(error)}")
    fails(lambda: rows("SELECT nothing FROM s_items"), "nothing")
    fails(lambda: rows("SELECT * FROM no_such_table"), "no_such_table")
    error = fails(lambda: update("CREATE TABLE s_items (id INT)"), "s_items")
    same(error.status_code, adbc_driver_manager.AdbcStatusCode.ALREADY_EXISTS, "a table that exists")
    error = fails(lambda: update("DROP TABLE no_such_table"), "no_such_table")
    same(error.status_code, adbc_driver_manager.AdbcStatusCode.NOT_FOUND, "a table that does not exist")
    fails(lambda: rows("SELECT 1 / (id - 1) FROM s_items"), "ancho[invalid/22012]")
    # The connection of a failed statement serves the next one.
    with connect(URL) as connection, connection.cursor() as cursor:
        fails(lambda: cursor.execute("SELECT * FROM no_such_table"))
        cursor.execute("SELECT 1")
        same(cursor.fetchall(), [(1,)], "a statement after an error")


def long_error_texts():
    name = "x" * 1_000_000
    error = fails(lambda: rows(f"SELECT {name} FROM s_items"))
    check(len(str(error)) < 8192, f"an error text of {len(str(error))} bytes")


def many_batches_read_partly():
    """A reader that leaves early; the next statement is not disturbed."""
    with connect(URL) as connection:
        for _ in range(5):
            cursor = connection.cursor()
            cursor.execute("SELECT a.id, b.id FROM s_items a CROSS JOIN s_items b")
            check(cursor.fetchone() is not None, "no first row")
            cursor.close()
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM s_items")
            same(cursor.fetchall(), [(1000,)], "count after cancelled reads")


def bulk_ingestion():
    """Rows of Arrow tables, in each mode; what does not fit changes nothing."""
    import pyarrow

    def rows(ids, **more):
        return pyarrow.table({"id": pyarrow.array(ids, pyarrow.int64()), **more})

    def refused(cursor, data, mode):
        try:
            cursor.adbc_ingest("b_rows", data, mode=mode)
        except Exception:
            return
        raise AssertionError(f"not refused: {mode}")

    with connect(URL) as connection, connection.cursor() as cursor:
        def held():
            cursor.execute("SELECT count(*), sum(id), count(name) FROM b_rows")
            return cursor.fetchall()

        many = rows(range(100_000), name=[f"name {i}" for i in range(100_000)])
        same(cursor.adbc_ingest("b_rows", many, mode="create"), 100_000, "rows created")
        refused(cursor, many, "create")
        same(cursor.adbc_ingest("b_rows", rows([1, 2]), mode="append"), 2, "rows appended")
        total = sum(range(100_000)) + 3
        same(held(), [(100_002, total, 100_000)], "rows after appending")
        refused(cursor, rows([1], other=["x"]), "append")
        refused(cursor, pyarrow.table({"id": ["no number"]}), "append")
        same(held(), [(100_002, total, 100_000)], "rows after what was refused")
        same(cursor.adbc_ingest("b_rows", rows([7], name=["x"]), mode="replace"), 1, "rows replaced")
        same(cursor.adbc_ingest("b_rows", rows([8], name=["y"]), mode="create_append"), 1, "rows added")
        same(held(), [(2, 15, 2)], "rows at the end")


run(
    [
        ddl_and_updates,
        updates_as_queries,
        values_and_types,
        plain_strings_at_the_edge,
        empty_results_have_their_schema,
        announced_schema_is_the_streamed_one,
        prepared_statements,
        prepared_updates,
        bulk_ingestion,
        preparing_has_no_effect,
        large_results,
        large_rows,
        columns_of_one_name,
        numbers_that_do_not_fit,
        parameters_decide_columns,
        errors_are_typed,
        long_error_texts,
        many_batches_read_partly,
    ]
)
