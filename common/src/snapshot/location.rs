//! Where snapshots go.
use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use object_store::{RetryConfig, path::Path};
use serde::{Deserialize, Serialize};

use super::store::SnapshotStore;
use crate::{
    error::{Error, Result},
    object_stores::bucket_builder,
    spec::{Location, S3Options, SourceSpec, source::s3_options},
};

/// Longest time that one request is repeated by itself. What lasts longer is tried again from above, where it shows.
const RETRY_TIME: Duration = Duration::from_secs(20);
const RETRIES: usize = 4;

/// A folder or a prefix in a bucket, and how it is reached. Secrets in it are references to the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotLocation {
    /// Without a slash at its end.
    place: Location,
    #[serde(default)]
    s3: S3Options,
}

impl fmt::Display for SnapshotLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

impl SnapshotLocation {
    /// Of a URL, and parameters by the names that datasets have for them.
    ///
    /// # Errors
    /// Says what is wrong with the URL or which parameter is, and what to write.
    pub fn parse(url: &str, params: &BTreeMap<String, String>) -> Result<Self, String> {
        let place = place(Location::parse(url.trim())?)?;
        let s3 = match &place {
            Location::S3 { .. } => s3_options(params)?,
            Location::File(_) => match params.keys().next() {
                Some(name) => return Err(format!("`{name}` is a setting for s3:// locations: remove it")),
                None => S3Options::default(),
            },
        };
        Ok(Self { place, s3 })
    }

    /// What a dataset names as its source.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of(source: &SourceSpec) -> Result<Self, String> {
        Ok(Self { place: place(source.from.clone())?, s3: source.s3.clone().unwrap_or_default() })
    }

    /// A folder in this place.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        let place = match &self.place {
            Location::File(path) => Location::File(format!("{path}/{folder}")),
            Location::S3 { bucket, key } if key.is_empty() => {
                Location::S3 { bucket: bucket.clone(), key: folder.to_owned() }
            }
            Location::S3 { bucket, key } => Location::S3 { bucket: bucket.clone(), key: format!("{key}/{folder}") },
        };
        Self { place, s3: self.s3.clone() }
    }

    /// Opens it. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// `Invalid` where a variable that it names is not set here, or the client cannot be made of it.
    pub fn open(&self) -> Result<SnapshotStore> {
        match &self.place {
            Location::File(path) => Ok(SnapshotStore::folder(PathBuf::from(path), self.to_string())),
            Location::S3 { bucket, key } => {
                let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIME, ..RetryConfig::default() };
                let client = bucket_builder(bucket, &self.s3)?.with_retry(retry).build();
                let client =
                    client.map_err(|e| Error::invalid(format!("{self} cannot be reached as configured: {e}")))?;
                let prefix = Path::parse(key).map_err(|e| Error::invalid(format!("{self}: {e}")))?;
                Ok(SnapshotStore::bucket(Arc::new(client), prefix, self.to_string()))
            }
        }
    }
}

/// A location that can take snapshots, without a slash at its end.
fn place(location: Location) -> Result<Location, String> {
    let url = location.to_string();
    Ok(match location {
        Location::File(path) if path.contains(['*', '?', '[']) => return Err(no_pattern(&url)),
        Location::File(path) => {
            let trimmed = path.trim_end_matches('/');
            if trimmed.is_empty() {
                return Err("the root of the file system is no place for snapshots: name a folder".to_owned());
            }
            Location::File(trimmed.to_owned())
        }
        Location::S3 { key, .. } if key.contains(['*', '?', '[']) => return Err(no_pattern(&url)),
        Location::S3 { bucket, .. } if bucket.ends_with("--x-s3") => {
            return Err(format!(
                "`{bucket}` is a directory bucket of one zone, which is lost with it: name a general-purpose bucket"
            ));
        }
        Location::S3 { bucket, key } => {
            Path::parse(key.trim_end_matches('/')).map_err(|e| format!("`{url}` is no prefix in a bucket: {e}"))?;
            Location::S3 { bucket, key: key.trim_end_matches('/').to_owned() }
        }
    })
}

fn no_pattern(url: &str) -> String {
    format!("`{url}` is a pattern: name one folder or prefix")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, params: &[(&str, &str)]) -> Result<SnapshotLocation, String> {
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        SnapshotLocation::parse(url, &params)
    }

    #[test]
    fn a_location_is_a_folder_or_a_prefix() {
        assert_eq!(parse("file:///data/snapshots/", &[]).unwrap().to_string(), "file:///data/snapshots");
        assert_eq!(parse("s3://lake/a/b//", &[("s3_region", "eu")]).unwrap().to_string(), "s3://lake/a/b");
        assert_eq!(parse("s3://lake", &[]).unwrap().below("x").to_string(), "s3://lake/x");
        assert_eq!(parse("s3://lake/a/", &[]).unwrap().below("x").to_string(), "s3://lake/a/x");
        let alias = parse("s3://lake/a", &[("region", "eu")]).unwrap();
        assert_eq!(alias, parse("s3://lake/a", &[("s3_region", "eu")]).unwrap());
        let text = serde_json::to_string(&alias).unwrap();
        assert_eq!(serde_json::from_str::<SnapshotLocation>(&text).unwrap(), alias);
    }

    #[test]
    fn what_is_no_place_for_snapshots_is_refused() {
        for (url, params, what) in [
            ("snapshots/", vec![], "is not a URL"),
            ("file:///", vec![], "root of the file system"),
            ("file:///a/*", vec![], "pattern"),
            ("gs://bucket/a", vec![], "not offered"),
            ("s3://fast--use1-az4--x-s3/a", vec![], "directory bucket"),
            ("file:///a", vec![("s3_region", "eu")], "s3_region"),
            ("s3://lake/a", vec![("s3_colour", "red")], "s3_colour"),
            ("s3://lake/a", vec![("s3_key", "k")], "s3_secret"),
            ("s3://lake/a", vec![("s3_key", "k"), ("s3_secret", "open")], "kept in the log"),
        ] {
            let error = parse(url, &params).unwrap_err();
            assert!(error.contains(what), "{url}: {error}");
        }
    }
}
