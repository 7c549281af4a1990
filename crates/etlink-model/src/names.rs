//! Interned strings.

use crate::NameId;
use borsh::{BorshDeserialize, BorshSerialize};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// String table: every string once, numbered in order of first use. Number 0 is the empty string.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Names {
    all: IndexSet<Box<str>, FxBuildHasher>,
    bytes: usize,
}

impl Default for Names {
    fn default() -> Self {
        let mut all = IndexSet::default();
        // Everything without a name has the id `NameId::EMPTY`, so the empty string must be number
        // 0.
        all.insert(Box::from(""));
        Names { all, bytes: 0 }
    }
}

impl From<Vec<String>> for Names {
    /// Creates a table from strings in the order of their numbers, the empty one first.
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
    /// Returns the number of `text`, adding it if unknown. O(length).
    pub fn intern(&mut self, text: &str) -> NameId {
        // The lookup precedes the copy, because nearly all texts of a trace repeat.
        if let Some(index) = self.all.get_index_of(text) {
            return NameId::new(index);
        }
        self.bytes += text.len();
        NameId::new(self.all.insert_full(Box::from(text)).0)
    }

    /// Returns the number of `text`, if it is known.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.all.get_index_of(text).map(NameId::new)
    }

    /// Returns the string with this number; empty if the table has none.
    pub fn get(&self, id: NameId) -> &str {
        self.all.get_index(id.index()).map_or("", |text| text)
    }

    /// Iterates over all strings in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|text| &**text)
    }

    /// Returns the number of strings, the empty one included.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns true if the table uses so much memory that another table repeating part of it should
    /// be dropped.
    pub fn is_large(&self) -> bool {
        self.bytes > 1 << 20 || self.all.len() > 1 << 14
    }

    /// Interns the strings of `other` that `known` does not cover yet. `known[i]` becomes the
    /// number, in this table, of string `i` of `other`.
    pub fn absorb(&mut self, other: &Names, known: &mut Vec<NameId>) {
        // Strings keep their numbers, so those already absorbed are skipped.
        known.extend(
            other
                .all
                .iter()
                .skip(known.len())
                .map(|text| self.intern(text)),
        );
    }
}

/// Length above which texts are decoded each time: long texts are few and rarely repeat.
const LONG: usize = 512;

/// Cache of short raw texts that have become names, so that none is decoded twice.
#[derive(Clone, Debug, Default)]
pub struct RawNameCache {
    all: IndexMap<Box<[u8]>, NameId, FxBuildHasher>,
}

impl RawNameCache {
    /// Returns the name of `raw`, calling `intern` if it is not cached.
    pub fn name(&mut self, raw: &[u8], intern: impl FnOnce() -> NameId) -> NameId {
        // Long texts are mostly unique; caching them would double the memory of the names.
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
