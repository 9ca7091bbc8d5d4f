//! What statements of a transaction do together, and how it sees a version meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::change::{Refusal, summarize};
use super::{Deletes, Staged, State, VersionView, VisibleFile};
use crate::deletion_vector::DeletionVector;
use crate::layout;
use crate::schema::TableSchema;

impl Staged {
    /// The write that does what `earlier` does and then this one.
    pub(crate) fn after(mut self, earlier: &Staged) -> Result<Self, Refusal> {
        if self.schema.id != earlier.schema.id {
            return Err("the columns of the table have changed".to_owned());
        }
        self.files.splice(0..0, earlier.files.iter().cloned());
        for (file, positions) in &earlier.deletes {
            let all = match self.deletes.get(file) {
                None => positions.clone(),
                Some(more) if more.positions().is_disjoint(positions.positions()) => {
                    DeletionVector::new(more.positions() | positions.positions())
                }
                Some(_) => {
                    let name = layout::file_name(*file);
                    return Err(format!("the transaction has deleted a row of data file '{name}' before"));
                }
            };
            self.deletes.insert(*file, all);
        }
        self.count_again();
        Ok(self)
    }

    /// Hides more rows, of stored files and of its own.
    pub(crate) fn hide(&mut self, more: &Deletes) {
        for (file, positions) in more {
            let all = self.deletes.get(file).map_or_else(
                || positions.clone(),
                |deleted| DeletionVector::new(deleted.positions() | positions.positions()),
            );
            self.deletes.insert(*file, all);
        }
        self.count_again();
    }

    /// Its files with the rows that it shows.
    pub(crate) fn visible_files(&self, sequence: u64, schema: &TableSchema) -> Vec<VisibleFile> {
        let hidden = |id: Uuid| self.deletes.get(&id).cloned().map(Arc::new);
        self.files.iter().map(|file| VisibleFile::new(file, sequence, schema).without(hidden(file.id))).collect()
    }

    fn count_again(&mut self) {
        let columns = self.schema.columns();
        self.summary.data = summarize(&self.visible_files(0, &self.schema), columns);
        let own = self.summary.data.deleted_rows;
        let all: u64 = self.deletes.values().map(DeletionVector::rows).sum();
        self.summary.deleted_rows = all - own;
    }
}

impl State {
    /// A version as a transaction sees it that has staged this write on it.
    pub(crate) fn with_staged(&self, base: &VersionView, write: &Staged) -> Result<VersionView, Refusal> {
        let mut hidden: HashMap<Uuid, &DeletionVector> = write.deletes.iter().map(|(id, rows)| (*id, rows)).collect();
        let own = write.visible_files(base.generation, &base.schema);
        for entry in &own {
            hidden.remove(&entry.file.id);
        }
        let mut files = Vec::with_capacity(base.files.len() + own.len());
        for entry in base.files.iter() {
            let Some(more) = hidden.remove(&entry.file.id) else {
                files.push(entry.clone());
                continue;
            };
            let mut positions = more.positions().clone();
            if let Some(deleted) = &entry.deleted {
                positions |= deleted.positions();
            }
            if positions.len() < entry.file.summary.rows {
                files.push(entry.clone().without(Some(Arc::new(DeletionVector::new(positions)))));
            }
        }
        if let Some(id) = hidden.keys().next() {
            return Err(format!("rows of data file '{}' have been replaced or deleted", layout::file_name(*id)));
        }
        files.extend(own.into_iter().filter(|entry| entry.rows() > 0));
        let summary = Arc::new(summarize(&files, base.schema.columns()));
        Ok(VersionView { files: files.into(), summary, private: true, ..base.clone() })
    }
}
