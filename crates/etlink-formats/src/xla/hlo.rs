//! Classifies HLO ops by name.

use etlink_model::CollectiveKind;

/// Name prefixes of HLO's collectives (`HloOpcode` in `xla/hlo/ir/hlo_opcode.h`).
/// `collective-permute` is missing: it sends and receives at once, which fits no kind of
/// collective.
const COLLECTIVES: [(&str, CollectiveKind); 6] = [
    ("all-reduce", CollectiveKind::AllReduce),
    ("all-gather", CollectiveKind::AllGather),
    ("reduce-scatter", CollectiveKind::ReduceScatter),
    ("all-to-all", CollectiveKind::AllToAll),
    ("ragged-all-to-all", CollectiveKind::AllToAll),
    ("collective-broadcast", CollectiveKind::Broadcast),
];

/// Returns the collective of an HLO op: `all-reduce.3`, `all-gather-start`. The end of an
/// asynchronous one, `all-reduce-done`, has none.
pub(crate) fn hlo_collective(name: &str) -> Option<CollectiveKind> {
    // Fusions are named after the ops they fuse, including local work: `all-reduce_fusion`.
    let (prefix, kind) = COLLECTIVES
        .iter()
        .find(|(word, _)| name.starts_with(word))?;
    let rest = &name[prefix.len()..];
    let rest = rest.strip_prefix("-start").unwrap_or(rest);
    let is_numbered = rest.is_empty() || rest.starts_with('.');
    is_numbered.then_some(*kind)
}

/// Returns true if a name marks the start or end of an asynchronous op, which takes no time itself.
pub(crate) fn is_async_mark(name: &str) -> bool {
    let opcode = name.split('.').next().unwrap_or(name);
    opcode.ends_with("-start") || opcode.ends_with("-done")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_by_name() {
        for (name, kind) in [
            ("all-reduce", Some(CollectiveKind::AllReduce)),
            ("all-reduce.12", Some(CollectiveKind::AllReduce)),
            ("all-gather-start.1", Some(CollectiveKind::AllGather)),
            ("reduce-scatter", Some(CollectiveKind::ReduceScatter)),
            ("all-reduce-done.1", None),
            ("all-reduce_fusion", None),
            ("reduce.5", None),
            ("broadcast_multiply_fusion", None),
            ("collective-permute.2", None),
        ] {
            assert_eq!(hlo_collective(name), kind, "{name}");
        }
        assert!(is_async_mark("copy-start.7") && is_async_mark("all-reduce-done"));
        assert!(!is_async_mark("copy.7"));
    }
}
