//! What is said of a run that hangs.

use etlink_flight_recorder::FlightDump;
use etlink_link::ranks::{JoinProblemKind, rank_list};
use etlink_model::{AnomalyKind, GlobalRank};
use serde::Serialize;

/// The dump of a rank.
#[derive(Debug)]
pub struct RankDump {
    /// The rank.
    pub rank: GlobalRank,
    /// What its flight recorder kept.
    pub dump: FlightDump,
}

impl RankDump {
    /// Whether the dump ends before its list of calls does: later calls are not known.
    pub fn is_cut(&self) -> bool {
        let anomalies = &self.dump.anomalies;
        anomalies.count(AnomalyKind::Truncated) > 0 || anomalies.count(AnomalyKind::SourceEnded) > 0
    }
}

/// Whether the dumps show that a run hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HangVerdict {
    /// All that was called has ended.
    #[default]
    Ended,
    /// Something had not ended, and no rank is seen to wait for another.
    InFlight,
    /// Ranks may wait for ranks whose calls are not known.
    Unknown,
    /// Ranks wait for a rank or for each other, or have called different things.
    Hangs,
}

/// What the dumps of a run say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HangReport {
    /// Whether it hangs.
    pub verdict: HangVerdict,
    /// That in words, and on what it hangs; at least one sentence.
    pub sentences: Vec<String>,
    /// Dumps that are cut.
    pub cut: Vec<CutDump>,
    /// Ranks that some group has and that have no dump here which can be used.
    pub absent: Vec<GlobalRank>,
    /// Those of them that have one which cannot.
    pub unusable: Vec<GlobalRank>,
    /// Ranks that others wait for and that wait for nobody.
    pub waited_for: Vec<GlobalRank>,
    /// Each rank that has a dump.
    pub ranks: Vec<RankHang>,
    /// Collectives in which ranks wait: of each group the first of each rank.
    pub stuck: Vec<StuckCollective>,
    /// Messages in which ranks wait, the first of each rank that waits in one.
    pub messages: Vec<StuckMessage>,
    /// What is unequal on the ranks of a collective.
    pub problems: Vec<HangProblem>,
    /// How many collectives the dumps have, each counted once.
    pub collectives: u64,
}

/// Where a rank is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Ranks that may not have called it: they have no dump, or one that is cut before.
    pub may_wait_for: Vec<GlobalRank>,
    /// Its own dump is cut: what it called afterwards is not known.
    pub is_cut: bool,
}

/// A dump that ends before its list of calls does.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutDump {
    /// The rank.
    pub rank: GlobalRank,
    /// The last call that it has.
    pub last: Option<CollectivePlace>,
    /// What that means, in a sentence.
    pub message: String,
}

impl CutDump {
    pub(super) fn new(rank: GlobalRank, last: Option<CollectivePlace>) -> CutDump {
        let after = last.as_ref();
        let message = match after {
            Some(last) => format!(
                "rank {rank}'s dump is cut after {} {}: what it called afterwards is not known",
                last.kind, last.number
            ),
            None => format!(
                "rank {rank}'s dump is cut before its first call: what it called is not known"
            ),
        };
        CutDump {
            rank,
            last,
            message,
        }
    }
}

/// A collective or message as a rank knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Ranks of the group without a dump that can be used.
    pub unknown: Vec<GlobalRank>,
    /// Those of them that have one which cannot.
    pub unusable: Vec<GlobalRank>,
    /// Ranks whose dump is cut before they called it, with the last call that it has.
    pub cut: Vec<AbsentCall>,
    /// What the ranks that called it say differently of it.
    pub mismatch: Option<CallMismatch>,
    /// When the last of those that wait called it, ns by the clock of its machine.
    pub created_ns: i64,
}

/// A rank that has not called a collective.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The dump of the rank is cut: later calls are not known.
    pub is_cut: bool,
    /// Element type.
    pub dtype: String,
    /// Sizes of the inputs, list text.
    pub in_sizes: String,
    /// Sizes of the outputs, list text.
    pub out_sizes: String,
    /// Where the program called it.
    pub place: String,
}

/// What ranks say differently of one collective.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallMismatch {
    /// What differs.
    pub kind: JoinProblemKind,
    /// Who says what: first what most ranks say.
    pub parts: Vec<CallPart>,
}

/// Ranks that say the same of a collective.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallPart {
    /// Type, element type or size.
    pub what: String,
    /// The ranks.
    pub ranks: Vec<GlobalRank>,
}

/// A send or receive in which a rank waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StuckMessage {
    /// The rank that waits.
    pub rank: GlobalRank,
    /// What it called.
    pub call: CollectivePlace,
    /// The rank at the other side, where the dump says it.
    pub peer: Option<GlobalRank>,
    /// What is known of that.
    pub side: PeerSide,
}

/// What is known of the other side of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PeerSide {
    /// It is in the call that the message needs.
    Met,
    /// It is in no such call.
    Missing,
    /// Its dump is cut.
    Cut,
    /// It has no dump.
    Absent,
    /// Its dump cannot be used.
    Unusable,
    /// The dump does not say who it is.
    #[default]
    Unnamed,
}

impl StuckMessage {
    /// Who waits for whom, in a sentence.
    pub fn sentence(&self) -> String {
        let StuckMessage { rank, call, .. } = self;
        let (way, other) = match call.kind {
            "send" => ("to", "recv"),
            _ => ("from", "send"),
        };
        let said = format!("rank {rank} waits in {} {}", call.kind, call.number);
        let Some(peer) = self.peer else {
            return format!("{said}, whose other side the dump does not say");
        };
        let said = format!("{said} {way} rank {peer}");
        match self.side {
            PeerSide::Met => format!("{said}, which is in a {other} of it"),
            PeerSide::Missing => format!("{said}, which is in no {other} of it"),
            PeerSide::Cut => format!("{said}; the dump of rank {peer} is cut"),
            PeerSide::Absent => format!("{said}; {}", missing_dumps(&[peer], &[])),
            PeerSide::Unusable => format!("{said}; {}", missing_dumps(&[peer], &[peer])),
            PeerSide::Unnamed => said,
        }
    }
}

/// That nothing is known of ranks, some of which have a dump that cannot be used.
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
    /// `rank 3 called broadcast 2 where ranks 0, 1, 2 called all_reduce 2`.
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
        format!("{} where {}", others.join(" and "), called(most))
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
    /// `all_reduce number 4 of ranks 0, 1`.
    pub fn title(&self) -> String {
        let is_kind = |one: &CallMismatch| one.kind == JoinProblemKind::KindDiffers;
        let kind = if self.mismatch.as_ref().is_some_and(is_kind) {
            "collective"
        } else {
            self.kind
        };
        format!("{kind} number {} of {}", self.number, self.ranks)
    }

    /// Who waits, and for whom, in a sentence.
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
            said += ", which all of them have called";
            if !self.ended.is_empty() {
                said += ", and";
            }
        }
        if !self.ended.is_empty() {
            let comma = if said.ends_with("and") { "" } else { "," };
            let ended = rank_list("rank", &self.ended);
            said += &format!("{comma} which has ended in {ended}");
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
                    "; what {cut} called after {} number {} is not known: its dump is cut",
                    call.last_kind, call.last_number
                ),
                [_] => format!("; whether {cut} has called it is not known: its dump is cut"),
                _ => format!("; whether {cut} have called it is not known: their dumps are cut"),
            };
        }
        said
    }

    /// `, which rank 2 has not called (its last is all_reduce number 3)`.
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
            [call] if call.last_number < 0 => " (it has called none of this group)".to_owned(),
            [call] => format!(
                " (its last is {} number {})",
                call.last_kind, call.last_number
            ),
            _ => String::new(),
        };
        Some(format!(", which {absent} {verb} not called{last}"))
    }
}
