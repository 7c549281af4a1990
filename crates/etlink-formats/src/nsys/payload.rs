//! JSON payloads that Nsight Systems writes for NCCL ranges (`nvtx_payload_schemas.h`).

use etlink_json::object_fields;

/// Known fields of a payload; absent fields were not stated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NcclPayload {
    /// Communicator id: since NCCL 2.24 a hash shared by all ranks, before that a rank's own
    /// address.
    pub(crate) communicator: Option<u64>,
    pub(crate) ranks: Option<i64>,
    pub(crate) rank: Option<i64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) peer: Option<i64>,
    pub(crate) root: Option<i64>,
}

impl NcclPayload {
    /// Reads the known fields. O(length).
    pub(crate) fn from_text(text: &str) -> NcclPayload {
        let mut payload = NcclPayload::default();
        for (key, value) in object_fields(text.as_bytes()) {
            match key {
                b"NCCL communicator ID" => payload.communicator = value.uint(),
                b"No. of ranks" => payload.ranks = value.int().filter(|ranks| *ranks > 0),
                b"Rank" => payload.rank = value.int().filter(|rank| *rank >= 0),
                b"Message size [bytes]" => payload.bytes = value.uint(),
                b"Peer rank" => payload.peer = value.int(),
                b"Root" => payload.root = value.int(),
                _ => {}
            }
        }
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_of_any_object() {
        let text = r#"{"NCCL communicator ID":9876543210987654321,"Message size [bytes]":4096,
            "Reduction operation":"Sum"}"#;
        let payload = NcclPayload::from_text(text);
        assert_eq!(payload.communicator, Some(9876543210987654321));
        assert_eq!((payload.bytes, payload.rank), (Some(4096), None));
        assert_eq!(NcclPayload::from_text("no object"), NcclPayload::default());
    }
}
