//! Statements that change rows: their meaning, their counts, and that they happen in all partitions or in none.
mod keys;
mod killed;
mod meaning;
mod model;
mod requests;
mod transfers;

use std::collections::BTreeMap;

use ancho_integration::{Answer, Client};
use anyhow::ensure;
use arrow::{
    array::{Array, AsArray},
    compute::cast,
    datatypes::{DataType, Int64Type},
};

/// Rows of a table with two integers, sorted; how often each occurs.
pub(crate) type Rows = BTreeMap<(Option<i64>, Option<i64>), usize>;

/// The rows of a query of two integers.
pub(crate) fn pairs(answer: &Answer) -> anyhow::Result<Rows> {
    let mut rows = Rows::new();
    for batch in &answer.batches {
        ensure!(batch.num_columns() == 2, "two columns are needed: {batch:?}");
        let columns = [cast(batch.column(0), &DataType::Int64)?, cast(batch.column(1), &DataType::Int64)?];
        for row in 0..batch.num_rows() {
            let value = |column: &dyn Array| {
                let numbers = column.as_primitive::<Int64Type>();
                numbers.is_valid(row).then(|| numbers.value(row))
            };
            *rows.entry((value(&columns[0]), value(&columns[1]))).or_default() += 1;
        }
    }
    Ok(rows)
}

/// The rows of a table of two integers, having checked that counting agrees.
pub(super) async fn rows_of(client: &Client, table: &str) -> anyhow::Result<Rows> {
    let rows = pairs(&client.query(&format!("SELECT * FROM {table}")).await?)?;
    let counted = client.query(&format!("SELECT count(*), count(k) FROM {table}")).await?;
    let number = |rows: usize| i64::try_from(rows).ok();
    let all = rows.values().sum();
    let with_key = rows.iter().filter(|((k, _), _)| k.is_some()).map(|(_, n)| n).sum();
    ensure!(pairs(&counted)?.contains_key(&(number(all), number(with_key))), "counting {table} gives {counted:?}");
    Ok(rows)
}
