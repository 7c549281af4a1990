//! Shards: parts of the ranks of a source.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Maximum number of shards; more are probably a typing error.
const MAX_SHARDS: u32 = 65_536;

/// Every `count`th rank of a source, from place `index` on. Neighbours mostly have similar sizes,
/// so this spreads large ranks evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    index: u32,
    count: NonZeroU32,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard::WHOLE
    }
}

impl Shard {
    /// The shard of all ranks.
    pub const WHOLE: Shard = Shard {
        index: 0,
        count: NonZeroU32::MIN,
    };

    /// Creates shard `index` of `count`.
    ///
    /// # Errors
    /// Fails if there is no such shard.
    pub fn new(index: u32, count: u32) -> Result<Shard, String> {
        if count > MAX_SHARDS {
            return Err(format!("there can be {MAX_SHARDS} shards at most"));
        }
        let shards = NonZeroU32::new(count).ok_or("there are no shards of 0")?;
        if index < count {
            return Ok(Shard {
                index,
                count: shards,
            });
        }
        let last = count - 1;
        Err(format!(
            "shards count from 0: the last of {count} is {last}/{count}"
        ))
    }

    /// Returns the shard's number, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the total number of shards.
    pub fn count(self) -> u32 {
        self.count.get()
    }

    /// Returns true if the rank at this place is in the shard.
    pub fn has(self, place: usize) -> bool {
        place % self.count.get() as usize == self.index as usize
    }
}

/// Writes a shard like `3/64`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// Parses a shard like `3/64`.
impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/');
        let numbers = parts.map(|(index, count)| (index.trim().parse(), count.trim().parse()));
        match numbers {
            Some((Ok(index), Ok(count))) => Shard::new(index, count),
            _ => Err("a shard is its number and how many there are, such as 3/64".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_part_the_ranks() {
        let mut seen = vec![];
        for index in 0..3 {
            let shard = Shard::new(index, 3).expect("a shard");
            seen.extend((0..10).filter(|place| shard.has(*place)));
        }
        seen.sort_unstable();
        assert_eq!(seen, Vec::from_iter(0..10));
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
            assert!(error.contains(message), "{text}: {error}");
        }
        assert_eq!(
            "3/64".parse::<Shard>().expect("a shard").to_string(),
            "3/64"
        );
    }
}
