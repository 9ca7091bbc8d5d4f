//! A walk over a YAML tree that remembers where it is and collects every problem instead of stopping at the first.
use std::{collections::BTreeSet, fmt};

use serde_norway::{Mapping, Value};

use super::SpecError;

/// Where in the document a value stands.
#[derive(Debug, Clone)]
pub(super) struct KeyPath(String);

impl KeyPath {
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    pub(super) fn key(&self, key: &str) -> Self {
        if self.0.is_empty() { Self(key.to_owned()) } else { Self(format!("{}.{key}", self.0)) }
    }

    pub(super) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What has been found wrong so far.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<SpecError>);

impl Problems {
    pub(super) fn add(&mut self, path: &KeyPath, message: impl Into<String>) {
        self.0.push(SpecError { path: path.to_string(), message: message.into() });
    }

    pub(super) fn into_errors(self) -> Vec<SpecError> {
        self.0
    }
}

/// The keys of one YAML map; every key must be asked for before [`Fields::finish`].
pub(super) struct Fields<'a> {
    path: KeyPath,
    map: &'a Mapping,
    known: BTreeSet<&'static str>,
}

impl<'a> Fields<'a> {
    /// `what` names the map in the message about a value that is none.
    pub(super) fn open(path: KeyPath, value: &'a Value, what: &str, problems: &mut Problems) -> Option<Self> {
        match value {
            Value::Mapping(map) => Some(Self { path, map, known: BTreeSet::new() }),
            Value::Null => {
                problems.add(&path, format!("{what} is empty"));
                None
            }
            _ => {
                problems.add(&path, format!("{what} must be a map of keys and values, not {}", kind(value)));
                None
            }
        }
    }

    pub(super) fn path(&self, key: &str) -> KeyPath {
        self.path.key(key)
    }

    /// The value of a key; `None` where it is missing or null.
    pub(super) fn get(&mut self, key: &'static str) -> Option<(KeyPath, &'a Value)> {
        self.known.insert(key);
        match self.map.get(key) {
            None | Some(Value::Null) => None,
            Some(value) => Some((self.path.key(key), value)),
        }
    }

    /// A text that is not blank.
    pub(super) fn text(&mut self, key: &'static str, problems: &mut Problems) -> Option<(KeyPath, &'a str)> {
        let (path, value) = self.get(key)?;
        match value {
            Value::String(text) if text.trim().is_empty() => {
                problems.add(&path, "empty: give a value or leave the key out");
                None
            }
            Value::String(text) => Some((path, text)),
            other => {
                problems.add(&path, format!("a text is needed here, not {}", kind(other)));
                None
            }
        }
    }

    /// A text, number or boolean, as text.
    pub(super) fn scalar(&mut self, key: &'static str, problems: &mut Problems) -> Option<(KeyPath, String)> {
        let (path, value) = self.get(key)?;
        match scalar(value) {
            Some(text) => Some((path, text)),
            None => {
                problems.add(&path, format!("a single value is needed here, not {}", kind(value)));
                None
            }
        }
    }

    /// `true` or `false`, also as a text.
    pub(super) fn boolean(&mut self, key: &'static str, problems: &mut Problems) -> Option<(KeyPath, bool)> {
        let (path, value) = self.get(key)?;
        let found = match value {
            Value::Bool(value) => Some(*value),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if found.is_none() {
            problems.add(&path, "write true or false");
        }
        found.map(|value| (path, value))
    }

    /// One of several words (a bare number counts as its digits).
    pub(super) fn one_of(
        &mut self,
        key: &'static str,
        allowed: &[&'static str],
        problems: &mut Problems,
    ) -> Option<&'static str> {
        let (path, text) = self.scalar(key, problems)?;
        let found = allowed.iter().copied().find(|word| *word == text);
        if found.is_none() {
            problems.add(&path, format!("`{text}` is not possible here: write {}", alternatives(allowed)));
        }
        found
    }

    /// Reports the keys that nobody asked for. `not_yet` are known to the format, but not offered.
    pub(super) fn finish(self, not_yet: &[&str], problems: &mut Problems) {
        for key in self.map.keys() {
            let Some(key) = scalar(key) else {
                problems.add(&self.path, "a key must be a text");
                continue;
            };
            if self.known.contains(key.as_str()) {
                continue;
            }
            let path = self.path.key(&key);
            if not_yet.contains(&key.as_str()) {
                problems.add(&path, "this setting is known but not offered by this version: remove it");
                continue;
            }
            let hint = nearest(&key, self.known.iter().copied()).map_or_else(
                || format!("the keys here are {}", list(self.known.iter())),
                |near| format!("did you mean `{near}`?"),
            );
            problems.add(&path, format!("unknown key; {hint}"));
        }
    }
}

/// A text, number or boolean as text.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// What a value is, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a map",
        Value::Tagged(_) => "a tagged value",
    }
}

/// `a, b or c`.
pub(super) fn alternatives(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [all @ .., last] => format!("{} or `{last}`", list(all.iter())),
    }
}

fn list<T: fmt::Display>(words: impl Iterator<Item = T>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The candidate that a typing slip away from `word` names.
pub(super) fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = word.chars().count().div_ceil(3).min(3);
    candidates.map(|c| (distance(word, c), c)).filter(|(d, _)| *d <= allowed).min().map(|(_, c)| c)
}

/// Edit distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
