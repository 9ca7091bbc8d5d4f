//! Turns the `?` placeholders of ODBC and JDBC into the numbered ones that the planner knows.
//!
//! The planner takes every `?` of a statement for one and the same parameter; so they are numbered here, before the
//! statement goes anywhere: `a = ? AND b = ?` becomes `a = $1 AND b = $2`.
use std::borrow::Cow;

use ancho_common::error::{Error, Result};

/// Numbers the `?` of a statement from left to right; those in strings, quoted names and comments are text.
///
/// # Errors
/// The statement mixes `?` with `$1`: which one comes first would be a guess.
pub fn number_placeholders(sql: &str) -> Result<Cow<'_, str>> {
    if !sql.contains('?') {
        return Ok(Cow::Borrowed(sql));
    }
    let bytes = sql.as_bytes();
    let mut out = String::with_capacity(sql.len() + 8);
    let (mut at, mut copied, mut count, mut numbered) = (0, 0, 0, false);
    while at < bytes.len() {
        let rest = &sql[at..];
        match bytes[at] {
            b'\'' => {
                let escapes = at > 0 && matches!(bytes[at - 1], b'e' | b'E') && !(at > 1 && is_word(bytes[at - 2]));
                at += quoted_len(rest.as_bytes(), b'\'', escapes);
            }
            quote @ (b'"' | b'`') => at += quoted_len(rest.as_bytes(), quote, false),
            b'-' if rest.starts_with("--") => at += rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => at += comment_len(rest.as_bytes()),
            b'$' if !(at > 0 && is_word(bytes[at - 1])) => {
                if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
                    numbered = true;
                    at += 1;
                } else {
                    at += dollar_quoted_len(rest);
                }
            }
            b'?' => {
                count += 1;
                out.push_str(&sql[copied..at]);
                out.push_str(&format!("${count}"));
                at += 1;
                copied = at;
            }
            // All the marks above are ASCII, so other bytes can be passed over one at a time up to the next boundary.
            _ => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    if count == 0 {
        return Ok(Cow::Borrowed(sql));
    }
    if numbered {
        return Err(Error::invalid("the statement mixes ? and $n placeholders; use one kind"));
    }
    out.push_str(&sql[copied..]);
    Ok(Cow::Owned(out))
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Length of a quoted text that starts at the first byte; a doubled quote stands for itself.
pub(super) fn quoted_len(text: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < text.len() {
        if escapes && text[at] == b'\\' {
            at += 2;
        } else if text[at] == quote {
            if text.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    text.len()
}

pub(super) fn comment_len(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at + 1 < text.len() {
        match &text[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of `$tag$ … $tag$`, or 1 if the dollar opens no such text.
pub(super) fn dollar_quoted_len(text: &str) -> usize {
    let Some(tag_end) = text[1..].find('$').map(|i| i + 2) else { return 1 };
    let tag = &text[..tag_end];
    if !tag[1..tag_end - 1].bytes().all(is_word) {
        return 1;
    }
    text[tag_end..].find(tag).map_or(text.len(), |i| tag_end + i + tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_numbered_outside_of_text() {
        for (sql, expected) in [
            ("SELECT 1", "SELECT 1"),
            ("SELECT ?, ? FROM t", "SELECT $1, $2 FROM t"),
            ("SELECT '?', ''' ?', \"a?\", ? -- ?\n, ?", "SELECT '?', ''' ?', \"a?\", $1 -- ?\n, $2"),
            ("SELECT /* ? /* ? */ ? */ ?", "SELECT /* ? /* ? */ ? */ $1"),
            ("SELECT E'\\'?', ?", "SELECT E'\\'?', $1"),
            ("SELECT 'é?', ?, 'ü'", "SELECT 'é?', $1, 'ü'"),
            ("SELECT $$ ? $$, $a$ ? $$ ? $a$, ?", "SELECT $$ ? $$, $a$ ? $$ ? $a$, $1"),
            ("SELECT '?", "SELECT '?"),
            ("SELECT name'?', ?", "SELECT name'?', $1"),
        ] {
            assert_eq!(number_placeholders(sql).unwrap(), expected);
        }
        assert!(number_placeholders("SELECT $1, ?").is_err());
        assert_eq!(number_placeholders("SELECT $1, '?'").unwrap(), "SELECT $1, '?'");
    }
}
