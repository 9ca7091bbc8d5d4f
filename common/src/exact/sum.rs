//! `sum` that refuses to answer when the total does not fit its type.
//!
//! The engine's own `sum` wraps around. This one is the engine's for floats and narrow decimals, whose totals have room
//! for more rows than can be stored; integers, durations and decimals of 38 digits are added in 128 bits. Partial totals
//! travel in that width, too, so only the total of all rows is held to the type: whether a sum succeeds depends neither
//! on the order of rows nor on how many tasks add them.
use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, PrimitiveArray},
    buffer::NullBuffer,
    compute::{CastOptions, cast_with_options},
    datatypes::{
        DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DurationMicrosecondType, DurationMillisecondType,
        DurationNanosecondType, DurationSecondType, Field, FieldRef, Int64Type, TimeUnit, UInt64Type,
    },
};
use datafusion::{
    common::ScalarValue,
    error::{DataFusionError, Result},
    functions_aggregate::sum::Sum,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Operator, ReversedUDAF,
        SetMonotonicity, Signature, StatisticsArgs,
        expr::AggregateFunction,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::NullState;

use super::operators::sql_name;
use crate::error::Error;

/// The function, to register in a session in place of the engine's.
#[must_use]
pub fn checked_sum() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(CheckedSum::default()))
}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct CheckedSum {
    inner: Sum,
}

/// Totals of this type are added here.
fn can_overflow(total: &DataType) -> bool {
    match total {
        DataType::Int64 | DataType::UInt64 | DataType::Duration(_) => true,
        DataType::Decimal128(precision, _) => *precision == DECIMAL128_MAX_PRECISION,
        _ => false,
    }
}

fn out_of_range(total: &DataType) -> DataFusionError {
    let advice = match total {
        DataType::Decimal128(..) => "cast the values to DOUBLE or to a smaller scale",
        DataType::Duration(_) => "cast the values to a coarser unit",
        _ => "cast the values to DECIMAL(38, 0) or DOUBLE",
    };
    Error::out_of_range(format!("sum: the total does not fit type {}; {advice}", sql_name(total))).into()
}

/// The type that partial totals travel in.
fn state_type(total: &DataType) -> DataType {
    let scale = if let DataType::Decimal128(_, scale) = total { *scale } else { 0 };
    DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let total = args.return_field.data_type().clone();
        match (can_overflow(&total), args.is_distinct) {
            (true, false) => Ok(Box::new(ExactTotal::new(total))),
            (true, true) => Ok(Box::new(DistinctTotal { inner: self.inner.accumulator(args)?, total })),
            (false, _) => self.inner.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let total = args.return_field.data_type().clone();
        match (can_overflow(&total), args.is_distinct) {
            (true, false) => Ok(Box::new(ExactTotal::new(total))),
            (true, true) => Ok(Box::new(DistinctTotal { inner: self.inner.create_sliding_accumulator(args)?, total })),
            (false, _) => self.inner.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let total = args.return_field.data_type();
        if args.is_distinct || !can_overflow(total) {
            return self.inner.state_fields(args);
        }
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sum"), state_type(total), true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let total = args.return_field.data_type();
        if can_overflow(total) {
            return Ok(Box::new(ExactGroups::new(total.clone())));
        }
        self.inner.create_groups_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.set_monotonicity(data_type)
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        arg: &Expr,
        op: Operator,
        literal: &Expr,
        arg_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.inner.simplify_expr_op_literal(function, arg, op, literal, arg_is_left)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        // A sum of sums of files is the engine's, which wraps.
        if can_overflow(args.return_type) { None } else { self.inner.value_from_stats(args) }
    }
}

/// Calls `$function::<T>($arguments)` with the Arrow type of a column of values or of partial totals.
macro_rules! with_type {
    ($data_type:expr, $function:ident($($argument:expr),*)) => {
        match $data_type {
            DataType::Int64 => $function::<Int64Type>($($argument),*),
            DataType::UInt64 => $function::<UInt64Type>($($argument),*),
            DataType::Decimal128(..) => $function::<Decimal128Type>($($argument),*),
            DataType::Duration(TimeUnit::Second) => $function::<DurationSecondType>($($argument),*),
            DataType::Duration(TimeUnit::Millisecond) => $function::<DurationMillisecondType>($($argument),*),
            DataType::Duration(TimeUnit::Microsecond) => $function::<DurationMicrosecondType>($($argument),*),
            DataType::Duration(TimeUnit::Nanosecond) => $function::<DurationNanosecondType>($($argument),*),
            other => Err(Error::internal(format!("sum of {other}")).into()),
        }
    };
}

/// One total, also for sliding windows. A window's total may pass through values that do not fit, so what is carried
/// out of 128 bits is kept.
#[derive(Debug)]
struct ExactTotal {
    data_type: DataType,
    /// `total = wraps * 2^128 + low`.
    low: i128,
    wraps: i64,
    count: i64,
}

impl ExactTotal {
    fn new(data_type: DataType) -> Self {
        Self { data_type, low: 0, wraps: 0, count: 0 }
    }

    fn add(&mut self, value: i128) {
        let (sum, wrapped) = self.low.overflowing_add(value);
        self.low = sum;
        if wrapped {
            self.wraps += if value < 0 { -1 } else { 1 };
        }
        self.count += 1;
    }

    fn subtract(&mut self, value: i128) {
        let (difference, wrapped) = self.low.overflowing_sub(value);
        self.low = difference;
        if wrapped {
            self.wraps += if value < 0 { 1 } else { -1 };
        }
        self.count -= 1;
    }

    fn partial(&self) -> Result<ScalarValue> {
        let value = match self.count {
            0 => None,
            _ if self.wraps == 0 && is_decimal(self.low) => Some(self.low),
            _ => return Err(out_of_range(&self.data_type)),
        };
        let state = state_type(&self.data_type);
        ScalarValue::new_primitive::<Decimal128Type>(value, &state)
    }
}

fn add_all<T: ArrowPrimitiveType>(total: &mut ExactTotal, values: &ArrayRef) -> Result<()>
where
    T::Native: Into<i128>,
{
    let values = values.as_primitive::<T>();
    if values.null_count() == 0 {
        values.values().iter().for_each(|v| total.add((*v).into()));
    } else {
        values.iter().flatten().for_each(|v| total.add(v.into()));
    }
    Ok(())
}

fn subtract_all<T: ArrowPrimitiveType>(total: &mut ExactTotal, values: &ArrayRef) -> Result<()>
where
    T::Native: Into<i128>,
{
    values.as_primitive::<T>().iter().flatten().for_each(|v| total.subtract(v.into()));
    Ok(())
}

/// At most 38 digits.
fn is_decimal(value: i128) -> bool {
    const LIMIT: i128 = 10_i128.pow(38);
    -LIMIT < value && value < LIMIT
}

impl Accumulator for ExactTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        with_type!(values[0].data_type(), add_all(self, &values[0]))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        with_type!(values[0].data_type(), subtract_all(self, &values[0]))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = fitted(&self.partial()?.to_array()?, &self.data_type)?;
        ScalarValue::try_from_array(&total, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.partial()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// `sum(DISTINCT x)`: the engine gathers the distinct values, which are added here.
#[derive(Debug)]
struct DistinctTotal {
    inner: Box<dyn Accumulator>,
    total: DataType,
}

impl Accumulator for DistinctTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut exact = ExactTotal::new(self.total.clone());
        for distinct in self.inner.state()? {
            let ScalarValue::List(list) = distinct else {
                return Err(Error::internal("the state of a distinct sum is no list").into());
            };
            for values in list.iter().flatten() {
                exact.update_batch(&[values])?;
            }
        }
        exact.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// Totals of many groups.
struct ExactGroups {
    data_type: DataType,
    totals: Vec<i128>,
    nulls: NullState,
    /// A decimal total did not fit 128 bits.
    overflowed: bool,
}

impl ExactGroups {
    fn new(data_type: DataType) -> Self {
        Self { data_type, totals: Vec::new(), nulls: NullState::new(), overflowed: false }
    }

    fn partial(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        let nulls = self.nulls.build(emit_to);
        if !totals.iter().all(|total| is_decimal(*total)) {
            return Err(out_of_range(&self.data_type));
        }
        let totals = Decimal128Array::new(totals.into(), nulls).with_data_type(state_type(&self.data_type));
        Ok(Arc::new(totals))
    }
}

fn add_to_groups<T: ArrowPrimitiveType + Send>(
    groups: &mut ExactGroups,
    values: &ArrayRef,
    group_indices: &[usize],
    filter: Option<&BooleanArray>,
    group_count: usize,
) -> Result<()>
where
    T::Native: Into<i128>,
{
    let ExactGroups { totals, nulls, overflowed, .. } = groups;
    totals.resize(group_count, 0);
    nulls.accumulate(group_indices, values.as_primitive::<T>(), filter, group_count, |group, value| {
        let (sum, wrapped) = totals[group].overflowing_add(value.into());
        totals[group] = sum;
        *overflowed |= wrapped;
    });
    if groups.overflowed { Err(out_of_range(&groups.data_type)) } else { Ok(()) }
}

/// Each value as a partial total of its own, NULL where the filter leaves it out.
fn as_partial<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    filter: Option<&BooleanArray>,
    data_type: DataType,
) -> Result<Vec<ArrayRef>>
where
    T::Native: Into<i128>,
{
    let values: &PrimitiveArray<T> = values.as_primitive();
    let kept = filter.map(|f| match f.nulls() {
        Some(nulls) => NullBuffer::new(nulls.inner() & f.values()),
        None => NullBuffer::new(f.values().clone()),
    });
    let wide: PrimitiveArray<Decimal128Type> = values.unary(Into::into);
    let (_, totals, nulls) = wide.into_parts();
    let totals = Decimal128Array::new(totals, NullBuffer::union(nulls.as_ref(), kept.as_ref()));
    Ok(vec![Arc::new(totals.with_data_type(data_type))])
}

/// Totals in their own type, if they all fit.
fn fitted(totals: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if totals.data_type() == data_type {
        return Ok(Arc::clone(totals));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let integers = if matches!(data_type, DataType::Duration(_)) { &DataType::Int64 } else { data_type };
    let fitting = cast_with_options(totals, integers, &strict).map_err(|_| out_of_range(data_type))?;
    Ok(cast_with_options(&fitting, data_type, &strict)?)
}

impl GroupsAccumulator for ExactGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        with_type!(values[0].data_type(), add_to_groups(self, &values[0], group_indices, filter, group_count))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], group_count: usize) -> Result<()> {
        self.update_batch(values, group_indices, None, group_count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        fitted(&self.partial(emit_to)?, &self.data_type)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.partial(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        with_type!(values[0].data_type(), as_partial(&values[0], filter, state_type(&self.data_type)))
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<i128>() + self.nulls.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, UInt64Array};

    use super::*;
    use crate::error::ErrorKind;

    const NINE: i128 = 9 * 10_i128.pow(37);

    fn decimals(values: &[i128]) -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, 0).unwrap())
    }

    /// A type, its largest value, its smallest (for a sum that has to come back), and arrays of it.
    fn kinds() -> Vec<(DataType, ArrayRef, ArrayRef)> {
        let nanos = DataType::Duration(TimeUnit::Nanosecond);
        let longs = |v: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![v])) };
        vec![
            (DataType::Int64, longs(i64::MAX), longs(-i64::MAX)),
            (DataType::UInt64, Arc::new(UInt64Array::from(vec![u64::MAX])), Arc::new(UInt64Array::from(vec![0]))),
            (
                nanos.clone(),
                arrow::compute::cast(&longs(i64::MAX), &nanos).unwrap(),
                arrow::compute::cast(&longs(-i64::MAX), &nanos).unwrap(),
            ),
            (DataType::Decimal128(38, 0), decimals(&[10_i128.pow(38) - 1]), decimals(&[1 - 10_i128.pow(38)])),
        ]
    }

    #[test]
    fn a_total_that_does_not_fit_is_an_error_and_never_another_number() {
        for (data_type, largest, opposite) in kinds() {
            let largest_value = ScalarValue::try_from_array(&largest, 0).unwrap();
            let mut total = ExactTotal::new(data_type.clone());
            total.update_batch(&[Arc::clone(&largest)]).unwrap();
            assert_eq!(total.evaluate().unwrap(), largest_value);
            total.update_batch(&[Arc::clone(&largest)]).unwrap();
            let error = Error::from(total.evaluate().unwrap_err());
            assert_eq!(error.kind, ErrorKind::OutOfRange, "{data_type}: {error}");
            // A sliding window that comes back into range has a value again, an empty one has none.
            total.retract_batch(&[Arc::clone(&largest)]).unwrap();
            assert_eq!(total.evaluate().unwrap(), largest_value);
            total.retract_batch(&[Arc::clone(&largest)]).unwrap();
            assert!(total.evaluate().unwrap().is_null());

            let mut groups = ExactGroups::new(data_type.clone());
            groups.update_batch(&[Arc::clone(&largest)], &[0], None, 2).unwrap();
            let state = groups.convert_to_state(&[Arc::clone(&largest)], None).unwrap();
            groups.merge_batch(&state, &[0], 2).unwrap_or(());
            groups.update_batch(&[opposite], &[1], None, 2).unwrap_or(());
            assert!(groups.evaluate(EmitTo::All).is_err(), "{data_type}");
        }
    }

    #[test]
    fn the_way_through_partial_totals_does_not_decide_whether_an_integer_sum_fits() {
        let longs = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let (up, down) = ([i64::MAX, i64::MAX], [i64::MIN, i64::MIN]);
        let mut total = ExactTotal::new(DataType::Int64);
        let mut groups = ExactGroups::new(DataType::Int64);
        for values in [up, down] {
            let mut part = ExactTotal::new(DataType::Int64);
            part.update_batch(&[longs(&values)]).unwrap();
            total.merge_batch(&[part.state().unwrap()[0].to_array().unwrap()]).unwrap();
            let mut part = ExactGroups::new(DataType::Int64);
            part.update_batch(&[longs(&values)], &[0, 0], None, 1).unwrap();
            groups.merge_batch(&part.state(EmitTo::All).unwrap(), &[0], 1).unwrap();
        }
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(Some(-2)));
        assert_eq!(groups.evaluate(EmitTo::All).unwrap().as_primitive::<Int64Type>().value(0), -2);
    }

    #[test]
    fn a_total_of_39_digits_is_refused_also_where_128_bits_hold_it() {
        let mut groups = ExactGroups::new(DataType::Decimal128(38, 0));
        groups.update_batch(&[decimals(&[NINE, 10_i128.pow(37)])], &[0, 0], None, 1).unwrap();
        assert!(groups.evaluate(EmitTo::All).is_err());
    }

    #[test]
    fn a_filtered_or_missing_value_is_no_partial_total() {
        let groups = ExactGroups::new(DataType::Int64);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4)]));
        let filter = BooleanArray::from(vec![Some(true), Some(false), Some(true), None]);
        let state = groups.convert_to_state(&[values], Some(&filter)).unwrap();
        assert_eq!(state[0].logical_nulls().unwrap().iter().collect::<Vec<_>>(), [true, false, false, false]);
    }
}
