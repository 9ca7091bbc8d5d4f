//! `assert(condition [, message])`: a statement, or a transaction, that goes on only if something holds.
use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, BooleanArray},
    compute::cast,
    datatypes::DataType,
};
use datafusion::{
    common::{Result, plan_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};

use crate::error::Error;

/// What stands for a message that was not given.
const NO_MESSAGE: &str = "gate expression was false or NULL";

/// The function: TRUE for every row, or an error if the condition is FALSE or NULL for one of them.
#[must_use]
pub fn assert() -> Arc<ScalarUDF> {
    let forms = vec![
        TypeSignature::Exact(vec![DataType::Boolean]),
        TypeSignature::Exact(vec![DataType::Boolean, DataType::Utf8]),
    ];
    // Volatile: it must be neither left out nor computed for other rows than those that it is written for.
    Arc::new(ScalarUDF::from(Assert { signature: Signature::one_of(forms, Volatility::Volatile) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Assert {
    signature: Signature,
}

impl ScalarUDFImpl for Assert {
    fn name(&self) -> &'static str {
        "assert"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        let Some((condition, message)) = arrays.split_first() else {
            return plan_err!("assert takes a condition");
        };
        let Some(condition) = condition.as_boolean_opt() else {
            return plan_err!("assert takes a condition");
        };
        if let Some(row) = (0..condition.len()).find(|row| !condition.is_valid(*row) || !condition.value(*row)) {
            let text = match message.first() {
                None => None,
                Some(message) => {
                    let texts = cast(message, &DataType::Utf8)?;
                    let texts = texts.as_string::<i32>();
                    texts.is_valid(row).then(|| texts.value(row).to_owned())
                }
            };
            let text = text.as_deref().unwrap_or(NO_MESSAGE);
            return Err(Error::invalid(format!("assertion failed: {text}")).into());
        }
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(vec![true; args.number_rows]))))
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{ArrayRef, StringArray},
        datatypes::Field,
    };
    use datafusion::config::ConfigOptions;

    use super::*;

    fn evaluate(conditions: &[Option<bool>], messages: Option<&[Option<&str>]>) -> Result<ArrayRef> {
        let number_rows = conditions.len();
        let mut args = vec![ColumnarValue::Array(Arc::new(BooleanArray::from(conditions.to_vec())))];
        args.extend(messages.map(|m| ColumnarValue::Array(Arc::new(StringArray::from(m.to_vec())))));
        let arg_fields = args.iter().map(|a| Arc::new(Field::new("a", a.data_type(), true))).collect();
        let return_field = Arc::new(Field::new("v", DataType::Boolean, false));
        let config_options = Arc::new(ConfigOptions::default());
        let args = ScalarFunctionArgs { args, arg_fields, number_rows, return_field, config_options };
        assert().invoke_with_args(args)?.into_array(number_rows)
    }

    #[test]
    fn what_does_not_hold_is_an_error_with_its_message() {
        assert_eq!(evaluate(&[Some(true), Some(true)], None).unwrap().as_boolean().true_count(), 2);
        assert_eq!(evaluate(&[], None).unwrap().len(), 0);
        let message = |outcome: Result<ArrayRef>| Error::from(outcome.unwrap_err()).message;
        for wrong in [Some(false), None] {
            let plain = message(evaluate(&[Some(true), wrong], None));
            assert_eq!(plain, "assertion failed: gate expression was false or NULL");
            let told = message(evaluate(&[Some(true), wrong], Some(&[Some("a"), Some("too little")])));
            assert_eq!(told, "assertion failed: too little");
            assert_eq!(message(evaluate(&[wrong], Some(&[None]))), plain);
        }
    }
}
