//! Interned strings.

use crate::NameId;
use borsh::{BorshDeserialize, BorshSerialize};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Every string once, numbered in order of first use. Number 0 is the empty string.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Names {
    all: IndexSet<Box<str>, FxBuildHasher>,
    bytes: usize,
}

impl Default for Names {
    fn default() -> Self {
        let mut all = IndexSet::default();
        // `NameId::EMPTY` is the id of all that has no name, so it must be number 0.
        all.insert(Box::from(""));
        Names { all, bytes: 0 }
    }
}

impl From<Vec<String>> for Names {
    /// Strings in the order of their numbers, the empty one first.
    fn from(texts: Vec<String>) -> Names {
        let mut names = Names::default();
        for text in texts {
            names.intern(&text);
        }
        names
    }
}

impl From<Names> for Vec<String> {
    fn from(names: Names) -> Vec<String> {
        names.iter().map(str::to_owned).collect()
    }
}

impl BorshSerialize for Names {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        BorshSerialize::serialize(&self.iter().collect::<Vec<&str>>(), writer)
    }
}

impl BorshDeserialize for Names {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Names> {
        Ok(Vec::<String>::deserialize_reader(reader)?.into())
    }
}

impl Names {
    /// The number of `text`, new or known. O(length).
    pub fn intern(&mut self, text: &str) -> NameId {
        // Looked up before it is copied: nearly all texts of a trace have come before.
        if let Some(index) = self.all.get_index_of(text) {
            return NameId::new(index);
        }
        self.bytes += text.len();
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

    /// All strings, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|text| &**text)
    }

    /// How many strings there are, the empty one included.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether they take so much memory that a table which repeats a part of another's should be
    /// given up.
    pub fn is_large(&self) -> bool {
        self.bytes > 1 << 20 || self.all.len() > 1 << 14
    }

    /// Interns those of `other` that `known` has no entry for yet: entry `i` is the number here of
    /// its string `i`.
    pub fn absorb(&mut self, other: &Names, known: &mut Vec<NameId>) {
        // Strings keep their numbers, so those that were
        // taken over before need not be looked at again.
        known.extend(
            other
                .all
                .iter()
                .skip(known.len())
                .map(|text| self.intern(text)),
        );
    }
}

/// Texts longer than this are decoded each time: rarely are there many, and they are seldom the
/// same.
const LONG: usize = 512;

/// Short raw texts that have become names, so that none is decoded twice.
#[derive(Clone, Debug, Default)]
pub struct RawNameCache {
    all: IndexMap<Box<[u8]>, NameId, FxBuildHasher>,
}

impl RawNameCache {
    /// The name of `raw`: the one it had before, else what `intern` makes of it.
    pub fn name(&mut self, raw: &[u8], intern: impl FnOnce() -> NameId) -> NameId {
        // Long texts are mostly unique; kept, they would double the memory of the names.
        if raw.len() > LONG {
            return intern();
        }
        if let Some(name) = self.all.get(raw) {
            return *name;
        }
        let name = intern();
        self.all.insert(Box::from(raw), name);
        name
    }
}
