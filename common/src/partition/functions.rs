//! SQL functions for partition expressions: `bucket(n, value)` and the calendar parts `year`, `month`, `day`, `hour`.
//!
//! Every process that plans or runs queries registers them, so they work in any statement.
use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    compute::{DatePart, date_part},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};

use super::hash;

/// The functions, to register in a session.
#[must_use]
pub fn all() -> Vec<Arc<ScalarUDF>> {
    let mut functions = vec![Arc::new(ScalarUDF::from(Bucket::new()))];
    for name in ["year", "month", "day", "hour"] {
        functions.push(Arc::new(ScalarUDF::from(CalendarPart::new(name))));
    }
    functions
}

/// `bucket(n, value)`: the bucket `0..n` of a value under the newest stable hash.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    signature: Signature,
}

impl Bucket {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Bucket {
    fn name(&self) -> &'static str {
        "bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args {
            [n, value] if n.is_integer() && (hash::is_hashable(value) || value.is_null()) => Ok(DataType::Int32),
            [n, _] if !n.is_integer() => plan_err!("bucket(n, value): n must be an integer, not {n}"),
            [_, value] if value.is_floating() => plan_err!(
                "bucket(n, value): values of type {value} cannot be bucketed, since equal numbers of that kind have several forms; \
                 use another column"
            ),
            [_, value] => plan_err!("bucket(n, value): values of type {value} cannot be bucketed"),
            _ => plan_err!("bucket takes two arguments: the number of buckets and the value"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [n, value] = args.args.as_slice() else {
            return plan_err!("bucket takes two arguments: the number of buckets and the value");
        };
        let ColumnarValue::Scalar(n) = n else {
            return plan_err!("bucket(n, value): n must be a constant");
        };
        let n = n.cast_to(&DataType::Int64)?;
        let count = match n {
            ScalarValue::Int64(Some(n)) => u32::try_from(n).ok().filter(|n| (1..=hash::MAX_BUCKETS).contains(n)),
            _ => None,
        };
        let Some(count) = count else {
            return plan_err!("bucket(n, value): n must be between 1 and {}, not {n}", hash::MAX_BUCKETS);
        };
        let scalar = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(args.number_rows)?;
        if values.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Int32(Some(0))));
        }
        let buckets = hash::buckets(hash::HASH_VERSION, &values, count)?;
        if scalar && !buckets.values().is_empty() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Int32(Some(buckets.value(0)))));
        }
        Ok(ColumnarValue::Array(Arc::new(buckets)))
    }
}

/// `year(date)` and its kin: one part of a date or timestamp, as an integer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CalendarPart {
    name: &'static str,
    signature: Signature,
}

impl CalendarPart {
    fn new(name: &'static str) -> Self {
        Self { name, signature: Signature::new(TypeSignature::Any(1), Volatility::Immutable) }
    }

    fn part(&self) -> DatePart {
        match self.name {
            "year" => DatePart::Year,
            "month" => DatePart::Month,
            "day" => DatePart::Day,
            _ => DatePart::Hour,
        }
    }
}

impl ScalarUDFImpl for CalendarPart {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args {
            [t] if t.is_temporal() && !matches!(t, DataType::Duration(_)) || t.is_null() => Ok(DataType::Int32),
            [t] => plan_err!("{}(value): value must be a date or timestamp, not {t}", self.name),
            _ => plan_err!("{} takes one argument", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.first() else {
            return plan_err!("{} takes one argument", self.name);
        };
        let scalar = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(if scalar { 1 } else { args.number_rows })?;
        if values.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Int32(None)));
        }
        let parts: ArrayRef = date_part(&values, self.part())?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&parts, 0)?));
        }
        Ok(ColumnarValue::Array(parts))
    }
}
