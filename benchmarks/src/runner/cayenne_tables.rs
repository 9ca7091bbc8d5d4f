//! The Cayenne partitions of a stopped or idle cluster as tables of one process.

use crate::tpch::{GeneratedData, Table};
use anyhow::{Context, ensure};
use cayenne::{CayenneTable, Partition, PartitionOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file by which a folder is known as a partition.
const METASTORE: &str = "partition.db";

/// Opens, read-only, every partition of a TPC-H table that lies somewhere under `roots` (the data
/// folders of executors), and gives one table over all partitions of each. Blocks.
///
/// Of replicas the one with the newest version is taken. Executors may have the partitions open, but
/// must not write to them meanwhile.
///
/// # Errors
/// When a partition cannot be opened, or the partitions of a table do not hold exactly the rows that
/// were generated for it.
pub(super) fn open_tables(roots: &[PathBuf], data: &GeneratedData) -> anyhow::Result<Vec<(Table, CayenneTable)>> {
    let mut dirs = Vec::new();
    for root in roots {
        find_partitions(root, &mut dirs)?;
    }
    let mut newest: BTreeMap<(Table, u64), Partition> = BTreeMap::new();
    for dir in dirs {
        let partition = Partition::open_read_only(&dir, PartitionOptions::default())
            .with_context(|| format!("open the partition in {}", dir.display()))?;
        let Some(table) = table_of(&partition) else {
            continue;
        };
        let key = (table, partition.identity().partition_id);
        if newest.get(&key).is_none_or(|other| other.version() < partition.version()) {
            newest.insert(key, partition);
        }
    }
    let mut partitions: BTreeMap<Table, Vec<Partition>> = BTreeMap::new();
    for ((table, _), partition) in newest {
        partitions.entry(table).or_default().push(partition);
    }
    let mut tables = Vec::new();
    for table in Table::ALL {
        let partitions = partitions.remove(&table).unwrap_or_default();
        let rows: u64 = partitions.iter().map(|partition| partition.summary().rows).sum();
        ensure!(
            rows == data.row_count(table),
            "the {} partitions of table `{table}` hold {rows} rows, {} were generated",
            partitions.len(),
            data.row_count(table)
        );
        let opened = CayenneTable::try_new(partitions).with_context(|| format!("open table `{table}`"))?;
        tables.push((table, opened));
    }
    Ok(tables)
}

/// The identity may carry the schema's name in front of the table's.
fn table_of(partition: &Partition) -> Option<Table> {
    let name = &partition.identity().table;
    name.rsplit('.').next()?.parse().ok()
}

fn find_partitions(dir: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if dir.join(METASTORE).is_file() {
        found.push(dir.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let entry = entry.with_context(|| format!("list {}", dir.display()))?;
        if entry.file_type().with_context(|| format!("list {}", dir.display()))?.is_dir() {
            find_partitions(&entry.path(), found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tpch::generate;
    use cayenne::{PartitionIdentity, WriteMode};
    use uuid::Uuid;

    /// Writes each table into `parts` partitions below `root`.
    pub(in crate::runner) async fn write_partitions(root: &Path, scale: f64, parts: u32) {
        for (id, table) in (0u64..).zip(Table::ALL) {
            for part in 1..=parts {
                let identity = PartitionIdentity {
                    table: table.name().to_owned(),
                    partition: format!("part={part}"),
                    partition_id: id * u64::from(parts) + u64::from(part),
                };
                let dir = root.join(table.name()).join(part.to_string());
                fs::create_dir_all(&dir).expect("created");
                let options = PartitionOptions::default();
                let partition = Partition::create(&dir, identity, table.schema(), options).expect("a partition");
                let write = Uuid::new_v4();
                let mut writer = partition.begin_write(write, WriteMode::Append).await.expect("a writer");
                for batch in generate(table, scale, part, parts).expect("valid arguments") {
                    writer.write(batch.expect("a batch")).await.expect("written");
                }
                writer.finish().await.expect("finished");
                partition.publish(write, 1).await.expect("published");
            }
        }
    }
}
