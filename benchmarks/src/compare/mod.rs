//! Comparison of two query results under the rules of SQL rather than of bytes.
//!
//! Two engines may give the same answer in other Arrow types, in another order of rows that no
//! `ORDER BY` decides, and with averages that differ in the last digit. [`RowSet`] removes what is
//! only representation; [`diff`] compares what is left and, when it differs, shows the first rows
//! that only one side has.
//!
//! The rules:
//! * rows are a multiset; the order counts only through [`DiffOptions::order`], which is checked on
//!   the actual rows, so that ties may come in any order;
//! * integers and decimals are equal when their numeric values are, whatever their width and scale;
//! * a column that holds floats on either side, or that [`DiffOptions::approximate`] names, is compared
//!   with a tolerance: the largest of [`DiffOptions::relative`] × magnitude, [`DiffOptions::absolute`],
//!   and one unit of the last digit that the coarser side keeps;
//! * NaN equals NaN; `-0.0` equals `0.0` unless [`DiffOptions::signed_zero`] is set;
//! * strings, binaries, dictionaries, run-end encodings and list layouts are equal to one another when
//!   their values are; timestamps are equal when they name the same instant, whatever their unit.

mod diff;
mod rowset;
mod value;

pub use diff::{DiffOptions, Mismatch, SortKey, diff, diff_with};
pub use rowset::{Column, RowSet};
pub use value::{Number, Value};
