//! The storage engine's abilities, as a cluster's user sees them.
mod alter;
mod as_of;
mod compaction;
mod figures;
mod indexes;
mod integrity;
mod resources;
mod settings;

use ancho_common::error::ErrorKind;
use ancho_integration::{Answer, Client};
use anyhow::bail;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// A statement that is refused, with these words in the reason.
async fn refused(client: &Client, sql: &str, kind: ErrorKind, reason: &str) -> anyhow::Result<()> {
    match client.update(sql).await {
        Err(failure) if failure.kind() == kind && failure.error.message.contains(reason) => Ok(()),
        other => bail!("{sql}: {other:?}, not {kind:?} with {reason:?}"),
    }
}

/// Rows as texts, sorted.
fn texts(answer: &Answer) -> anyhow::Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in &answer.batches {
        let options = FormatOptions::new().with_null("NULL");
        let columns =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options)).collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" "));
        }
    }
    rows.sort();
    Ok(rows)
}
