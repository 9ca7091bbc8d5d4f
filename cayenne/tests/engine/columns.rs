//! Random histories of a table's columns against rows in memory: columns come, go, change names and types, between writes,
//! compactions, restarts and crashes. A run is decided by its seed; `CAYENNE_COLUMNS_SEED` repeats one and
//! `CAYENNE_COLUMNS_RUNS` sets how many there are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use cayenne::*;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{col, is_null};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;

const RUNS: u64 = 40;
const STEPS: usize = 14;

/// A column of the model. Values are kept by its number, which no other column ever has.
#[derive(Debug, Clone)]
struct Column {
    number: u32,
    name: String,
    data_type: DataType,
    nullable: bool,
    /// What rows have that were there before the column.
    default: ScalarValue,
}

/// Only values that were written are there.
type Row = BTreeMap<u32, ScalarValue>;

#[derive(Debug, Clone, Default)]
struct Table {
    columns: Vec<Column>,
    rows: BTreeMap<i64, Row>,
}

impl Table {
    fn schema(&self) -> SchemaRef {
        let mut fields = vec![Field::new("id", DataType::Int64, false)];
        let columns = self.columns.iter();
        fields.extend(columns.map(|column| Field::new(&column.name, column.data_type.clone(), column.nullable)));
        Arc::new(Schema::new(fields))
    }

    fn batch<'a>(&self, rows: impl Iterator<Item = (&'a i64, &'a Row)> + Clone) -> RecordBatch {
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(rows.clone().map(|(id, _)| *id)))];
        for column in &self.columns {
            let value =
                |row: &Row| row.get(&column.number).unwrap_or(&column.default).cast_to(&column.data_type).unwrap();
            let values: Vec<ScalarValue> = rows.clone().map(|(_, row)| value(row)).collect();
            arrays.push(match values.is_empty() {
                true => arrow::array::new_empty_array(&column.data_type),
                false => ScalarValue::iter_to_array(values).unwrap(),
            });
        }
        RecordBatch::try_new(self.schema(), arrays).unwrap()
    }
}

/// Crashes once, some steps from now.
#[derive(Debug)]
struct Trap(AtomicI64);

impl Failpoints for Trap {
    fn at(&self, _: Step) -> Outcome {
        if self.0.load(Ordering::SeqCst) < 0 || self.0.fetch_sub(1, Ordering::SeqCst) != 0 {
            return Outcome::Continue;
        }
        Outcome::Crash
    }
}

struct World {
    dir: PathBuf,
    rng: StdRng,
    trap: Arc<Trap>,
    partition: Option<Partition>,
    table: Table,
    /// What the version that is being published will show.
    coming: Option<Table>,
    next_id: i64,
    next_column: u32,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl World {
    fn new(dir: PathBuf, seed: u64) -> Self {
        let mut world = Self {
            dir,
            rng: StdRng::seed_from_u64(seed),
            trap: Arc::new(Trap(AtomicI64::new(-1))),
            partition: None,
            table: Table::default(),
            coming: None,
            next_id: 0,
            next_column: 0,
        };
        let (table, _) = world.added();
        world.table = table;
        world.table.columns[0].nullable = true;
        let created = Partition::create(&world.dir, identity(), world.table.schema(), world.options());
        world.partition = Some(created.unwrap());
        world
    }

    fn options(&self) -> PartitionOptions {
        PartitionOptions {
            target_file_bytes: 16 << 10,
            retention: Retention { versions: 0, grace: Duration::ZERO },
            failpoints: Some(Arc::clone(&self.trap) as Arc<dyn Failpoints>),
            ..PartitionOptions::default()
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end.max(1))
    }

    fn partition(&self) -> Partition {
        self.partition.clone().unwrap()
    }

    fn value(&mut self, data_type: &DataType) -> ScalarValue {
        let n = self.rng.random_range(-100..100i64);
        let value = match data_type {
            DataType::UInt8 | DataType::UInt16 => ScalarValue::Int64(Some(n.abs())),
            DataType::Float32 | DataType::Float64 => ScalarValue::Float64(Some(n as f64 / 4.0)),
            DataType::Utf8 | DataType::Utf8View => ScalarValue::Utf8(Some(format!("text {n}"))),
            DataType::Decimal128(_, scale) => ScalarValue::Decimal128(Some(i128::from(n)), 18, *scale),
            _ => ScalarValue::Int64(Some(n)),
        };
        value.cast_to(data_type).unwrap()
    }

    fn null_or_value(&mut self, column: &Column) -> ScalarValue {
        if column.nullable && self.below(4) == 0 {
            return ScalarValue::try_from(&column.data_type).unwrap();
        }
        self.value(&column.data_type)
    }

    /// The table with one more column.
    fn added(&mut self) -> (Table, SchemaChange) {
        let types = [
            DataType::Int8,
            DataType::UInt8,
            DataType::Int32,
            DataType::Float32,
            DataType::Utf8,
            DataType::Decimal128(9, 2),
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Boolean,
        ];
        let mut data_type = types[self.below(types.len())].clone();
        if data_type == DataType::Boolean {
            data_type = DataType::Date32;
        }
        let free: Vec<&str> =
            NAMES.into_iter().filter(|name| self.table.columns.iter().all(|column| column.name != *name)).collect();
        let name = free[self.below(free.len())].to_owned();
        let default = (self.below(2) == 0).then(|| self.value(&data_type));
        let nullable = default.is_none() || self.below(2) == 0;
        self.next_column += 1;
        let column = Column {
            number: self.next_column,
            name: name.clone(),
            data_type: data_type.clone(),
            nullable,
            default: default.clone().unwrap_or_else(|| ScalarValue::try_from(&data_type).unwrap()),
        };
        let mut table = self.table.clone();
        table.columns.push(column);
        (table, SchemaChange::Add { parent: Vec::new(), field: Field::new(name, data_type, nullable), default })
    }

    fn change(&mut self) -> (Table, SchemaChange) {
        let kind = self.below(4);
        if self.table.columns.len() < 2 || (kind == 0 && self.table.columns.len() < 4) {
            return self.added();
        }
        let index = self.below(self.table.columns.len());
        let mut table = self.table.clone();
        let path = vec![table.columns[index].name.clone()];
        match kind {
            1 => {
                table.columns.remove(index);
                (table, SchemaChange::Drop { path })
            }
            2 => {
                let free: Vec<&str> =
                    NAMES.into_iter().filter(|name| table.columns.iter().all(|column| column.name != *name)).collect();
                let to = free[self.below(free.len())].to_owned();
                table.columns[index].name = to.clone();
                (table, SchemaChange::Rename { path, to })
            }
            _ => {
                let to = match &table.columns[index].data_type {
                    DataType::Int8 => DataType::Int32,
                    DataType::UInt8 => DataType::UInt16,
                    DataType::UInt16 | DataType::Int32 => DataType::Int64,
                    DataType::Float32 => DataType::Float64,
                    DataType::Utf8 => DataType::Utf8View,
                    DataType::Decimal128(9, 2) => DataType::Decimal128(20, 4),
                    DataType::Timestamp(TimeUnit::Second, None) => DataType::Timestamp(TimeUnit::Millisecond, None),
                    DataType::Timestamp(TimeUnit::Millisecond, None) => DataType::Timestamp(TimeUnit::Nanosecond, None),
                    _ => {
                        table.columns.remove(index);
                        return (table, SchemaChange::Drop { path });
                    }
                };
                table.columns[index].data_type = to.clone();
                (table, SchemaChange::Widen { path, to })
            }
        }
    }

    fn new_rows(&mut self) -> BTreeMap<i64, Row> {
        let columns = self.table.columns.clone();
        let count = 1 + self.below(60) as i64;
        let from = self.next_id;
        self.next_id += count;
        (from..self.next_id)
            .map(|id| (id, columns.iter().map(|column| (column.number, self.null_or_value(column))).collect()))
            .collect()
    }

    async fn publish(&mut self, write_id: Uuid, table: Table) -> Result<()> {
        self.coming = Some(table);
        let partition = self.partition();
        partition.publish(write_id, partition.version() + 1).await?;
        self.table = self.coming.take().unwrap();
        Ok(())
    }

    async fn apply(&mut self) -> Result<()> {
        let write_id = Uuid::from_u128(self.rng.random());
        let partition = self.partition();
        match self.below(12) {
            0..4 => {
                let new = self.new_rows();
                let mut writer = partition.begin_write(write_id, WriteMode::Append).await?;
                writer.write(self.table.batch(new.iter())).await?;
                writer.finish().await?;
                // Sealed, it stays publishable whatever becomes of the columns.
                let mut table = self.table.clone();
                if self.below(3) == 0 {
                    let (changed, change) = self.change();
                    let change_id = Uuid::from_u128(self.rng.random());
                    partition.alter(change_id, change).await?;
                    self.publish(change_id, changed.clone()).await?;
                    table = changed;
                }
                table.rows.extend(new);
                self.publish(write_id, table).await
            }
            4..8 => {
                let (table, change) = self.change();
                partition.alter(write_id, change).await?;
                if self.below(5) == 0 {
                    return partition.discard(write_id).await;
                }
                self.publish(write_id, table).await
            }
            8 => {
                let (divisor, rest) = (2 + self.below(5) as i64, self.below(2) as i64);
                stage_update(&partition, write_id, |id| id % divisor == rest, None).await?;
                let mut table = self.table.clone();
                table.rows.retain(|id, _| id % divisor != rest);
                self.publish(write_id, table).await
            }
            9 => partition.compact_all(&CompactionResources::new(16 << 20, None)?).await.map(|_| ()),
            10 => partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.map(|_| ()),
            _ => {
                drop(partition);
                self.reopen().await;
                Ok(())
            }
        }
    }

    async fn reopen(&mut self) {
        self.trap.0.store(-1, Ordering::SeqCst);
        self.partition = None;
        for _ in 0..1000 {
            match Partition::open(&self.dir, self.options()) {
                Err(Error::InUse { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                other => {
                    self.partition = Some(other.unwrap());
                    return;
                }
            }
        }
        panic!("the partition is never released");
    }

    async fn step(&mut self) {
        let version = self.partition().version();
        if self.below(4) == 0 {
            let steps = self.below(20) as i64;
            self.trap.0.store(steps, Ordering::SeqCst);
        }
        let published = self.table.clone();
        self.coming = None;
        let result = self.apply().await;
        let sprung = self.trap.0.swap(-1, Ordering::SeqCst) < 0;
        if let Err(error) = result {
            assert!(sprung, "{error}");
            self.reopen().await;
            let partition = self.partition();
            // The last thing that was begun happened or did not.
            let shows = |table: &Table| {
                partition.schema() == table.schema() && partition.summary().rows == table.rows.len() as u64
            };
            if partition.version() > version
                && let Some(coming) = self.coming.take()
                && shows(&coming)
            {
                self.table = coming;
            }
            assert!(partition.version() > version || shows(&published), "{error}");
            for staged in partition.staged() {
                partition.discard(staged.write_id).await.unwrap();
            }
        }
        self.compare().await;
    }

    async fn compare(&mut self) {
        let partition = self.partition();
        let schema = self.table.schema();
        assert_eq!(partition.schema(), schema);
        let right = self.table.batch(self.table.rows.iter());
        let streams = 1 + self.below(3);
        let (ours, memory) = sessions(vec![partition.clone()], vec![right.clone()], streams);
        let mut all = read_version(&partition, None).await;
        all.push(RecordBatch::new_empty(Arc::clone(&schema)));
        assert_eq!(crate::types::in_order(&schema, &all), right);
        let name = schema.field(self.below(schema.fields().len())).name().clone();
        same(&ours, &memory, &format!("SELECT min({name}), max({name}), count({name}), count(*) FROM t")).await;
        let column = right.column_by_name(&name).unwrap();
        let mut conditions: Vec<Arc<dyn PhysicalExpr>> = vec![is_null(col(&name, &schema).unwrap()).unwrap()];
        if right.num_rows() > 0 {
            let row = self.below(right.num_rows());
            if column.is_valid(row) {
                let value = ScalarValue::try_from_array(column, row).unwrap();
                let operators = [Operator::Eq, Operator::Lt, Operator::GtEq, Operator::NotEq];
                conditions.extend(operators.map(|operator| comparison(&schema, &name, operator, value.clone())));
                let value = arrow::util::display::array_value_to_string(column, row).unwrap();
                let operator = ["=", "<", ">=", "<>"][self.below(4)];
                let typed = format!("arrow_cast('{value}', '{}')", column.data_type());
                same(&ours, &memory, &format!("SELECT id FROM t WHERE {name} {operator} {typed}")).await;
            }
        }
        // Each condition by itself, without the work of planning a statement.
        for condition in conditions {
            let request = ScanRequest { predicates: vec![Arc::clone(&condition)], streams, ..ScanRequest::default() };
            let mut found = first_column(&run(scan(&[partition.pin(None).unwrap()], &request).unwrap()).await);
            found.sort_unstable();
            let mask = condition.evaluate(&right).unwrap().into_array(right.num_rows()).unwrap();
            let wanted = filter_record_batch(&right, mask.as_boolean()).unwrap();
            assert_eq!(found, first_column(&[wanted]), "{condition}");
        }
    }
}

async fn one_run(seed: u64) {
    let home = TempDir::new().unwrap();
    let mut world = World::new(home.path().join("p"), seed);
    for _ in 0..STEPS {
        world.step().await;
    }
    world.reopen().await;
    world.compare().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_behave_like_those_of_rows_in_memory() {
    if let Ok(seed) = std::env::var("CAYENNE_COLUMNS_SEED") {
        return one_run(seed.parse().unwrap()).await;
    }
    let runs = std::env::var("CAYENNE_COLUMNS_RUNS").map_or(RUNS, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        eprintln!("CAYENNE_COLUMNS_SEED={seed}");
        one_run(seed).await;
    }
}
