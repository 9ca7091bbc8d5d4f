//! `COPY t FROM 'files'` and `COPY t TO 'file'`, also of a query.
//!
//! Rows come from files as they do for a dataset: the tasks that read them run on the executors, and a local path is one on
//! every machine. They are written as one `INSERT`. Rows that go to a file are written by the scheduler that runs the
//! statement; the file is there when it is whole, and takes no other one's place.
mod csv_lines;
mod from;
mod to;

use std::path::{Component, Path, PathBuf};

use ancho_common::{
    error::{Error, Result},
    spec::source::{Location, SourceSpec},
};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::sqlparser::{
    ast::{Ident, ObjectName, Query},
    dialect::GenericDialect,
    keywords::Keyword,
    parser::{IsOptional, Parser, ParserError},
    tokenizer::Token,
};

use super::engine::QueryEngine;
use crate::frontend::caller::Caller;

/// A `COPY` statement.
#[derive(Debug, Clone)]
pub struct Copy {
    what: What,
    /// From the files into the table.
    from: bool,
    /// The files, their format, and how their store is reached.
    files: SourceSpec,
}

/// What is copied.
#[derive(Debug, Clone)]
enum What {
    /// A table, or some of its columns.
    Table(ObjectName, Vec<Ident>),
    /// The rows of a query.
    Query(Box<Query>),
}

impl QueryEngine {
    /// Copies, and says how many rows.
    pub(super) async fn copy(&self, copy: &Copy, parameters: Option<&RecordBatch>, caller: &Caller) -> Result<u64> {
        copy.check_place(self.local_files())?;
        if copy.from { self.copy_from(copy, caller).await } else { self.copy_to(copy, parameters, caller).await }
    }
}

/// Short names of options, and what they are called in the definition of a dataset.
const SHORT: [(&str, &str); 6] = [
    ("format", "file_format"),
    ("header", "csv_has_header"),
    ("delimiter", "csv_delimiter"),
    ("quote", "csv_quote"),
    ("escape", "csv_escape"),
    ("comment", "csv_comment"),
];

/// Whether a text is a `COPY` statement, right or wrong.
#[must_use]
pub fn is_copy(sql: &str) -> bool {
    let sql = sql.trim_start();
    let word = sql.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("copy"));
    word && sql[4..].starts_with(|c: char| c.is_whitespace() || c == '(')
}

impl Copy {
    /// Reads `COPY { t [(columns)] | (query) } { FROM | TO } 'location' [STORED AS format] [[WITH | OPTIONS] (option value, …)]`.
    ///
    /// # Errors
    /// `Invalid`, saying what is expected, or which option is wrong.
    pub fn parse(sql: &str) -> Result<Self> {
        let wrong = |e: ParserError| Error::invalid(format!("{e}"));
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(sql).map_err(wrong)?;
        let (what, from, location, options) = read(&mut parser).map_err(wrong)?;
        if from && matches!(what, What::Query(_)) {
            return Err(Error::invalid("COPY FROM needs a table: COPY t FROM 'location'"));
        }
        let options = options.into_iter().map(|(name, value)| {
            let long =
                SHORT.iter().find(|(short, _)| *short == name).map_or(name.clone(), |(_, long)| (*long).to_owned());
            let value = if long == "file_format" { value.to_lowercase() } else { value };
            (long, value)
        });
        let files = SourceSpec::of(&location, options)?;
        Ok(Self { what, from, files })
    }

    /// Refuses local paths outside of the folders that the scheduler was told of.
    fn check_place(&self, folders: &[PathBuf]) -> Result<()> {
        let Location::File(path) = &self.files.from else { return Ok(()) };
        let path = Path::new(path);
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if plain && folders.iter().any(|folder| path.starts_with(folder)) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "COPY may not use {}: local files are open to it only in the folders that schedulers are started with \
             (--local-files FOLDER){}",
            self.files.from,
            match folders {
                [] => ", and there are none".to_owned(),
                some => format!(": {}", some.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ")),
            }
        )))
    }
}

type Read = (What, bool, String, Vec<(String, String)>);

fn read(parser: &mut Parser<'_>) -> Result<Read, ParserError> {
    parser.expect_keyword(Keyword::COPY)?;
    let what = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        What::Query(query)
    } else {
        let name = parser.parse_object_name(false)?;
        What::Table(name, parser.parse_parenthesized_column_list(IsOptional::Optional, false)?)
    };
    let from = parser.parse_keyword(Keyword::FROM);
    if !from {
        parser.expect_keyword(Keyword::TO)?;
    }
    let location = parser.parse_literal_string()?;
    let mut options = Vec::new();
    if parser.parse_keywords(&[Keyword::STORED, Keyword::AS]) {
        options.push(("format".to_owned(), word(parser)?));
    }
    let _ = parser.parse_keyword(Keyword::WITH) || parser.parse_keyword(Keyword::OPTIONS);
    if parser.consume_token(&Token::LParen) {
        while !parser.consume_token(&Token::RParen) {
            let name = word(parser)?.to_lowercase();
            let _ = parser.consume_token(&Token::Eq);
            let bare = matches!(parser.peek_token().token, Token::Comma | Token::RParen);
            let value = if bare { "true".to_owned() } else { word(parser)? };
            options.push((name, value));
            if !parser.consume_token(&Token::Comma) {
                parser.expect_token(&Token::RParen)?;
                break;
            }
        }
    }
    let _ = parser.consume_token(&Token::SemiColon);
    parser.expect_token(&Token::EOF)?;
    Ok((what, from, location, options))
}

/// A word, number or text as text.
fn word(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::Word(word) => Ok(word.value),
        Token::Number(number, _) => Ok(number),
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Ok(text),
        _ => parser.expected("an option", token),
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::spec::source::FileFormat;

    use super::*;

    #[test]
    fn forms_and_options_are_read() {
        let copy = Copy::parse(
            "copy t (a, \"B\") from 's3://lake/in/*.csv' with (header false, delimiter '|', s3_endpoint 'http://h:1');",
        )
        .unwrap();
        assert!(copy.from && matches!(&copy.what, What::Table(_, columns) if columns.len() == 2));
        let FileFormat::Csv(csv) = &copy.files.format else { panic!("{copy:?}") };
        assert_eq!((csv.has_header, csv.delimiter), (false, '|'));
        assert_eq!(copy.files.s3.as_ref().unwrap().endpoint.as_deref(), Some("http://h:1"));
        let copy = Copy::parse("COPY (SELECT 1 AS a, ')' AS b) TO 'file:///d/x' STORED AS PARQUET").unwrap();
        assert!(!copy.from && copy.files.format == FileFormat::Parquet);
        let copy = Copy::parse("COPY public.t TO 'file:///d/x.bin' (FORMAT csv, HEADER)").unwrap();
        assert!(matches!(&copy.files.format, FileFormat::Csv(csv) if csv.has_header));
        for wrong in [
            "COPY t",
            "COPY t FROM stdin",
            "COPY t FROM 'x.csv'",
            "COPY t FROM 'http://h/x.csv'",
            "COPY t TO 'file:///d/x'",
            "COPY (SELECT 1) FROM 'file:///d/x.csv'",
            "COPY t TO 'file:///d/x.csv' (FORMAT json)",
            "COPY t TO 'file:///d/x.csv' (frmat csv)",
            "COPY t TO 'file:///d/x.parquet' (delimiter ',')",
            "COPY t TO 'file:///d/x.csv'; DROP TABLE t",
        ] {
            assert!(is_copy(wrong));
            let error = Copy::parse(wrong).unwrap_err();
            assert_eq!(error.kind, ancho_common::error::ErrorKind::Invalid, "{wrong}: {error}");
        }
        assert!(!is_copy("copying") && !is_copy("select 1") && is_copy(" copy(select 1) to 'x'"));
    }

    #[test]
    fn local_files_are_open_in_the_given_folders_only() {
        let at = |path: &str| Copy::parse(&format!("COPY t TO 'file://{path}' (format csv)")).unwrap();
        let folders = [PathBuf::from("/data/out")];
        assert!(at("/data/out/a/b.csv").check_place(&folders).is_ok());
        for outside in ["/data/outer/b.csv", "/data/out/../b.csv", "/etc/passwd", "/"] {
            assert!(at(outside).check_place(&folders).unwrap_err().message.contains("/data/out"), "{outside}");
        }
        assert!(at("/data/out/b.csv").check_place(&[]).unwrap_err().message.contains("there are none"));
        assert!(Copy::parse("COPY t TO 's3://lake/b.csv'").unwrap().check_place(&[]).is_ok());
    }
}
