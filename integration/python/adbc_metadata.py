"""Catalogs, schemas, tables, columns, keys and server information through ADBC.

usage: adbc_metadata.py URL
"""

import sys

import pyarrow as pa

from checks import check, connect, run, same

URL = sys.argv[1]
NAMES = ["m_a_b", "m_aXb", "m_keys"]


def execute(*statements):
    with connect(URL) as connection, connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)


def objects(**filters):
    """What adbc_get_objects gives, as {(catalog, schema): {table: entry}}."""
    with connect(URL) as connection:
        catalogs = connection.adbc_get_objects(**filters).read_all().to_pylist()
    found = {}
    for catalog in catalogs:
        for schema in catalog["catalog_db_schemas"] or []:
            tables = {t["table_name"]: t for t in schema["db_schema_tables"] or []}
            found[(catalog["catalog_name"], schema["db_schema_name"])] = tables
    return found


def setup():
    execute(
        "CREATE TABLE m_a_b (id BIGINT, name VARCHAR, d DATE) PARTITION BY (bucket(2, id))",
        'CREATE TABLE "m_aXb" (id INT)',
        "CREATE TABLE m_keys (k BIGINT NOT NULL, v VARCHAR, PRIMARY KEY (k)) PARTITION BY (bucket(2, k))",
    )


def catalogs_and_schemas():
    found = objects(depth="db_schemas")
    check(("ancho", "public") in found, f"catalogs and schemas: {sorted(found)}")
    same(list(objects(depth="catalogs", catalog_filter="anch_")), [], "a catalog filter is no pattern for schemas")


def tables():
    found = objects(depth="tables", db_schema_filter="public")
    names = found[("ancho", "public")]
    for name in NAMES:
        check(name in names, f"{name} is missing in {sorted(names)}")
        same(names[name]["table_type"], "TABLE", f"type of {name}")
    check(all(schema == "public" for _, schema in found), f"schemas: {sorted(found)}")


def table_filters_are_patterns():
    for pattern, expected in [
        ("m\\_a\\_b", ["m_a_b"]),
        ("m_a_b", ["m_aXb", "m_a_b"]),
        ("m\\_%", sorted(NAMES)),
        ("none%", []),
    ]:
        found = objects(depth="tables", db_schema_filter="public", table_name_filter=pattern)
        same(sorted(found.get(("ancho", "public"), {})), sorted(expected), f"tables like {pattern}")


def columns():
    found = objects(depth="all", db_schema_filter="public", table_name_filter="m\\_a\\_b")
    entry = found[("ancho", "public")]["m_a_b"]
    names = [c["column_name"] for c in entry["table_columns"]]
    same(names, ["id", "name", "d"], "columns")
    same([c["ordinal_position"] for c in entry["table_columns"]], [1, 2, 3], "positions")


def table_types():
    with connect(URL) as connection:
        types = connection.adbc_get_table_types()
    check("TABLE" in types, f"table types: {types}")
    found = objects(depth="tables", db_schema_filter="public", table_types_filter=["VIEW"])
    check(not set(NAMES) & set(found.get(("ancho", "public"), {})), "tables among the views")


def all_listings_agree():
    """GetObjects, SHOW TABLES and information_schema.tables: the same tables, of the same types."""
    listed = {
        (schema, name, entry["table_type"])
        for (_, schema), tables in objects(depth="tables").items()
        for name, entry in tables.items()
    }
    types = {"BASE TABLE": "TABLE", "VIEW": "VIEW"}
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        shown = {(schema, name, types[kind]) for _, schema, name, kind in cursor.fetchall()}
        cursor.execute("SELECT table_schema, table_name, table_type FROM information_schema.tables")
        described = {(schema, name, types[kind]) for schema, name, kind in cursor.fetchall()}
    same(listed, shown, "GetObjects and SHOW TABLES")
    same(described, shown, "information_schema.tables and SHOW TABLES")
    check(("system", "executors", "VIEW") in shown and ("information_schema", "columns", "VIEW") in shown, f"{shown}")
    found = objects(depth="all", db_schema_filter="information_schema", table_name_filter="tables")
    names = [c["column_name"] for c in found[("ancho", "information_schema")]["tables"]["table_columns"]]
    same(names, ["table_catalog", "table_schema", "table_name", "table_type"], "columns of information_schema.tables")


def table_schema():
    with connect(URL) as connection:
        schema = connection.adbc_get_table_schema("m_a_b", db_schema_filter="public")
    same([(f.name, f.type) for f in schema], [("id", pa.int64()), ("name", pa.string()), ("d", pa.date32())], "schema")


def server_information():
    with connect(URL) as connection:
        info = connection.adbc_get_info()
    check("ancho" in str(info.get("vendor_name", "")).lower(), f"info: {info}")
    check(info.get("vendor_version"), f"info: {info}")


def information_schema():
    with connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'm_a_b' ORDER BY ordinal_position"
        )
        same(cursor.fetchall(), [("id",), ("name",), ("d",)], "information_schema.columns")
        cursor.execute("SHOW TABLES")
        names = {row for rows in cursor.fetchall() for row in rows}
        check(set(NAMES) <= names, f"SHOW TABLES: {names}")
        cursor.execute("DESCRIBE m_keys")
        same([row[0] for row in cursor.fetchall()], ["k", "v"], "DESCRIBE")


def dropped_tables_are_gone():
    execute("DROP TABLE m_a_b", 'DROP TABLE "m_aXb"', "DROP TABLE m_keys")
    found = objects(depth="tables", db_schema_filter="public", table_name_filter="m\\_%")
    same(found.get(("ancho", "public"), {}), {}, "tables after DROP")


run(
    [
        setup,
        catalogs_and_schemas,
        tables,
        table_filters_are_patterns,
        columns,
        table_types,
        all_listings_agree,
        table_schema,
        server_information,
        information_schema,
        dropped_tables_are_gone,
    ]
)
