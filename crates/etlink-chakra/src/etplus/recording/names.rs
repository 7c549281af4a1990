//! Numbers the names in a recording.

use etlink_model::{NameId, Names};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Names that the recording uses, numbered in order of first use.
pub(super) struct NameNumbers<'n> {
    names: &'n Names,
    used: IndexSet<NameId, FxBuildHasher>,
}

impl<'n> NameNumbers<'n> {
    pub(super) fn new(names: &'n Names) -> Self {
        // The empty name is number 0 everywhere.
        NameNumbers {
            names,
            used: IndexSet::from_iter([NameId::EMPTY]),
        }
    }

    /// Returns the number of a name of the device trace.
    pub(super) fn number(&mut self, name: NameId) -> i64 {
        if name.index() >= self.names.count() {
            return 0;
        }
        self.used.insert_full(name).0 as i64
    }

    pub(super) fn texts(&self) -> Vec<&'n str> {
        let used = self.used.iter();
        used.map(|name| self.names.get(*name)).collect()
    }
}
