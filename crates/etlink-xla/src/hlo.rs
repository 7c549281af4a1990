//! HLO ops by their names.

use etlink_model::CollectiveKind;

/// The collectives of HLO (`HloOpcode` in `xla/hlo/ir/hlo_opcode.h`), as their names begin.
/// `collective-permute` sends and receives at once, which no kind of collective is.
const COLLECTIVES: [(&str, CollectiveKind); 6] = [
    ("all-reduce", CollectiveKind::AllReduce),
    ("all-gather", CollectiveKind::AllGather),
    ("reduce-scatter", CollectiveKind::ReduceScatter),
    ("all-to-all", CollectiveKind::AllToAll),
    ("ragged-all-to-all", CollectiveKind::AllToAll),
    ("collective-broadcast", CollectiveKind::Broadcast),
];

/// The collective that an HLO op is: `all-reduce.3`, `all-gather-start`. Not the end of one that
/// was begun before, `all-reduce-done`.
pub(crate) fn hlo_collective(name: &str) -> Option<CollectiveKind> {
    // Fusions are named for what they fuse, local work with it: `all-reduce_fusion`.
    let (prefix, kind) = COLLECTIVES
        .iter()
        .find(|(word, _)| name.starts_with(word))?;
    let rest = &name[prefix.len()..];
    let rest = rest.strip_prefix("-start").unwrap_or(rest);
    let is_numbered = rest.is_empty() || rest.starts_with('.');
    is_numbered.then_some(*kind)
}

/// Whether a name is that of an asynchronous op's beginning or end, which takes no time itself.
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
