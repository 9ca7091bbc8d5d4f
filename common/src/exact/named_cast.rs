//! A cast that shows in the planner's names: `ancho_cast(CAST(a AS INT), 'INT')` is its first argument, and is called otherwise
//! than `a`. The optimizer takes it away.
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::internal_err,
    error::Result,
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};

/// Its name.
pub const NAME: &str = "ancho_cast";

/// The function.
#[must_use]
pub fn named_cast() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(NamedCast { signature: Signature::any(2, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [cast, _] => Ok(cast.clone()),
            _ => internal_err!("{NAME} takes a cast and its type"),
        }
    }

    fn simplify(&self, mut arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match arguments.len() {
            2 => ExprSimplifyResult::Simplified(arguments.swap_remove(0)),
            _ => ExprSimplifyResult::Original(arguments),
        })
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.len() {
            2 => Ok(arguments.args.swap_remove(0)),
            _ => internal_err!("{NAME} takes a cast and its type"),
        }
    }
}
