//! Named what-if questions, as edits of the graph.
//!
//! | question | changes of the graph |
//! |---|---|
//! | `graphs` | threads take no time between launches; a stretch's last launch launches all |
//! | `fuse=REGEX` | consecutive kernels with these names start at once, launched as one |
//! | `no-input-wait` | ranges that fetch input take no time on threads that launch |
//! | `no-sync` | no thread waits for a device; calls that only wait are left out |
//! | `overlap-comm` | communication takes no time, or nothing waits for it, whichever gains less |
//! | `ranks=N` | collectives of all ranks: bytes as in a ring of N, latency as in a tree of N |
//! | `bandwidth=GROUP:X` | the size-dependent time of the group's communication is divided by X |
//! | `device=NAME` | kernels take the time that the other device's peaks allow |
//! | `batch=N`, `seq=N`, `width=N`, `layers=N` | work takes the time that its shapes allow with other sizes |
//! | `straggler=RANK` | work that takes longer on the rank takes the median time of the other ranks |

mod communication;
mod device;
mod error;
mod host;
mod predicted;
mod sizes;
mod straggler;
mod transfer_cost;

pub use error::{QUESTIONS, QuestionError};
pub use predicted::{PredictedMemory, PredictedTime, PredictionBasis, WorkPlace};
pub use straggler::straggler_edits;
pub use transfer_cost::{GraphAnswer, RankAnswer, answer_for_graph};

use crate::findings::awaited::is_awaited;
use crate::predict::{LearnedTimes, SizeRequest};
use etlink_link::LinkedTrace;
use etlink_model::GlobalRank;
use etlink_replay::{GraphEdits, ReplayGraph};
use regex::Regex;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A what-if question by name.
#[derive(Clone, Debug)]
pub enum WhatIfQuestion {
    /// A stretch of launches becomes one launch.
    Graphs,
    /// Consecutive kernels with these names become one.
    Fuse(Regex),
    /// Input is always available.
    NoInputWait,
    /// No thread waits for a device.
    NoSync,
    /// All communication is hidden.
    OverlapComm,
    /// The run has this number of data-parallel ranks.
    Ranks(u64),
    /// A group's network has a different bandwidth.
    Bandwidth {
        /// Name or description of the process group.
        group: String,
        /// Factor on the bandwidth.
        factor: f64,
    },
    /// The run uses another device.
    Device {
        /// Name of the device.
        name: String,
        /// Durations of ops on devices; those that came with the program if `None`.
        learned: Option<Arc<LearnedTimes>>,
    },
    /// The run has another batch, sequence length, width or number of layers.
    Sizes(SizeRequest),
    /// A slow rank is like the others.
    Straggler(GlobalRank),
}

impl FromStr for WhatIfQuestion {
    type Err = QuestionError;

    fn from_str(text: &str) -> Result<WhatIfQuestion, QuestionError> {
        if SizeRequest::is_request(text) {
            let request = text.parse().map(WhatIfQuestion::Sizes);
            return request.map_err(|_| QuestionError::BadValue {
                question: text.to_owned(),
                expected: "sizes, as in `batch=16`, `seq=2x` or `width=512:1024`".into(),
            });
        }
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let bad_value = |expected: &'static str| QuestionError::BadValue {
            question: text.to_owned(),
            expected: expected.into(),
        };
        let question = match name {
            "graphs" => WhatIfQuestion::Graphs,
            "no-input-wait" => WhatIfQuestion::NoInputWait,
            "no-sync" => WhatIfQuestion::NoSync,
            "overlap-comm" => WhatIfQuestion::OverlapComm,
            "fuse" => {
                let pattern = Some(value).filter(|value| !value.is_empty());
                let pattern = pattern.and_then(|pattern| Regex::new(pattern).ok());
                WhatIfQuestion::Fuse(pattern.ok_or_else(|| bad_value("a regular expression"))?)
            }
            "ranks" => {
                let ranks = value.parse().ok().filter(|ranks| *ranks > 0);
                WhatIfQuestion::Ranks(ranks.ok_or_else(|| bad_value("a number of ranks"))?)
            }
            "bandwidth" => {
                let expected = "a process group and a factor, as in `default_pg:2`";
                // the last colon, since group names can contain colons
                let parts = value.rsplit_once(':').ok_or_else(|| bad_value(expected))?;
                let factor = parts.1.parse::<f64>().ok();
                let factor = factor.filter(|factor| factor.is_finite() && *factor > 0.0);
                WhatIfQuestion::Bandwidth {
                    group: parts.0.to_owned(),
                    factor: factor.ok_or_else(|| bad_value(expected))?,
                }
            }
            "device" if !value.is_empty() => WhatIfQuestion::Device {
                name: value.to_owned(),
                learned: None,
            },
            "device" => return Err(bad_value("the name of a device")),
            "straggler" => {
                let rank = value.parse().ok().map(GlobalRank);
                WhatIfQuestion::Straggler(rank.ok_or_else(|| bad_value("a rank"))?)
            }
            _ => return Err(QuestionError::Unknown(name.to_owned())),
        };
        // `graphs=2` is not the question `graphs`.
        let takes_value = !matches!(
            question,
            WhatIfQuestion::Graphs
                | WhatIfQuestion::NoInputWait
                | WhatIfQuestion::NoSync
                | WhatIfQuestion::OverlapComm
        );
        if !takes_value && text.contains('=') {
            return Err(bad_value("no value"));
        }
        Ok(question)
    }
}

/// Writes the question as it is parsed.
impl fmt::Display for WhatIfQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhatIfQuestion::Graphs => f.write_str("graphs"),
            WhatIfQuestion::Fuse(pattern) => write!(f, "fuse={pattern}"),
            WhatIfQuestion::NoInputWait => f.write_str("no-input-wait"),
            WhatIfQuestion::NoSync => f.write_str("no-sync"),
            WhatIfQuestion::OverlapComm => f.write_str("overlap-comm"),
            WhatIfQuestion::Ranks(ranks) => write!(f, "ranks={ranks}"),
            WhatIfQuestion::Bandwidth { group, factor } => write!(f, "bandwidth={group}:{factor}"),
            WhatIfQuestion::Device { name, .. } => write!(f, "device={name}"),
            WhatIfQuestion::Sizes(request) => request.fmt(f),
            WhatIfQuestion::Straggler(rank) => write!(f, "straggler={rank}"),
        }
    }
}

impl WhatIfQuestion {
    /// Returns the caveat of the answer.
    pub fn caveat(&self) -> &'static str {
        match self {
            WhatIfQuestion::Graphs => {
                "assumes that host work between launches can be captured if it takes no longer than a \
                launch does on its thread"
            }
            WhatIfQuestion::Fuse(_) => {
                "kernels keep their durations; memory traffic saved by fusion \
                is not counted"
            }
            WhatIfQuestion::NoInputWait => "assumes that loading keeps up",
            WhatIfQuestion::NoSync => {
                "assumes that the program does not need the values it reads back"
            }
            WhatIfQuestion::OverlapComm => {
                "an upper bound: hidden communication slows down concurrent \
                computation"
            }
            WhatIfQuestion::Ranks(_) => {
                "bytes scale as in a ring, latency as in a tree; work per rank is unchanged"
            }
            WhatIfQuestion::Bandwidth { .. } => "only the time that depends on bytes changes",
            WhatIfQuestion::Device { .. } => {
                "with this host and this network: their time is unchanged"
            }
            WhatIfQuestion::Sizes(_) => {
                "assumes the same kernels, the same communication, and the same time of the host \
                outside of its own work"
            }
            WhatIfQuestion::Straggler(_) => {
                "assumes that work that takes longer than on the other ranks could take their \
                median; matches work by name"
            }
        }
    }

    /// Returns the reason why the answer does not apply to this graph: a question about
    /// communication for which nothing waits, as far as known. `edits`: changes by the question.
    /// O(nodes + edges).
    pub fn doubt(&self, graph: &ReplayGraph, edits: &GraphEdits) -> Option<&'static str> {
        let is_about_communication = matches!(
            self,
            WhatIfQuestion::OverlapComm
                | WhatIfQuestion::Ranks(_)
                | WhatIfQuestion::Bandwidth { .. }
        );
        (is_about_communication && !is_awaited(graph, edits)).then_some(
            "the answer is unknown: the traces do not show what waits for communication, but the \
            program may",
        )
    }

    /// Returns true if the question needs several ranks: see [`straggler_edits`].
    pub fn needs_ranks(&self) -> bool {
        matches!(self, WhatIfQuestion::Straggler(_))
    }

    /// Returns true if the question is about the sizes of the program. Its answer uses the recorded
    /// allocations, and must be that of all ranks.
    pub fn is_about_sizes(&self) -> bool {
        matches!(self, WhatIfQuestion::Sizes(_))
    }

    /// Returns the changes to the graph of a rank, from which [`answer_for_graph`] makes edits. O(n
    /// log n).
    ///
    /// # Errors
    /// The trace lacks the necessary data.
    pub fn rank_answer(&self, trace: &LinkedTrace) -> Result<RankAnswer, QuestionError> {
        let answer = match self {
            WhatIfQuestion::Graphs => host::capture_graphs(trace).map(RankAnswer::from),
            WhatIfQuestion::Fuse(pattern) => {
                host::fuse_kernels(trace, pattern).map(RankAnswer::from)
            }
            WhatIfQuestion::NoInputWait => host::remove_input(trace).map(RankAnswer::from),
            WhatIfQuestion::NoSync => host::remove_syncs(trace).map(RankAnswer::from),
            WhatIfQuestion::OverlapComm => communication::hide_all(trace),
            WhatIfQuestion::Ranks(ranks) => communication::change_ranks(trace, *ranks),
            WhatIfQuestion::Bandwidth { group, factor } => {
                communication::change_bandwidth(trace, group, *factor)
            }
            WhatIfQuestion::Device { name, learned } => {
                device::change_device(trace, name, learned.as_deref())
            }
            WhatIfQuestion::Sizes(request) => sizes::change_sizes(trace, request),
            WhatIfQuestion::Straggler(_) => {
                return Err(QuestionError::OtherInput {
                    why: "a straggler shows only in the traces of several ranks".into(),
                    remedy: "pass the folder of all ranks".into(),
                });
            }
        };
        answer.map_err(QuestionError::NoAnswer)
    }
}
