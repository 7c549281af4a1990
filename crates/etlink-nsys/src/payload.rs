//! What NCCL says of its ranges (`nvtx_payload_schemas.h`), as Nsight Systems writes it: JSON.

use etlink_json::object_fields;

/// The fields that are known; absent ones were not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NcclPayload {
    /// Since NCCL 2.24 a hash that all ranks share, before an address of the rank's own.
    pub(crate) communicator: Option<u64>,
    pub(crate) ranks: Option<i64>,
    pub(crate) rank: Option<i64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) peer: Option<i64>,
    pub(crate) root: Option<i64>,
}

impl NcclPayload {
    /// Reads what there is. O(length).
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
