//! Problems found while joining the ranks.

use super::{CollectiveMatch, CommChannel, Mismatch, side};
use crate::ranks::{Communication, RankSummary};
use etlink_model::{CollectiveKind, GlobalRank, NodeIdx};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of examples per problem.
const EXAMPLES: usize = 5;

/// Kinds of problems, in report order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JoinProblemKind {
    /// Some traces lack the communication.
    Missing,
    /// The communication comes before or after everything recorded in the traces.
    Outside,
    /// Some traces have the launch, but lost the device row.
    RowLost,
    /// One rank has a device row, another only the call.
    RecordedDiffers,
    /// A rank lost unidentified rows: the matching of the sides is unknown.
    OrderUnknown,
    /// A message with only the send.
    SendWithoutRecv,
    /// A message with only the receive.
    RecvWithoutSend,
    /// The kind differs between ranks.
    KindDiffers,
    /// The element type differs between ranks.
    DtypeDiffers,
    /// The size differs between ranks; in an uneven all-to-all it may differ by design.
    SizeDiffers,
    /// The ranks of the group are unknown.
    UnknownGroup,
    /// The group does not contain this rank.
    NotAMember,
    /// A send or receive without a peer.
    UnknownPeer,
    /// A send or receive whose peer is the rank itself: no other rank has it.
    OwnPeer,
    /// Two ranks run it and another one in opposite order, each waiting for the other: a simulator
    /// that runs one at a time never ends.
    OrderDiffers,
    /// Gloo's own ranges, without a record of the communication.
    GlooUnrecorded,
}

impl JoinProblemKind {
    /// True if such communications are not compared although all ranks of theirs may be here.
    pub fn prevents_join(self) -> bool {
        use JoinProblemKind as Kind;
        !matches!(
            self,
            // compared nevertheless
            Kind::DtypeDiffers | Kind::SizeDiffers | Kind::OrderDiffers
            // with no other rank, or with none at that time
                | Kind::OwnPeer | Kind::Outside
        )
    }

    /// Describes the problem in one line.
    pub fn describe(self) -> &'static str {
        match self {
            JoinProblemKind::Outside => "collectives before or after the recording of another rank",
            JoinProblemKind::Missing => "collectives that are missing on some rank",
            JoinProblemKind::RowLost => {
                "collectives whose device row the recorder lost on some rank"
            }
            JoinProblemKind::RecordedDiffers => {
                "collectives with a device row on one rank and only the call on another"
            }
            JoinProblemKind::OrderUnknown => {
                "collectives of a rank that lost unidentified device rows: their order no longer shows which \
                collectives of other ranks they match"
            }
            JoinProblemKind::SendWithoutRecv => "sends without a receive",
            JoinProblemKind::RecvWithoutSend => "receives without a send",
            JoinProblemKind::KindDiffers => "collectives of different types on different ranks",
            JoinProblemKind::DtypeDiffers => {
                "collectives of different element types on different ranks"
            }
            JoinProblemKind::SizeDiffers => "collectives of different sizes on different ranks",
            JoinProblemKind::UnknownGroup => {
                "collectives of a group whose ranks are not listed in any trace"
            }
            JoinProblemKind::NotAMember => "collectives of a group that does not contain the rank",
            JoinProblemKind::UnknownPeer => "sends or receives without a peer rank",
            JoinProblemKind::OwnPeer => "sends or receives between a rank and itself",
            JoinProblemKind::OrderDiffers => "communications in opposite order on different ranks",
            JoinProblemKind::GlooUnrecorded => {
                "Gloo collectives without group and size, which are not joined: PyTorch records group and size \
                for NCCL only, and a truncated trace may lack them; record with NCCL, put flight recorder dumps next to the traces, or call \
                record_param_comms"
            }
        }
    }
}

/// A place where a problem occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProblemExample {
    /// Description: the communication, and the ranks that lack it, or the statement of each rank.
    pub what: String,
    /// Rank of the node.
    pub rank: GlobalRank,
    /// Node in that rank's linked trace.
    pub node: NodeIdx,
}

/// A kind of problem, with its count and first places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinProblem {
    /// Kind of the problem.
    pub kind: JoinProblemKind,
    /// Number of occurrences.
    pub count: u64,
    /// First few occurrences.
    pub examples: Vec<ProblemExample>,
}

#[derive(Default)]
pub(in crate::ranks) struct Problems {
    all: BTreeMap<JoinProblemKind, JoinProblem>,
}

impl Problems {
    fn note(&mut self, kind: JoinProblemKind, example: impl FnOnce() -> ProblemExample) {
        let problem = self.all.entry(kind).or_insert_with(|| JoinProblem {
            kind,
            count: 0,
            examples: vec![],
        });
        problem.count += 1;
        if problem.examples.len() < EXAMPLES {
            problem.examples.push(example());
        }
    }

    /// Records a communication without a channel.
    pub(in crate::ranks) fn stray(
        &mut self,
        kind: JoinProblemKind,
        summary: &RankSummary,
        communication: &Communication,
    ) {
        self.note(kind, || ProblemExample {
            what: format!("{} on rank {}", communication.kind.name(), summary.rank),
            rank: summary.rank,
            node: communication.node,
        });
    }

    /// Records a rank's communications that nothing describes.
    pub(in crate::ranks) fn gloo_unrecorded(&mut self, summary: &RankSummary) {
        if summary.unrecorded_gloo == 0 {
            return;
        }
        let kind = JoinProblemKind::GlooUnrecorded;
        let problem = self.all.entry(kind).or_insert_with(|| JoinProblem {
            kind,
            count: 0,
            // No node of a collective exists.
            examples: vec![],
        });
        problem.count += summary.unrecorded_gloo;
    }

    /// Records the problem of a collective, if it has one.
    pub(in crate::ranks) fn matched(
        &mut self,
        ranks: &[RankSummary],
        groups: &BTreeMap<u32, Vec<u64>>,
        matched: &CollectiveMatch,
    ) {
        let Some(first) = matched.members.first() else {
            return;
        };
        let (summary, communication) = side(ranks, *first);
        let example = |what: String| ProblemExample {
            what,
            rank: summary.rank,
            node: communication.node,
        };
        if !matched.missing.is_empty() {
            let kind = match matched.kind {
                CollectiveKind::Send => JoinProblemKind::SendWithoutRecv,
                CollectiveKind::Recv => JoinProblemKind::RecvWithoutSend,
                _ => JoinProblemKind::Missing,
            };
            self.note(kind, || {
                example(format!(
                    "{} is missing on {}",
                    match_name(groups, matched),
                    rank_list("rank", &matched.missing)
                ))
            });
        }
        if !matched.outside.is_empty() {
            self.note(JoinProblemKind::Outside, || {
                example(format!(
                    "{} is before or after the recording of {}",
                    match_name(groups, matched),
                    rank_list("rank", &matched.outside)
                ))
            });
        }
        if !matched.lost.is_empty() {
            self.note(JoinProblemKind::RowLost, || {
                example(format!(
                    "{}: its device row was lost on {}",
                    match_name(groups, matched),
                    rank_list("rank", &matched.lost)
                ))
            });
        }
        let (kind, said): (_, fn(&RankSummary, &Communication) -> String) = match matched.differs {
            None => return,
            Some(Mismatch::Order) => {
                let what = || example(match_name(groups, matched));
                return self.note(JoinProblemKind::OrderUnknown, what);
            }
            Some(Mismatch::Recorded) => (JoinProblemKind::RecordedDiffers, |_, communication| {
                if communication.on_device {
                    "a device row".to_owned()
                } else {
                    "only the call".to_owned()
                }
            }),
            Some(Mismatch::Kind) => (JoinProblemKind::KindDiffers, |_, communication| {
                communication.kind.name().to_owned()
            }),
            Some(Mismatch::Dtype) => {
                (
                    JoinProblemKind::DtypeDiffers,
                    |summary, communication| match summary.names.get(communication.dtype) {
                        "" => "no element type".to_owned(),
                        dtype => dtype.to_owned(),
                    },
                )
            }
            // Sizes differ by design in `all_to_all_single` with split sizes.
            Some(Mismatch::Size) if matched.kind == CollectiveKind::AllToAll => return,
            Some(Mismatch::Size) => {
                (
                    JoinProblemKind::SizeDiffers,
                    |_, communication| match communication.in_bytes {
                        0 => "no size".to_owned(),
                        bytes => format!("{bytes} bytes"),
                    },
                )
            }
        };
        let first_said = said(summary, communication);
        let other = matched
            .members
            .iter()
            .map(|member| side(ranks, *member))
            .find(|(summary, communication)| said(summary, communication) != first_said);
        // Two sends that face each other have the same name: the first rank is then named twice.
        let (other, that) = other.unwrap_or((summary, communication));
        self.note(kind, || {
            example(format!(
                "{}: {first_said} on rank {}, {} on rank {}",
                match_name(groups, matched),
                summary.rank,
                said(other, that),
                other.rank
            ))
        });
    }

    /// Records a collective that had to be removed for all ranks to finish.
    pub(in crate::ranks) fn in_opposite_order(
        &mut self,
        ranks: &[RankSummary],
        groups: &BTreeMap<u32, Vec<u64>>,
        matched: &CollectiveMatch,
    ) {
        let Some(first) = matched.members.first() else {
            return;
        };
        let (summary, communication) = side(ranks, *first);
        self.note(JoinProblemKind::OrderDiffers, || ProblemExample {
            what: match_name(groups, matched),
            rank: summary.rank,
            node: communication.node,
        });
    }

    pub(in crate::ranks) fn sorted(self) -> Vec<JoinProblem> {
        self.all.into_values().collect()
    }
}

/// Name of a match: `all_reduce number 7 of ranks [0, 1]`.
fn match_name(groups: &BTreeMap<u32, Vec<u64>>, matched: &CollectiveMatch) -> String {
    let kind = matched.kind.name();
    match matched.channel {
        CommChannel::Message { src, dst } => {
            format!("message {} from rank {src} to rank {dst}", matched.number)
        }
        CommChannel::Group(number) => {
            let ranks = groups.get(&number).map_or(&[][..], |ranks| ranks);
            format!(
                "{kind} number {} of {}",
                matched.number,
                rank_list("rank", ranks)
            )
        }
    }
}

/// Formats ranks: `rank 3`, `ranks 0, 1`, `ranks 0, 1, … 7 (8 in all)`.
pub fn rank_list<T: std::fmt::Display>(what: &str, all: &[T]) -> String {
    match all {
        [] => format!("no {what}"),
        [one] => format!("{what} {one}"),
        [first, second, .., last] if all.len() > 8 => {
            format!("{what}s {first}, {second}, … {last} ({} in all)", all.len())
        }
        all => {
            let texts: Vec<String> = all.iter().map(T::to_string).collect();
            format!("{what}s {}", texts.join(", "))
        }
    }
}
