//! The end of a log.
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

/// Bytes from the end that are looked at.
const WINDOW: u64 = 16 * 1024;

/// The last lines, but none written before byte `from`.
pub(super) fn tail(path: &Path, from: u64, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(WINDOW)).min(length)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) if text.trim().is_empty() => "(nothing was written)".to_owned(),
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(the log cannot be read: {error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_new_lines_are_shown() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.log");
        std::fs::write(&path, "old\na\nb\nc\n").expect("written");
        assert_eq!(tail(&path, 4, 2), "b\nc");
        assert_eq!(tail(&path, 0, 9), "old\na\nb\nc");
        assert_eq!(tail(&path, 10, 9), "(nothing was written)");
        assert!(tail(&dir.path().join("none"), 0, 9).contains("cannot be read"));
    }
}
