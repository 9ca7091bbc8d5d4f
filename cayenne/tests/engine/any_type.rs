//! Random tables of every type that can be stored, for tests that must not depend on somebody's choice of types.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Makes types and values, the same ones for the same seed.
pub struct AnyType {
    rng: StdRng,
}

const ZONES: [Option<&str>; 5] = [None, Some("+00:00"), Some("-03:30"), Some("Etc/UTC"), Some("Europe/Madrid")];
const UNITS: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
const FIRST_SECOND: i64 = -377_705_023_201;
const LAST_SECOND: i64 = 253_402_207_200;

impl AnyType {
    pub fn new(seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed) }
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end.max(1))
    }

    fn chance(&mut self, share: f64) -> bool {
        self.rng.random_bool(share)
    }

    /// A table with some columns, the first of which numbers the rows.
    pub fn schema(&mut self, columns: usize) -> SchemaRef {
        let mut fields = vec![Field::new("row", DataType::Int64, false)];
        for column in 0..columns {
            let nullable = self.chance(0.8);
            fields.push(Field::new(format!("c{column}"), self.data_type(3), nullable));
        }
        Arc::new(Schema::new(fields))
    }

    /// A type that nests at most `depth` deep.
    pub fn data_type(&mut self, depth: usize) -> DataType {
        if depth > 0 && self.chance(0.3) {
            let item = |any: &mut Self| {
                let nullable = any.chance(0.7);
                Arc::new(Field::new("item", any.data_type(depth - 1), nullable))
            };
            return match self.below(4) {
                0 => DataType::List(item(self)),
                1 => DataType::LargeList(item(self)),
                2 => {
                    let size = 1 + self.below(3);
                    DataType::FixedSizeList(item(self), i32::try_from(size).unwrap())
                }
                _ => {
                    let fields = 1 + self.below(3);
                    DataType::Struct(
                        (0..fields).map(|at| item(self).as_ref().clone().with_name(format!("f{at}"))).collect(),
                    )
                }
            };
        }
        let unit = UNITS[self.below(4)];
        let (precision, scale) = (1 + self.below(76), self.below(20));
        let digits = |most: usize| {
            let precision = u8::try_from(precision.min(most)).unwrap();
            (precision, i8::try_from(scale.min(usize::from(precision))).unwrap())
        };
        let plain = [
            DataType::Boolean,
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float32,
            DataType::Float64,
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
            DataType::Date32,
            DataType::Date64,
            DataType::Time32(if unit == TimeUnit::Second { unit } else { TimeUnit::Millisecond }),
            DataType::Time64(if unit == TimeUnit::Nanosecond { unit } else { TimeUnit::Microsecond }),
            DataType::Timestamp(unit, ZONES[self.below(5)].map(Into::into)),
            DataType::Timestamp(unit, None),
            DataType::Decimal32(digits(9).0, digits(9).1),
            DataType::Decimal64(digits(18).0, digits(18).1),
            DataType::Decimal128(digits(38).0, digits(38).1),
            DataType::Decimal256(digits(76).0, digits(76).1),
            self.dictionary(),
        ];
        plain.choose(&mut self.rng).unwrap().clone()
    }

    fn dictionary(&mut self) -> DataType {
        let keys = [DataType::Int32, DataType::UInt32, DataType::Int64, DataType::UInt64];
        let values = [
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::Int16,
            DataType::UInt64,
        ];
        let key = keys.choose(&mut self.rng).unwrap().clone();
        DataType::Dictionary(Box::new(key), Box::new(values.choose(&mut self.rng).unwrap().clone()))
    }

    /// Rows `from..to` of a table.
    pub fn batch(&mut self, schema: &SchemaRef, from: i64, to: i64) -> RecordBatch {
        let rows = usize::try_from(to - from).unwrap();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(from..to))];
        for field in &schema.fields()[1..] {
            columns.push(self.array(field.data_type(), rows, field.is_nullable()));
        }
        RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
    }

    fn nulls(&mut self, rows: usize, nullable: bool) -> Option<NullBuffer> {
        let share = [0.0, 0.1, 0.9, 1.0][self.below(4)];
        (nullable && share > 0.0)
            .then(|| NullBuffer::new(BooleanBuffer::collect_bool(rows, |_| !self.rng.random_bool(share))))
    }

    /// Few values, many values, or one.
    fn values<T: Clone>(&mut self, rows: usize, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        let distinct = [1, 3, rows.max(1)][self.below(3)];
        let pool: Vec<T> = (0..distinct).map(|_| one(self)).collect();
        (0..rows)
            .map(|row| if distinct == rows { pool[row].clone() } else { pool[self.below(distinct)].clone() })
            .collect()
    }

    fn within(&mut self, low: i64, high: i64) -> i64 {
        match self.below(6) {
            0 => low,
            1 => high,
            2 => 0i64.clamp(low, high),
            3 => self.rng.random_range(low.max(-5)..=high.min(5).max(low.max(-5))),
            _ => self.rng.random_range(low..=high),
        }
    }

    fn text(&mut self) -> String {
        let length = [0, 3, 12, 13, 40, 300][self.below(6)];
        let letters = ['a', 'b', 'ü', '日', '\u{0}', '%', '\'', '😀'];
        (0..length).map(|_| *letters.choose(&mut self.rng).unwrap()).collect()
    }

    pub fn array(&mut self, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
        let nulls = self.nulls(rows, nullable);
        macro_rules! primitive {
            ($kind:ty, $one:expr) => {{
                let values = self.values(rows, $one);
                let array = PrimitiveArray::<$kind>::new(values.into(), nulls);
                Arc::new(array.with_data_type(data_type.clone())) as ArrayRef
            }};
        }
        macro_rules! integer {
            ($kind:ty, $native:ty) => {
                primitive!($kind, |any: &mut Self| match any.below(4) {
                    0 => <$native>::MIN,
                    1 => <$native>::MAX,
                    2 => 0,
                    _ => any.rng.random::<$native>(),
                })
            };
        }
        macro_rules! decimal {
            ($kind:ty, $precision:expr) => {{
                let precision = usize::from($precision);
                primitive!($kind, move |any: &mut Self| {
                    let digits = if any.chance(0.3) { precision } else { 1 + any.below(precision) };
                    let text: String = (0..digits)
                        .map(|_| char::from(b'0' + if any.chance(0.4) { 9 } else { any.below(10) as u8 }))
                        .collect();
                    let value = <<$kind as ArrowPrimitiveType>::Native as std::str::FromStr>::from_str(&text).unwrap();
                    if any.chance(0.5) { ArrowNativeTypeOp::neg_wrapping(value) } else { value }
                })
            }};
        }
        let per_second = |unit: &TimeUnit| match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000i64,
        };
        match data_type {
            DataType::Boolean => {
                let values = self.values(rows, |any| any.chance(0.5));
                Arc::new(BooleanArray::new(values.into(), nulls))
            }
            DataType::Int8 => integer!(Int8Type, i8),
            DataType::Int16 => integer!(Int16Type, i16),
            DataType::Int32 => integer!(Int32Type, i32),
            DataType::Int64 => integer!(Int64Type, i64),
            DataType::UInt8 => integer!(UInt8Type, u8),
            DataType::UInt16 => integer!(UInt16Type, u16),
            DataType::UInt32 => integer!(UInt32Type, u32),
            DataType::UInt64 => integer!(UInt64Type, u64),
            DataType::Date32 => integer!(Date32Type, i32),
            DataType::Date64 => {
                primitive!(Date64Type, |any: &mut Self| any.within(-8_000_000_000_000_000, 8_000_000_000_000_000))
            }
            DataType::Float16 | DataType::Float32 => {
                let values = self.values(rows, Self::float);
                let array =
                    Float32Array::new(values.into_iter().map(|value| value as f32).collect::<Vec<_>>().into(), nulls);
                cast(&array, data_type).unwrap()
            }
            DataType::Float64 => primitive!(Float64Type, Self::float),
            DataType::Time32(TimeUnit::Second) => {
                primitive!(Time32SecondType, |any: &mut Self| any.within(0, 86_399) as i32)
            }
            DataType::Time32(_) => primitive!(Time32MillisecondType, |any: &mut Self| any.within(0, 86_399_999) as i32),
            DataType::Time64(TimeUnit::Microsecond) => {
                primitive!(Time64MicrosecondType, |any: &mut Self| any.within(0, 86_399_999_999))
            }
            DataType::Time64(_) => primitive!(Time64NanosecondType, |any: &mut Self| any.within(0, 86_399_999_999_999)),
            DataType::Timestamp(unit, _) => {
                let scale = per_second(unit);
                let (low, high) = match unit {
                    TimeUnit::Nanosecond => (i64::MIN + 1, i64::MAX),
                    _ => (FIRST_SECOND * scale, LAST_SECOND * scale),
                };
                let one = move |any: &mut Self| any.within(low, high);
                match unit {
                    TimeUnit::Second => primitive!(TimestampSecondType, one),
                    TimeUnit::Millisecond => primitive!(TimestampMillisecondType, one),
                    TimeUnit::Microsecond => primitive!(TimestampMicrosecondType, one),
                    TimeUnit::Nanosecond => primitive!(TimestampNanosecondType, one),
                }
            }
            DataType::Decimal32(precision, _) => decimal!(Decimal32Type, *precision),
            DataType::Decimal64(precision, _) => decimal!(Decimal64Type, *precision),
            DataType::Decimal128(precision, _) => decimal!(Decimal128Type, *precision),
            DataType::Decimal256(precision, _) => decimal!(Decimal256Type, *precision),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                let texts = self.values(rows, Self::text);
                let texts = texts
                    .into_iter()
                    .enumerate()
                    .map(|(row, text)| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)).then_some(text));
                cast(&LargeStringArray::from_iter(texts), data_type).unwrap()
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let values = self.values(rows, |any| {
                    let length = [0, 1, 12, 13, 200][any.below(5)];
                    (0..length).map(|_| any.rng.random::<u8>()).collect::<Vec<u8>>()
                });
                let values = values
                    .into_iter()
                    .enumerate()
                    .map(|(row, value)| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)).then_some(value));
                cast(&LargeBinaryArray::from_iter(values), data_type).unwrap()
            }
            DataType::Dictionary(_, value) => {
                let plain = self.array(value, rows, nullable);
                cast(&plain, data_type).unwrap()
            }
            DataType::List(item) => {
                let lengths = self.values(rows, |any| [0, 0, 1, 2, 7][any.below(5)]);
                let items = self.array(item.data_type(), lengths.iter().sum(), item.is_nullable());
                Arc::new(ListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), items, nulls))
            }
            DataType::LargeList(item) => {
                let lengths = self.values(rows, |any| [0, 0, 1, 2, 7][any.below(5)]);
                let items = self.array(item.data_type(), lengths.iter().sum(), item.is_nullable());
                Arc::new(LargeListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), items, nulls))
            }
            DataType::FixedSizeList(item, size) => {
                let items = self.array(item.data_type(), rows * usize::try_from(*size).unwrap(), item.is_nullable());
                Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, items, nulls, rows).unwrap())
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|field| self.array(field.data_type(), rows, field.is_nullable()));
                Arc::new(StructArray::new(fields.clone(), columns.collect(), nulls))
            }
            other => panic!("no values of type {other}"),
        }
    }

    fn float(&mut self) -> f64 {
        match self.below(9) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            4 => 0.0,
            5 => f64::from(f32::MIN_POSITIVE),
            6 => (self.within(-1_000, 1_000) as f64) / 100.0,
            _ => self.rng.random::<f64>() * 1e6,
        }
    }
}

/// The type without dictionaries, whose keys may come back as other numbers.
pub fn without_dictionaries(data_type: &DataType) -> DataType {
    let item =
        |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(without_dictionaries(field.data_type())));
    match data_type {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::List(field) => DataType::List(item(field)),
        DataType::LargeList(field) => DataType::LargeList(item(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(item(field), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(item).collect()),
        other => other.clone(),
    }
}
