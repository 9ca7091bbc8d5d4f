//! The value of a scalar subquery from the list of its rows.
//!
//! A correlated subquery is run for all outer rows at once, as a join. How many rows it has for one of them is known
//! after the join only, which is where this function stands.
use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, UInt64Array},
    compute::take,
    datatypes::DataType,
};
use datafusion::{
    common::{Result, plan_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

use crate::error::{Condition, Error};

/// What a scalar subquery with several rows is refused with.
pub const TOO_MANY_ROWS: &str =
    "a scalar subquery returned several rows where at most one is allowed; add a condition, an aggregate or LIMIT 1";

/// The function: a list's only element, NULL for a list that is empty or NULL.
#[must_use]
pub fn only_value() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(OnlyValue { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        "only_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        match args {
            [DataType::List(item)] => Ok(item.data_type().clone()),
            other => plan_err!("only_value takes one list, not {other:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let Some(lists) = arrays.first().and_then(|array| array.as_list_opt::<i32>()) else {
            return plan_err!("only_value takes one list");
        };
        let mut positions = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            let count = if lists.is_null(row) { 0 } else { lists.value_length(row) };
            positions.push(match count {
                0 => None,
                1 => Some(lists.value_offsets()[row] as u64),
                _ => return Err(Error::invalid(TOO_MANY_ROWS).with(Condition::TooManyRows).into()),
            });
        }
        Ok(ColumnarValue::Array(take(lists.values(), &UInt64Array::from(positions), None)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{ArrayRef, Int64Array, ListArray},
        datatypes::{Field, Int64Type},
    };
    use datafusion::config::ConfigOptions;

    use super::*;

    fn evaluate(lists: Vec<Option<Vec<Option<i64>>>>) -> Result<ArrayRef> {
        let number_rows = lists.len();
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let arg_fields = vec![Arc::new(Field::new("l", lists.data_type().clone(), true))];
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(lists)],
            arg_fields,
            number_rows,
            return_field: Arc::new(Field::new("v", DataType::Int64, true)),
            config_options: Arc::new(ConfigOptions::default()),
        };
        only_value().invoke_with_args(args)?.into_array(number_rows)
    }

    #[test]
    fn one_row_is_a_value_none_is_null_and_more_are_an_error() {
        let values = evaluate(vec![Some(vec![Some(7)]), Some(vec![]), None, Some(vec![None]), Some(vec![Some(8)])]);
        let expected = Int64Array::from(vec![Some(7), None, None, None, Some(8)]);
        assert_eq!(values.unwrap().as_primitive::<Int64Type>(), &expected);
        let error = Error::from(evaluate(vec![Some(vec![Some(7)]), Some(vec![Some(7), Some(7)])]).unwrap_err());
        assert_eq!(error.message, TOO_MANY_ROWS);
    }
}
