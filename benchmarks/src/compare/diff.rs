//! The comparison itself: which rows only one side has, and whether the order is right.

use super::rowset::RowSet;
use super::value::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

/// How many differing rows of each side a [`Mismatch`] shows.
const SHOWN_ROWS: usize = 5;

/// Largest group of rows, alike in their exact columns, in which every pairing is tried.
const PAIRING_LIMIT: usize = 512;

/// One term of an `ORDER BY`, by the position of its column in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// Zero-based position of the column.
    pub column: usize,
    /// Whether larger values come first.
    pub descending: bool,
    /// Whether nulls come before all values.
    pub nulls_first: bool,
}

impl SortKey {
    /// `ORDER BY column`: nulls last.
    pub const fn ascending(column: usize) -> Self {
        Self { column, descending: false, nulls_first: false }
    }

    /// `ORDER BY column DESC`: nulls first.
    pub const fn descending(column: usize) -> Self {
        Self { column, descending: true, nulls_first: true }
    }

    fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        let (a, b) = (&a[self.column], &b[self.column]);
        match (a == &Value::Null, b == &Value::Null) {
            (true, true) => Ordering::Equal,
            (true, false) if self.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if self.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.descending => b.cmp(a),
            (false, false) => a.cmp(b),
        }
    }
}

/// What counts as equal. The default compares multisets, exact but for floats.
#[derive(Debug, Clone)]
pub struct DiffOptions {
    /// The `ORDER BY` of the query; empty when it has none.
    pub order: Vec<SortKey>,
    /// The `LIMIT` of an ordered query. When it cuts among rows with equal sort keys, any of them may
    /// be in the answer: those rows are then compared by their sort keys only.
    pub limit: Option<usize>,
    /// Columns to compare with the tolerance although neither side holds floats there (averages that
    /// engines round in different places).
    pub approximate: Vec<usize>,
    /// Allowed difference as a share of the larger magnitude.
    pub relative: f64,
    /// Allowed difference whatever the magnitude.
    pub absolute: f64,
    /// Whether `-0.0` and `0.0` differ.
    pub signed_zero: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            order: Vec::new(),
            limit: None,
            approximate: Vec::new(),
            relative: 1e-9,
            absolute: 1e-12,
            signed_zero: false,
        }
    }
}

/// Two results that should be equal and are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What differs, in one line.
    pub reason: String,
    /// The first rows that only the expected side has.
    pub missing: Vec<String>,
    /// The first rows that only the actual side has.
    pub unexpected: Vec<String>,
}

impl Mismatch {
    fn because(reason: String) -> Self {
        Self { reason, missing: Vec::new(), unexpected: Vec::new() }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        for (title, rows) in [("expected", &self.missing), ("actual  ", &self.unexpected)] {
            for row in rows {
                write!(f, "\n  {title}: {row}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Mismatch {}

/// Compares two results as multisets of rows. See [`diff_with`].
pub fn diff(expected: &RowSet, actual: &RowSet) -> Result<(), Mismatch> {
    diff_with(expected, actual, &DiffOptions::default())
}

/// Compares two results by the rules in `options`.
///
/// # Errors
/// A [`Mismatch`] when the number of columns differs, a row of one side has no partner on the other,
/// or the actual rows are not in the order that `options.order` asks for.
pub fn diff_with(expected: &RowSet, actual: &RowSet, options: &DiffOptions) -> Result<(), Mismatch> {
    let both_empty = expected.rows.is_empty() && actual.rows.is_empty();
    let unknown_columns = expected.columns.is_empty() || actual.columns.is_empty();
    if both_empty && unknown_columns {
        return Ok(());
    }
    if !unknown_columns && expected.columns.len() != actual.columns.len() {
        return Err(Mismatch::because(format!(
            "{} columns expected, {} came",
            expected.columns.len(),
            actual.columns.len()
        )));
    }
    let width = expected.columns.len().max(actual.columns.len());
    let largest = options.order.iter().map(|key| key.column);
    if let Some(column) = largest.chain(options.approximate.iter().copied()).find(|c| *c >= width) {
        return Err(Mismatch::because(format!("the comparison names column {column}, the results have {width}")));
    }
    check_order(actual, &options.order)?;

    let rules = Rules::new(expected, actual, options, width);
    let all_rows: Vec<&[Value]> = expected.rows.iter().map(Vec::as_slice).collect();
    let (kept, cut) = rules.split_at_limit(all_rows, expected);
    let actual_rows: Vec<&[Value]> = actual.rows.iter().map(Vec::as_slice).collect();
    let (actual_kept, actual_cut) = rules.split_at_limit(actual_rows, expected);
    let (mut missing, mut unexpected) = rules.unmatched(kept, actual_kept);
    let (cut_missing, cut_unexpected) = rules.unmatched_keys(&cut, &actual_cut);
    missing.extend(cut_missing);
    unexpected.extend(cut_unexpected);
    if missing.is_empty() && unexpected.is_empty() {
        return Ok(());
    }
    let show = |rows: &[&[Value]]| -> Vec<String> {
        let first = rows.iter().take(SHOWN_ROWS);
        first.map(|row| RowSet::format_row(row)).collect()
    };
    Err(Mismatch {
        reason: format!(
            "{} rows expected, {} came; {} are missing and {} were not expected",
            expected.rows.len(),
            actual.rows.len(),
            missing.len(),
            unexpected.len()
        ),
        missing: show(&missing),
        unexpected: show(&unexpected),
    })
}

fn compare_keys(order: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    let terms = order.iter().map(|key| key.compare(a, b));
    terms.fold(Ordering::Equal, Ordering::then)
}

fn check_order(actual: &RowSet, order: &[SortKey]) -> Result<(), Mismatch> {
    let wrong = actual.rows.windows(2).position(|pair| compare_keys(order, &pair[0], &pair[1]) == Ordering::Greater);
    match wrong {
        None => Ok(()),
        Some(at) => Err(Mismatch {
            reason: format!("rows {} and {} are not in the order asked for", at + 1, at + 2),
            missing: Vec::new(),
            unexpected: actual.rows[at..at + 2].iter().map(|row| RowSet::format_row(row)).collect(),
        }),
    }
}

/// A row of one side that has found no partner yet, or a group of them.
type Rows<'a> = Vec<&'a [Value]>;

/// The options together with what the columns of both sides say.
struct Rules<'a> {
    options: &'a DiffOptions,
    /// Per column: `None` for an exact comparison, else one unit of the coarser side's last digit.
    tolerance: Vec<Option<f64>>,
}

impl<'a> Rules<'a> {
    fn new(expected: &RowSet, actual: &RowSet, options: &'a DiffOptions, width: usize) -> Self {
        let tolerance = (0..width)
            .map(|column| {
                let sides = [expected, actual];
                let float = sides.iter().any(|side| {
                    side.columns.get(column).is_some_and(|c| c.float)
                        || side.rows.iter().any(|row| row[column].holds_float())
                });
                let units = sides.iter().filter_map(|side| side.columns.get(column)?.unit);
                (float || options.approximate.contains(&column)).then(|| units.fold(0.0, f64::max))
            })
            .collect();
        Self { options, tolerance }
    }

    /// Separates the rows that tie with the last one when a limit has cut the result.
    fn split_at_limit(&self, rows: Rows<'a>, expected: &'a RowSet) -> (Rows<'a>, Rows<'a>) {
        match (self.options.limit, expected.rows.last()) {
            (Some(limit), Some(last)) if expected.rows.len() == limit && !self.options.order.is_empty() => {
                rows.into_iter().partition(|row| !self.same_keys(last, row))
            }
            _ => (rows, Vec::new()),
        }
    }

    fn same_keys(&self, a: &[Value], b: &[Value]) -> bool {
        self.options.order.iter().all(|key| self.same_cell(key.column, &a[key.column], &b[key.column]))
    }

    fn same_cell(&self, column: usize, a: &Value, b: &Value) -> bool {
        match self.tolerance[column] {
            Some(unit) => self.close(unit, a, b),
            None => a == b,
        }
    }

    fn close(&self, unit: f64, a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.close(unit, a, b))
            }
            (Value::Struct(a), Value::Struct(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((n, a), (m, b))| n == m && self.close(unit, a, b))
            }
            _ => match (a.as_f64(), b.as_f64()) {
                (Some(x), Some(y)) => self.close_numbers(unit, x, y),
                _ => a == b,
            },
        }
    }

    fn close_numbers(&self, unit: f64, x: f64, y: f64) -> bool {
        if x == 0.0 && y == 0.0 {
            return !self.options.signed_zero || x.is_sign_negative() == y.is_sign_negative();
        }
        if x == y || (x.is_nan() && y.is_nan()) {
            return true;
        }
        let difference = (x - y).abs();
        let magnitude = x.abs().max(y.abs());
        // A unit is not exact in binary: let the digit itself pass, not just what lies below it.
        let allowed = (self.options.relative * magnitude).max(self.options.absolute).max(unit * (1.0 + 1e-6));
        difference.is_finite() && difference <= allowed
    }

    fn same_row(&self, a: &[Value], b: &[Value]) -> bool {
        a.iter().zip(b).enumerate().all(|(column, (a, b))| self.same_cell(column, a, b))
    }

    /// Rows of each side without a partner. Rows are first grouped by their exact columns, then paired
    /// within a group by the approximate ones.
    fn unmatched(&self, expected: Rows<'a>, actual: Rows<'a>) -> (Rows<'a>, Rows<'a>) {
        let exact: Vec<usize> = (0..self.tolerance.len()).filter(|column| self.tolerance[*column].is_none()).collect();
        let mut groups: BTreeMap<Vec<&Value>, (Rows<'a>, Rows<'a>)> = BTreeMap::new();
        let key = |row: &'a [Value]| exact.iter().map(|c| &row[*c]).collect::<Vec<_>>();
        for row in expected {
            groups.entry(key(row)).or_default().0.push(row);
        }
        for row in actual {
            groups.entry(key(row)).or_default().1.push(row);
        }
        let (mut missing, mut unexpected) = (Vec::new(), Vec::new());
        for (left, right) in groups.into_values() {
            let (left, right) = self.pair_up(left, right);
            missing.extend(left);
            unexpected.extend(right);
        }
        (missing, unexpected)
    }

    /// Pairs rows that are alike in their exact columns; gives back the ones left over.
    fn pair_up(&self, mut left: Rows<'a>, mut right: Rows<'a>) -> (Rows<'a>, Rows<'a>) {
        left.sort();
        right.sort();
        if left.len() == right.len() && left.iter().zip(&right).all(|(a, b)| self.same_row(a, b)) {
            return (Vec::new(), Vec::new());
        }
        if left.len().max(right.len()) > PAIRING_LIMIT {
            return self.merge_leftovers(left, right);
        }
        let partner_of_right = self.maximum_pairing(&left, &right);
        let paired_left: Vec<usize> = partner_of_right.iter().flatten().copied().collect();
        let left = left.iter().enumerate().filter(|(i, _)| !paired_left.contains(i)).map(|(_, row)| *row).collect();
        let right =
            right.iter().zip(&partner_of_right).filter(|(_, partner)| partner.is_none()).map(|(row, _)| *row).collect();
        (left, right)
    }

    /// One pass over two sorted groups; may report a pair that another pairing would join, never the
    /// reverse.
    fn merge_leftovers(&self, left: Rows<'a>, right: Rows<'a>) -> (Rows<'a>, Rows<'a>) {
        let (mut missing, mut unexpected) = (Vec::new(), Vec::new());
        let (mut i, mut j) = (0, 0);
        while i < left.len() && j < right.len() {
            if self.same_row(left[i], right[j]) {
                i += 1;
                j += 1;
            } else if left[i] <= right[j] {
                missing.push(left[i]);
                i += 1;
            } else {
                unexpected.push(right[j]);
                j += 1;
            }
        }
        missing.extend(&left[i..]);
        unexpected.extend(&right[j..]);
        (missing, unexpected)
    }

    /// A largest set of disjoint pairs (augmenting paths), as the left partner of each right row: with
    /// a tolerance, sorting alone can pair neighbours the wrong way round.
    fn maximum_pairing(&self, left: &Rows<'a>, right: &Rows<'a>) -> Vec<Option<usize>> {
        let candidates: Vec<Vec<usize>> =
            left.iter().map(|row| (0..right.len()).filter(|j| self.same_row(row, right[*j])).collect()).collect();
        let mut partner = vec![None; right.len()];
        for i in 0..left.len() {
            let mut visited = vec![false; right.len()];
            augment(i, &candidates, &mut partner, &mut visited);
        }
        partner
    }

    /// As [`Rules::unmatched`] for the rows at a limit's cut, of which only the number is decided: all
    /// of them have the same sort keys.
    fn unmatched_keys(&self, expected: &Rows<'a>, actual: &Rows<'a>) -> (Rows<'a>, Rows<'a>) {
        let common = expected.len().min(actual.len());
        (expected[common..].to_vec(), actual[common..].to_vec())
    }
}

fn augment(left: usize, candidates: &[Vec<usize>], partner: &mut [Option<usize>], visited: &mut [bool]) -> bool {
    for &right in &candidates[left] {
        if std::mem::replace(&mut visited[right], true) {
            continue;
        }
        let free = match partner[right] {
            None => true,
            Some(other) => augment(other, candidates, partner, visited),
        };
        if free {
            partner[right] = Some(left);
            return true;
        }
    }
    false
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
