//! Tables, numbers and errors for people.
use std::{
    fmt,
    io::{self, ErrorKind},
    time::Duration,
};

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

/// An error that has been told already; the process only has to end with the code of a failure.
#[derive(Debug)]
pub struct Reported;

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the error is told above")
    }
}

impl std::error::Error for Reported {}

/// An error with all its causes on one line. Ancho's own kind is told behind its text.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    let ours = error.chain().find_map(|cause| cause.downcast_ref::<ancho_common::error::Error>());
    match ours {
        Some(ours) => {
            let before: Vec<String> = error
                .chain()
                .take_while(|cause| cause.downcast_ref::<ancho_common::error::Error>().is_none())
                .map(ToString::to_string)
                .collect();
            let what = before.iter().map(String::as_str).chain([ours.message.as_str()]).collect::<Vec<_>>().join(": ");
            format!("{} {}", cut(&on_one_line(&what)), code(ours))
        }
        None => cut(&on_one_line(&format!("{error:#}"))),
    }
}

/// Longest error shown, in characters: some carry whole plans.
const LONGEST: usize = 2000;

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} … (cut)", &text[..end]),
        None => text.to_owned(),
    }
}

/// `[not_found, SQLSTATE 42P01, not retryable]`.
#[must_use]
pub fn code(error: &ancho_common::error::Error) -> String {
    let retry = if error.kind.retryable() { "retryable" } else { "not retryable" };
    format!("[{}, SQLSTATE {}, {retry}]", error.kind.code(), error.sqlstate())
}

/// Line breaks become blanks.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Whether the reader of our output went away, which is no failure.
#[must_use]
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    kinds.into_iter().any(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// How to call this binary again: by its name where the shell would find it, otherwise by its path.
#[must_use]
pub fn program() -> String {
    const NAME: &str = "ancho";
    let on_path =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(NAME).is_file()));
    match std::env::current_exe() {
        Ok(path) if !on_path => path.display().to_string(),
        _ => NAME.to_owned(),
    }
}

/// An empty table in the style of all commands.
#[must_use]
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(header.iter().map(|name| Cell::new(*name)));
    table
}

/// Puts the columns at these positions flush right.
pub fn align_right(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12.3 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    format!("{amount:.1} {unit}")
}

/// `3.2 ms`, `450 ms`, `12.3 s`, `3m05s`.
#[must_use]
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.01 => format!("{:.1} ms", s * 1000.0),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 60.0 => format!("{s:.2} s"),
        s => format!("{}m{:02}s", (s / 60.0) as u64, (s % 60.0) as u64),
    }
}

/// `1 row`, `2 rows`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ancho_common::error::Error;
    use anyhow::Context;

    #[test]
    fn numbers_read_well() {
        assert_eq!([grouped(0), grouped(999), grouped(1000), grouped(1234567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([size(0), size(1023), size(1536), size(5 << 30)], ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
        assert_eq!(time(Duration::from_millis(1234)), "1.23 s");
        assert_eq!(time(Duration::from_secs(185)), "3m05s");
        assert_eq!([counted(1, "row"), counted(0, "row")], ["1 row", "0 rows"]);
    }

    #[test]
    fn an_error_takes_one_line_and_tells_its_kind() {
        let error =
            Err::<(), _>(Error::unavailable("table t: partition 3\n  has no owner")).context("run the statement");
        let line = one_line(&error.expect_err("an error"));
        assert_eq!(
            line,
            "run the statement: table t: partition 3 has no owner [unavailable, SQLSTATE 57P03, retryable]"
        );
        let pipe = anyhow::Error::from(io::Error::from(ErrorKind::BrokenPipe)).context("write rows");
        assert!(is_broken_pipe(&pipe));
    }
}
