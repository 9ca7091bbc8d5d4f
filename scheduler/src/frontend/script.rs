//! Several statements in one request: a transaction from `BEGIN` to its end.
use ancho_common::error::{Error, Result};

use super::placeholders::{comment_len, dollar_quoted_len, is_word, quoted_len};

/// A whole transaction as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The statements between its first and its last one.
    pub statements: Vec<String>,
    /// It ends with `COMMIT`, and not with `ROLLBACK`.
    pub commits: bool,
}

impl Script {
    /// The transaction that a text is; `None` if it does not begin one.
    ///
    /// # Errors
    /// `Invalid` if it begins one and does not end it, or begins or ends another one inside.
    pub fn of(text: &str) -> Result<Option<Self>> {
        let mut statements = split(text);
        if statements.first().is_none_or(|first| Word::of(first) != Some(Word::Begin)) {
            return Ok(None);
        }
        let last = if statements.len() > 1 { statements.pop() } else { None };
        let commits = match last.and_then(Word::of) {
            Some(Word::Commit) => true,
            Some(Word::RollBack) => false,
            _ => {
                return Err(Error::invalid(
                    "a request that begins a transaction must also end it, by COMMIT or ROLLBACK as its last statement; \
                     to send the statements one by one, use the transactions of Flight SQL (autocommit off)",
                ));
            }
        };
        let statements: Vec<String> = statements[1..].iter().map(|s| (*s).to_owned()).collect();
        if statements.iter().any(|statement| Word::of(statement).is_some()) {
            return Err(Error::invalid("inside of a transaction no other one can begin or end"));
        }
        Ok(Some(Self { statements, commits }))
    }
}

/// A statement that begins or ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Begin,
    Commit,
    RollBack,
}

impl Word {
    fn of(statement: &str) -> Option<Self> {
        let words: Vec<String> = without_comments(statement).split_whitespace().map(str::to_uppercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["BEGIN"] | ["BEGIN" | "START", "TRANSACTION"] | ["BEGIN", "WORK"] => Some(Self::Begin),
            ["COMMIT" | "END"] | ["COMMIT" | "END", "TRANSACTION" | "WORK"] => Some(Self::Commit),
            ["ROLLBACK"] | ["ROLLBACK", "TRANSACTION" | "WORK"] => Some(Self::RollBack),
            _ => None,
        }
    }
}

/// What stands at a place of a text.
enum Piece {
    Comment(usize),
    Text(usize),
    Semicolon,
    Other(usize),
}

fn piece(text: &str, at: usize) -> Piece {
    let (bytes, rest) = (text.as_bytes(), &text[at..]);
    match bytes[at] {
        b'\'' => {
            let escapes = at > 0 && matches!(bytes[at - 1], b'e' | b'E') && !(at > 1 && is_word(bytes[at - 2]));
            Piece::Text(quoted_len(rest.as_bytes(), b'\'', escapes))
        }
        quote @ (b'"' | b'`') => Piece::Text(quoted_len(rest.as_bytes(), quote, false)),
        b'-' if rest.starts_with("--") => Piece::Comment(rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => Piece::Comment(comment_len(rest.as_bytes())),
        b'$' if !(at > 0 && is_word(bytes[at - 1])) => Piece::Text(dollar_quoted_len(rest)),
        b';' => Piece::Semicolon,
        _ => Piece::Other(rest.chars().next().map_or(1, char::len_utf8)),
    }
}

/// The statements of a text, those that are empty left out.
fn split(text: &str) -> Vec<&str> {
    let (mut statements, mut from, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        match piece(text, at) {
            Piece::Semicolon => {
                statements.push(&text[from..at]);
                at += 1;
                from = at;
            }
            Piece::Comment(length) | Piece::Text(length) | Piece::Other(length) => at += length,
        }
    }
    statements.push(&text[from..]);
    statements.retain(|statement| !without_comments(statement).trim().is_empty());
    statements
}

fn without_comments(text: &str) -> String {
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while at < text.len() {
        match piece(text, at) {
            Piece::Comment(length) => {
                out.push(' ');
                at += length;
            }
            Piece::Text(length) | Piece::Other(length) => {
                out.push_str(&text[at..at + length]);
                at += length;
            }
            Piece::Semicolon => {
                out.push(';');
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_found_with_its_statements() {
        let script =
            Script::of("/* a; */ begin; -- b;\n UPDATE t SET a = ';' WHERE b = $$;$$;\nSELECT 1;;\n commit ;\n-- end");
        let script = script.unwrap().unwrap();
        assert!(script.commits);
        let statements: Vec<&str> = script.statements.iter().map(|s| s.trim()).collect();
        assert_eq!(statements, ["-- b;\n UPDATE t SET a = ';' WHERE b = $$;$$", "SELECT 1"]);
        for (text, commits) in [
            ("BEGIN; COMMIT", true),
            ("start transaction; select 'é;'; end", true),
            ("begin work; select 1; rollback transaction;", false),
        ] {
            assert_eq!(Script::of(text).unwrap().map(|s| s.commits), Some(commits), "{text}");
        }
    }

    #[test]
    fn other_texts_are_none_and_half_ones_are_refused() {
        for text in ["", "select 1", "select 1; select 2", "beginning", "COMMIT", "select 'begin; commit'"] {
            assert_eq!(Script::of(text).unwrap(), None, "{text}");
        }
        for text in ["begin", "begin; select 1", "begin; begin; commit", "begin; commit; select 1; commit", "begin;'"] {
            assert!(Script::of(text).is_err(), "{text}");
        }
    }
}
