//! Why a communication is no communication node.

use serde::{Deserialize, Serialize};

/// Why a communication node was written as computation with its measured duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Demotion {
    /// Some rank does not have it, or has something else.
    Unmatched,
    /// All ranks have it, but what another one's trace says of it is too little to run it: no size,
    /// no element type.
    CannotRunElsewhere,
    /// The trace of a rank that takes part is not there, and the files shall run without it.
    AbsentRank,
    /// Two ranks do it and another in opposite order, and both would wait for ever.
    OrderDiffers,
    /// Neither trace has communication arguments for it, only a kernel's name.
    NoRecord,
    /// Not a kind of communication that is known.
    UnknownType,
    /// A kind that the simulator does not run: barrier, reduce, gather, scatter.
    NoSimulatorType,
    /// A data type whose size is not known.
    UnknownDtype,
    /// No data, or so little that an all-gather of it never ends in ASTRA-sim.
    NoData,
    /// A group of one rank never finishes in ASTRA-sim.
    OneRank,
    /// The ranks of its group are not known, or this rank is not one of them.
    UnknownGroup,
    /// A send or receive whose other side is not known.
    UnknownPeer,
    /// A send or receive of a rank to or from itself.
    OwnPeer,
}
