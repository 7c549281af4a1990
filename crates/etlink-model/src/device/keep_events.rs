//! What a reader keeps of a device trace.

/// What to keep beside the rows of a graph; each has what those before it have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepEvents {
    /// Nothing.
    #[default]
    Graph,
    /// Allocations and frees.
    Memory,
    /// Frames of the Python stack, overheads, annotations of streams.
    Auxiliary,
    /// All events but arrows, with all that they say
    /// ([`DeviceTrace::details`](crate::DeviceTrace::details)). Takes the memory of their text.
    Everything,
}
