//! `+`, `-`, `*` and negation of integers, failing where the result does not fit the type.
use std::{fmt::Display, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, Datum},
    compute::kernels::numeric,
    datatypes::{DataType, Field, FieldRef},
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        interval_arithmetic::Interval,
        sort_properties::{ExprProperties, SortProperties},
    },
    physical_expr_common::datum::apply,
};

use crate::error::Error;

/// Which operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `-a`
    Negate,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Add, Self::Subtract, Self::Multiply, Self::Negate];

    fn name(self) -> &'static str {
        match self {
            Self::Add => "checked_add",
            Self::Subtract => "checked_subtract",
            Self::Multiply => "checked_multiply",
            Self::Negate => "checked_negate",
        }
    }

    fn operands(self) -> usize {
        if self == Self::Negate { 1 } else { 2 }
    }

    /// The expression as it is written in SQL, which is also how the engine names its own.
    fn text(self, operands: &[impl Display]) -> String {
        match (self, operands) {
            (Self::Add, [a, b]) => format!("{a} + {b}"),
            (Self::Subtract, [a, b]) => format!("{a} - {b}"),
            (Self::Multiply, [a, b]) => format!("{a} * {b}"),
            (_, operands) => operands.iter().map(|a| format!("(- {a})")).collect(),
        }
    }

    fn kernel(self) -> fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Add | Self::Negate => numeric::add,
            Self::Subtract => numeric::sub,
            Self::Multiply => numeric::mul,
        }
    }
}

/// The function that computes an operation on two operands of one integer type (negation: on one).
#[must_use]
pub fn function(operation: Operation) -> Arc<ScalarUDF> {
    let signature = Signature::any(operation.operands(), Volatility::Immutable);
    Arc::new(ScalarUDF::from(CheckedOperator { operation, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedOperator {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedOperator {
    fn name(&self) -> &str {
        self.operation.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<_> = args.iter().map(|a| a.schema_name().to_string()).collect();
        Ok(self.operation.text(&names))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, operands: &[DataType]) -> Result<DataType> {
        Ok(operands[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|f| f.is_nullable());
        Ok(Arc::new(Field::new(self.name(), args.arg_fields[0].data_type().clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = match args.args.as_slice() {
            [a, b] => apply(a, b, self.operation.kernel()),
            [ColumnarValue::Scalar(a)] => {
                return a.arithmetic_negate().map(ColumnarValue::Scalar).map_err(|_| self.out_of_range(&args));
            }
            [ColumnarValue::Array(a)] => numeric::neg(a).map(ColumnarValue::Array).map_err(DataFusionError::from),
            other => return Err(Error::internal(format!("{} of {} operands", self.name(), other.len())).into()),
        };
        result.map_err(|error| match error.find_root() {
            DataFusionError::ArrowError(arrow, _) if matches!(**arrow, ArrowError::ArithmeticOverflow(_)) => {
                self.out_of_range(&args)
            }
            _ => error,
        })
    }

    fn evaluate_bounds(&self, operands: &[&Interval]) -> Result<Interval> {
        // Of the operands' type: what stands above compares the bounds with its own constants.
        match operands.first() {
            Some(operand) => Interval::make_unbounded(&operand.data_type()),
            None => Err(Error::internal(format!("{} of no operand", self.name())).into()),
        }
    }

    fn output_ordering(&self, operands: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.operation, operands) {
            (Operation::Add, [a, b]) => a.sort_properties.add(&b.sort_properties),
            (Operation::Subtract, [a, b]) => a.sort_properties.sub(&b.sort_properties),
            (Operation::Negate, [a]) => -a.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

impl CheckedOperator {
    /// Names the first operands whose result does not fit.
    fn out_of_range(&self, args: &ScalarFunctionArgs) -> DataFusionError {
        let data_type = args.return_field.data_type();
        let culprit = self.culprit(args).unwrap_or_else(|| self.operation.name().replace('_', " "));
        let advice = "cast an operand to a wider type, such as BIGINT, DECIMAL(38, 0) or DOUBLE";
        let text = format!("{culprit} does not fit type {}; {advice}", sql_name(data_type));
        Error::out_of_range(text).into()
    }

    fn culprit(&self, args: &ScalarFunctionArgs) -> Option<String> {
        let arrays = ColumnarValue::values_to_arrays(&args.args).ok()?;
        let rows = arrays.first()?.len();
        let fits = |row: usize| match arrays.as_slice() {
            [a, b] => self.operation.kernel()(&a.slice(row, 1), &b.slice(row, 1)).is_ok(),
            [a] => numeric::neg(&a.slice(row, 1)).is_ok(),
            _ => true,
        };
        let row = (0..rows).find(|row| !fits(*row))?;
        let options = FormatOptions::default();
        let operands = arrays.iter().map(|a| Some(ArrayFormatter::try_new(a, &options).ok()?.value(row).to_string()));
        Some(self.operation.text(&operands.collect::<Option<Vec<_>>>()?))
    }
}

/// What a user calls an integer type.
pub(super) fn sql_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INTEGER UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        other => return other.to_string(),
    };
    name.to_owned()
}
