//! Lengths of time as people write them: `250ms`, `5s`, `2m`, `1h`; a bare number is seconds.
use std::time::Duration;

/// Reads a length of time; `None` if the text is not one.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().ok()?;
    match unit.trim() {
        "ms" => Some(Duration::from_millis(number)),
        "" | "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood_and_anything_else_is_refused() {
        assert_eq!(parse("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse("30"), Some(Duration::from_secs(30)));
        assert_eq!(parse(" 2m "), Some(Duration::from_secs(120)));
        for bad in ["", "s", "-1s", "1.5s", "3 weeks", "99999999999999999999h"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
