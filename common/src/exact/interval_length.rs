//! How long an interval is, to compare it with others.
use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Decimal128Array},
    compute::cast,
    datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit},
};
use datafusion::{
    common::{Result, plan_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

const DAY: i128 = 24 * 3_600 * 1_000_000_000;
const MONTH: i128 = 30 * DAY;

/// The function: the nanoseconds of an interval or a duration, with 30 days for a month and 24 hours for a day.
#[must_use]
pub fn interval_length() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(IntervalLength { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalLength {
    signature: Signature,
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "ancho_interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args {
            // The widest length has 25 digits.
            [DataType::Interval(_) | DataType::Duration(_)] => Ok(DataType::Decimal128(26, 0)),
            other => plan_err!("ancho_interval_length takes one interval, not {other:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [interval] = args.args.as_slice() else { return plan_err!("ancho_interval_length takes one interval") };
        let intervals = interval.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(lengths(&intervals)?))
    }
}

fn lengths(intervals: &ArrayRef) -> Result<ArrayRef> {
    let intervals = cast(intervals, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let lengths: Decimal128Array = intervals
        .iter()
        .map(|interval| {
            let interval = interval?;
            let (months, days) = (i128::from(interval.months), i128::from(interval.days));
            Some(months * MONTH + days * DAY + i128::from(interval.nanoseconds))
        })
        .collect();
    Ok(Arc::new(lengths.with_precision_and_scale(26, 0)?))
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{DurationSecondArray, IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray},
        datatypes::{Decimal128Type, IntervalDayTime, IntervalMonthDayNano},
    };

    use super::*;

    #[test]
    fn intervals_of_all_kinds_have_a_length() {
        let values = |intervals: ArrayRef| -> Vec<Option<i128>> {
            lengths(&intervals).unwrap().as_primitive::<Decimal128Type>().iter().collect()
        };
        let intervals = IntervalMonthDayNanoArray::from(vec![
            Some(IntervalMonthDayNano::new(1, -30, 5)),
            None,
            Some(IntervalMonthDayNano::new(0, 1, -24 * 3_600_000_000_000)),
            Some(IntervalMonthDayNano::new(i32::MIN, i32::MIN, i64::MIN)),
        ]);
        let least = i128::from(i32::MIN) * (MONTH + DAY) + i128::from(i64::MIN);
        assert_eq!(values(Arc::new(intervals)), [Some(5), None, Some(0), Some(least)]);
        assert_eq!(values(Arc::new(IntervalYearMonthArray::from(vec![12]))), [Some(360 * DAY)]);
        let day = IntervalDayTime::new(1, 1);
        assert_eq!(values(Arc::new(IntervalDayTimeArray::from(vec![day]))), [Some(DAY + 1_000_000)]);
        assert_eq!(values(Arc::new(DurationSecondArray::from(vec![86_400]))), [Some(DAY)]);
    }
}
