//! Selects the events of a device trace that a reader keeps.

/// Events kept in addition to the rows of a graph; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepEvents {
    /// Nothing more than the rows of a graph.
    #[default]
    Graph,
    /// Allocations and frees.
    Memory,
    /// Python stack frames, profiler overheads, annotations of streams.
    Auxiliary,
    /// All events except arrows, with all their details
    /// ([`DeviceTrace::details`](crate::DeviceTrace::details)). Needs memory for their text.
    Everything,
}
