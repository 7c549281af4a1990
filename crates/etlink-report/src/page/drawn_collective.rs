//! Joint communications of the ranks, as rows of the page.

use etlink_link::ranks::CollectiveSkew;
use etlink_model::{CommonNs, GlobalRank};
use serde::Serialize;

/// A collective or message in the page. Times are by the common clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DrawnCollective {
    pub(super) kind: String,
    pub(super) ranks: String,
    /// Number of the process group.
    pub(super) group: u32,
    pub(super) number: i64,
    pub(super) bytes: Option<u64>,
    /// Time of the first arrival.
    pub(super) start_ns: i64,
    /// Rank that arrived first.
    pub(super) first: GlobalRank,
    pub(super) last: GlobalRank,
    pub(super) skew_ns: i64,
    pub(super) alone_ns: i64,
}

impl DrawnCollective {
    /// Creates a row from a skew; `first` is the first rank to arrive, `origin_ns` the zero of
    /// times.
    pub(super) fn new(
        skew: CollectiveSkew,
        first: GlobalRank,
        origin_ns: CommonNs,
    ) -> DrawnCollective {
        DrawnCollective {
            kind: skew.kind,
            ranks: skew.ranks,
            group: skew.group,
            number: skew.number,
            bytes: skew.bytes,
            start_ns: skew.start_ns.since(origin_ns),
            first,
            last: skew.last,
            skew_ns: skew.skew_ns,
            alone_ns: skew.alone_ns,
        }
    }
}
