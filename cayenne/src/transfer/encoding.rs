//! Bytes in JSON: checksums as hexadecimal digits, everything else as Base64.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Checksum(pub [u8; 32]);

impl Checksum {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Checksum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no SHA-256");
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).and_then(|value| u8::try_from(value).ok());
            let (high, low) = digit(0).zip(digit(1)).ok_or_else(wrong)?;
            *byte = (high << 4) | low;
        }
        Ok(Self(bytes))
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.to_string()
    }
}

impl TryFrom<String> for Checksum {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Bytes that only the engine understands.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Blob(pub Vec<u8>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl From<Blob> for String {
    fn from(blob: Blob) -> Self {
        STANDARD.encode(blob.0)
    }
}

impl TryFrom<String> for Blob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        STANDARD.decode(text).map(Self).map_err(|error| format!("bytes are not in Base64: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(bytes: [u8; 32], blob: Vec<u8>) {
            let checksum = Checksum(bytes);
            prop_assert_eq!(checksum.to_string().parse::<Checksum>(), Ok(checksum));
            let blob = Blob(blob);
            prop_assert_eq!(Blob::try_from(String::from(blob.clone())), Ok(blob));
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = text.parse::<Checksum>();
            let _ = Blob::try_from(text);
        }
    }
}
