//! Communications that could not be compared between ranks at all: with whom is not known.

use crate::table::count;
use etlink_link::ranks::{JoinProblem, JoinProblemKind};

/// How many there are, as the end of a sentence that counts what was matched and what was not;
/// nothing where there are none.
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
