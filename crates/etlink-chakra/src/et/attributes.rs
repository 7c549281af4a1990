//! Attributes that nodes omit because they follow from other data.
//!
//! The first message has the attribute `attrs` with the name of an [`AttributeSet`]. Only then do
//! absent attributes have the meanings below. Files of other writers and of earlier releases state
//! everything in each node.
//!
//! [`AttributeSet`]: crate::AttributeSet
//!
//! | absent attribute | meaning |
//! |---|---|
//! | `is_cpu_op` | false, as in Chakra's feeders (`et_feeder_node.cpp`, both versions) |
//! | `kind` of a communication | `collective` |
//! | `kind` of a node with `is_cpu_op` | `runtime` if it has a `correlation`, else `host_op` |
//! | `kind` of another node | `device_op` |
//! | `pid` of a node with `tid` | `thread_pid` of the first message, else its `pid` |
//! | `start_ns`, `duration_ns` | in `ns`: the start's remainder in ns, and the duration |
//! | `scope` of a node with `host_id` | 0 |
//! | `external_id` of a node with `rf_id` | same as `rf_id` |
//! | `external_id` of a device node | that of its call, by `correlation` |
//!
//! An `external_id` of -1 means that there is none. Only full files use the rows after the first. A
//! minimal file states none of these attributes, and no starts.

use crate::proto::NodeType;

/// Start and duration of a node, in nanoseconds: the part of the start that `start_time_micros`
/// lacks, and the whole duration.
pub(crate) const NS: &str = "ns";

/// Bytes that a rank of an uneven all-to-all sends to each rank of its group, and receives from
/// each.
pub(crate) const PAIR_BYTES: [&str; 2] = ["sent_bytes", "received_bytes"];

/// Attribute of the first message that names the set.
pub(crate) const ATTRIBUTE_SET: &str = "attrs";

/// Attribute of the first message that names the process of the threads, if it differs from `pid`
/// because the traces come from two runs.
pub(crate) const THREAD_PID: &str = "thread_pid";

/// Returns the kind of a node without `kind`.
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

/// Returns the value of [`NS`]; `None` for a start before the clock's 0, which `start_time_micros`
/// cannot represent.
pub(crate) fn split_times(start_ns: i64, duration_ns: i64) -> Option<[i64; 2]> {
    (start_ns >= 0).then_some([start_ns % 1000, duration_ns])
}

/// Returns start and duration of a node with this value of [`NS`], in nanoseconds.
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
        // For damaged values, no time is invented.
        assert_eq!(joined_times(1, &[3]), None);
        assert_eq!(joined_times(u64::MAX, &[3, 4]), None);
        assert_eq!(joined_times(1, &[i64::MAX, 4]), None);
    }
}
