//! Keys of objects below a location. Names of tables and values of keys are escaped so that they cannot change a path, and so
//! that different ones stay different where case is ignored.
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{ids::TableId, partition::PartitionKey};

/// Longest escaped part of a name: file systems take 255 bytes.
const LONGEST: usize = 150;

/// The folder of a dataset.
#[must_use]
pub fn dataset_folder(name: &str) -> String {
    format!("v1/dataset={}", escaped(name))
}

/// The head of a dataset's folder.
#[must_use]
pub fn head(folder: &str) -> String {
    format!("{folder}/metadata.json")
}

/// The set of a snapshot.
#[must_use]
pub fn set(folder: &str, id: Uuid) -> String {
    format!("{folder}/sets/{id}.json")
}

/// The folder of data files.
#[must_use]
pub fn files(folder: &str) -> String {
    format!("{folder}/files")
}

/// A data file.
#[must_use]
pub fn file(folder: &str, id: Uuid) -> String {
    format!("{folder}/files/{id}.vortex")
}

/// A manifest of a partition. Two manifests of one second differ by their ids.
#[must_use]
pub fn manifest(
    folder: &str,
    dataset: &str,
    table: TableId,
    (expressions, key): (&[String], &PartitionKey),
    at_ms: u64,
    id: Uuid,
) -> String {
    let time = Civil::of(at_ms);
    let Civil { year, month, day, hour, minute, second } = time;
    let (name, place) = (escaped(dataset), key_path(expressions, key));
    format!(
        "{folder}/layout={table}/{place}/month={year:04}-{month:02}/day={year:04}-{month:02}-{day:02}/\
         {name}_{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z_{}.cayenne",
        id.simple()
    )
}

/// `key1=value1/key2=value2`; `all` for a table that is one partition.
fn key_path(expressions: &[String], key: &PartitionKey) -> String {
    if key.0.is_empty() {
        return "all".to_owned();
    }
    let parts = key.0.iter().enumerate().map(|(position, value)| {
        let name = expressions.get(position).map_or_else(|| position.to_string(), |sql| escaped(sql));
        // No escape has these two forms, so no value is taken for them.
        let value = match value.as_deref() {
            None => "%N".to_owned(),
            Some("") => "%E".to_owned(),
            Some(value) => escaped(value),
        };
        format!("{name}={value}")
    });
    parts.collect::<Vec<_>>().join("/")
}

/// A text as a part of a path: everything outside `[a-z0-9_-]`, and dots at its start, become `%XX`. A long one is cut and ends in a
/// hash of the whole.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(byte)),
            b'.' if position > 0 => out.push('.'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    if out.len() <= LONGEST {
        return out;
    }
    let hash: String = Sha256::digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let cut = out[..LONGEST - 40].trim_end_matches('%');
    format!("{cut}%H{hash}")
}

/// A moment in UTC by the Gregorian calendar.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    /// Of milliseconds since 1970.
    fn of(at_ms: u64) -> Self {
        let seconds = at_ms / 1000;
        let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
        let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut year = 1970;
        while days >= 365 + u64::from(leap(year)) {
            days -= 365 + u64::from(leap(year));
            year += 1;
        }
        let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 1;
        for length in lengths {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        Self { year, month, day: days + 1, hour: of_day / 3600, minute: of_day / 60 % 60, second: of_day % 60 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_manifest_is_found_by_partition_and_day() {
        let key = PartitionKey(vec![Some("EU/West".to_owned()), None, Some(String::new())]);
        let expressions = ["region".to_owned(), "year(d)".to_owned(), "x".to_owned()];
        let id = Uuid::from_u128(7);
        let name = manifest("v1/dataset=t", "t", TableId(4), (&expressions, &key), 1_709_210_096_789, id);
        assert_eq!(
            name,
            "v1/dataset=t/layout=4/region=%45%55%2F%57est/year%28d%29=%N/x=%E/month=2024-02/day=2024-02-29/\
             t_20240229T123456Z_00000000000000000000000000000007.cayenne"
        );
        assert!(
            manifest("f", "t", TableId(1), (&[], &PartitionKey(vec![])), 0, id)
                .starts_with("f/layout=1/all/month=1970-01/day=1970-01-01/")
        );
        assert_eq!(escaped(".."), "%2E.");
        assert_eq!(dataset_folder("Ärger"), "v1/dataset=%C3%84rger");
    }

    proptest! {
        #[test]
        fn different_texts_have_different_parts_that_are_one_step_of_a_path(a in ".{0,120}", b in ".{0,120}") {
            let (x, y) = (escaped(&a), escaped(&b));
            prop_assert_eq!(a == b, x == y);
            prop_assert_eq!(a == b, x.to_lowercase() == y.to_lowercase());
            prop_assert!(x.len() <= LONGEST && !x.contains('/') && x != "." && x != "..");
        }
    }
}
