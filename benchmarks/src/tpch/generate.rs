//! TPC-H rows as Arrow record batches, streamed from the `tpchgen` generators.

use super::schema::Table;
use anyhow::ensure;
use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use std::fmt::{Display, Write};
use std::sync::Arc;
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, Nation, NationGenerator, Order, OrderGenerator, Part,
    PartGenerator, PartSupp, PartSuppGenerator, Region, RegionGenerator, Supplier, SupplierGenerator,
};

/// Rows of a full batch.
pub const BATCH_ROWS: usize = 8192;

/// A stream of batches of one table.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Streams the rows of part `part` of `parts` (counted from 1) of a table at a scale factor. The
/// parts are disjoint, and together they are the whole table. `nation` and `region` have the same
/// rows at every scale, all in part 1.
///
/// The first call of a process builds a pool of 300 MB of text, which takes a second or so.
pub fn generate(table: Table, scale: f64, part: u32, parts: u32) -> anyhow::Result<Batches> {
    ensure!(scale.is_finite() && scale > 0.0, "the scale factor is {scale}; give a number above zero");
    ensure!((1..=parts).contains(&part), "part {part} of {parts} of table `{table}` does not exist");
    let fixed_size = matches!(table, Table::Nation | Table::Region);
    if fixed_size && part > 1 {
        return Ok(Box::new(std::iter::empty()));
    }
    let (part, parts) = (i32::try_from(part)?, i32::try_from(parts)?);
    let schema = table.schema();
    /// Chunks the rows of one generator.
    macro_rules! stream {
        ($generator:ident, $columns:ident) => {
            Box::new(Chunks { rows: $generator::new(scale, part, parts).iter(), schema, columns: $columns })
        };
    }
    Ok(match table {
        Table::Region => stream!(RegionGenerator, region_columns),
        Table::Nation => stream!(NationGenerator, nation_columns),
        Table::Supplier => stream!(SupplierGenerator, supplier_columns),
        Table::Customer => stream!(CustomerGenerator, customer_columns),
        Table::Part => stream!(PartGenerator, part_columns),
        Table::Partsupp => stream!(PartSuppGenerator, partsupp_columns),
        Table::Orders => stream!(OrderGenerator, orders_columns),
        Table::Lineitem => stream!(LineItemGenerator, lineitem_columns),
    })
}

/// Turns an iterator over rows into one over batches of [`BATCH_ROWS`] rows.
struct Chunks<I: Iterator> {
    rows: I,
    schema: SchemaRef,
    columns: fn(&[I::Item]) -> Result<Vec<ArrayRef>, ArrowError>,
}

impl<I: Iterator> Iterator for Chunks<I> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows: Vec<I::Item> = self.rows.by_ref().take(BATCH_ROWS).collect();
        if rows.is_empty() {
            return None;
        }
        let batch = (self.columns)(&rows).and_then(|columns| RecordBatch::try_new(Arc::clone(&self.schema), columns));
        Some(batch)
    }
}

fn longs<R>(rows: &[R], get: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(get)))
}

fn ints<R>(rows: &[R], get: impl Fn(&R) -> i32) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(rows.iter().map(get)))
}

fn dates<R>(rows: &[R], get: impl Fn(&R) -> TPCHDate) -> ArrayRef {
    let days = rows.iter().map(|row| get(row).to_unix_epoch());
    Arc::new(Date32Array::from_iter_values(days))
}

/// Amounts in hundredths as `Decimal128(15, 2)`.
fn hundredths<R>(rows: &[R], get: impl Fn(&R) -> i64) -> Result<ArrayRef, ArrowError> {
    let values = rows.iter().map(|row| i128::from(get(row)));
    let array = Decimal128Array::from_iter_values(values).with_precision_and_scale(15, 2)?;
    Ok(Arc::new(array))
}

fn money<R>(rows: &[R], get: impl Fn(&R) -> TPCHDecimal) -> Result<ArrayRef, ArrowError> {
    hundredths(rows, |row| get(row).into_inner())
}

fn texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> &'r str) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(rows.iter().map(get)))
}

/// Texts that the generator only writes through `Display`.
fn shown<'r, R, D: Display>(rows: &'r [R], get: impl Fn(&'r R) -> D) -> Result<ArrayRef, ArrowError> {
    let mut builder = StringViewBuilder::with_capacity(rows.len());
    let mut text = String::new();
    for row in rows {
        text.clear();
        write!(text, "{}", get(row)).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        builder.append_value(&text);
    }
    Ok(Arc::new(builder.finish()))
}

fn region_columns(rows: &[Region<'static>]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![longs(rows, |r| r.r_regionkey), texts(rows, |r| r.r_name), texts(rows, |r| r.r_comment)])
}

fn nation_columns(rows: &[Nation<'static>]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        longs(rows, |r| r.n_nationkey),
        texts(rows, |r| r.n_name),
        longs(rows, |r| r.n_regionkey),
        texts(rows, |r| r.n_comment),
    ])
}

fn supplier_columns(rows: &[Supplier]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        longs(rows, |r| r.s_suppkey),
        shown(rows, |r| &r.s_name)?,
        shown(rows, |r| &r.s_address)?,
        longs(rows, |r| r.s_nationkey),
        shown(rows, |r| &r.s_phone)?,
        money(rows, |r| r.s_acctbal)?,
        texts(rows, |r| &r.s_comment),
    ])
}

fn customer_columns(rows: &[Customer<'static>]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        longs(rows, |r| r.c_custkey),
        shown(rows, |r| &r.c_name)?,
        shown(rows, |r| &r.c_address)?,
        longs(rows, |r| r.c_nationkey),
        shown(rows, |r| &r.c_phone)?,
        money(rows, |r| r.c_acctbal)?,
        texts(rows, |r| r.c_mktsegment),
        texts(rows, |r| r.c_comment),
    ])
}

fn part_columns(rows: &[Part<'static>]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        longs(rows, |r| r.p_partkey),
        shown(rows, |r| &r.p_name)?,
        shown(rows, |r| &r.p_mfgr)?,
        shown(rows, |r| &r.p_brand)?,
        texts(rows, |r| r.p_type),
        ints(rows, |r| r.p_size),
        texts(rows, |r| r.p_container),
        money(rows, |r| r.p_retailprice)?,
        texts(rows, |r| r.p_comment),
    ])
}

fn partsupp_columns(rows: &[PartSupp<'static>]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        longs(rows, |r| r.ps_partkey),
        longs(rows, |r| r.ps_suppkey),
        ints(rows, |r| r.ps_availqty),
        money(rows, |r| r.ps_supplycost)?,
        texts(rows, |r| r.ps_comment),
    ])
}

fn orders_columns(rows: &[Order<'static>]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        longs(rows, |r| r.o_orderkey),
        longs(rows, |r| r.o_custkey),
        shown(rows, |r| &r.o_orderstatus)?,
        money(rows, |r| r.o_totalprice)?,
        dates(rows, |r| r.o_orderdate),
        texts(rows, |r| r.o_orderpriority),
        shown(rows, |r| &r.o_clerk)?,
        ints(rows, |r| r.o_shippriority),
        texts(rows, |r| r.o_comment),
    ])
}

fn lineitem_columns(rows: &[LineItem<'static>]) -> Result<Vec<ArrayRef>, ArrowError> {
    Ok(vec![
        longs(rows, |r| r.l_orderkey),
        longs(rows, |r| r.l_partkey),
        longs(rows, |r| r.l_suppkey),
        ints(rows, |r| r.l_linenumber),
        // The generator counts whole pieces; the column has two decimals.
        hundredths(rows, |r| r.l_quantity * 100)?,
        money(rows, |r| r.l_extendedprice)?,
        money(rows, |r| r.l_discount)?,
        money(rows, |r| r.l_tax)?,
        texts(rows, |r| r.l_returnflag),
        texts(rows, |r| r.l_linestatus),
        dates(rows, |r| r.l_shipdate),
        dates(rows, |r| r.l_commitdate),
        dates(rows, |r| r.l_receiptdate),
        texts(rows, |r| r.l_shipinstruct),
        texts(rows, |r| r.l_shipmode),
        texts(rows, |r| r.l_comment),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{RowSet, diff};

    fn rows_of(table: Table, part: u32, parts: u32) -> Vec<RecordBatch> {
        let stream = generate(table, 0.001, part, parts).expect("valid arguments");
        stream.collect::<Result<_, _>>().expect("valid batches")
    }

    #[test]
    fn parts_make_up_the_table() {
        for table in Table::ALL {
            let whole = rows_of(table, 1, 1);
            let parts: Vec<RecordBatch> = (1..=3).flat_map(|part| rows_of(table, part, 3)).collect();
            let whole = RowSet::from_batches(&whole).expect("known types");
            let parts = RowSet::from_batches(&parts).expect("known types");
            diff(&whole, &parts).unwrap_or_else(|mismatch| panic!("{table}: {mismatch}"));
            if table != Table::Lineitem {
                let rows = u64::try_from(whole.rows.len()).expect("few rows");
                assert_eq!(rows, table.estimated_rows(0.001), "{table}");
            }
        }
    }

    #[test]
    fn a_known_row_has_its_known_values() {
        let batches = rows_of(Table::Region, 1, 1);
        let rows = RowSet::from_batches(&batches).expect("known types").rows;
        let first = RowSet::format_row(&rows[0]);
        assert!(first.starts_with("0 | \"AFRICA\" | "), "{first}");
        let line = RowSet::from_batches(&rows_of(Table::Lineitem, 1, 1)).expect("known types");
        let first = RowSet::format_row(&line.rows[0]);
        assert!(first.contains("| 17 | "), "17 pieces, not 0.17: {first}");
        assert!(first.contains("| 1996-03-13 | 1996-02-12 | 1996-03-22 |"), "{first}");
    }

    #[test]
    fn arguments_are_checked() {
        for (scale, part, parts) in [(0.0, 1, 1), (f64::NAN, 1, 1), (1.0, 0, 1), (1.0, 2, 1)] {
            assert!(generate(Table::Orders, scale, part, parts).is_err());
        }
    }
}
