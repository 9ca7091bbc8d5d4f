//! The deadline of a call. The transport keeps it for calls with one answer; a stream of rows is kept to it here.
use std::time::Duration;

use ancho_common::error::{Error, ErrorKind};
use futures::{Stream, StreamExt, stream};
use tokio::time::{Instant, timeout_at};
use tonic::{Status, metadata::MetadataMap};

use crate::frontend::status::to_status;

/// Header by which gRPC clients say how long they wait.
const TIMEOUT_HEADER: &str = "grpc-timeout";

/// When the caller stops waiting. None if it does not say so, or not in a way that can be read.
pub(super) fn deadline(metadata: &MetadataMap) -> Option<Instant> {
    let time = parse(metadata.get(TIMEOUT_HEADER)?.to_str().ok()?)?;
    Instant::now().checked_add(time)
}

/// At most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The messages until the deadline, and then an error; what makes them is dropped with it.
pub(super) fn until<S, T>(messages: S, deadline: Option<Instant>) -> impl Stream<Item = Result<T, Status>> + Send
where
    S: Stream<Item = Result<T, Status>> + Send + Unpin,
    T: Send,
{
    stream::unfold(Some(messages), move |messages| async move {
        let mut messages = messages?;
        let message = match deadline {
            None => messages.next().await,
            Some(deadline) => match timeout_at(deadline, messages.next()).await {
                Ok(message) => message,
                Err(_) => return Some((Err(late()), None)),
            },
        };
        message.map(|message| (message, Some(messages)))
    })
}

fn late() -> Status {
    to_status(Error::new(ErrorKind::Deadline, "the call's deadline passed; give it more time, or ask for less"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        assert_eq!(parse("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        for odd in ["", "S", "5", "-1S", "123456789S", "5s", "1.5S", "5\u{b5}"] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_ends_at_its_deadline_with_an_error() {
        let endless = stream::unfold(0, |n| async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Some((Ok(n), n + 1))
        });
        let deadline = Instant::now() + Duration::from_millis(200);
        let mut messages: Vec<Result<i32, Status>> = until(endless.boxed(), Some(deadline)).collect().await;
        let last = messages.pop().unwrap().unwrap_err();
        assert_eq!(last.code(), tonic::Code::DeadlineExceeded);
        assert!(!messages.is_empty() && messages.iter().all(Result::is_ok));
        let short = stream::iter([Ok(1), Ok(2)]);
        let messages: Vec<Result<i32, Status>> = until(short.boxed(), None).collect().await;
        assert_eq!(messages.len(), 2);
    }
}
