//! Whether a cluster's outcome is the right one: against expected rows, and against the single process.
use ancho_benchmarks::compare::{Column, Number, RowSet, Value, diff};
use ancho_common::error::ErrorKind;
use arrow::{
    array::Array,
    datatypes::{DataType, Field},
    util::display::{ArrayFormatter, FormatOptions},
};

use crate::{
    client::{Answer, Failure},
    corpus::QueryCase,
};

/// Rows of each side that a message shows.
const SHOWN: usize = 5;

/// Allowed difference of doubles, as a share of the larger one.
const RELATIVE: f64 = 1e-9;

/// What came of a query, with the error as text where it is only shown.
pub type Outcome<E> = Result<Answer, E>;

/// Checks an outcome of a cluster.
///
/// # Errors
/// What is wrong, to read.
pub fn judge_cluster(case: &QueryCase, outcome: &Outcome<Failure>) -> Result<(), String> {
    match outcome {
        Ok(answer) if case.error => Err(format!("must fail, but gave {} rows", answer.rows())),
        Ok(answer) => check_rows(case, answer),
        Err(failure) if case.error => check_refusal(failure),
        Err(failure) => Err(format!("failed: {failure}")),
    }
}

/// Checks an outcome of the single process: a wrong one is a fault of the corpus.
///
/// # Errors
/// What is wrong, to read.
pub fn judge_reference<E: std::fmt::Display>(case: &QueryCase, outcome: &Outcome<E>) -> Result<(), String> {
    match outcome {
        Ok(answer) if case.error => Err(format!("must fail, but gave {} rows", answer.rows())),
        Ok(answer) => check_rows(case, answer),
        Err(_) if case.error => Ok(()),
        Err(error) => Err(format!("failed: {error}")),
    }
}

/// A statement that is wrong must be refused as such; a node that broke down on it is no refusal.
fn check_refusal(failure: &Failure) -> Result<(), String> {
    let broke_down = matches!(
        failure.kind(),
        ErrorKind::Unavailable
            | ErrorKind::StaleRoute
            | ErrorKind::Deadline
            | ErrorKind::Unknown
            | ErrorKind::Corrupt
            | ErrorKind::Cancelled
    );
    if broke_down || !failure.from_server {
        return Err(format!("must be refused, but broke down: {failure}"));
    }
    Ok(())
}

fn check_rows(case: &QueryCase, answer: &Answer) -> Result<(), String> {
    if let Some(rows) = case.rows
        && rows != answer.rows()
    {
        return Err(format!("{rows} rows expected, {} came", answer.rows()));
    }
    match &case.expected {
        Some(expected) => check_expected(case.ordered, expected, answer),
        None => Ok(()),
    }
}

/// Compares with expected rows, which are text.
fn check_expected(ordered: bool, expected: &[Vec<String>], answer: &Answer) -> Result<(), String> {
    let float: Vec<bool> = answer.schema.fields().iter().map(|f| f.data_type().is_floating()).collect();
    let mut actual = text_rows(answer)?;
    let mut expected = expected.to_vec();
    if let Some(row) = expected.iter().find(|row| row.len() != float.len()) {
        return Err(format!("an expected row has {} cells, the answer {} columns", row.len(), float.len()));
    }
    if !ordered {
        let key = |row: &Vec<String>| -> Vec<String> {
            let cells = row.iter().zip(&float);
            cells.map(|(cell, float)| if *float { rounded(cell) } else { cell.clone() }).collect()
        };
        actual.sort_by_cached_key(key);
        expected.sort_by_cached_key(key);
    }
    let same_cell = |(i, (a, b)): (usize, (&String, &String))| a == b || (float[i] && close(a, b));
    let same_row = |a: &Vec<String>, b: &Vec<String>| a.iter().zip(b).enumerate().all(same_cell);
    let first = (0..expected.len().max(actual.len())).find(|&i| match (expected.get(i), actual.get(i)) {
        (Some(a), Some(b)) => !same_row(a, b),
        _ => true,
    });
    let Some(first) = first else { return Ok(()) };
    let show = |rows: &[Vec<String>]| -> String {
        let rows = rows.iter().skip(first).take(SHOWN);
        rows.map(|row| format!("\n      {}", row.join(" | "))).collect()
    };
    Err(format!(
        "{} rows expected, {} came; from row {} on (of the sorted rows, if order does not count)\n    expected:{}\n    actual:{}",
        expected.len(),
        actual.len(),
        first + 1,
        show(&expected),
        show(&actual)
    ))
}

fn text_rows(answer: &Answer) -> Result<Vec<Vec<String>>, String> {
    let options = FormatOptions::default();
    let mut rows = Vec::with_capacity(answer.rows());
    for batch in &answer.batches {
        let formatters = batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        for row in 0..batch.num_rows() {
            let cells = formatters.iter().zip(&nulls).map(|(formatter, nulls)| {
                // A null inside a list shows as the empty text; a null cell as its word.
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return Ok("NULL".to_owned());
                }
                let text = formatter.value(row).try_to_string().map_err(|e| e.to_string())?;
                Ok(if text.is_empty() { "(empty)".to_owned() } else { text })
            });
            rows.push(cells.collect::<Result<Vec<String>, String>>()?);
        }
    }
    Ok(rows)
}

/// Doubles that are close sort alike.
fn rounded(cell: &str) -> String {
    cell.parse::<f64>().map_or_else(|_| cell.to_owned(), |value| format!("{:.9e}", value + 0.0))
}

fn close(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= RELATIVE * a.abs().max(b.abs()),
        _ => false,
    }
}

/// Compares a cluster's answer with the single process's: columns, types and rows.
///
/// # Errors
/// What differs, to read.
pub fn compare(case: &QueryCase, reference: &Answer, cluster: &Answer) -> Result<(), String> {
    compare_columns(reference, cluster)?;
    let expected = rows(reference, case.ordered)?;
    let actual = rows(cluster, case.ordered)?;
    diff(&expected, &actual).map_err(|mismatch| mismatch.to_string())
}

fn compare_columns(reference: &Answer, cluster: &Answer) -> Result<(), String> {
    let describe = |field: &Field| format!("{} {}", field.name(), plain(field.data_type()));
    let expected: Vec<String> = reference.schema.fields().iter().map(|f| describe(f)).collect();
    let actual: Vec<String> = cluster.schema.fields().iter().map(|f| describe(f)).collect();
    if expected == actual {
        return Ok(());
    }
    Err(format!("the columns are [{}], in one process [{}]", actual.join(", "), expected.join(", ")))
}

/// The type without what is only representation.
fn plain(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => plain(&DataType::Utf8),
        DataType::BinaryView | DataType::LargeBinary => plain(&DataType::Binary),
        DataType::Dictionary(_, values) => plain(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => {
            format!("List({})", plain(item.data_type()))
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|f| format!("{} {}", f.name(), plain(f.data_type())));
            format!("Struct({})", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The rows; where order counts, each with its number in front, so that a row in the wrong place differs.
fn rows(answer: &Answer, ordered: bool) -> Result<RowSet, String> {
    let mut set =
        RowSet::from_batches_with_schema(&answer.schema, &answer.batches).map_err(|error| format!("{error:#}"))?;
    if ordered {
        set.columns.insert(0, Column { name: "row".to_owned(), float: false, unit: None });
        for (number, row) in (1_i128..).zip(&mut set.rows) {
            row.insert(0, Value::Exact(Number::from(number)));
        }
    }
    Ok(set)
}
