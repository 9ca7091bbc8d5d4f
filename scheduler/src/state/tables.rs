//! Commands about tables and their partitions: creation, removal, new keys, new owners.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ancho_common::{
    error::{Condition, Error},
    ids::{ExecutorId, PartitionId, TableId},
    partition::{PartitionKey, Partitioner},
    spec::{SNAPSHOT_MODE, settings::TIME_COLUMN},
    storable::{is_key_type, is_time_type},
};

use super::{
    apply::Applied,
    cluster::{Awaited, ClusterState, Load, Partition, Table, TableName},
    command::{AssignedPartition, NewPartition, NewTable, Outcome, Placement},
    layout::{check_layout, check_option_column},
    statistics::empty_columns,
    writes::merged_columns,
};

/// Longest name of a schema or table, bytes of UTF-8: it becomes part of object-store paths.
pub const MAX_NAME_BYTES: usize = 200;

/// Schemas whose tables are computed, not stored.
const RESERVED_SCHEMAS: [&str; 2] = ["information_schema", "system"];

impl NewTable {
    /// Checks the declaration as a whole, partition expressions included. To be called before the table is proposed:
    /// reading an expression takes the query engine, whose releases may differ between schedulers, so that applying
    /// the command repeats only the checks that need none.
    ///
    /// # Errors
    /// Says which part of the declaration is wrong and what to write instead.
    pub fn validate(&self) -> Result<Partitioner, Error> {
        self.check()?;
        let partitioner = Partitioner::try_new(self.schema.0.clone(), &self.partition_spec)
            .map_err(|e| e.context(&format!("table {}", self.name)))?;
        self.check_key_settings()?;
        check_layout(&self.name, &self.schema.0, &self.params)?;
        if !self.primary_key.is_empty() {
            for column in partitioner.source_columns() {
                if !self.primary_key.contains(&column) {
                    return Err(Error::invalid(format!(
                        "table {}: the primary key must contain column {column:?}, because the table is partitioned by \
                         it; otherwise rows of one key could live in several partitions",
                        self.name
                    )));
                }
            }
        }
        Ok(partitioner)
    }

    /// The engine can tell the key's values apart, and the settings that speak of a key have one.
    fn check_key_settings(&self) -> Result<(), Error> {
        for column in &self.primary_key {
            if let Ok(field) = self.schema.0.field_with_name(column)
                && !is_key_type(field.data_type())
            {
                return Err(Error::invalid(format!(
                    "table {}: primary key column {column:?} has type {}; a key may have booleans, integers, decimals, \
                     texts, binaries, dates, times and timestamps",
                    self.name,
                    field.data_type()
                )));
            }
        }
        if self.primary_key.is_empty() {
            let of_keys = [
                ("cayenne_deletion_mode", "key"),
                ("cayenne_pk_conflict_detection", "none"),
                ("pk_conflict_detection", "none"),
            ];
            let odd = of_keys.iter().find(|(name, value)| self.params.get(*name).is_some_and(|given| given == value));
            if let Some((name, value)) = odd {
                return Err(Error::invalid(format!("table {}: {name} = {value} needs a PRIMARY KEY", self.name)));
            }
            if let Some(name) =
                [TIME_COLUMN, "cayenne_pk_keyset_cache_mb"].iter().find(|n| self.params.contains_key(**n))
            {
                return Err(Error::invalid(format!("table {}: {name} needs a PRIMARY KEY", self.name)));
            }
        }
        match self.params.get(TIME_COLUMN) {
            None => Ok(()),
            Some(column) => {
                let instead = "use a timestamp, a date or an integer";
                check_option_column(&self.name, &self.schema.0, (TIME_COLUMN, column), is_time_type, instead)
            }
        }
    }

    /// The checks that depend on nothing but the declaration's own text.
    fn check(&self) -> Result<(), Error> {
        let invalid = |text: String| Err(Error::invalid(format!("table {}: {text}", self.name)));
        check_name(&self.name)?;
        if self.if_not_exists && self.or_replace {
            return invalid("IF NOT EXISTS and OR REPLACE exclude each other; write one of them".into());
        }
        let fields = self.schema.0.fields();
        if fields.is_empty() {
            return invalid("it has no column; declare at least one".into());
        }
        let mut names = BTreeSet::new();
        for field in fields {
            if field.name().is_empty() {
                return invalid("a column has an empty name; name it".into());
            }
            if !names.insert(field.name().as_str()) {
                return invalid(format!("column {:?} is declared twice; rename one", field.name()))
                    .map_err(|e| e.with(Condition::DuplicateColumn));
            }
        }
        let mut key_columns = BTreeSet::new();
        for column in &self.primary_key {
            if !names.contains(column.as_str()) {
                return invalid(format!("primary key column {column:?} does not exist; declare it or correct the key"))
                    .map_err(|e| e.with(Condition::UnknownColumn));
            }
            if !key_columns.insert(column) {
                return invalid(format!("the primary key names column {column:?} twice; name it once"));
            }
        }
        let mut keys = BTreeSet::new();
        for partition in &self.partitions {
            check_key(&self.name, &self.partition_spec.expressions, &partition.key)?;
            if !keys.insert(&partition.key) {
                return invalid(format!("partition {} is given twice", partition.key));
            }
        }
        Ok(())
    }
}

fn check_name(name: &TableName) -> Result<(), Error> {
    for (what, text) in [("schema", &name.schema), ("table", &name.table)] {
        if text.is_empty() {
            return Err(Error::invalid(format!("the {what} name is empty; give a name")));
        }
        if text.len() > MAX_NAME_BYTES {
            let bytes = text.len();
            let start: String = text.chars().take(40).collect();
            return Err(Error::invalid(format!(
                "the {what} name {start:?}… has {bytes} bytes; at most {MAX_NAME_BYTES} are allowed"
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid(format!("the {what} name {text:?} has a control character; leave it out")));
        }
    }
    if RESERVED_SCHEMAS.contains(&name.schema.as_str()) {
        return Err(Error::invalid(format!("schema {} is reserved; choose another one for {name}", name.schema)));
    }
    Ok(())
}

fn check_key(table: &TableName, expressions: &[String], key: &PartitionKey) -> Result<(), Error> {
    if key.0.len() == expressions.len() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "table {table}: the key of partition {key} has {} values, the table has {} partition expressions",
        key.0.len(),
        expressions.len()
    )))
}

impl ClusterState {
    /// The partition of this id and its table.
    pub fn find_partition(&self, id: PartitionId) -> Option<(&Arc<Table>, &Partition)> {
        self.tables.values().find_map(|table| table.partitions.get(&id).map(|partition| (table, partition)))
    }

    pub(super) fn existing_table(&self, id: TableId) -> Result<&Arc<Table>, Error> {
        self.tables
            .get(&id)
            .ok_or_else(|| Error::not_found(format!("table with id {id} does not exist; it was dropped or replaced")))
    }

    /// Declares a dataset whose table is not made yet.
    pub(super) fn await_dataset(&mut self, name: TableName, dataset: Awaited) -> Applied {
        check_name(&name)?;
        if name.schema != "public" {
            return Err(Error::invalid(format!("dataset {name}: datasets are tables of the schema public")));
        }
        if self.table(&name).is_some() {
            return Err(Error::already_exists(format!("table {name} exists; drop it first, or choose another name")));
        }
        self.awaited.insert(name.table, dataset);
        Ok(Outcome::Done)
    }

    /// The dataset of this name, if it waits for what it mirrors.
    pub fn awaited(&self, name: &TableName) -> Option<&Awaited> {
        self.awaited.get(&name.table).filter(|_| name.schema == "public" && self.table(name).is_none())
    }

    /// A table of this name would be taken for a dataset that is awaited.
    fn check_not_awaited(&self, name: &TableName) -> Result<(), Error> {
        match self.awaited(name) {
            None => Ok(()),
            Some(dataset) => Err(Error::already_exists(format!(
                "dataset {name} is declared, and waits for the first snapshot in {}; DROP TABLE {name} ends that",
                dataset.from
            ))),
        }
    }

    pub(super) fn create_table(&mut self, new: NewTable) -> Applied {
        new.check()?;
        if new.dataset.as_ref().is_none_or(|dataset| dataset.refresh_mode != SNAPSHOT_MODE) {
            self.check_not_awaited(&new.name)?;
        }
        let mut replaces = None;
        if let Some(existing) = self.table(&new.name) {
            let id = existing.id;
            if new.if_not_exists {
                return Ok(Outcome::Table { id, created: false });
            }
            if !new.or_replace {
                return Err(Error::already_exists(format!(
                    "table {} exists; drop it first, or write CREATE OR REPLACE TABLE or IF NOT EXISTS",
                    new.name
                )));
            }
            if new.loading {
                replaces = Some(id);
            } else {
                self.remove_table(id);
            }
        }
        self.next_table += 1;
        let id = TableId(self.next_table);
        let columns = empty_columns(&new.schema.0);
        let mut table = Table {
            id,
            name: new.name,
            schema: new.schema,
            partition_spec: new.partition_spec,
            primary_key: new.primary_key,
            params: new.params,
            dataset: new.dataset,
            load: new.loading.then_some(Load { renewals: 0, replaces }),
            version: 0,
            schema_version: 0,
            params_version: 0,
            alterations: Vec::new(),
            partitions: BTreeMap::new(),
            columns,
        };
        for partition in new.partitions {
            self.add_partition(&mut table, partition);
        }
        self.tables.insert(id, Arc::new(table));
        Ok(Outcome::Table { id, created: true })
    }

    pub(super) fn drop_table(&mut self, name: &TableName, if_exists: bool) -> Applied {
        let awaited = self.awaited(name).is_some();
        if name.schema == "public" {
            self.awaited.remove(&name.table);
        }
        match self.table(name).map(|t| t.id) {
            Some(id) => {
                self.remove_table(id);
                Ok(Outcome::Dropped { existed: true })
            }
            None if awaited => Ok(Outcome::Dropped { existed: true }),
            None if if_exists => Ok(Outcome::Dropped { existed: false }),
            None => Err(Error::not_found(format!("table {name} does not exist"))),
        }
    }

    pub(super) fn rename_table(&mut self, name: &TableName, to: TableName, if_exists: bool) -> Applied {
        let Some(table) = self.table(name) else {
            return if if_exists {
                Ok(Outcome::Done)
            } else {
                Err(Error::not_found(format!("table {name} does not exist")))
            };
        };
        let id = table.id;
        check_name(&to)?;
        if table.dataset.is_some() {
            return Err(Error::unsupported(format!(
                "table {name} is a dataset, which is named by its spec; apply the spec with the new name and drop {name}"
            )));
        }
        if table.load.is_some() {
            return Err(Error::unavailable(format!("table {name} is still being loaded; try again when it is")));
        }
        if self.table(&to).is_some() {
            return Err(Error::already_exists(format!("table {to} exists; drop it first, or choose another name")));
        }
        self.check_not_awaited(&to)?;
        if let Some(table) = self.tables.get_mut(&id) {
            Arc::make_mut(table).name = to;
        }
        Ok(Outcome::Done)
    }

    pub(super) fn ensure_partitions(&mut self, id: TableId, wanted: Vec<NewPartition>) -> Applied {
        let mut table = Arc::clone(self.existing_table(id)?);
        for partition in &wanted {
            check_key(&table.name, &table.partition_spec.expressions, &partition.key)?;
        }
        let mut ids: BTreeMap<PartitionKey, PartitionId> =
            table.partitions.values().map(|p| (p.key.clone(), p.id)).collect();
        let mut order = Vec::with_capacity(wanted.len());
        for partition in wanted {
            let id = match ids.get(&partition.key) {
                Some(id) => *id,
                None => {
                    let key = partition.key.clone();
                    let id = self.add_partition(Arc::make_mut(&mut table), partition);
                    ids.insert(key, id);
                    id
                }
            };
            order.push(id);
        }
        let partitions = order
            .iter()
            .filter_map(|id| table.partitions.get(id))
            .map(|p| AssignedPartition {
                key: p.key.clone(),
                partition: p.id,
                epoch: p.epoch,
                owners: p.owners.clone(),
            })
            .collect();
        self.tables.insert(id, table);
        Ok(Outcome::Partitions { partitions })
    }

    /// Gives partitions new owners. A decision on another epoch than the current one is skipped, as is one that names
    /// no executor or an unknown one, or changes nothing.
    pub(super) fn place(&mut self, placements: Vec<Placement>) -> Applied {
        let homes: BTreeMap<PartitionId, TableId> =
            self.tables.values().flat_map(|t| t.partitions.keys().map(|p| (*p, t.id))).collect();
        let mut moved = Vec::new();
        for placement in placements {
            let owners = self.known_owners(placement.owners.clone());
            let table = homes.get(&placement.partition).and_then(|table| self.tables.get_mut(table));
            let Some(table) = table else { continue };
            let Some(partition) = table.partitions.get(&placement.partition) else { continue };
            let sound = !owners.is_empty() && owners == placement.owners && owners != partition.owners;
            if partition.epoch != placement.epoch || !sound {
                continue;
            }
            if let Some(partition) = Arc::make_mut(table).partitions.get_mut(&placement.partition) {
                partition.owners = owners;
                partition.epoch += 1;
                moved.push(partition.id);
                self.moves.remove(&placement.partition);
            }
        }
        self.forget_loaded(&moved);
        Ok(Outcome::Done)
    }

    /// Puts an empty partition in the place of one that nobody can serve. It has an id of its own: whoever comes back with the
    /// rows of the former one has nothing to serve any more.
    pub(super) fn accept_loss(&mut self, id: PartitionId, epoch: u64, owners: Vec<ExecutorId>) -> Applied {
        let Some((table, partition)) = self.find_partition(id) else {
            return Err(Error::not_found(format!("partition {id} does not exist")));
        };
        let place = format!("partition {} of table {}", partition.key, table.name);
        if partition.epoch != epoch {
            return Err(Error::conflict(format!("{place} changed hands meanwhile; nothing was given up")));
        }
        if partition.version == 0 {
            return Err(Error::conflict(format!("{place} never held rows; there is nothing to give up")));
        }
        if let Some(owner) = self.serving_owner(partition) {
            return Err(Error::conflict(format!("{place} is served by executor {}; nothing was given up", owner.url)));
        }
        let mut table = Arc::clone(table);
        let changed = Arc::make_mut(&mut table);
        let Some(lost) = changed.partitions.remove(&id) else { return Ok(Outcome::Done) };
        let new = self.add_partition(changed, NewPartition { key: lost.key.clone(), owners });
        changed.version += 1;
        changed.columns = merged_columns(changed);
        let partitions = changed.partitions.get(&new).map(|p| AssignedPartition {
            key: p.key.clone(),
            partition: p.id,
            epoch: p.epoch,
            owners: p.owners.clone(),
        });
        // What a snapshot has of it is of another past than the empty one's.
        let newest = self.snapshots.published.get_mut(&table.id).and_then(|published| published.last_mut());
        if let Some(newest) = newest {
            Arc::make_mut(newest).partitions.remove(&id);
        }
        self.tables.insert(table.id, table);
        self.moves.remove(&id);
        self.forget_loaded(&[id]);
        Ok(Outcome::Partitions { partitions: partitions.into_iter().collect() })
    }

    fn add_partition(&mut self, table: &mut Table, new: NewPartition) -> PartitionId {
        self.next_partition += 1;
        let id = PartitionId(self.next_partition);
        let partition = Partition {
            id,
            key: new.key,
            epoch: 1,
            owners: self.known_owners(new.owners),
            version: 0,
            rows: 0,
            bytes: 0,
            commits: Vec::new(),
            columns: empty_columns(&table.schema.0),
        };
        table.partitions.insert(id, partition);
        id
    }

    /// Without repetitions and executors that are not registered (any more): the leader places what is left over.
    fn known_owners(&self, owners: Vec<ExecutorId>) -> Vec<ExecutorId> {
        let mut known: Vec<ExecutorId> = Vec::with_capacity(owners.len());
        for owner in owners {
            if self.executors.contains_key(&owner) && !known.contains(&owner) {
                known.push(owner);
            }
        }
        known
    }

    pub(super) fn remove_table(&mut self, id: TableId) {
        if let Some(table) = self.tables.remove(&id) {
            let partitions: Vec<PartitionId> = table.partitions.keys().copied().collect();
            self.forget_loaded(&partitions);
            for partition in partitions {
                self.moves.remove(&partition);
            }
            self.snapshots.forget(id);
        }
    }
}
