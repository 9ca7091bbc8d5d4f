//! Texts of options: sizes, durations, URLs and lists of peers.
use std::time::Duration;

/// `250ms`, `30s`, `2m`, `1h`; a bare number counts seconds.
///
/// # Errors
/// The text is no duration above zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: write for example 500ms, 30s or 2m");
    let (number, unit) = split_number(text);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(wrong()),
    }
}

/// `4GiB`, `512MiB`, `2GB`; a bare number counts bytes.
///
/// # Errors
/// The text is no size.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: write for example 512MiB or 4GiB");
    let (number, unit) = split_number(text);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let size = number * factor;
    // Above 2^53 a double skips whole numbers; nobody means a size that large.
    if size.is_finite() && (1.0..=9e15).contains(&size) { Ok(size.round() as u64) } else { Err(wrong()) }
}

/// A share from 0.05 to 0.5.
///
/// # Errors
/// The text is no such number.
pub fn fraction(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not possible: write a number from 0.05 to 0.5");
    let share: f64 = text.trim().parse().map_err(|_| wrong())?;
    if (0.05..=0.5).contains(&share) { Ok(share) } else { Err(wrong()) }
}

fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// `http://host:port`.
///
/// # Errors
/// The text is no such URL.
pub fn http_url(text: &str) -> Result<String, String> {
    let text = text.trim().trim_end_matches('/');
    let valid = url::Url::parse(text).is_ok_and(|url| url.scheme() == "http" && url.has_host() && url.port().is_some());
    if valid { Ok(text.to_owned()) } else { Err(format!("`{text}` is not a URL: write http://host:port")) }
}

/// `1=http://host:port`.
///
/// # Errors
/// The text is no such pair.
pub fn peer(text: &str) -> Result<(u64, String), String> {
    let (id, url) = text.split_once('=').ok_or_else(|| format!("`{text}` is not a peer: write 1=http://host:port"))?;
    let id = id.trim().parse().map_err(|_| format!("`{id}` is not the number of a node"))?;
    Ok((id, http_url(url)?))
}

/// A scale factor of TPC-H.
///
/// # Errors
/// The text is no number in range.
pub fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(scale),
        _ => Err(format!("`{text}` is not a scale factor: write a number from 0.001 to 1000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["", "s", "0s", "-1s", "5 parsecs", "1e3s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(bytes("4GiB"), Ok(4 << 30));
        assert_eq!(bytes("1.5 mb"), Ok(1_500_000));
        for wrong in ["", "0", "GiB", "1XB", "1e300"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn peers_and_urls_are_checked() {
        assert_eq!(peer("2=http://b:50052"), Ok((2, "http://b:50052".to_owned())));
        for wrong in ["http://b:1", "x=http://b:1", "1=b:1", "1=http://b", "1=grpc://b:1"] {
            assert!(peer(wrong).is_err(), "{wrong}");
        }
        assert!(scale("0.05").is_ok());
        assert!(scale("0").is_err());
    }
}
