//! `FROM t FOR VERSION AS OF 5` and its kin. The parser does not know these clauses in the dialect in use, so they are
//! turned into calls of table functions before it sees the text; whatever is in quotes or comments stays as it is.
use std::borrow::Cow;

use ancho_common::error::{Error, Result};
use datafusion::logical_expr::sqlparser::{
    dialect::GenericDialect,
    keywords::Keyword,
    parser::Parser,
    tokenizer::{Token, Tokenizer, Word},
};

use crate::planner::time_travel::{AT_TIME, AT_VERSION};

/// The text with such clauses as calls of functions; the text itself if it has none, or cannot be read.
///
/// # Errors
/// `Invalid` for a clause that belongs to no table, or whose version or time cannot be read.
pub fn rewritten(sql: &str) -> Result<Cow<'_, str>> {
    // A look at the text first: hardly any statement has them.
    if !mentions(sql) {
        return Ok(Cow::Borrowed(sql));
    }
    let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else { return Ok(Cow::Borrowed(sql)) };
    let mut changed = false;
    while let Some(clause) = Clause::find(&tokens)? {
        let call = clause.call(&tokens);
        tokens.splice(clause.name_start..clause.end, call);
        changed = true;
    }
    if !changed {
        return Ok(Cow::Borrowed(sql));
    }
    Ok(Cow::Owned(tokens.iter().map(ToString::to_string).collect()))
}

/// Whether both words are there.
fn mentions(sql: &str) -> bool {
    let has = |wanted: &str| sql.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(wanted));
    has("of") && has("as")
}

/// A clause with the table in front of it, as positions of tokens.
struct Clause {
    function: &'static str,
    name_start: usize,
    name_end: usize,
    value_start: usize,
    end: usize,
}

impl Clause {
    fn find(tokens: &[Token]) -> Result<Option<Self>> {
        for (at, token) in tokens.iter().enumerate() {
            let function = match keyword(token) {
                Some("VERSION" | "SYSTEM_VERSION") => AT_VERSION,
                Some("TIMESTAMP" | "SYSTEM_TIME") => AT_TIME,
                _ => continue,
            };
            let after_as = next(tokens, at + 1).filter(|i| keyword(&tokens[*i]) == Some("AS"));
            let of = after_as.and_then(|i| next(tokens, i + 1)).filter(|i| keyword(&tokens[*i]) == Some("OF"));
            let Some(of) = of else { continue };
            let mut before = previous(tokens, at);
            if let Some(position) = before.filter(|i| keyword(&tokens[*i]) == Some("FOR")) {
                before = previous(tokens, position);
            }
            let name_end = before
                .filter(|i| matches!(tokens[*i], Token::Word(_)))
                .ok_or_else(|| Error::invalid("AS OF goes behind the name of a table: FROM t FOR VERSION AS OF 5"))?;
            let mut name_start = name_end;
            while name_start >= 2
                && tokens[name_start - 1] == Token::Period
                && matches!(tokens[name_start - 2], Token::Word(_))
            {
                name_start -= 2;
            }
            let value_start = of + 1;
            let mut parser = Parser::new(&GenericDialect {}).with_tokens(tokens[value_start..].to_vec());
            parser.parse_expr().map_err(|e| Error::invalid(format!("what stands behind AS OF cannot be read: {e}")))?;
            // The parser stands behind the last token that it took, blanks not counted.
            let end = value_start + parser.index();
            return Ok(Some(Self { function, name_start, name_end: name_end + 1, value_start, end }));
        }
        Ok(None)
    }

    /// The call, under the table's name unless another one follows.
    fn call(&self, tokens: &[Token]) -> Vec<Token> {
        let name: String = tokens[self.name_start..self.name_end].iter().map(ToString::to_string).collect();
        let mut call = vec![
            Token::make_word(self.function, None),
            Token::LParen,
            Token::SingleQuotedString(name.replace('\'', "''")),
            Token::Comma,
        ];
        call.extend_from_slice(&tokens[self.value_start..self.end]);
        call.push(Token::RParen);
        let follows = next(tokens, self.end).map(|i| &tokens[i]);
        let has_alias = match follows {
            Some(Token::Word(word)) => {
                word.quote_style.is_some() || matches!(word.keyword, Keyword::AS | Keyword::NoKeyword)
            }
            _ => false,
        };
        if !has_alias {
            let blank = || Token::Whitespace(datafusion::logical_expr::sqlparser::tokenizer::Whitespace::Space);
            call.extend([blank(), Token::make_word("AS", None), blank(), tokens[self.name_end - 1].clone()]);
        }
        call
    }
}

/// The word of an unquoted token, in capitals, where it is one that matters here.
fn keyword(token: &Token) -> Option<&'static str> {
    let Token::Word(Word { value, quote_style: None, .. }) = token else { return None };
    const WORDS: [&str; 7] = ["VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME", "FOR", "AS", "OF"];
    WORDS.into_iter().find(|word| value.eq_ignore_ascii_case(word))
}

fn next(tokens: &[Token], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|i| !matches!(tokens[*i], Token::Whitespace(_)))
}

fn previous(tokens: &[Token], before: usize) -> Option<usize> {
    (0..before).rev().find(|i| !matches!(tokens[*i], Token::Whitespace(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_become_calls_and_everything_else_stays() {
        for (sql, expected) in [
            ("SELECT * FROM t FOR VERSION AS OF 5", "SELECT * FROM table_at_version('t', 5) AS t"),
            (
                "SELECT * FROM t VERSION  AS\nOF 5 WHERE a = 1",
                "SELECT * FROM table_at_version('t', 5) AS t WHERE a = 1",
            ),
            (
                "SELECT x.a FROM public.\"T\" FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01' AS x",
                "SELECT x.a FROM table_at_time('public.\"T\"', TIMESTAMP '2026-01-01') AS x",
            ),
            (
                "SELECT * FROM t FOR TIMESTAMP AS OF now() - INTERVAL '5 minutes' o JOIN t ON o.k = t.k",
                "SELECT * FROM table_at_time('t', now() - INTERVAL '5 minutes') o JOIN t ON o.k = t.k",
            ),
            (
                "SELECT * FROM t FOR VERSION AS OF 1, t FOR VERSION AS OF 2 b",
                "SELECT * FROM table_at_version('t', 1) AS t, table_at_version('t', 2) b",
            ),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected, "{sql}");
        }
        for sql in [
            "SELECT 'version as of 5'",
            "SELECT a AS version, b AS of FROM t",
            "SELECT * FROM t -- for version as of 5",
            "SELECT \"version\" AS \"of\" FROM t",
            "SELECT 'broken as of",
        ] {
            assert_eq!(rewritten(sql).unwrap(), sql);
        }
        assert!(rewritten("SELECT * FROM (SELECT 1) FOR VERSION AS OF 5").is_err());
        assert!(rewritten("SELECT * FROM t FOR VERSION AS OF").is_err());
    }
}
