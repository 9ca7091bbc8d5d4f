//! The eight tables: columns, keys, and how Ancho partitions them.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Buckets of a partitioned table when the caller has no wish: enough for 16 executors.
pub const DEFAULT_BUCKETS: u32 = 16;

/// A TPC-H table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Region,
    Nation,
    Supplier,
    Customer,
    Part,
    Partsupp,
    Orders,
    Lineitem,
}

/// The logical types that TPC-H needs.
#[derive(Clone, Copy)]
enum Type {
    BigInt,
    Int,
    Money,
    Date,
    Text,
}

impl Type {
    fn arrow(self) -> DataType {
        match self {
            Type::BigInt => DataType::Int64,
            Type::Int => DataType::Int32,
            Type::Money => DataType::Decimal128(15, 2),
            Type::Date => DataType::Date32,
            Type::Text => DataType::Utf8View,
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Type::BigInt => "BIGINT",
            Type::Int => "INT",
            Type::Money => "DECIMAL(15, 2)",
            Type::Date => "DATE",
            Type::Text => "VARCHAR",
        }
    }
}

impl Table {
    /// All tables, small ones first.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Customer,
        Table::Part,
        Table::Partsupp,
        Table::Orders,
        Table::Lineitem,
    ];

    /// The name in SQL and of the folder that holds the table's files.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Customer => "customer",
            Table::Part => "part",
            Table::Partsupp => "partsupp",
            Table::Orders => "orders",
            Table::Lineitem => "lineitem",
        }
    }

    /// Columns of the primary key.
    pub const fn primary_key(self) -> &'static [&'static str] {
        match self {
            Table::Region => &["r_regionkey"],
            Table::Nation => &["n_nationkey"],
            Table::Supplier => &["s_suppkey"],
            Table::Customer => &["c_custkey"],
            Table::Part => &["p_partkey"],
            Table::Partsupp => &["ps_partkey", "ps_suppkey"],
            Table::Orders => &["o_orderkey"],
            Table::Lineitem => &["l_orderkey", "l_linenumber"],
        }
    }

    /// The column whose hash spreads the table over its partitions; `None` for a table kept whole.
    ///
    /// Tables that are joined on a key are bucketed on it with one bucket count, so that the rows of
    /// an order and its line items, or of a part and its suppliers, lie in buckets of one number.
    pub const fn bucket_column(self) -> Option<&'static str> {
        match self {
            Table::Region | Table::Nation | Table::Supplier => None,
            Table::Customer => Some("c_custkey"),
            Table::Part => Some("p_partkey"),
            Table::Partsupp => Some("ps_partkey"),
            Table::Orders => Some("o_orderkey"),
            Table::Lineitem => Some("l_orderkey"),
        }
    }

    /// The partition expression, `bucket(16, l_orderkey)`; `None` for a table kept whole.
    pub fn partition_by(self, buckets: u32) -> Option<String> {
        let column = self.bucket_column()?;
        Some(format!("bucket({buckets}, {column})"))
    }

    /// The Arrow schema of the generated rows; no column is nullable.
    pub fn schema(self) -> SchemaRef {
        let fields = self.columns().iter();
        let fields = fields.map(|(name, kind)| Field::new(*name, kind.arrow(), false));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Rows at a scale factor: exact for all tables but `lineitem`, whose number of rows only the
    /// generator knows; for that one the expected number.
    pub fn estimated_rows(self, scale: f64) -> u64 {
        let scaled = |base: f64| (base * scale) as u64;
        match self {
            Table::Region => 5,
            Table::Nation => 25,
            Table::Supplier => scaled(10_000.0),
            Table::Customer => scaled(150_000.0),
            Table::Part => scaled(200_000.0),
            Table::Partsupp => scaled(200_000.0) * 4,
            Table::Orders => scaled(1_500_000.0),
            Table::Lineitem => scaled(6_001_215.0),
        }
    }

    const fn columns(self) -> &'static [(&'static str, Type)] {
        use Type::{BigInt, Date, Int, Money, Text};
        match self {
            Table::Region => &[("r_regionkey", BigInt), ("r_name", Text), ("r_comment", Text)],
            Table::Nation => &[("n_nationkey", BigInt), ("n_name", Text), ("n_regionkey", BigInt), ("n_comment", Text)],
            Table::Supplier => &[
                ("s_suppkey", BigInt),
                ("s_name", Text),
                ("s_address", Text),
                ("s_nationkey", BigInt),
                ("s_phone", Text),
                ("s_acctbal", Money),
                ("s_comment", Text),
            ],
            Table::Customer => &[
                ("c_custkey", BigInt),
                ("c_name", Text),
                ("c_address", Text),
                ("c_nationkey", BigInt),
                ("c_phone", Text),
                ("c_acctbal", Money),
                ("c_mktsegment", Text),
                ("c_comment", Text),
            ],
            Table::Part => &[
                ("p_partkey", BigInt),
                ("p_name", Text),
                ("p_mfgr", Text),
                ("p_brand", Text),
                ("p_type", Text),
                ("p_size", Int),
                ("p_container", Text),
                ("p_retailprice", Money),
                ("p_comment", Text),
            ],
            Table::Partsupp => &[
                ("ps_partkey", BigInt),
                ("ps_suppkey", BigInt),
                ("ps_availqty", Int),
                ("ps_supplycost", Money),
                ("ps_comment", Text),
            ],
            Table::Orders => &[
                ("o_orderkey", BigInt),
                ("o_custkey", BigInt),
                ("o_orderstatus", Text),
                ("o_totalprice", Money),
                ("o_orderdate", Date),
                ("o_orderpriority", Text),
                ("o_clerk", Text),
                ("o_shippriority", Int),
                ("o_comment", Text),
            ],
            Table::Lineitem => &[
                ("l_orderkey", BigInt),
                ("l_partkey", BigInt),
                ("l_suppkey", BigInt),
                ("l_linenumber", Int),
                ("l_quantity", Money),
                ("l_extendedprice", Money),
                ("l_discount", Money),
                ("l_tax", Money),
                ("l_returnflag", Text),
                ("l_linestatus", Text),
                ("l_shipdate", Date),
                ("l_commitdate", Date),
                ("l_receiptdate", Date),
                ("l_shipinstruct", Text),
                ("l_shipmode", Text),
                ("l_comment", Text),
            ],
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Table {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Table::ALL.into_iter().find(|table| table.name() == name);
        found.ok_or_else(|| anyhow::anyhow!("`{name}` is no TPC-H table"))
    }
}

/// The `CREATE TABLE` statement of a partitioned table without a key: what bulk loads and the
/// benchmarks use (the peers enforce no keys either).
pub fn create_table_sql(table: Table, buckets: u32) -> String {
    create_sql(table, buckets, false)
}

/// As [`create_table_sql`], with the primary key declared: one row per key is then enforced.
pub fn create_table_with_key_sql(table: Table, buckets: u32) -> String {
    create_sql(table, buckets, true)
}

fn create_sql(table: Table, buckets: u32, with_key: bool) -> String {
    let mut lines: Vec<String> =
        table.columns().iter().map(|(name, kind)| format!("    {name} {} NOT NULL", kind.sql())).collect();
    if with_key {
        lines.push(format!("    PRIMARY KEY ({})", table.primary_key().join(", ")));
    }
    let partitioning =
        table.partition_by(buckets).map(|expression| format!(" PARTITION BY ({expression})")).unwrap_or_default();
    format!("CREATE TABLE {table} (\n{}\n){partitioning}", lines.join(",\n"))
}

/// The eight tables as datasets for `ancho apply`, read from the folders that
/// [`write_parquet`](super::write_parquet) makes under `data_dir` (an absolute path).
pub fn datasets_yaml(data_dir: &Path, buckets: u32) -> String {
    let mut yaml = String::from("datasets:\n");
    for table in Table::ALL {
        yaml += &format!(
            "  - from: file://{}/{table}/\n    name: {table}\n    params:\n      file_format: parquet\n    \
             acceleration:\n      enabled: true\n      engine: cayenne\n      mode: file\n      \
             refresh_mode: full\n",
            data_dir.display()
        );
        if let Some(expression) = table.partition_by(buckets) {
            yaml += &format!("      partition_by:\n        - {expression}\n");
        }
    }
    yaml
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_buckets_name_columns_of_the_table() {
        for table in Table::ALL {
            let schema = table.schema();
            for column in table.primary_key() {
                assert!(schema.field_with_name(column).is_ok(), "{table}.{column}");
            }
            if let Some(column) = table.bucket_column() {
                assert!(table.primary_key().contains(&column), "{table}: rows of a key share a bucket");
            }
            assert_eq!(table.name().parse::<Table>().ok(), Some(table));
        }
    }

    #[test]
    fn statements_state_the_partitioning() {
        assert_eq!(
            create_table_sql(Table::Region, 8),
            "CREATE TABLE region (\n    r_regionkey BIGINT NOT NULL,\n    r_name VARCHAR NOT NULL,\n    \
             r_comment VARCHAR NOT NULL\n)"
        );
        let orders = create_table_with_key_sql(Table::Orders, 8);
        assert!(orders.contains("o_totalprice DECIMAL(15, 2) NOT NULL"), "{orders}");
        assert!(orders.ends_with("PRIMARY KEY (o_orderkey)\n) PARTITION BY (bucket(8, o_orderkey))"));
    }

    #[test]
    fn datasets_name_every_table_once() {
        let yaml = datasets_yaml(Path::new("/data"), 4);
        for table in Table::ALL {
            assert_eq!(yaml.matches(&format!("from: file:///data/{table}/\n")).count(), 1);
        }
        assert_eq!(yaml.matches("bucket(4, ").count(), 5);
    }
}
