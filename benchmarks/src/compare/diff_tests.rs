//! Tests of the comparison: it accepts what SQL calls equal, and fails when it must.
use super::*;
use arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array, ListArray, StringArray,
    StringViewArray, StructArray, TimestampMicrosecondArray, TimestampSecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

fn set(columns: Vec<(&str, ArrayRef)>) -> RowSet {
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    RowSet::from_batches(&[batch]).expect("known types")
}

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn decimals(values: &[i128], scale: i8) -> ArrayRef {
    let array = Decimal128Array::from(values.to_vec());
    Arc::new(array.with_precision_and_scale(38, scale).expect("a valid scale"))
}

fn ordered(order: Vec<SortKey>) -> DiffOptions {
    DiffOptions { order, ..DiffOptions::default() }
}

#[test]
fn rows_are_a_multiset() {
    let a = set(vec![("a", ints(&[1, 2, 2]))]);
    assert_eq!(diff(&a, &set(vec![("a", ints(&[2, 1, 2]))])), Ok(()));
    let error = diff(&a, &set(vec![("a", ints(&[1, 1, 2]))])).expect_err("a doubled row");
    assert_eq!(error.missing, ["2"]);
    assert_eq!(error.unexpected, ["1"]);
    let error = diff(&a, &set(vec![("a", ints(&[1, 2]))])).expect_err("a lost row");
    assert_eq!(error.missing, ["2"]);
    assert!(error.unexpected.is_empty());
    let nothing = RowSet::default();
    assert!(diff(&a, &nothing).is_err(), "an empty answer is not three rows");
    assert!(diff(&nothing, &a).is_err());
    assert_eq!(diff(&nothing, &nothing), Ok(()));
}

#[test]
fn columns_are_counted() {
    let one = set(vec![("a", ints(&[]))]);
    let two = set(vec![("a", ints(&[])), ("b", ints(&[]))]);
    assert!(diff(&one, &two).is_err());
    assert_eq!(diff(&one, &RowSet::default()), Ok(()));
}

#[test]
fn the_representation_does_not_matter() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let view: ArrayRef = Arc::new(StringViewArray::from(vec![Some("x"), None]));
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
    let dictionary: ArrayRef = Arc::new(dictionary);
    for other in [view, dictionary] {
        assert_eq!(diff(&set(vec![("a", text.clone())]), &set(vec![("b", other)])), Ok(()));
    }
    assert_eq!(diff(&set(vec![("a", ints(&[5, -7]))]), &set(vec![("a", decimals(&[500, -700], 2))])), Ok(()));
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![86_400]).with_timezone("UTC"));
    let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![86_400_000_000]).with_timezone("+02:00"));
    let local: ArrayRef = Arc::new(TimestampSecondArray::from(vec![86_400]));
    let seconds = set(vec![("a", seconds)]);
    assert_eq!(diff(&seconds, &set(vec![("a", micros)])), Ok(()));
    assert!(diff(&seconds, &set(vec![("a", local)])).is_err(), "no zone is no instant");
}

#[test]
fn a_number_is_not_its_text_and_null_is_not_empty() {
    let number = set(vec![("a", ints(&[1]))]);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
    assert!(diff(&number, &set(vec![("a", text)])).is_err());
    let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let empty: ArrayRef = Arc::new(StringArray::from(vec![""]));
    assert!(diff(&set(vec![("a", null)]), &set(vec![("a", empty)])).is_err());
}

#[test]
fn floats_have_a_tolerance_and_decimals_do_not() {
    let a = set(vec![("a", floats(&[1e9, f64::NAN, -0.0, f64::INFINITY]))]);
    let b = set(vec![("a", floats(&[f64::NAN, f64::INFINITY, 0.0, 1e9 + 0.5]))]);
    assert_eq!(diff(&a, &b), Ok(()));
    let signed = DiffOptions { signed_zero: true, ..DiffOptions::default() };
    assert!(diff_with(&a, &b, &signed).is_err());
    assert!(diff(&a, &set(vec![("a", floats(&[1e9 + 2.0, f64::NAN, 0.0, f64::INFINITY]))])).is_err());
    assert!(
        diff(
            &set(vec![("a", decimals(&[1_000_000_000_001], 3))]),
            &set(vec![("a", decimals(&[1_000_000_000_002], 3))])
        )
        .is_err()
    );
}

#[test]
fn an_average_may_differ_by_one_unit_of_the_coarser_side() {
    let exact = set(vec![("a", floats(&[25.575154611454693]))]);
    assert_eq!(diff(&exact, &set(vec![("a", decimals(&[25_575_154], 6))])), Ok(()));
    assert!(diff(&exact, &set(vec![("a", decimals(&[25_575_153], 6))])).is_err());
    let rounded = DiffOptions { approximate: vec![0], ..DiffOptions::default() };
    let (a, b) = (decimals(&[123_457], 3), decimals(&[123_456_789], 6));
    let (a, b) = (set(vec![("a", a)]), set(vec![("a", b)]));
    assert!(diff(&a, &b).is_err());
    assert_eq!(diff_with(&a, &b, &rounded), Ok(()));
}

#[test]
fn close_rows_find_their_partners() {
    // Sorted, the pairs are (1.0, 5) with (1.0 - ε, 9): only another pairing fits.
    let a = set(vec![("x", floats(&[1.0, 1.0 + 4e-10])), ("y", floats(&[5.0, 9.0]))]);
    let b = set(vec![("x", floats(&[1.0 + 2e-10, 1.0 - 2e-10])), ("y", floats(&[5.0, 9.0]))]);
    assert_eq!(diff(&a, &b), Ok(()));
    let c = set(vec![("x", floats(&[1.0, 1.0])), ("y", floats(&[5.0, 8.0]))]);
    let error = diff(&a, &c).expect_err("9 is not 8");
    assert_eq!((error.missing.len(), error.unexpected.len()), (1, 1));
}

#[test]
fn order_is_checked_as_far_as_it_is_decided() {
    let expected = set(vec![("k", ints(&[1, 1, 2])), ("v", ints(&[7, 8, 9]))]);
    let ties = set(vec![("k", ints(&[1, 1, 2])), ("v", ints(&[8, 7, 9]))]);
    let by_key = ordered(vec![SortKey::ascending(0)]);
    assert_eq!(diff_with(&expected, &ties, &by_key), Ok(()));
    let by_both = ordered(vec![SortKey::ascending(0), SortKey::ascending(1)]);
    assert!(diff_with(&expected, &ties, &by_both).is_err());
    let falling = ordered(vec![SortKey::descending(0)]);
    assert!(diff_with(&expected, &ties, &falling).is_err());
    let unknown = ordered(vec![SortKey::ascending(2)]);
    assert!(diff_with(&expected, &ties, &unknown).is_err());
}

#[test]
fn nulls_have_their_place_in_the_order() {
    let last: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let first: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(1)]));
    let (last, first) = (set(vec![("a", last)]), set(vec![("a", first)]));
    let ascending = ordered(vec![SortKey::ascending(0)]);
    let descending = ordered(vec![SortKey::descending(0)]);
    assert_eq!(diff_with(&first, &last, &ascending), Ok(()));
    assert!(diff_with(&first, &first, &ascending).is_err());
    assert_eq!(diff_with(&last, &first, &descending), Ok(()));
    assert!(diff_with(&last, &last, &descending).is_err());
}

#[test]
fn a_limit_among_ties_leaves_the_choice_open() {
    let expected = set(vec![("k", ints(&[1, 2, 2])), ("v", ints(&[7, 8, 9]))]);
    let other = set(vec![("k", ints(&[1, 2, 2])), ("v", ints(&[7, 10, 8]))]);
    let mut options = ordered(vec![SortKey::ascending(0)]);
    assert!(diff_with(&expected, &other, &options).is_err());
    options.limit = Some(3);
    assert_eq!(diff_with(&expected, &other, &options), Ok(()));
    let wrong_key = set(vec![("k", ints(&[1, 2, 3])), ("v", ints(&[7, 8, 9]))]);
    assert!(diff_with(&expected, &wrong_key, &options).is_err());
    let wrong_before = set(vec![("k", ints(&[1, 2, 2])), ("v", ints(&[6, 8, 9]))]);
    assert!(diff_with(&expected, &wrong_before, &options).is_err());
    options.limit = Some(10);
    assert!(diff_with(&expected, &other, &options).is_err(), "the limit did not cut");
}

#[test]
fn nested_values_are_compared_inside() {
    let list = |values: Vec<Option<i32>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(values), None]))
    };
    let a = set(vec![("l", list(vec![Some(1), None]))]);
    assert_eq!(diff(&a, &set(vec![("l", list(vec![Some(1), None]))])), Ok(()));
    let error = diff(&a, &set(vec![("l", list(vec![Some(1)]))])).expect_err("a shorter list");
    assert_eq!(error.missing, ["[1, NULL]"]);
    let pair = |x: f64| -> ArrayRef {
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("x", DataType::Float64, false)), floats(&[x]))]))
    };
    let one = set(vec![("s", pair(1.0))]);
    assert_eq!(diff(&one, &set(vec![("s", pair(1.0 + 1e-12))])), Ok(()));
    let error = diff(&one, &set(vec![("s", pair(2.0))])).expect_err("1 is not 2");
    assert_eq!(error.unexpected, ["{x: 2.0}"]);
}

#[test]
fn stored_text_takes_the_types_of_the_result() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8View, true),
        Field::new("sum", DataType::Decimal128(38, 4), true),
        Field::new("day", DataType::Date32, true),
    ]));
    let text = "name\tsum\tday\n12\t1.50\t1995-01-31\nNULL\tNULL\tNULL\n";
    let expected = RowSet::from_tsv(text, &schema).expect("readable text");
    let names: ArrayRef = Arc::new(StringArray::from(vec![None, Some("12")]));
    let days: ArrayRef = Arc::new(arrow::array::Date32Array::from(vec![None, Some(9161)]));
    let sums = Decimal128Array::from(vec![None, Some(15_000)]);
    let sums: ArrayRef = Arc::new(sums.with_precision_and_scale(38, 4).expect("a valid scale"));
    let actual = set(vec![("name", names), ("sum", sums), ("day", days)]);
    assert_eq!(diff(&expected, &actual), Ok(()));
    for wrong in ["name\tsum\nx\t1\n", "name\tsum\tday\nx\tabc\t1995-01-31\n", "name\tsum\tday\nx\t1\n"] {
        assert!(RowSet::from_tsv(wrong, &schema).is_err(), "{wrong:?}");
    }
}
