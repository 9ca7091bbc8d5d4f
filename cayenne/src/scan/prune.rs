//! Dropping files by their statistics in the metastore, before they are opened.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PrunableStatistics;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::error::Result;
use crate::scan::reader::PinnedFile;

/// For each file whether it can hold a row that satisfies all predicates.
pub(crate) fn prune(
    files: &[PinnedFile],
    predicates: &[Arc<dyn PhysicalExpr>],
    schema: &SchemaRef,
) -> Result<Vec<bool>> {
    let mut keep = vec![true; files.len()];
    if files.is_empty() {
        return Ok(keep);
    }
    let statistics = files.iter().map(|file| Arc::clone(file.entry.statistics())).collect();
    let statistics = PrunableStatistics::new(statistics, Arc::clone(schema));
    // One by one: a predicate that cannot be turned into one about bounds must not keep the others from working.
    for predicate in predicates {
        let Ok(pruning) =
            PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(Arc::clone(predicate))
        else {
            continue;
        };
        match pruning.prune(&statistics) {
            Ok(possible) => keep.iter_mut().zip(possible).for_each(|(keep, possible)| *keep &= possible),
            Err(error) => tracing::debug!(%predicate, %error, "no pruning with this predicate"),
        }
    }
    Ok(keep)
}
