//! What nodes leave out because it is known otherwise, and how it is known.
//!
//! The first message has the attribute `attrs`, with the name of an [`AttributeSet`]. Only then do
//! absent attributes mean what stands here; files of others and of earlier releases have all that
//! they say in each node.
//!
//! [`AttributeSet`]: crate::AttributeSet
//!
//! | absent | it is |
//! |---|---|
//! | `is_cpu_op` | false, as Chakra's feeders take it (`et_feeder_node.cpp`, both versions) |
//! | `kind` of a communication | `collective` |
//! | `kind` of a node with `is_cpu_op` | `runtime` if it has a `correlation`, else `host_op` |
//! | `kind` of another node | `device_op` |
//! | `pid` of a node with `tid` | `thread_pid` of the first message, else its `pid` |
//! | `start_ns`, `duration_ns` | in `ns`: what `start_time_micros` lacks, and the duration |
//! | `scope` of a node with `host_id` | 0 |
//! | `external_id` of a node with `rf_id` | the same |
//! | `external_id` of a device's node | that of the call with its `correlation`, if there is one |
//!
//! An `external_id` of -1 says that there is none. All but the first row is of full files alone. A
//! minimal file says nothing of these, and no starts.

use crate::proto::NodeType;

/// Start and duration of a node, ns: what `start_time_micros` lacks to the start, and all of the
/// duration.
pub(crate) const NS: &str = "ns";

/// The attribute of the first message that names the set.
pub(crate) const ATTRIBUTE_SET: &str = "attrs";

/// The attribute of the first message that names the process of the threads, where that is not its
/// `pid`: the traces are of two runs.
pub(crate) const THREAD_PID: &str = "thread_pid";

/// What a node without `kind` is.
pub(crate) fn default_kind(
    node_type: NodeType,
    is_cpu_op: bool,
    has_correlation: bool,
) -> &'static str {
    match node_type {
        NodeType::CommCollNode | NodeType::CommSendNode | NodeType::CommRecvNode => "collective",
        _ if is_cpu_op && has_correlation => "runtime",
        _ if is_cpu_op => "host_op",
        _ => "device_op",
    }
}

/// The value of [`NS`]; `None` for a start before the clock's 0, which `start_time_micros` cannot
/// say.
pub(crate) fn split_times(start_ns: i64, duration_ns: i64) -> Option<[i64; 2]> {
    (start_ns >= 0).then_some([start_ns % 1000, duration_ns])
}

/// Start and duration, ns, of a node with this value of [`NS`].
pub(crate) fn joined_times(start_us: u64, ns: &[i64]) -> Option<(i64, i64)> {
    let [rest, duration] = *ns else { return None };
    let start = i64::try_from(start_us).ok()?.checked_mul(1000)?;
    Some((start.checked_add(rest)?, duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back() {
        for (start, duration) in [(0, 0), (999, 5), (1_234_567, -1), (i64::MAX, i64::MAX)] {
            let ns = split_times(start, duration).expect("not before 0");
            let start_us = start.cast_unsigned() / 1000;
            assert_eq!(joined_times(start_us, &ns), Some((start, duration)));
        }
        assert_eq!(split_times(-1, 7), None);
        // damage: no time is made up
        assert_eq!(joined_times(1, &[3]), None);
        assert_eq!(joined_times(u64::MAX, &[3, 4]), None);
        assert_eq!(joined_times(1, &[i64::MAX, 4]), None);
    }
}
