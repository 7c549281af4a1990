//! Communications that could not be compared between ranks, because their peers are unknown.

use crate::table::count;
use etlink_link::ranks::{JoinProblem, JoinProblemKind};

/// Counts these communications, as the end of a sentence on matched and unmatched ones; empty if
/// there are none.
pub(crate) fn unjoined_text(problems: &[JoinProblem]) -> String {
    use JoinProblemKind as Kind;
    let sum = |kinds: [Kind; 2]| -> u64 {
        let of_kinds = problems.iter().filter(|one| kinds.contains(&one.kind));
        of_kinds.map(|one| one.count).sum()
    };
    [
        (sum([Kind::UnknownPeer, Kind::OwnPeer]), "message", "peer"),
        (
            sum([Kind::UnknownGroup, Kind::NotAMember]),
            "collective",
            "group",
        ),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0)
    .map(|(number, what, with)| {
        let all = count(number, what);
        format!(", {all} without a {with} in the traces")
    })
    .collect()
}
