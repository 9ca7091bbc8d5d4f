//! Rows found by primary key in one Cayenne partition of this process.

use super::peer::Done;
use anyhow::{Context, ensure};
use arrow::array::{AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use cayenne::{Partition, PartitionIdentity, PartitionOptions, ScanRequest, TableSettings, WriteMode};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Rows of a batch when the table is filled.
const BATCH: i64 = 65_536;

/// A partition with rows `(k, k * 7, 'row k')` for `k` from 0, its primary key `k`.
pub(super) struct Numbers(Partition);

impl Numbers {
    pub(super) async fn create(dir: &Path, rows: i64) -> anyhow::Result<Self> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("k", DataType::Int64, false),
            Field::new("v", DataType::Int64, false),
            Field::new("t", DataType::Utf8View, false),
        ]));
        let identity = PartitionIdentity { table: "numbers".into(), partition: "all".into(), partition_id: 1 };
        let settings = TableSettings { primary_key: vec!["k".into()], ..TableSettings::default() };
        let partition =
            Partition::create_table(dir, identity, Arc::clone(&schema), settings, PartitionOptions::default())?;
        let write = Uuid::from_u128(1);
        let mut writer = partition.begin_write(write, WriteMode::Append).await?;
        for start in (0..rows).step_by(BATCH as usize) {
            let keys = start..rows.min(start + BATCH);
            writer
                .write(RecordBatch::try_new(
                    Arc::clone(&schema),
                    vec![
                        Arc::new(Int64Array::from_iter_values(keys.clone())),
                        Arc::new(Int64Array::from_iter_values(keys.clone().map(|k| k * 7))),
                        Arc::new(StringViewArray::from_iter_values(keys.map(|k| format!("row {k}")))),
                    ],
                )?)
                .await?;
        }
        writer.finish().await?;
        partition.publish(write, 1).await?;
        Ok(Self(partition))
    }

    /// Finds the rows one after the other; also the sum of their values.
    pub(super) async fn find(&self, keys: &[i64]) -> anyhow::Result<(Done, i64)> {
        let context = SessionContext::new().task_ctx();
        let wanted = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let request = ScanRequest::default();
        let mut sum = 0;
        let start = std::time::Instant::now();
        for key in keys {
            let key_row =
                RecordBatch::try_new(Arc::clone(&wanted), vec![Arc::new(Int64Array::from_iter_values([*key]))])?;
            let found = collect(self.0.lookup(&key_row, &request).await?, Arc::clone(&context)).await?;
            let row = found.iter().find(|batch| batch.num_rows() == 1).with_context(|| format!("no row {key}"))?;
            ensure!(row.column(0).as_primitive::<Int64Type>().value(0) == *key, "another row than {key}");
            sum += row.column(1).as_primitive::<Int64Type>().value(0);
        }
        Ok((Done { seconds: start.elapsed().as_secs_f64(), rows: keys.len() as u64 }, sum))
    }
}
