//! What the rows of a write's input stand for: rows to add, names of rows to delete, or both.
use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, BooleanArray, RecordBatch},
    compute::{and, filter_record_batch, is_not_null, not},
    datatypes::{DataType, Field, FieldRef, Schema},
};

use super::row_ids;
use crate::error::{Error, Result};

/// Whether the row's own columns are a row to add: `Boolean`.
pub const NEW_COLUMN: &str = "__ancho_new";

/// Which columns a write's input has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteForm {
    /// The table's columns: rows to add.
    Rows,
    /// The [names](row_ids) of rows to delete.
    Deletes,
    /// The table's columns, the name of a stored row that goes (NULL: none goes) and [`NEW_COLUMN`].
    Changes,
}

/// Which row of a key stays, in a table with a primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// The one that arrives last.
    LastArrival,
    /// The newest by the table's time column, if it has one; else the one that arrives last.
    Newest,
    /// A key of a new row must not be there, unless its row goes with the same write.
    Unique,
}

impl KeyRule {
    /// As it travels.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::LastArrival => 0,
            Self::Newest => 1,
            Self::Unique => 2,
        }
    }

    /// From its number.
    ///
    /// # Errors
    /// The number means nothing.
    pub fn from_number(number: u32) -> Result<Self> {
        match number {
            0 => Ok(Self::LastArrival),
            1 => Ok(Self::Newest),
            2 => Ok(Self::Unique),
            _ => Err(Error::internal(format!("a write has key rule {number}, which means nothing"))),
        }
    }
}

/// One batch of a write's input, taken apart.
#[derive(Debug)]
pub struct Changes {
    /// Rows to add, with the columns of the input.
    pub added: Option<RecordBatch>,
    /// Names of rows whose place a row of `added` takes.
    pub replaced: Option<RecordBatch>,
    /// Names of rows that go.
    pub removed: Option<RecordBatch>,
}

impl WriteForm {
    /// Columns that the input has for a table.
    #[must_use]
    pub fn input(self, table: &Schema) -> Vec<FieldRef> {
        let own = || table.fields().iter().cloned();
        let names = || row_ids::fields().iter().cloned();
        match self {
            Self::Rows => own().collect(),
            Self::Deletes => names().collect(),
            Self::Changes => {
                own().chain(names()).chain([Arc::new(Field::new(NEW_COLUMN, DataType::Boolean, false))]).collect()
            }
        }
    }

    /// As it travels.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Rows => 0,
            Self::Deletes => 1,
            Self::Changes => 2,
        }
    }

    /// From its number.
    ///
    /// # Errors
    /// The number means nothing.
    pub fn from_number(number: u32) -> Result<Self> {
        match number {
            0 => Ok(Self::Rows),
            1 => Ok(Self::Deletes),
            2 => Ok(Self::Changes),
            _ => Err(Error::internal(format!("a write has form {number}, which means nothing"))),
        }
    }

    /// Takes a batch apart.
    ///
    /// # Errors
    /// It has other columns than the form.
    pub fn split(self, batch: &RecordBatch) -> Result<Changes> {
        let none = Changes { added: None, replaced: None, removed: None };
        match self {
            Self::Rows => Ok(Changes { added: Some(batch.clone()), ..none }),
            Self::Deletes => Ok(Changes { removed: Some(batch.clone()), ..none }),
            Self::Changes => split(batch),
        }
    }
}

fn split(batch: &RecordBatch) -> Result<Changes> {
    let malformed = |e: arrow::error::ArrowError| Error::internal(format!("changes of rows: {e}"));
    let columns = batch.num_columns();
    let own = columns
        .checked_sub(row_ids::COLUMNS + 1)
        .ok_or_else(|| Error::internal("changes of rows come without the names of rows"))?;
    let new = batch.column(columns - 1).as_boolean_opt().filter(|new| new.null_count() == 0);
    let new = new.ok_or_else(|| Error::internal("changes of rows do not say which rows are new"))?;
    let named = is_not_null(batch.column(own)).map_err(malformed)?;
    // Not `and_not`: of the library's release in use it reads bits of slices in wrong places.
    let old = not(new).and_then(|old| and(&named, &old)).map_err(malformed)?;
    let rows = batch.project(&(0..own).collect::<Vec<_>>()).map_err(malformed)?;
    let names = batch.project(&(own..columns - 1).collect::<Vec<_>>()).map_err(malformed)?;
    let of = |batch: &RecordBatch, wanted: &BooleanArray| match wanted.true_count() {
        0 => Ok(None),
        all if all == wanted.len() => Ok(Some(batch.clone())),
        _ => filter_record_batch(batch, wanted).map(Some).map_err(malformed),
    };
    Ok(Changes {
        added: of(&rows, new)?,
        replaced: of(&names, &and(&named, new).map_err(malformed)?)?,
        removed: of(&names, &old)?,
    })
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{ArrayRef, Int64Array, StringViewArray, UInt64Array},
        datatypes::{Int64Type, UInt64Type},
    };

    use super::*;

    #[test]
    fn each_row_is_added_replaced_or_removed() {
        let table = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let fields: Vec<Field> =
            WriteForm::Changes.input(&table).iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let numbers = || Arc::new(UInt64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![10, 20, 30])),
            numbers(),
            Arc::new(StringViewArray::from(vec![Some("f"), None, Some("f")])),
            numbers(),
            Arc::new(BooleanArray::from(vec![true, true, false])),
        ];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let changes = WriteForm::Changes.split(&batch).unwrap();
        let added = changes.added.unwrap();
        assert_eq!(added.column(0).as_primitive::<Int64Type>().values(), &[10, 20]);
        let names =
            |names: Option<RecordBatch>| names.unwrap().column(2).as_primitive::<UInt64Type>().values().to_vec();
        assert_eq!((names(changes.replaced), names(changes.removed)), (vec![1], vec![3]));
        // Slices begin anywhere in a byte.
        for (from, count) in [(0, 2), (1, 1), (1, 2), (2, 1)] {
            let slice = WriteForm::Changes.split(&batch.slice(from, count)).unwrap();
            let numbers =
                |names: Option<RecordBatch>| names.map(|n| n.column(2).as_primitive::<UInt64Type>().values().to_vec());
            let within = |row: usize| from <= row && row < from + count;
            assert_eq!(numbers(slice.replaced), within(0).then(|| vec![1]), "{from}, {count}");
            assert_eq!(numbers(slice.removed), within(2).then(|| vec![3]), "{from}, {count}");
            let kept = (0..2).filter(|row| within(*row)).count();
            assert_eq!(slice.added.map_or(0, |added| added.num_rows()), kept, "{from}, {count}");
        }
        assert!(WriteForm::Changes.split(&added).is_err());
        for form in [WriteForm::Rows, WriteForm::Deletes, WriteForm::Changes] {
            assert_eq!(WriteForm::from_number(form.number()).unwrap(), form);
        }
        assert!(WriteForm::from_number(3).is_err());
        for rule in [KeyRule::LastArrival, KeyRule::Newest, KeyRule::Unique] {
            assert_eq!(KeyRule::from_number(rule.number()).unwrap(), rule);
        }
        assert!(KeyRule::from_number(3).is_err());
    }
}
