//! Reasons for writing a communication as computation.

use serde::Serialize;

/// Reason for which a communication was written as computation with its measured duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Demotion {
    /// Some rank lacks the communication, or has a different one.
    Unmatched,
    /// All ranks have the communication, but another rank's trace lacks details needed to run it,
    /// such as size or element type.
    CannotRunElsewhere,
    /// The trace of a participating rank is missing, and the files have to run without it.
    AbsentRank,
    /// Ranks do this communication and another in opposite order, and both would wait forever.
    OrderDiffers,
    /// Neither trace has communication arguments, only a kernel's name.
    NoRecord,
    /// The kind of communication is unknown.
    UnknownType,
    /// The simulator does not run this kind: barrier, reduce, gather, scatter.
    NoSimulatorType,
    /// The size of the data type is unknown.
    UnknownDtype,
    /// There is no data, or too little: a small all-gather never ends in ASTRA-sim.
    NoData,
    /// The group has one rank, and never finishes in ASTRA-sim.
    OneRank,
    /// The ranks of the group are unknown, or this rank is not among them.
    UnknownGroup,
    /// The peer of a send or receive is unknown.
    UnknownPeer,
    /// The rank sends to or receives from itself.
    OwnPeer,
}
