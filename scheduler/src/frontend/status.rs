//! Errors as gRPC statuses that every client can read.
use ancho_common::error::Error;
use tonic::Status;

/// Most bytes of a status text after percent-encoding. The text travels in a header, some clients (Java's by default)
/// take 8 KiB of headers in all, and a character outside of plain ASCII takes three bytes per byte.
const MAX_ENCODED_TEXT: usize = 3 * 1024;

/// The status of an error: code, SQLSTATE and the retryable flag kept, text cut to what header blocks take.
#[must_use]
pub fn to_status(mut error: Error) -> Status {
    // Room for the kind's mark in front and the note at the end.
    let mut room = MAX_ENCODED_TEXT - 128;
    let cut = error.message.char_indices().find(|(_, c)| {
        let plain = c.is_ascii_graphic() && *c != '%' || *c == ' ';
        let size = if plain { 1 } else { 3 * c.len_utf8() };
        let over = size > room;
        room = room.saturating_sub(size);
        over
    });
    if let Some((at, _)) = cut {
        error.message.truncate(at);
        error.message.push_str(" ... (cut)");
    }
    Status::from(error)
}

#[cfg(test)]
mod tests {
    use ancho_common::error::ErrorKind;

    use super::*;

    #[test]
    fn a_long_text_fits_a_header_in_any_language() {
        for text in ["a\n", "ä", "語", "%", "plain text "] {
            let status = to_status(Error::conflict(text.repeat(1 << 20)));
            assert_eq!(status.code(), ErrorKind::Conflict.grpc());
            let encoded: usize =
                status.message().bytes().map(|b| if (0x20..0x7f).contains(&b) && b != b'%' { 1 } else { 3 }).sum();
            assert!(encoded < 4096, "{encoded}");
            assert!(status.message().ends_with("(cut)"));
        }
        assert_eq!(to_status(Error::invalid("short")).message(), "ancho[invalid]: short");
    }
}
