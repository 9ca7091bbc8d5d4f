//! Errors after the first rows of an answer: whoever reads it sees that it is not whole.
use ancho_integration::{cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The series comes in order from one stream, so that many rows are out before the last one cannot be computed.
const FAILS_LATE: &str =
    "SELECT value, repeat('x', 50) AS x, 10 / (value - 200000) AS y FROM generate_series(1, 200000)";

/// What ends a chunked HTTP answer.
const END: &[u8] = b"0\r\n\r\n";

#[test]
fn an_answer_over_http_breaks_off_where_a_row_fails() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let at = cluster.http_address().context("HTTP is served")?;
        let whole = FAILS_LATE.replace("- 200000", "+ 200000");
        for accept in ["application/json", "text/csv", "application/vnd.apache.arrow.stream"] {
            let broken = post(&at, accept, FAILS_LATE).await?;
            ensure!(broken.starts_with(b"HTTP/1.1 200"), "{accept}: {}", start_of(&broken));
            ensure!(broken.len() > 1_000_000, "{accept}: only {} bytes came before the error", broken.len());
            ensure!(!broken.ends_with(END), "{accept}: a short answer ends like a whole one");
            let answer = post(&at, accept, &whole).await?;
            ensure!(answer.len() > broken.len() && answer.ends_with(END), "{accept}: {}", start_of(&answer));
        }
        // Before the first row an error has a status and a text.
        let early = post(&at, "application/json", "SELECT 1 / (value - 1) FROM generate_series(1, 10)").await?;
        let text = String::from_utf8_lossy(&early);
        ensure!(text.starts_with("HTTP/1.1 400") && text.contains("22012"), "{text}");
        // Over Flight SQL the stream ends with the error.
        let failure = cluster.client()?.query(FAILS_LATE).await.err().context("an answer without its last row")?;
        ensure!(failure.to_string().contains("division by zero"), "{failure}");
        cluster.stop().await
    });
}

fn start_of(answer: &[u8]) -> String {
    String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned()
}

/// All bytes that come until the server closes the connection, however it does so.
async fn post(address: &str, accept: &str, sql: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "POST /v1/sql HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{sql}",
        sql.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // A connection that is reset has delivered what came before.
    match stream.read_to_end(&mut answer).await {
        Ok(_) => Ok(answer),
        Err(_) if !answer.is_empty() => Ok(answer),
        Err(error) => Err(error.into()),
    }
}
