//! `sum` that refuses to answer when a decimal total does not fit.
//!
//! The engine's own `sum` adds 128-bit integers with wrap-around, so a total beyond 38 digits comes out as some other
//! number. This one is the engine's for every other type; for decimals of the widest precision it notices.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Decimal128Array},
    datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, FieldRef},
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
        utils::AggregateOrderSensitivity,
    },
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

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

/// Narrower totals have room for more rows than can be stored.
fn can_overflow(args: &AccumulatorArgs<'_>) -> bool {
    !args.is_distinct
        && matches!(args.return_field.data_type(), DataType::Decimal128(p, _) if *p == DECIMAL128_MAX_PRECISION)
}

fn overflow() -> DataFusionError {
    Error::invalid(
        "sum: the total does not fit a decimal of 38 digits; cast the values to double or to a smaller scale",
    )
    .into()
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
        if can_overflow(&args) {
            return Ok(Box::new(DecimalTotal::new(args.return_field.data_type())));
        }
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if can_overflow(&args) {
            return Ok(Box::new(DecimalTotal::new(args.return_field.data_type())));
        }
        self.inner.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if can_overflow(&args) {
            return Ok(Box::new(DecimalGroups::new(args.return_field.data_type())));
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
        self.inner.value_from_stats(args)
    }
}

/// One total, also for sliding windows. A window's total may pass through values that do not fit, so the running value
/// is kept as a high and a low part.
#[derive(Debug)]
struct DecimalTotal {
    scale: i8,
    /// `total = wraps * 2^128 + low`.
    low: i128,
    wraps: i64,
    count: i64,
}

impl DecimalTotal {
    fn new(data_type: &DataType) -> Self {
        let scale = if let DataType::Decimal128(_, s) = data_type { *s } else { 0 };
        Self { scale, low: 0, wraps: 0, count: 0 }
    }

    fn add(&mut self, value: i128) {
        let (sum, wrapped) = self.low.overflowing_add(value);
        self.low = sum;
        if wrapped {
            self.wraps += if value < 0 { -1 } else { 1 };
        }
    }

    fn subtract(&mut self, value: i128) {
        let (difference, wrapped) = self.low.overflowing_sub(value);
        self.low = difference;
        if wrapped {
            self.wraps += if value < 0 { 1 } else { -1 };
        }
    }

    fn total(&self) -> Result<ScalarValue> {
        let value = if self.count == 0 { None } else { Some(self.fitting()?) };
        Ok(ScalarValue::Decimal128(value, DECIMAL128_MAX_PRECISION, self.scale))
    }

    fn fitting(&self) -> Result<i128> {
        if self.wraps != 0 || !fits(self.low) { Err(overflow()) } else { Ok(self.low) }
    }
}

/// Largest magnitude of 38 digits.
const LIMIT: i128 = 10_i128.pow(38);

fn fits(value: i128) -> bool {
    -LIMIT < value && value < LIMIT
}

impl Accumulator for DecimalTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Decimal128Type>().iter().flatten() {
            self.add(value);
            self.count += 1;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Decimal128Type>().iter().flatten() {
            self.subtract(value);
            self.count -= 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.total()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.total()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

type Adder = Box<dyn Fn(&mut i128, i128) + Send + Sync>;

/// Totals of many groups: the engine's accumulator with an addition that reports what does not fit.
struct DecimalGroups {
    inner: PrimitiveGroupsAccumulator<Decimal128Type, Adder>,
    overflowed: Arc<AtomicBool>,
}

impl DecimalGroups {
    fn new(data_type: &DataType) -> Self {
        let overflowed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&overflowed);
        let add: Adder = Box::new(move |total, value| {
            let (sum, wrapped) = total.overflowing_add(value);
            if wrapped {
                flag.store(true, Ordering::Relaxed);
            }
            *total = sum;
        });
        Self { inner: PrimitiveGroupsAccumulator::new(data_type, add), overflowed }
    }

    fn checked(&self) -> Result<()> {
        if self.overflowed.load(Ordering::Relaxed) { Err(overflow()) } else { Ok(()) }
    }
}

fn all_fit(array: &ArrayRef) -> Result<()> {
    let decimals: &Decimal128Array = array.as_primitive::<Decimal128Type>();
    let bad = decimals.iter().flatten().any(|v| !fits(v));
    if bad { Err(overflow()) } else { Ok(()) }
}

impl GroupsAccumulator for DecimalGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, group_indices, filter, groups)?;
        self.checked()
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, groups)?;
        self.checked()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = self.inner.evaluate(emit_to)?;
        all_fit(&totals)?;
        Ok(totals)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.inner.state(emit_to)?;
        states.iter().try_for_each(all_fit)?;
        Ok(states)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimals(values: &[i128]) -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, 0).unwrap())
    }

    #[test]
    fn a_total_beyond_38_digits_is_an_error_and_never_another_number() {
        let nine = 9 * 10_i128.pow(37);
        let data_type = DataType::Decimal128(38, 0);
        let mut total = DecimalTotal::new(&data_type);
        total.update_batch(&[decimals(&[nine; 10])]).unwrap();
        assert!(total.evaluate().is_err());
        // A sliding window that comes back into range has a value again.
        total.retract_batch(&[decimals(&[nine; 9])]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Decimal128(Some(nine), 38, 0));
        total.retract_batch(&[decimals(&[nine])]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Decimal128(None, 38, 0));

        let mut groups = DecimalGroups::new(&data_type);
        groups.update_batch(&[decimals(&[1, nine, 2])], &[0, 1, 0], None, 2).unwrap();
        assert!(groups.update_batch(&[decimals(&[nine, nine])], &[1, 1], None, 2).is_err());
        let mut groups = DecimalGroups::new(&data_type);
        groups.update_batch(&[decimals(&[nine, 10_i128.pow(37)])], &[0, 0], None, 1).unwrap();
        assert!(groups.evaluate(EmitTo::All).is_err(), "10^38 has 39 digits");
    }
}
