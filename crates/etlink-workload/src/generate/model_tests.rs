//! Checks the arithmetic of generated models: count and bytes of each communication, from the
//! model's numbers, and times beside closed formulas.

use super::tests::{MODEL, SIZES, findings};
use super::*;
use etlink_chakra::proto::attribute_proto::Value;
use etlink_chakra::proto::{AttributeProto, Node, NodeType};
use std::collections::BTreeMap;

const H: u64 = MODEL.hidden;
const S: u64 = MODEL.sequence;
const VOCABULARY: u64 = 1_000;

fn set(model: Transformer, sizes: WorkloadSizes) -> WorkloadSet {
    let set = generate(&WorkloadPattern::Transformer(model), &sizes).expect("fits");
    assert_eq!(findings(&set), [], "{model:?}");
    set
}

fn number(node: &Node, name: &str) -> i64 {
    match AttributeProto::find(&node.attr, name) {
        Some(Value::Int64Val(number)) => *number,
        Some(Value::Int32Val(number)) => i64::from(*number),
        other => panic!("{name} of {} is {other:?}", node.name),
    }
}

/// Communications of one kind: name, kind (or `send`, `receive`), bytes, and ranks or peer.
type Sort = (String, String, i64, Vec<u32>);

/// Counts the communications of a rank.
fn communications(set: &WorkloadSet, rank: usize) -> BTreeMap<Sort, u64> {
    let mut found = BTreeMap::new();
    for node in &set.ranks[rank].nodes {
        let (kind, ranks) = match node.r#type() {
            NodeType::CommCollNode => {
                let Some(Value::StringVal(group)) = AttributeProto::find(&node.attr, "pg_name")
                else {
                    panic!("{} has no group", node.name);
                };
                let kind = number(node, "comm_type") as i32;
                let kind = Kind::try_from(kind).expect("a type");
                let group: u32 = group.parse().expect("a number");
                (kind.as_str_name(), set.groups[&group].clone())
            }
            NodeType::CommSendNode => ("send", vec![number(node, "comm_dst") as u32]),
            NodeType::CommRecvNode => ("receive", vec![number(node, "comm_src") as u32]),
            _ => continue,
        };
        let sort = (
            node.name.clone(),
            kind.to_owned(),
            number(node, "comm_size"),
            ranks,
        );
        *found.entry(sort).or_default() += 1;
    }
    found
}

/// Asserts the communications of a rank: name, kind, bytes, ranks, count.
pub(crate) fn assert_communications(
    set: &WorkloadSet,
    rank: usize,
    want: &[(&str, &str, u64, &[u32], u64)],
) {
    let want = want.iter().map(|(name, kind, bytes, ranks, count)| {
        let bytes = i64::try_from(*bytes).expect("small");
        let sort = (
            (*name).to_owned(),
            (*kind).to_owned(),
            bytes,
            ranks.to_vec(),
        );
        (sort, *count)
    });
    let want: BTreeMap<Sort, u64> = want.collect();
    assert_eq!(communications(set, rank), want, "rank {rank}");
}

/// Eight ranks: two tensor, two context, two data. Three micro-batches, four layers.
#[test]
fn collectives_of_a_training_step_follow_from_the_model() {
    let model = Transformer {
        context: 2,
        pipeline: 1,
        vocabulary: VOCABULARY,
        norms: true,
        ..MODEL
    };
    let sizes = WorkloadSizes { ranks: 8, ..SIZES };
    let (batches, layers) = (3, 4);
    // Half of the tokens, two bytes each; keys and values of half of the heads.
    let activations = S / 2 * H * 2;
    let both = 2 * S * (H / 2) * 2;
    // Four norms' factors and offsets are whole on each rank, and those of the last norm.
    let shared = 4 * H * H / 2 * layers + 4 * H * layers + 2 * H + VOCABULARY * H / 2;
    let experts = 8 * H * H / 2 * layers;
    let passes = 2 * batches;
    let (tensor, context, replicas): (&[u32], &[u32], &[u32]) = (&[0, 1], &[0, 2], &[0, 2, 4, 6]);
    let of_passes = [
        (
            "tensor parallel",
            "ALL_REDUCE",
            activations,
            tensor,
            passes * layers * 2 + batches,
        ),
        ("embeddings", "ALL_REDUCE", activations, tensor, batches),
        ("loss", "ALL_REDUCE", S / 2 * 4, tensor, 3 * batches),
        (
            "keys and values",
            "ALL_GATHER",
            both / 2,
            context,
            passes * layers,
        ),
        (
            "keys and values",
            "REDUCE_SCATTER",
            both,
            context,
            batches * layers,
        ),
        (
            "to experts",
            "ALL_TO_ALL",
            activations,
            context,
            passes * layers,
        ),
        (
            "from experts",
            "ALL_TO_ALL",
            activations,
            context,
            passes * layers,
        ),
    ];
    let with = |zero: u32, rest: &[_]| {
        let set = set(Transformer { zero, ..model }, sizes);
        assert_communications(&set, 0, &[&of_passes[..], rest].concat());
    };
    let same_experts: &[u32] = &[0, 4];
    let [weights, of_experts] = ["gradients of weights", "gradients of experts"];
    with(
        0,
        &[
            (weights, "ALL_REDUCE", shared * 2, replicas, 1),
            (of_experts, "ALL_REDUCE", experts * 2, same_experts, 1),
        ],
    );
    let scattered = |times| {
        [
            (weights, "REDUCE_SCATTER", shared * 2, replicas, times),
            (
                of_experts,
                "REDUCE_SCATTER",
                experts * 2,
                same_experts,
                times,
            ),
            ("weights", "ALL_GATHER", shared * 2 / 4, replicas, 1),
            ("experts", "ALL_GATHER", experts * 2 / 2, same_experts, 1),
        ]
    };
    with(1, &scattered(1));
    with(2, &scattered(batches));
    let rest = VOCABULARY * H / 2 + 2 * H;
    let (shared, experts) = ((shared - rest) / layers, experts / layers);
    with(
        3,
        &[
            (
                weights,
                "REDUCE_SCATTER",
                shared * 2,
                replicas,
                batches * layers,
            ),
            (weights, "REDUCE_SCATTER", rest * 2, replicas, batches),
            (
                of_experts,
                "REDUCE_SCATTER",
                experts * 2,
                same_experts,
                batches * layers,
            ),
            (
                "weights",
                "ALL_GATHER",
                shared * 2 / 4,
                replicas,
                passes * layers,
            ),
            ("weights", "ALL_GATHER", rest * 2 / 4, replicas, passes),
            (
                "experts",
                "ALL_GATHER",
                experts * 2 / 2,
                same_experts,
                passes * layers,
            ),
        ],
    );
}

/// Two stages of two chunks: the model goes through rank 0, 1, 0 and 1.
#[test]
fn stages_pass_activations_and_share_embeddings() {
    let model = Transformer {
        tensor: 1,
        expert: 1,
        vocabulary: VOCABULARY,
        schedule: PipelineSchedule::OneFOneB,
        chunks: 2,
        ..MODEL
    };
    let sizes = WorkloadSizes {
        ranks: 2,
        rounds: 6,
        ..SIZES
    };
    let set = set(model, sizes);
    let (bytes, table) = (S * H * 2, VOCABULARY * H * 2);
    let ends = (
        "gradients of embeddings",
        "ALL_REDUCE",
        table,
        &[0, 1][..],
        1,
    );
    let both = |name, peer, sent, received| {
        [
            (name, "send", bytes, peer, sent),
            (name, "receive", bytes, peer, received),
        ]
    };
    let with = |peer: &'static [u32], out, back| {
        let [sent, received] = both("activations", peer, out, back);
        let [given, taken] = both("gradients", peer, back, out);
        [sent, received, given, taken, ends]
    };
    assert_communications(&set, 0, &with(&[1], 12, 6));
    assert_communications(&set, 1, &with(&[0], 6, 12));
}

/// Runs a set whose messages take no time, and returns the microseconds until all ranks end.
fn makespan(set: &WorkloadSet) -> u64 {
    let mut ends: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); set.ranks.len()];
    let mut sent = BTreeMap::new();
    loop {
        let mut moved = false;
        for (rank, graph) in set.ranks.iter().enumerate() {
            for node in &graph.nodes[ends[rank].len()..] {
                let ready = node.data_deps.iter().map(|dep| ends[rank][dep]).max();
                let ready = ready.unwrap_or(0);
                let message = |peer: &str| (number(node, peer), number(node, "comm_tag"));
                let end = match node.r#type() {
                    NodeType::CommSendNode => {
                        sent.insert((rank as i64, message("comm_dst")), ready);
                        ready
                    }
                    NodeType::CommRecvNode => {
                        let (from, tag) = message("comm_src");
                        let Some(sent) = sent.get(&(from, (rank as i64, tag))) else {
                            break;
                        };
                        ready.max(*sent)
                    }
                    _ => ready + node.duration_micros,
                };
                ends[rank].insert(node.id, end);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (graph, ends) in set.ranks.iter().zip(&ends) {
        assert_eq!(ends.len(), graph.nodes.len(), "every rank ends");
    }
    ends.iter()
        .filter_map(|ends| ends.values().max())
        .copied()
        .max()
        .unwrap_or(0)
}

#[test]
fn steps_take_the_time_of_their_schedules() {
    use PipelineSchedule::{GPipe, OneFOneB, ZeroBubble};
    let layers = 16;
    // 24 h² + 4 s h operations per token, at half of an A100's 312 TFLOP/s, in two halves.
    let operations = 65_536 * (24 * H * H + 4 * 65_536 * H);
    let half = operations / 156_000_000 / 2;
    assert!(half > 10_000, "{half}");
    for (schedule, stages, batches, chunks) in [
        (GPipe, 4, 7, 1),
        (GPipe, 1, 3, 1),
        (OneFOneB, 4, 2, 1),
        (OneFOneB, 8, 24, 1),
        (OneFOneB, 4, 8, 2),
        (OneFOneB, 4, 4, 4),
        (OneFOneB, 8, 16, 2),
        (ZeroBubble, 2, 2, 1),
        (ZeroBubble, 4, 9, 1),
        (ZeroBubble, 8, 24, 1),
    ] {
        let model = Transformer {
            tensor: 1,
            expert: 1,
            pipeline: stages,
            layers,
            sequence: 65_536,
            schedule,
            chunks,
            ..MODEL
        };
        let sizes = WorkloadSizes {
            ranks: stages,
            rounds: batches,
            micros: 0,
            ..SIZES
        };
        let [stages, batches, chunks] = [stages, batches, chunks].map(u64::from);
        let forward = 2 * half * u64::from(layers) / stages;
        let took = makespan(&set(model, sizes));
        let want = match schedule {
            ZeroBubble => batches * 3 * forward + (stages - 1) * forward,
            _ => batches * 3 * forward + (stages - 1) * 3 * forward / chunks,
        };
        // Halves of twice the work are a microsecond longer.
        let rounding = (batches + stages) * u64::from(layers) * 2;
        assert!(
            (want..=want + rounding).contains(&took),
            "{schedule:?}: {took}, not {want}"
        );
    }
}

/// Four ranks read six prompts in two replicas; two ranks write five tokens to each.
#[test]
fn pools_pass_keys_and_values() {
    let model = Transformer {
        expert: 1,
        pipeline: 1,
        vocabulary: VOCABULARY,
        work: ModelWork::Disaggregated {
            prefill: 4,
            tokens: 5,
        },
        ..MODEL
    };
    let sizes = WorkloadSizes { ranks: 6, ..SIZES };
    let set = set(model, sizes);
    let (layers, prompts) = (4, 3);
    let cache = 2 * S * (H / 2) * layers * 2;
    let own = VOCABULARY / 2 * 2;
    let prefill: &[u32] = &[2, 3];
    assert_communications(
        &set,
        2,
        &[
            ("embeddings", "ALL_REDUCE", S * H * 2, prefill, prompts),
            (
                "tensor parallel",
                "ALL_REDUCE",
                S * H * 2,
                prefill,
                2 * layers * prompts,
            ),
            ("logits", "ALL_GATHER", own, prefill, prompts),
            ("keys and values", "send", cache, &[4], prompts),
        ],
    );
    let (decode, tokens, batch): (&[u32], _, _) = (&[4, 5], 5, 6);
    assert_communications(
        &set,
        5,
        &[
            ("keys and values", "receive", cache, &[1], prompts),
            ("keys and values", "receive", cache, &[3], prompts),
            ("embeddings", "ALL_REDUCE", batch * H * 2, decode, tokens),
            (
                "tensor parallel",
                "ALL_REDUCE",
                batch * H * 2,
                decode,
                2 * layers * tokens,
            ),
            ("logits", "ALL_GATHER", batch * own, decode, tokens),
        ],
    );
}

/// A token passes all stages before the next one begins, and its number goes back to the first.
#[test]
fn stages_write_one_token_after_the_other() {
    let (tokens, hidden, sequence) = (7, 4_096, 2_048);
    let model = Transformer {
        tensor: 1,
        expert: 1,
        hidden,
        sequence,
        work: ModelWork::Decode { tokens },
        ..MODEL
    };
    let sizes = WorkloadSizes { ranks: 2, ..SIZES };
    let set = set(model, sizes);
    let (batch, tokens) = (3, u64::from(tokens));
    let activations = ("activations", "send", batch * hidden * 2, &[1][..], tokens);
    let ids = ("token ids", "receive", batch * 8, &[1][..], tokens - 1);
    assert_communications(&set, 0, &[activations, ids]);
    // The memory moves two bytes for 12 h² weights and for 2 h of each token that is attended to.
    let halves = (0..tokens).map(|token| {
        let moved = 2 * (12 * hidden * hidden + 2 * batch * (sequence + token) * hidden);
        moved / 2 / 2_039_000
    });
    let layers = 4;
    let want: u64 = halves.map(|half| 2 * half * layers).sum();
    assert_eq!(makespan(&set), want);
}

#[test]
fn models_that_do_not_fit_are_refused_by_name() {
    let disaggregated = |prefill| ModelWork::Disaggregated { prefill, tokens: 1 };
    let interleaved = Transformer {
        schedule: PipelineSchedule::OneFOneB,
        chunks: 2,
        ..MODEL
    };
    let gpipe = Transformer { chunks: 2, ..MODEL };
    let context = Transformer {
        context: 3,
        sequence: 128,
        ..MODEL
    };
    let no_decoder = Transformer {
        work: disaggregated(16),
        ..MODEL
    };
    let uneven = Transformer {
        expert: 1,
        work: disaggregated(4),
        ..MODEL
    };
    for (model, named) in [
        (interleaved, "multiple of 2 micro-batches"),
        (gpipe, "--schedule 1f1b"),
        (context, "3 context ranks"),
        (no_decoder, "--prefill-ranks"),
        (uneven, "4 prompts"),
    ] {
        let rounds = if model == uneven { 4 } else { 3 };
        let sizes = WorkloadSizes { rounds, ..SIZES };
        let error = generate(&WorkloadPattern::Transformer(model), &sizes).expect_err(named);
        assert!(error.to_string().contains(named), "{error}");
    }
}
