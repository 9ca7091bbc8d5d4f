//! Splits a text into statements at semicolons that stand outside of quotes and comments.

/// A statement and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its text, without the semicolon and without blanks around it.
    pub sql: String,
    /// Line of its first character, counted from 1.
    pub line: usize,
}

/// Statements of a text, and what is left after the last semicolon.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Complete statements; a part that holds only blanks and comments is none.
    pub statements: Vec<Statement>,
    /// The unfinished rest.
    pub rest: Option<Statement>,
    /// Whether the rest ends inside quotes or a comment, so that more text must follow.
    pub open: bool,
}

/// What the scanner is in.
#[derive(Clone, PartialEq, Eq)]
enum In {
    Code,
    /// Until this quote; twice in a row it stands for itself, so leaving and entering again gives the same.
    Quotes(char),
    LineComment,
    /// How many are open: they nest.
    BlockComment(usize),
    /// Until this tag: `$$` or `$tag$`.
    Dollar(String),
}

/// Splits a text.
#[must_use]
pub fn split(text: &str) -> Split {
    let mut split = Split::default();
    let mut state = In::Code;
    let mut part = Part::default();
    let mut line = 1;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let mut width = c.len_utf8();
        match &mut state {
            In::Code => match c {
                '\'' | '"' | '`' => state = In::Quotes(c),
                '-' if rest.starts_with("--") => state = In::LineComment,
                '/' if rest.starts_with("/*") => {
                    state = In::BlockComment(1);
                    width = 2;
                }
                '$' if !part.ends_in_word(text, at) => {
                    if let Some(tag) = dollar_tag(rest) {
                        width = tag.len();
                        state = In::Dollar(tag.to_owned());
                    }
                }
                _ => {}
            },
            In::Quotes(quote) if c == *quote => state = In::Code,
            In::LineComment if c == '\n' => state = In::Code,
            In::BlockComment(depth) => {
                if rest.starts_with("/*") {
                    *depth += 1;
                    width = 2;
                } else if rest.starts_with("*/") {
                    *depth -= 1;
                    width = 2;
                    if *depth == 0 {
                        state = In::Code;
                        part.end = at + width;
                        at += width;
                        continue;
                    }
                }
            }
            In::Dollar(tag) if rest.starts_with(tag.as_str()) => {
                width = tag.len();
                part.end = at + width;
                state = In::Code;
            }
            _ => {}
        }
        if c == ';' && state == In::Code {
            split.statements.extend(part.take(text));
        } else {
            let counts = match state {
                In::Code => !c.is_whitespace(),
                In::Quotes(_) | In::Dollar(_) => true,
                In::LineComment | In::BlockComment(_) => false,
            };
            part.add(at, width, line, counts);
        }
        line += text[at..at + width].matches('\n').count();
        at += width;
    }
    split.open = !matches!(state, In::Code | In::LineComment);
    split.rest = part.take(text);
    split
}

/// The statement being read: from its first character that counts to the last one.
#[derive(Default)]
struct Part {
    start: Option<(usize, usize)>,
    end: usize,
}

impl Part {
    fn add(&mut self, at: usize, width: usize, line: usize, counts: bool) {
        if counts {
            self.start.get_or_insert((at, line));
            self.end = at + width;
        }
    }

    fn take(&mut self, text: &str) -> Option<Statement> {
        let Part { start, end } = std::mem::take(self);
        start.map(|(start, line)| Statement { sql: text[start..end].to_owned(), line })
    }

    /// Whether a word reaches up to this place: then a dollar belongs to it.
    fn ends_in_word(&self, text: &str, at: usize) -> bool {
        self.end == at && text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

/// `$$` or `$tag$` at the start of a text. `$1` is a parameter.
fn dollar_tag(text: &str) -> Option<&str> {
    let inner = &text[1..];
    let end = inner.find('$')?;
    let tag = &inner[..end];
    let word = tag.chars().all(|c| c.is_alphanumeric() || c == '_') && !tag.starts_with(|c: char| c.is_ascii_digit());
    word.then(|| &text[..end + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str) -> Vec<String> {
        let split = split(text);
        split.statements.into_iter().chain(split.rest).map(|s| s.sql).collect()
    }

    #[test]
    fn semicolons_end_statements_unless_they_are_quoted_or_commented() {
        for (text, expected) in [
            ("select 1; select 2", &["select 1", "select 2"][..]),
            ("select ';'; select \"a;b\"; select `c;d`;", &["select ';'", "select \"a;b\"", "select `c;d`"]),
            ("select 'it''s; fine'; x", &["select 'it''s; fine'", "x"]),
            ("select 1 -- a; b\n; select 2", &["select 1", "select 2"]),
            ("select /* a; /* nested; */ b; */ 1; 2", &["select /* a; /* nested; */ b; */ 1", "2"]),
            ("select $$a;b$$; select $t$a;$$;$t$;", &["select $$a;b$$", "select $t$a;$$;$t$"]),
            ("select a$b; select $1; x", &["select a$b", "select $1", "x"]),
            (" ;; -- nothing\n; /* nothing */ ;", &[]),
            ("-- first\nselect 1", &["select 1"]),
            ("select 'ä;ß'; select '😀'", &["select 'ä;ß'", "select '😀'"]),
            ("select 'a\n;\nb' ;", &["select 'a\n;\nb'"]),
            ("select 'back\\'; select 2", &["select 'back\\'", "select 2"]),
            ("", &[]),
        ] {
            assert_eq!(statements(text), expected, "{text}");
        }
    }

    #[test]
    fn an_unfinished_statement_is_the_rest() {
        let found = split("select 1;\nselect\n 'a");
        assert_eq!(found.statements, [Statement { sql: "select 1".into(), line: 1 }]);
        assert_eq!(found.rest, Some(Statement { sql: "select\n 'a".into(), line: 2 }));
        assert!(found.open);
        assert!(split("/* a").open && split("$$ a").open && split("\"a").open);
        assert!(!split("select 1 -- a").open);
        assert_eq!(split("-- only a comment").rest, None);
        // Blanks inside quotes belong to the text, also where it goes on in the next line.
        assert_eq!(split("select 'a  ").rest.map(|s| s.sql), Some("select 'a  ".to_owned()));
    }

    #[test]
    fn lines_are_counted_over_quotes_and_comments() {
        let found = split("select 'a\nb';\n/* x\n y */\nselect 2;\n\n\nselect 3;");
        assert_eq!(found.statements.iter().map(|s| s.line).collect::<Vec<_>>(), [1, 5, 8]);
    }
}
