//! Feeds exports and generated workloads with `etlink-feeder`: the issue order is that of Chakra's
//! own feeder.

use crate::tool::Tool;
use etlink_feeder::{Feeder, IssueOrder};
use std::collections::VecDeque;
use std::fs::File;

/// Results of Chakra's feeder (astra-sim/chakra, `src/feeder_v3`, GCC 12): file, nodes in flight,
/// number of nodes, FNV digest of their ids. `cargo dev feeder --chakra DIR` compares the whole
/// order.
const STOCK: [(&str, usize, usize, u64); 5] = [
    ("model/transformer.0.et", 4, 34, 7_128_975_744_487_924_360),
    ("sim/ddp2-2.15.0.0.et", 4, 1040, 16_323_770_637_867_020_895),
    ("ddp2/ddp2-2.15.0.0.et", 1, 1035, 7_909_392_962_638_396_330),
    (
        "tpdp4/tpdp4-2.15.0.2.et",
        8,
        833,
        12_491_880_078_540_606_267,
    ),
    (
        "threads/threads-2.15.0.0.et",
        3,
        1688,
        18_364_304_917_040_970_803,
    ),
];

#[test]
fn nodes_are_issued_in_the_order_of_chakras_feeder() {
    let tool = Tool::new();
    for line in [
        "generate transformer --ranks 8 -o model",
        "merge {pairs}/ddp2-2.15.0 --for astra-sim -o sim",
        "merge {pairs}/ddp2-2.15.0 -o ddp2",
        "merge {pairs}/tpdp4-2.15.0 -o tpdp4",
        "merge {pairs}/threads-2.15.0 -o threads",
    ] {
        tool.run(line).exits(0);
    }
    for (name, limit, count, digest) in STOCK {
        let file = File::open(tool.path(name)).expect(name);
        let mut feeder = Feeder::new(file, IssueOrder::Stock).expect(name);
        let mut found = 1_469_598_103_934_665_603_u64;
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < limit
                && let Some(id) = feeder.issue_next().expect("reads")
            {
                assert_eq!(feeder.node(id).expect("it is there").id, id);
                found = (found ^ id).wrapping_mul(1_099_511_628_211);
                under_way.push_back(id);
            }
            let Some(id) = under_way.pop_front() else {
                break;
            };
            feeder.end(id).expect("it was issued");
        }
        assert_eq!((feeder.ended(), found), (count, digest), "{name}");
    }
}
