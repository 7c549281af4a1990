//! Records and sentences of the report on a hanging run.

use etlink_formats::flight_recorder::FlightDump;
use etlink_link::ranks::{JoinProblemKind, rank_list};
use etlink_model::{AnomalyKind, GlobalRank};
use serde::Serialize;

/// Flight recorder dump of a rank.
#[derive(Debug)]
pub struct RankDump {
    /// Rank of the dump.
    pub rank: GlobalRank,
    /// Contents of the dump.
    pub dump: FlightDump,
}

impl RankDump {
    /// True if the dump is truncated within its list of calls: later calls are unknown.
    pub fn is_cut(&self) -> bool {
        let anomalies = &self.dump.anomalies;
        anomalies.count(AnomalyKind::Truncated) > 0 || anomalies.count(AnomalyKind::SourceEnded) > 0
    }
}

/// Verdict on whether the dumps show a hang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HangVerdict {
    /// All calls have ended.
    #[default]
    Ended,
    /// Some call has not ended, but no rank is known to wait for another.
    InFlight,
    /// Ranks may wait for ranks whose calls are unknown.
    Unknown,
    /// Ranks wait for a rank or for each other, or called different things.
    Hangs,
}

/// Findings from the dumps of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HangReport {
    /// Verdict on the run.
    pub verdict: HangVerdict,
    /// Verdict in words, and what the run hangs on; at least one sentence.
    pub sentences: Vec<String>,
    /// Truncated dumps.
    pub cut: Vec<CutDump>,
    /// Ranks that appear in a group but have no usable dump.
    pub absent: Vec<GlobalRank>,
    /// Ranks of `absent` that have an unusable dump.
    pub unusable: Vec<GlobalRank>,
    /// Ranks that others wait for and that wait for nobody.
    pub waited_for: Vec<GlobalRank>,
    /// Position of each rank that has a dump.
    pub ranks: Vec<RankHang>,
    /// Collectives in which ranks wait: per group, the first of each rank.
    pub stuck: Vec<StuckCollective>,
    /// Messages in which ranks wait: the first of each rank that waits in one.
    pub messages: Vec<StuckMessage>,
    /// Differences between the ranks of a collective.
    pub problems: Vec<HangProblem>,
    /// Number of collectives in the dumps, each counted once.
    pub collectives: u64,
}

/// Position of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankHang {
    /// Rank described.
    pub rank: GlobalRank,
    /// Number of collectives and messages in the rank's dump.
    pub entries: u64,
    /// First call that has not ended.
    pub hangs_in: Option<CollectivePlace>,
    /// Last call of the rank.
    pub last: Option<CollectivePlace>,
    /// Ranks that have not called what this rank hangs in.
    pub waits_for: Vec<GlobalRank>,
    /// Ranks that may not have called it: they have no dump, or a dump truncated before that call.
    pub may_wait_for: Vec<GlobalRank>,
    /// True if the rank's own dump is truncated: later calls are unknown.
    pub is_cut: bool,
}

/// A dump that is truncated within its list of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutDump {
    /// Rank of the dump.
    pub rank: GlobalRank,
    /// Last call in the dump.
    pub last: Option<CollectivePlace>,
    /// Consequence of the truncation, in a sentence.
    pub message: String,
}

impl CutDump {
    pub(super) fn new(rank: GlobalRank, last: Option<CollectivePlace>) -> CutDump {
        let after = last.as_ref();
        let message = match after {
            Some(last) => format!(
                "rank {rank}'s dump is truncated after {} {}: its later calls are unknown",
                last.kind, last.number
            ),
            None => format!(
                "rank {rank}'s dump is truncated before its first call: its calls are unknown"
            ),
        };
        CutDump {
            rank,
            last,
            message,
        }
    }
}

/// A collective or message as seen by one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectivePlace {
    /// `all_reduce`, …
    pub kind: &'static str,
    /// Name of the group.
    pub group: String,
    /// Description of the group.
    pub group_desc: String,
    /// Number of the call in the group.
    pub number: i64,
    /// `scheduled`, `started` or `completed`.
    pub state: &'static str,
    /// Time of the call, ns by the clock of the rank's machine.
    pub created_ns: i64,
    /// Position in the program; empty if the dump has no stacks.
    pub place: String,
}

/// A collective in which ranks wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StuckCollective {
    /// `all_reduce`, …
    pub kind: &'static str,
    /// `ranks 0, 1`; if no dump lists the group's ranks, those that called in it.
    pub ranks: String,
    /// Name of the group, according to the first rank.
    pub group: String,
    /// Description of the group.
    pub group_desc: String,
    /// Number of the collective in the group.
    pub number: i64,
    /// Size of the first rank's input, bytes.
    pub bytes: u64,
    /// Element type of the first rank's tensors.
    pub dtype: String,
    /// Sizes of the first rank's inputs, as list text.
    pub sizes: String,
    /// Ranks that have called it and on which it has not ended.
    pub waiting: Vec<GlobalRank>,
    /// Ranks on which it has ended.
    pub ended: Vec<GlobalRank>,
    /// Ranks that have not called it.
    pub not_called: Vec<AbsentCall>,
    /// Ranks of the group without a usable dump.
    pub unknown: Vec<GlobalRank>,
    /// Ranks of `unknown` that have an unusable dump.
    pub unusable: Vec<GlobalRank>,
    /// Ranks whose dump is truncated before this call, with the last call in it.
    pub cut: Vec<AbsentCall>,
    /// Difference between the calls of the ranks; `None` if they agree.
    pub mismatch: Option<CallMismatch>,
    /// Time of the last waiting rank's call, ns by the clock of its machine.
    pub created_ns: i64,
}

/// A rank that has not called a collective.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AbsentCall {
    /// Rank without the call.
    pub rank: GlobalRank,
    /// Number of the rank's last collective in the group; -1 if its dump has none.
    pub last_number: i64,
    /// Kind of that last collective; empty if there is none.
    pub last_kind: &'static str,
}

/// A difference between ranks in their collectives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HangProblem {
    /// Kind of the difference.
    pub kind: JoinProblemKind,
    /// Number of occurrences.
    pub count: u64,
    /// Descriptions of the first few.
    pub examples: Vec<String>,
}

/// A call, as a row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlightCall {
    /// `all_reduce`, …
    pub kind: &'static str,
    /// Ranks of the group: `ranks 0, 1`.
    pub ranks: String,
    /// Name of the group.
    pub group: String,
    /// Number of the call in the group.
    pub number: i64,
    /// Rank that made the call.
    pub rank: GlobalRank,
    /// `scheduled`, `started` or `completed`.
    pub state: &'static str,
    /// True if the call has ended.
    pub ended: bool,
    /// Time of the call, ns by the clock of the rank's machine.
    pub created_ns: i64,
    /// True if the rank's dump is truncated: later calls are unknown.
    pub is_cut: bool,
    /// Element type.
    pub dtype: String,
    /// Sizes of the inputs, as list text.
    pub in_sizes: String,
    /// Sizes of the outputs, as list text.
    pub out_sizes: String,
    /// Position of the call in the program.
    pub place: String,
}

/// A difference between the calls of one collective.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallMismatch {
    /// Kind of the difference.
    pub kind: JoinProblemKind,
    /// Groups of ranks that agree, the largest first.
    pub parts: Vec<CallPart>,
}

/// Ranks whose calls of a collective agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallPart {
    /// Type, element type or size that these ranks have.
    pub what: String,
    /// Ranks that agree.
    pub ranks: Vec<GlobalRank>,
}

/// A send or receive in which a rank waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StuckMessage {
    /// Rank that waits.
    pub rank: GlobalRank,
    /// Call in which it waits.
    pub call: CollectivePlace,
    /// Rank on the other side; `None` if the dump does not state it.
    pub peer: Option<GlobalRank>,
    /// State of the other side.
    pub side: PeerSide,
}

/// State of the other side of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PeerSide {
    /// The peer is in the matching call.
    Met,
    /// The peer is in no matching call.
    Missing,
    /// The peer's dump is truncated.
    Cut,
    /// The peer has no dump.
    Absent,
    /// The peer's dump cannot be used.
    Unusable,
    /// The dump does not name the peer.
    #[default]
    Unnamed,
}

impl StuckMessage {
    /// Sentence that states who waits for whom.
    pub fn sentence(&self) -> String {
        let StuckMessage { rank, call, .. } = self;
        let (way, other) = match call.kind {
            "send" => ("to", "recv"),
            _ => ("from", "send"),
        };
        let said = format!("rank {rank} waits in {} {}", call.kind, call.number);
        let Some(peer) = self.peer else {
            return format!("{said}; the dump does not name the peer");
        };
        let said = format!("{said} {way} rank {peer}");
        match self.side {
            PeerSide::Met => format!("{said}, which is in a matching {other}"),
            PeerSide::Missing => format!("{said}, which is in no matching {other}"),
            PeerSide::Cut => format!("{said}; the dump of rank {peer} is truncated"),
            PeerSide::Absent => format!("{said}; {}", missing_dumps(&[peer], &[])),
            PeerSide::Unusable => format!("{said}; {}", missing_dumps(&[peer], &[peer])),
            PeerSide::Unnamed => said,
        }
    }
}

/// Sentence that nothing is known of these ranks; the dumps of `unusable` ranks exist but cannot be
/// used.
pub(super) fn missing_dumps(ranks: &[GlobalRank], unusable: &[GlobalRank]) -> String {
    let (left_out, absent): (Vec<GlobalRank>, Vec<GlobalRank>) =
        ranks.iter().partition(|rank| unusable.contains(rank));
    let mut reasons = vec![];
    if !absent.is_empty() {
        reasons.push(format!(
            "there is no dump of {}",
            rank_list("rank", &absent)
        ));
    }
    match &left_out[..] {
        [] => {}
        [rank] => reasons.push(format!("the dump of rank {rank} is left out")),
        ranks => {
            let ranks = rank_list("rank", ranks);
            reasons.push(format!("the dumps of {ranks} are left out"));
        }
    }
    reasons.join(" and ")
}

impl CallMismatch {
    /// `rank 3 called broadcast 2, but ranks 0, 1, 2 called all_reduce 2`.
    pub(super) fn sentence(&self, stuck: &StuckCollective) -> String {
        let number = stuck.number;
        let called = |part: &CallPart| {
            let (ranks, what) = (rank_list("rank", &part.ranks), &part.what);
            match self.kind {
                JoinProblemKind::KindDiffers => format!("{ranks} called {what} {number}"),
                _ => format!("{ranks} called {} {number} with {what}", stuck.kind),
            }
        };
        let Some((most, others)) = self.parts.split_first() else {
            return String::new();
        };
        let others: Vec<String> = others.iter().map(called).collect();
        format!("{}, but {}", others.join(" and "), called(most))
    }

    /// `all_reduce on ranks 0, 1, 2, broadcast on rank 3`.
    fn list(&self) -> String {
        let parts = self.parts.iter();
        let parts =
            parts.map(|part| format!("{} on {}", part.what, rank_list("rank", &part.ranks)));
        parts.collect::<Vec<_>>().join(", ")
    }
}

impl StuckCollective {
    /// `all_reduce 4 of ranks 0, 1`.
    pub fn title(&self) -> String {
        let is_kind = |one: &CallMismatch| one.kind == JoinProblemKind::KindDiffers;
        let kind = if self.mismatch.as_ref().is_some_and(is_kind) {
            "collective"
        } else {
            self.kind
        };
        format!("{kind} {} of {}", self.number, self.ranks)
    }

    /// Sentence that states who waits, and for whom.
    pub fn sentence(&self) -> String {
        let waiting = rank_list("rank", &self.waiting);
        let verb = match self.waiting.len() {
            1 => "waits",
            _ => "wait",
        };
        let mut said = format!("{waiting} {verb} in {}", self.title());
        if let Some(absent) = self.absent_words() {
            said += &absent;
        } else if self.unknown.is_empty() && self.cut.is_empty() && self.mismatch.is_none() {
            said += ", which all of them called";
            if !self.ended.is_empty() {
                said += ", and";
            }
        }
        if !self.ended.is_empty() {
            let comma = if said.ends_with("and") { "" } else { "," };
            let ended = rank_list("rank", &self.ended);
            said += &format!("{comma} which has ended on {ended}");
        }
        if let Some(mismatch) = &self.mismatch {
            said += &format!(": {}", mismatch.list());
        }
        if !self.unknown.is_empty() {
            said += &format!("; {}", missing_dumps(&self.unknown, &self.unusable));
        }
        if !self.cut.is_empty() {
            let cut: Vec<GlobalRank> = self.cut.iter().map(|call| call.rank).collect();
            let cut = rank_list("rank", &cut);
            said += &match &self.cut[..] {
                [call] if call.last_number >= 0 => format!(
                    "; calls of {cut} after {} {} are unknown: its dump is truncated",
                    call.last_kind, call.last_number
                ),
                [_] => format!("; whether {cut} called it is unknown: its dump is truncated"),
                _ => format!("; whether {cut} called it is unknown: their dumps are truncated"),
            };
        }
        said
    }

    /// `, which rank 2 has not called (its last is all_reduce 3)`.
    fn absent_words(&self) -> Option<String> {
        let absent: Vec<GlobalRank> = self.not_called.iter().map(|call| call.rank).collect();
        if absent.is_empty() {
            return None;
        }
        let absent = rank_list("rank", &absent);
        let verb = match self.not_called.len() {
            1 => "has",
            _ => "have",
        };
        let last = match &self.not_called[..] {
            [call] if call.last_number < 0 => " (it has no calls in this group)".to_owned(),
            [call] => format!(" (its last is {} {})", call.last_kind, call.last_number),
            _ => String::new(),
        };
        Some(format!(", which {absent} {verb} not called{last}"))
    }
}
