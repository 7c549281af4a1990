//! Interned strings.

use crate::NameId;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Every string once, numbered in order of first use. Number 0 is the empty string.
#[derive(Clone, Debug)]
pub struct Names {
    all: IndexSet<Box<str>, FxBuildHasher>,
}

impl Default for Names {
    fn default() -> Self {
        let mut all = IndexSet::default();
        all.insert(Box::from(""));
        Names { all }
    }
}

impl Names {
    /// The number of `text`, new or known. O(length).
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(index) = self.all.get_index_of(text) {
            return NameId::new(index);
        }
        NameId::new(self.all.insert_full(Box::from(text)).0)
    }

    /// The number of `text`, if it is known.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.all.get_index_of(text).map(NameId::new)
    }

    /// The string of a number that this table gave out; empty for any other.
    pub fn get(&self, id: NameId) -> &str {
        self.all.get_index(id.index()).map_or("", |text| text)
    }

    /// How many strings there are, the empty one included.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Interns all of `other`; entry `i` of the result is the number here of its string `i`.
    pub fn absorb(&mut self, other: &Names) -> Vec<NameId> {
        other.all.iter().map(|text| self.intern(text)).collect()
    }
}
