//! Checks that generated runs are sound and reproducible.

use super::*;
use etlink_chakra::check::{RankNodes, check, check_ranks};
use etlink_chakra::finding::Finding;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::read::read;
use std::collections::BTreeMap;

pub(crate) const SIZES: WorkloadSizes = WorkloadSizes {
    ranks: 16,
    rounds: 3,
    bytes: 65_536,
    micros: 50,
    jitter: 0,
    seed: 1,
};

pub(crate) const MODEL: Transformer = Transformer {
    tensor: 2,
    context: 1,
    pipeline: 2,
    expert: 2,
    layers: 4,
    hidden: 256,
    sequence: 128,
    vocabulary: 0,
    norms: false,
    zero: 0,
    schedule: PipelineSchedule::GPipe,
    chunks: 1,
    work: ModelWork::Training,
};

fn patterns() -> Vec<WorkloadPattern> {
    let kinds = [
        Kind::AllReduce,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllToAll,
        Kind::Broadcast,
    ];
    let mut patterns = vec![
        WorkloadPattern::Computation,
        WorkloadPattern::Computations,
        WorkloadPattern::Chain,
        WorkloadPattern::Message,
        WorkloadPattern::Ring,
        WorkloadPattern::Transformer(MODEL),
    ];
    patterns.extend(kinds.map(WorkloadPattern::Collective));
    patterns
}

/// Returns the findings of `check` on the files of a set.
pub(crate) fn findings(set: &WorkloadSet) -> Vec<Finding> {
    let mut found = vec![];
    let mut nodes = vec![];
    for (rank, graph) in (0..).zip(&set.ranks) {
        let graph = read(graph.to_et().as_slice()).expect("reads");
        found.extend(check(&graph));
        nodes.push(RankNodes::from_graph(rank, &graph));
    }
    let groups: BTreeMap<String, Vec<i64>> = set
        .groups
        .iter()
        .map(|(number, ranks)| {
            let ranks = ranks.iter().map(|rank| i64::from(*rank)).collect();
            (number.to_string(), ranks)
        })
        .collect();
    found.extend(check_ranks(&nodes, Some(&groups)));
    found
}

#[test]
fn every_pattern_passes_the_check() {
    for pattern in patterns() {
        for ranks in [4, 16, 24] {
            let sizes = WorkloadSizes { ranks, ..SIZES };
            // 4 ranks make one data rank
            let Ok(set) = generate(&pattern, &sizes) else {
                assert!(ranks == 4, "{pattern:?}");
                continue;
            };
            assert_eq!(set.ranks.len(), ranks as usize);
            assert_eq!(findings(&set), [], "{pattern:?} of {ranks} ranks");
        }
    }
}

#[test]
fn chance_changes_times_alone_and_is_the_same_each_time() {
    let sizes = |seed| WorkloadSizes {
        jitter: 30,
        seed,
        ..SIZES
    };
    let pattern = WorkloadPattern::Transformer(MODEL);
    let make = |seed| generate(&pattern, &sizes(seed)).expect("fits").ranks;
    assert_eq!(make(1), make(1));
    assert_ne!(make(1), make(2));
    let without_times = |mut ranks: Vec<etlink_chakra::messages::ChakraMessages>| {
        for node in ranks.iter_mut().flat_map(|rank| &mut rank.nodes) {
            node.duration_micros = 0;
        }
        ranks
    };
    assert_eq!(without_times(make(1)), without_times(make(2)));
}

#[test]
fn a_transformer_has_the_groups_of_its_parts() {
    let set = generate(&WorkloadPattern::Transformer(MODEL), &SIZES).expect("fits");
    let groups: Vec<&Vec<u32>> = set.groups.values().collect();
    // groups of rank 0: tensor, data, expert
    assert_eq!(groups[..3], [&vec![0, 1], &vec![0, 2, 4, 6], &vec![0, 2]]);
    // 8 tensor groups, 4 data groups, 8 expert groups, 8 groups with the same experts
    assert_eq!(groups.len(), 8 + 4 + 8 + 8);
    assert!(
        set.group_list()
            .expect("has groups")
            .contains("\"1\": [0, 1]")
    );
    let odd = Transformer { layers: 3, ..MODEL };
    let error = generate(&WorkloadPattern::Transformer(odd), &SIZES).expect_err("3 layers");
    assert!(error.to_string().contains("3 layers"), "{error}");
    let sizes = WorkloadSizes { ranks: 6, ..SIZES };
    let error = generate(&WorkloadPattern::Transformer(MODEL), &sizes).expect_err("6 ranks");
    assert!(error.to_string().contains("multiple of 4"), "{error}");
}

#[test]
fn a_broadcast_takes_longer_the_more_bytes_it_has() {
    let pattern = WorkloadPattern::Collective(Kind::Broadcast);
    let micros = |bytes| {
        let set = generate(&pattern, &WorkloadSizes { bytes, ..SIZES }).expect("fits");
        set.ranks[0].nodes[1].duration_micros
    };
    // 400 GB/s of 2^30 bytes: 2.5 ms per GiB, and 936 ns
    assert_eq!(micros(1), 1);
    assert_eq!(micros(1 << 30), 2_501);
    assert_eq!(micros(8 << 30), 20_001);
}

/// Returns bytes and ranks of each gradient reduction of rank 0.
fn reductions(model: Transformer) -> Vec<(u64, Vec<u32>)> {
    let set = generate(&WorkloadPattern::Transformer(model), &SIZES).expect("fits");
    let mut found = vec![];
    for node in &set.ranks[0].nodes {
        if !node.name.starts_with("gradients of") {
            continue;
        }
        let value = |name: &str| {
            let attribute = node.attr.iter().find(|attribute| attribute.name == name);
            attribute.and_then(|attribute| attribute.value.clone())
        };
        let (Some(Value::Int64Val(bytes)), Some(Value::StringVal(group))) =
            (value("comm_size"), value("pg_name"))
        else {
            panic!("{node:?} has neither size nor group");
        };
        let group: u32 = group.parse().expect("a number");
        found.push((bytes.cast_unsigned(), set.groups[&group].clone()));
    }
    found
}

#[test]
fn gradients_are_reduced_among_the_ranks_with_the_same_weights() {
    // each tensor rank has half of a stage's two layers: h² weights of two bytes
    let square = MODEL.hidden * MODEL.hidden * 2;
    let data = vec![0, 2, 4, 6];
    let of = |expert| reductions(Transformer { expert, ..MODEL });
    assert_eq!(of(1), [(12 * square, data.clone())]);
    assert_eq!(
        of(2),
        [(4 * square, data.clone()), (8 * square, vec![0, 4])]
    );
    // each data rank has its own experts
    assert_eq!(of(4), [(4 * square, data)]);
}

#[test]
fn the_largest_numbers_make_no_overflow() {
    let sizes = WorkloadSizes {
        micros: u64::MAX,
        jitter: 1000,
        bytes: u64::MAX,
        ..SIZES
    };
    for pattern in [
        WorkloadPattern::Computation,
        WorkloadPattern::Ring,
        WorkloadPattern::Transformer(Transformer {
            hidden: 1_000_000,
            sequence: 1_000_000,
            ..MODEL
        }),
    ] {
        let set = generate(&pattern, &sizes).expect("fits");
        assert_eq!(set.ranks.len(), SIZES.ranks as usize);
    }
}

/// The backward pass visits the parts of a layer in reverse, with the same communication around each.
#[test]
fn the_backward_pass_is_the_reverse_of_the_forward_pass() {
    let model = Transformer { expert: 2, ..MODEL };
    let set = generate(&WorkloadPattern::Transformer(model), &SIZES).expect("fits");
    let names = set.ranks[0].nodes.iter().map(|node| node.name.as_str());
    let parts = names.filter(|name| name.ends_with("attention") || name.ends_with("mlp"));
    let parts: Vec<&str> = parts.collect();
    assert_eq!(parts[..2], ["forward attention", "forward mlp"]);
    assert_eq!(
        parts[parts.len() - 2..],
        ["backward mlp", "backward attention"]
    );
}
