//! A cast that shows in the planner's names: `ancho_cast(CAST(a AS INT), 'INT')` is its first argument, and is called otherwise
//! than `a`. The optimizer takes it away. With `'NULL'` for the type it says that a value may be NULL, and stays.
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::internal_err,
    error::Result,
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        expr::ScalarFunction,
        lit,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};

/// Its name.
pub const NAME: &str = "ancho_cast";

/// What stands for the type where the call says that its argument may be NULL, which the planner does not see. Such a call
/// stays, as long as its argument is no constant.
const MAYBE_NULL: &str = "NULL";

/// The same value, of which the planner is told that it may be NULL.
#[must_use]
pub fn maybe_null(value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(named_cast(), vec![value, lit(MAYBE_NULL)]))
}

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
        let stays = match arguments.as_slice() {
            [Expr::Literal(..), _] => false,
            [_, Expr::Literal(text, _)] => text.try_as_str() == Some(Some(MAYBE_NULL)),
            _ => true,
        };
        Ok(if stays {
            ExprSimplifyResult::Original(arguments)
        } else {
            ExprSimplifyResult::Simplified(arguments.swap_remove(0))
        })
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.len() {
            2 => Ok(arguments.args.swap_remove(0)),
            _ => internal_err!("{NAME} takes a cast and its type"),
        }
    }
}
