//! What is said of a run that hangs.

use etlink_flight_recorder::FlightDump;
use etlink_link::ranks::{JoinProblemKind, rank_list};
use etlink_model::GlobalRank;
use serde::Serialize;

/// The dump of a rank.
#[derive(Debug)]
pub struct RankDump {
    /// The rank.
    pub rank: GlobalRank,
    /// What its flight recorder kept.
    pub dump: FlightDump,
}

/// What the dumps of a run say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HangReport {
    /// Ranks that some group has and that have no dump here.
    pub absent: Vec<GlobalRank>,
    /// Ranks that others wait for and that wait for nobody.
    pub waited_for: Vec<GlobalRank>,
    /// Each rank that has a dump.
    pub ranks: Vec<RankHang>,
    /// Collectives in which ranks wait, the first of each group.
    pub stuck: Vec<StuckCollective>,
    /// What is unequal on the ranks of a collective.
    pub problems: Vec<HangProblem>,
    /// How many collectives the dumps have, each counted once.
    pub collectives: u64,
}

/// Where a rank is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankHang {
    /// The rank.
    pub rank: GlobalRank,
    /// How many collectives and messages its dump has.
    pub entries: u64,
    /// The first that has not ended.
    pub hangs_in: Option<CollectivePlace>,
    /// The last that it called.
    pub last: Option<CollectivePlace>,
    /// The ranks that have not called what it hangs in.
    pub waits_for: Vec<GlobalRank>,
}

/// A collective or message as a rank knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CollectivePlace {
    /// `all_reduce`, …
    pub kind: &'static str,
    /// Name of its group.
    pub group: String,
    /// Description of its group.
    pub group_desc: String,
    /// Its number in the group.
    pub number: i64,
    /// `scheduled`, `started` or `completed`.
    pub state: &'static str,
    /// When it was called, ns by the clock of the rank's machine.
    pub created_ns: i64,
    /// Where the program called it; empty where the dump has no stacks.
    pub place: String,
}

/// A collective in which ranks wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StuckCollective {
    /// `all_reduce`, …
    pub kind: &'static str,
    /// `ranks 0, 1`; of a group whose ranks no dump lists, those that have it.
    pub ranks: String,
    /// Name of its group, as the first rank says it.
    pub group: String,
    /// Description of its group.
    pub group_desc: String,
    /// Its number in the group.
    pub number: i64,
    /// Bytes of the first rank's input.
    pub bytes: u64,
    /// Element type.
    pub dtype: String,
    /// Sizes of the first rank's inputs, list text.
    pub sizes: String,
    /// Ranks that have called it and in which it has not ended.
    pub waiting: Vec<GlobalRank>,
    /// Ranks in which it has ended.
    pub ended: Vec<GlobalRank>,
    /// Ranks that have not called it.
    pub not_called: Vec<AbsentCall>,
    /// Ranks of the group without a dump.
    pub unknown: Vec<GlobalRank>,
    /// When the last of those that wait called it, ns by the clock of its machine.
    pub created_ns: i64,
}

/// A rank that has not called a collective.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AbsentCall {
    /// The rank.
    pub rank: GlobalRank,
    /// The last collective of the group that it called; -1 = none that the dump has.
    pub last_number: i64,
    /// What that was; empty where there is none.
    pub last_kind: &'static str,
}

/// What is unequal on the ranks of collectives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HangProblem {
    /// What.
    pub kind: JoinProblemKind,
    /// How often.
    pub count: u64,
    /// The first few, in words.
    pub examples: Vec<String>,
}

/// A call as a line of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlightCall {
    /// `all_reduce`, …
    pub kind: &'static str,
    /// `ranks 0, 1`.
    pub ranks: String,
    /// Name of its group.
    pub group: String,
    /// Its number in the group.
    pub number: i64,
    /// The rank that called it.
    pub rank: GlobalRank,
    /// `scheduled`, `started` or `completed`.
    pub state: &'static str,
    /// It has ended.
    pub ended: bool,
    /// When it was called, ns by the clock of the rank's machine.
    pub created_ns: i64,
    /// Element type.
    pub dtype: String,
    /// Sizes of the inputs, list text.
    pub in_sizes: String,
    /// Sizes of the outputs, list text.
    pub out_sizes: String,
    /// Where the program called it.
    pub place: String,
}

impl StuckCollective {
    /// `all_reduce number 4 of ranks 0, 1`.
    pub fn title(&self) -> String {
        format!("{} number {} of {}", self.kind, self.number, self.ranks)
    }

    /// Who waits, and for whom, in a sentence.
    pub fn sentence(&self) -> String {
        let waiting = rank_list("rank", &self.waiting);
        let verb = match self.waiting.len() {
            1 => "waits",
            _ => "wait",
        };
        let mut said = format!("{waiting} {verb} in {}", self.title());
        let absent: Vec<GlobalRank> = self.not_called.iter().map(|call| call.rank).collect();
        if !absent.is_empty() {
            let absent = rank_list("rank", &absent);
            let verb = match self.not_called.len() {
                1 => "has",
                _ => "have",
            };
            said += &format!(", which {absent} {verb} not called");
            if let [call] = &self.not_called[..] {
                said += &match call.last_number {
                    ..0 => " (it has called none of this group)".to_owned(),
                    number => format!(" (its last is {} number {number})", call.last_kind),
                };
            }
        } else if self.unknown.is_empty() {
            said += ", which all of them have called";
            if !self.ended.is_empty() {
                said += &format!(
                    ", and which has ended in {}",
                    rank_list("rank", &self.ended)
                );
            }
        }
        if !self.unknown.is_empty() {
            let unknown = rank_list("rank", &self.unknown);
            said += &format!("; there is no dump of {unknown}");
        }
        said
    }
}
