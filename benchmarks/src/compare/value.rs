//! One cell of a result, freed from the Arrow type that carried it.

use std::cmp::Ordering;
use std::fmt;

/// An exact number of any size, kept as its decimal digits.
///
/// The form is canonical (no leading zeros before the point, no trailing ones after it, no negative
/// zero), so that equality of the fields is equality of the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Number {
    negative: bool,
    integer: String,
    fraction: String,
}

impl Number {
    /// Reads `-12.50`, `7`, `.5`; `None` for anything else, exponents included.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if (integer.is_empty() && fraction.is_empty()) || !all_digits(integer) || !all_digits(fraction) {
            return None;
        }
        let integer = integer.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        let zero = integer.is_empty() && fraction.is_empty();
        Some(Self { negative: negative && !zero, integer, fraction })
    }

    /// The nearest double; infinite when the number is too large for one.
    pub fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        self.integer
            .len()
            .cmp(&other.integer.len())
            .then_with(|| self.integer.cmp(&other.integer))
            .then_with(|| self.fraction.cmp(&other.fraction))
    }
}

impl From<i128> for Number {
    fn from(value: i128) -> Self {
        let magnitude = value.unsigned_abs();
        Self {
            negative: value < 0,
            integer: if magnitude == 0 { String::new() } else { magnitude.to_string() },
            fraction: String::new(),
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        f.write_str(if self.integer.is_empty() { "0" } else { &self.integer })?;
        if !self.fraction.is_empty() {
            write!(f, ".{}", self.fraction)?;
        }
        Ok(())
    }
}

/// One cell. The order of the variants is the order in which values of different kinds sort.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Boolean(bool),
    /// Every integer and decimal type.
    Exact(Number),
    /// Every floating-point type.
    Float(f64),
    /// Dates, times, timestamps, durations and intervals in their ISO form; a timestamp with a time
    /// zone is given in UTC with a `Z`.
    Temporal(String),
    Text(String),
    Bytes(Vec<u8>),
    /// Every list layout.
    List(Vec<Value>),
    /// Field names with their values, in the order of the type.
    Struct(Vec<(String, Value)>),
}

impl Value {
    /// The value as a double when it is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Exact(number) => Some(number.to_f64()),
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether a float is the value or lies inside it.
    pub fn holds_float(&self) -> bool {
        match self {
            Value::Float(_) => true,
            Value::List(items) => items.iter().any(Value::holds_float),
            Value::Struct(fields) => fields.iter().any(|(_, value)| value.holds_float()),
            _ => false,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Boolean(_) => 1,
            Value::Exact(_) | Value::Float(_) => 2,
            Value::Temporal(_) => 3,
            Value::Text(_) => 4,
            Value::Bytes(_) => 5,
            Value::List(_) => 6,
            Value::Struct(_) => 7,
        }
    }
}

/// Order of doubles in which every NaN is one value above all others and both zeros are one value.
fn cmp_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
            (Value::Exact(a), Value::Exact(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => cmp_f64(*a, *b),
            (Value::Exact(a), Value::Float(b)) => cmp_f64(a.to_f64(), *b),
            (Value::Float(a), Value::Exact(b)) => cmp_f64(*a, b.to_f64()),
            (Value::Temporal(a), Value::Temporal(b)) | (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => a.cmp(b),
            (Value::Struct(a), Value::Struct(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Exact(number) => write!(f, "{number}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Temporal(text) => f.write_str(text),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    let separator = if i == 0 { "" } else { ", " };
                    write!(f, "{separator}{item}")?;
                }
                f.write_str("]")
            }
            Value::Struct(fields) => {
                f.write_str("{")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let separator = if i == 0 { "" } else { ", " };
                    write!(f, "{separator}{name}: {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).expect("a number")
    }

    #[test]
    fn numbers_are_canonical() {
        assert_eq!(number("001.500"), number("1.5"));
        assert_eq!(number("-0.00"), number("0"));
        assert_eq!(number("-0").to_string(), "0");
        assert_eq!(number(".5").to_string(), "0.5");
        assert_eq!(Number::from(-120), number("-120.0"));
        assert_eq!(Number::from(0), number("0"));
        for bad in ["", "-", ".", "1e3", "1.2.3", "NULL", "0x1"] {
            assert!(Number::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_order_by_value() {
        let sorted = ["-10", "-9.99", "-0.1", "0", "0.09", "0.1", "2", "10", "10.01"];
        for pair in sorted.windows(2) {
            assert!(number(pair[0]) < number(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn floats_have_one_nan_and_one_zero() {
        assert_eq!(Value::Float(f64::NAN), Value::Float(-f64::NAN));
        assert_eq!(Value::Float(-0.0), Value::Float(0.0));
        assert!(Value::Float(f64::INFINITY) < Value::Float(f64::NAN));
        assert_ne!(Value::Text("1".into()), Value::Exact(number("1")));
    }
}
