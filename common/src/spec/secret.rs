//! A text of a spec that may name environment variables: `${env:LAKE_SECRET}`, or `${secrets:LAKE_SECRET}`, which means
//! the same here.
use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A text as written, references included. It is stored and sent in this form, so the value of a variable stays in
/// the process that reads it; debug output hides a value that was written out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// How a reference starts; it ends at the next `}`.
const OPENING: &str = "${";

impl Secret {
    /// Takes the text as it is; [`Secret::check`] tells whether its references are well formed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether every `${…}` is a reference to an environment variable.
    ///
    /// # Errors
    /// Says which reference is not, and what to write.
    pub fn check(&self) -> Result<(), String> {
        references(&self.0).map(|_| ())
    }

    /// Whether it consists of references, so that storing it stores no secret.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        let Ok(found) = references(&self.0) else { return false };
        !found.is_empty() && found.iter().map(|(span, _)| span.len()).sum::<usize>() == self.0.len()
    }

    /// The text with the variables of this process put in.
    ///
    /// # Errors
    /// Names a variable that is not set.
    pub fn resolve(&self) -> Result<String> {
        self.resolve_with(|name| std::env::var(name).ok())
    }

    /// The text with `lookup`'s values put in.
    ///
    /// # Errors
    /// Names the variable for which `lookup` has no value.
    pub fn resolve_with(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<String> {
        let mut resolved = String::with_capacity(self.0.len());
        let mut end = 0;
        for (span, name) in references(&self.0).map_err(Error::invalid)? {
            let value = lookup(name).ok_or_else(|| {
                Error::invalid(format!("the environment variable {name}, which a dataset refers to, is not set here"))
            })?;
            resolved.push_str(&self.0[end..span.start]);
            resolved.push_str(&value);
            end = span.end;
        }
        resolved.push_str(&self.0[end..]);
        Ok(resolved)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_reference() { &self.0 } else { "***" })
    }
}

/// Every `${env:NAME}` of a text, with the bytes it spans.
fn references(text: &str) -> Result<Vec<(Range<usize>, &str)>, String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(OPENING).map(|offset| at + offset) {
        let inner = start + OPENING.len();
        let Some(end) = text[inner..].find('}').map(|offset| inner + offset) else {
            return Err("a reference `${` has no closing brace: write ${env:NAME}".to_owned());
        };
        let name = match text[inner..end].split_once(':') {
            Some(("env" | "secrets", name)) => name.trim(),
            Some((store, _)) => {
                return Err(format!("`{store}` is not a place that secrets can come from: write ${{env:NAME}}"));
            }
            None => return Err("a reference names its place: write ${env:NAME}".to_owned()),
        };
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(word) {
            return Err(format!("`{name}` is not the name of an environment variable"));
        }
        found.push((start..end + 1, name));
        at = end + 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_where_they_are_named() {
        let lookup = |name: &str| (name == "KEY").then(|| "k-1".to_owned());
        for (text, value) in
            [("plain", "plain"), ("${env:KEY}", "k-1"), ("a${env:KEY}b${secrets:KEY}", "ak-1bk-1"), ("", "")]
        {
            assert_eq!(Secret::new(text).resolve_with(lookup).expect(text), value);
        }
        let error = Secret::new("${env:MISSING}").resolve_with(lookup).expect_err("not set");
        assert!(error.message.contains("MISSING"), "{error}");
    }

    #[test]
    fn references_that_cannot_be_resolved_are_refused() {
        for text in ["${env:}", "${KEY}", "${vault:KEY}", "${env:KEY", "${env:a b}", "${env:1A}"] {
            assert!(Secret::new(text).check().is_err(), "{text}");
        }
        for text in ["$5", "a $ {b}", "${env:A_1}"] {
            assert_eq!(Secret::new(text).check(), Ok(()), "{text}");
        }
    }

    #[test]
    fn debug_output_hides_values() {
        for text in ["hunter2", "", "${env:A}hunter2${env:B}", "${env:A", "${hunter2}"] {
            assert_eq!((format!("{:?}", Secret::new(text)).as_str(), Secret::new(text).is_reference()), ("***", false));
        }
        for text in ["${env:KEY}", "${secrets:A}${env:B}"] {
            assert_eq!((format!("{:?}", Secret::new(text)).as_str(), Secret::new(text).is_reference()), (text, true));
        }
    }
}
