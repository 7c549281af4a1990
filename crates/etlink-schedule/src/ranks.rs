//! Parses `--ranks 0,8-15`.

use serde::Serialize;
use std::str::FromStr;

/// Selected ranks: `0,8-15`, as inclusive ranges in typed order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankSelection(Vec<(u32, u32)>);

/// A text that is not a list of ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a rank nor a range of ranks; ranks are written 0,8-15")]
pub struct InvalidRanks(String);

impl RankSelection {
    /// Returns true if `rank` is selected. O(ranges).
    pub fn has(&self, rank: u32) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&rank))
    }

    /// Iterates over the selected ranks, in typed order. A range can be long.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }
}

impl FromStr for RankSelection {
    type Err = InvalidRanks;

    fn from_str(text: &str) -> Result<RankSelection, InvalidRanks> {
        let mut ranges = vec![];
        for part in text.split(',') {
            let range = parse_range(part.trim());
            ranges.push(range.ok_or_else(|| InvalidRanks(part.to_owned()))?);
        }
        Ok(RankSelection(ranges))
    }
}

fn parse_range(part: &str) -> Option<(u32, u32)> {
    // A single rank is a range of one.
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let first = first.trim().parse().ok()?;
    let last = last.trim().parse().ok()?;
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_ranges_may_be_mixed() {
        let ranks: RankSelection = "0, 8-15,20".parse().expect("ranks");
        let chosen: Vec<u32> = (0..30).filter(|rank| ranks.has(*rank)).collect();
        assert_eq!(chosen, [0, 8, 9, 10, 11, 12, 13, 14, 15, 20]);
        assert_eq!(ranks.iter().collect::<Vec<_>>(), chosen);
        assert_eq!(
            serde_json::to_string(&ranks).expect("json"),
            "[[0,0],[8,15],[20,20]]"
        );
    }

    #[test]
    fn what_is_no_rank_is_named() {
        for (text, part) in [
            ("", ""),
            ("1,x", "x"),
            ("5-2", "5-2"),
            ("-1", "-1"),
            ("1--3", "1--3"),
            ("4294967296", "4294967296"),
        ] {
            assert_eq!(
                text.parse::<RankSelection>(),
                Err(InvalidRanks(part.to_owned())),
                "{text}"
            );
        }
    }
}
