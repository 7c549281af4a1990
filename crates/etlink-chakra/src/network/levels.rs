//! Determines the dimension that a communication crosses in a network of one or two levels.
//!
//! The two levels are blocks of neighbouring ranks (the devices of a host), and ranks at the same
//! position in different blocks. ASTRA-sim's analytical network charges a message to the first
//! dimension in which its ranks differ. A message to another position in another block therefore
//! costs as much as a message within a block.

/// Maximum number of ranks in a block. Fast domains have at most some hundred ranks (72 of an
/// NVL72, 256 of a pod), and a damaged trace may state any number.
const MOST_OF_A_BLOCK: u64 = 4_096;

/// Layout of ranks over the levels: rank r is in block r / `block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RankBlocks {
    /// Number of all ranks.
    pub(super) ranks: u64,
    /// Ranks per block; all of them if the network has one level.
    pub(super) block: u64,
}

/// Reach of a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommReach {
    /// Ranks of one block.
    Within,
    /// Ranks at the same position in several blocks.
    Across,
    /// All ranks, over both dimensions.
    Everything,
    /// Ranks at different positions in different blocks, charged to one of the dimensions.
    Mixed {
        /// True if a neighbour in the ring is at the same position in another block.
        across: bool,
    },
}

impl RankBlocks {
    /// Creates a layout with one level.
    pub(super) fn flat(ranks: u64) -> RankBlocks {
        RankBlocks {
            ranks,
            block: ranks,
        }
    }

    /// Returns all layouts of the ranks in two levels.
    pub(super) fn of_two_levels(ranks: u64) -> impl Iterator<Item = RankBlocks> {
        let largest = MOST_OF_A_BLOCK.min(ranks / 2);
        let sizes = (2..=largest).filter(move |block| ranks.is_multiple_of(*block));
        sizes.map(move |block| RankBlocks { ranks, block })
    }

    pub(super) fn is_flat(self) -> bool {
        self.block == self.ranks
    }

    pub(super) fn blocks(self) -> u64 {
        self.ranks / self.block
    }

    /// Returns the reach of a group's ranks, or of the two ranks of a message.
    pub(super) fn reach(self, members: &[u64]) -> CommReach {
        let block = |rank: &u64| rank / self.block;
        let place = |rank: &u64| rank % self.block;
        let all_equal =
            |of: &dyn Fn(&u64) -> u64| members.windows(2).all(|pair| of(&pair[0]) == of(&pair[1]));
        if all_equal(&block) {
            return CommReach::Within;
        }
        if members.len() as u64 == self.ranks {
            return CommReach::Everything;
        }
        let mut blocks: Vec<u64> = members.iter().map(block).collect();
        blocks.dedup();
        if all_equal(&place) && blocks.len() == members.len() {
            return CommReach::Across;
        }
        let next = members.iter().cycle().skip(1);
        let mut hops = members.iter().zip(next);
        CommReach::Mixed {
            across: hops.any(|(from, to)| place(from) == place(to) && from != to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_lie_within_blocks_or_across_them() {
        let blocks = RankBlocks { ranks: 8, block: 4 };
        assert_eq!(blocks.reach(&[4, 5, 6, 7]), CommReach::Within);
        assert_eq!(blocks.reach(&[1, 5]), CommReach::Across);
        assert_eq!(
            blocks.reach(&[0, 1, 2, 3, 4, 5, 6, 7]),
            CommReach::Everything
        );
        // As a ring 0, 1, 4, 5: no neighbours share a position.
        assert_eq!(
            blocks.reach(&[0, 1, 4, 5]),
            CommReach::Mixed { across: false }
        );
        assert_eq!(blocks.reach(&[0, 4, 5]), CommReach::Mixed { across: true });
        // From one pipeline stage to the next, on another host.
        assert_eq!(blocks.reach(&[3, 4]), CommReach::Mixed { across: false });
        assert_eq!(RankBlocks::flat(8).reach(&[3, 4]), CommReach::Within);
    }

    #[test]
    fn ranks_are_laid_out_in_equal_blocks() {
        let of = |ranks| RankBlocks::of_two_levels(ranks).map(|found| found.block);
        assert_eq!(of(12).collect::<Vec<_>>(), [2, 3, 4, 6]);
        assert_eq!(of(2).chain(of(7)).next(), None);
        // As stated by a damaged trace.
        assert_eq!(of(i64::MAX as u64).next(), Some(7));
    }
}
