//! One part of the ranks of a source.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// More are a slip of the fingers, and each is a file.
const MAX_SHARDS: u32 = 65_536;

/// Every `count`th rank of a source, from the one at place `index` on. Neighbours are mostly of one
/// size, so that this spreads large ranks evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    index: u32,
    count: NonZeroU32,
}

impl Shard {
    /// All ranks.
    pub const WHOLE: Shard = Shard {
        index: 0,
        count: NonZeroU32::MIN,
    };

    /// No ranks: for what only looks at the list of them.
    pub const NONE: Shard = Shard {
        index: 1,
        count: NonZeroU32::MIN,
    };

    /// Shard `index` of `count`.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn new(index: u32, count: u32) -> Result<Shard, ShardError> {
        if count > MAX_SHARDS {
            return Err(ShardError::TooMany);
        }
        match NonZeroU32::new(count) {
            Some(count) if index < count.get() => Ok(Shard { index, count }),
            Some(count) => Err(ShardError::TooHigh { count }),
            None => Err(ShardError::NoShards),
        }
    }

    /// Its number, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.count.get()
    }

    /// All shards of which this is one.
    pub(crate) fn siblings(self) -> impl Iterator<Item = Shard> {
        let count = self.count;
        (0..count.get()).map(move |index| Shard { index, count })
    }

    /// Whether the rank at this place is in it.
    pub fn has(self, place: usize) -> bool {
        place % self.count.get() as usize == self.index as usize
    }
}

/// `3/64`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// `3/64`.
impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Shard, ShardError> {
        let parts = text.split_once('/');
        let numbers = parts.map(|(index, count)| (index.trim().parse(), count.trim().parse()));
        match numbers {
            Some((Ok(index), Ok(count))) => Shard::new(index, count),
            _ => Err(ShardError::NoShard),
        }
    }
}

/// Why there is no such shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// Not two numbers.
    #[error("a shard is its number and how many there are, such as 3/64")]
    NoShard,
    /// Of 0.
    #[error("there are no shards of 0")]
    NoShards,
    /// More than anybody has machines.
    #[error("there can be {MAX_SHARDS} shards at most")]
    TooMany,
    /// As many as there are, or more.
    #[error("shards count from 0: the last of {count} is {}/{count}", count.get() - 1)]
    TooHigh {
        /// How many there are.
        count: NonZeroU32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_part_the_ranks() {
        let whole: Shard = "0/3".parse().expect("a shard");
        let mut seen = vec![];
        for shard in whole.siblings() {
            seen.extend((0..10).filter(|place| shard.has(*place)));
        }
        seen.sort_unstable();
        assert_eq!(seen, Vec::from_iter(0..10));
        assert!(!(0..10).any(|place| Shard::NONE.has(place)));
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for (text, message) in [
            ("3", "such as 3/64"),
            ("a/b", "such as 3/64"),
            ("-1/4", "such as 3/64"),
            ("4/4", "the last of 4 is 3/4"),
            ("0/0", "no shards of 0"),
            ("0/4000000000", "65536 shards at most"),
        ] {
            let error = text.parse::<Shard>().expect_err(text);
            assert!(error.to_string().contains(message), "{text}: {error}");
        }
        assert_eq!(
            "3/64".parse::<Shard>().expect("a shard").to_string(),
            "3/64"
        );
    }
}
