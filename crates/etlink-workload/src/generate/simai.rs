//! Reads workloads of SimAI, which AICB writes.
//!
//! ```text
//! HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 4 pp: 1 … all_gpus: 32 …
//! 43
//! name  -1  forward ns, collective, bytes  input gradients: the same  weight gradients: the same  100
//! ```
//! As in SimAI, a rank goes through all layers forward, then backward. It waits for collectives of
//! the forward pass and of input gradients, not for those of weight gradients. Collectives span
//! tensor ranks, those of weight gradients data ranks; with the suffix `_EP` the ranks that share
//! experts, with `_DP_EP` those with the same experts. Sizes are those of the whole buffer.

use super::schedule::PipelineSchedule;
use super::transformer::{ModelWork, RankPlace, Transformer};
use super::{RankWork, WorkloadSizes};
use crate::set::{GroupNumbers, WorkloadSet};
use etlink_chakra::proto::CollectiveCommType;
use etlink_model::Failure;

/// First word of a workload.
const FIRST_WORD: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";

/// Returns true if a file with this beginning is a workload of SimAI.
pub fn is_simai_workload(head: &[u8]) -> bool {
    head.starts_with(FIRST_WORD.as_bytes())
}

/// Work of a pass on a layer.
#[derive(Clone, Copy)]
struct LayerPass {
    ns: u64,
    comm: Option<(CollectiveCommType, Span)>,
    bytes: u64,
}

/// Ranks that a collective spans.
#[derive(Clone, Copy)]
enum Span {
    /// Tensor ranks, of weight gradients data ranks.
    Own,
    Experts,
    SameExperts,
}

/// Layer with its forward pass, input gradients and weight gradients.
struct Layer<'t> {
    name: &'t str,
    passes: [LayerPass; 3],
}

/// Returns the graphs of the ranks of one pipeline stage, and the number of stages.
///
/// # Errors
/// The text is damaged, or uses parts of the format that no graph is made of.
pub fn read_simai(text: &str) -> Result<(WorkloadSet, u32), Failure> {
    let mut lines = (1..).zip(text.lines());
    let head = lines.next().map_or("", |(_, line)| line);
    let number = |key: &str| -> Result<Option<u32>, Failure> {
        let mut words = head.split_whitespace();
        let found = words.find(|word| word.trim_end_matches(':') == key);
        let Some(value) = found.and(words.next()) else {
            return Ok(None);
        };
        let number = value.parse().ok();
        let why = || Failure::new(format!("line 1: {key} is {value:?}, but must be a number"));
        number.map(Some).ok_or_else(why)
    };
    let positive = |key: &str| Ok(number(key)?.unwrap_or(1).max(1));
    if number("checkpoints")?.unwrap_or(0) > 0 {
        return Err(Failure::new(
            "line 1: checkpoints are not 0: layers that are computed twice are not converted",
        ));
    }
    let Some(all) = number("all_gpus")? else {
        let old = "line 1: all_gpus is missing, the number of ranks";
        return Err(
            Failure::new(old).advise("add `all_gpus: N`, or write the file with a newer AICB")
        );
    };
    let stages = positive("pp")?;
    let model = Transformer {
        tensor: positive("model_parallel_NPU_group")?,
        context: 1,
        pipeline: 1,
        expert: positive("ep")?,
        layers: 1,
        hidden: 1,
        sequence: 1,
        vocabulary: 0,
        norms: false,
        zero: 0,
        schedule: PipelineSchedule::GPipe,
        chunks: 1,
        work: ModelWork::Training,
    };
    if !all.is_multiple_of(stages) {
        return Err(Failure::new(format!(
            "line 1: {all} ranks cannot be divided into {stages} pipeline stages"
        )));
    }
    let layers = read_layers(lines)?;
    let pool = model.pool(0, all / stages)?;
    let (mut numbers, mut set) = (GroupNumbers::default(), WorkloadSet::default());
    let sizes = WorkloadSizes {
        ranks: all / stages,
        rounds: 1,
        bytes: 0,
        micros: 0,
        jitter: 0,
        seed: 0,
    };
    for rank in 0..sizes.ranks {
        let mut work = LayerWork {
            place: model.place(rank, pool, &mut numbers),
            model: &model,
            rank: RankWork::new(rank, &sizes),
            ns: 0,
            micros: 0,
        };
        work.add(&layers);
        let graph = work.rank.graph.finish(&[("source", "AICB")]);
        set.ranks.push(graph);
    }
    set.groups = numbers.into_groups();
    Ok((set, stages))
}

fn read_layers<'t>(
    mut lines: impl Iterator<Item = (u64, &'t str)>,
) -> Result<Vec<Layer<'t>>, Failure> {
    let stated = lines.next().and_then(|(_, line)| line.trim().parse().ok());
    let stated: usize =
        stated.ok_or_else(|| Failure::new("line 2 must be the number of layers"))?;
    let mut layers = vec![];
    for (line, text) in lines
        .filter(|(_, text)| !text.trim().is_empty())
        .take(stated)
    {
        let faulty = |why: String| Failure::new(format!("line {line}: {why}"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let [name, _, forward @ .., _] = &words[..] else {
            return Err(faulty("a layer has 12 words".to_owned()));
        };
        let mut passes = vec![];
        for of_pass in forward.chunks(3) {
            let [ns, comm, bytes] = of_pass else {
                return Err(faulty("a layer has 12 words".to_owned()));
            };
            let number = |word: &str| {
                let number = word.parse().ok();
                number.ok_or_else(|| faulty(format!("{word:?} must be a number")))
            };
            passes.push(LayerPass {
                ns: number(ns)?,
                comm: collective(comm)
                    .ok_or_else(|| faulty(format!("the collective {comm} is unknown")))?,
                bytes: number(bytes)?,
            });
        }
        let passes = <[LayerPass; 3]>::try_from(passes);
        let passes = passes.map_err(|_| faulty("a layer has 12 words".to_owned()))?;
        layers.push(Layer { name, passes });
    }
    if layers.len() < stated {
        let found = layers.len();
        return Err(Failure::new(format!(
            "line 2 states {stated} layers, but the file has {found}: it is truncated"
        )));
    }
    Ok(layers)
}

/// Returns the collective of a word, which is `Some(None)` for none; `None` if it is unknown.
fn collective(word: &str) -> Option<Option<(CollectiveCommType, Span)>> {
    if word == "NONE" {
        return Some(None);
    }
    let (kind, span) = match (word.strip_suffix("_DP_EP"), word.strip_suffix("_EP")) {
        (Some(kind), _) => (kind, Span::SameExperts),
        (None, Some(kind)) => (kind, Span::Experts),
        (None, None) => (word, Span::Own),
    };
    let kind = match kind {
        "ALLREDUCE" => CollectiveCommType::AllReduce,
        "ALLGATHER" => CollectiveCommType::AllGather,
        "REDUCESCATTER" => CollectiveCommType::ReduceScatter,
        "ALLTOALL" => CollectiveCommType::AllToAll,
        _ => return None,
    };
    Some(Some((kind, span)))
}

/// A rank under construction.
struct LayerWork<'w> {
    place: RankPlace,
    model: &'w Transformer,
    rank: RankWork<'w>,
    /// Time of all computations so far.
    ns: u64,
    /// Time of all nodes so far: rounding errors do not add up.
    micros: u64,
}

impl LayerWork<'_> {
    fn add(&mut self, layers: &[Layer<'_>]) {
        let replicas = (self.place.of_replicas, self.place.pool.replicas);
        let tensor = (self.place.of_tensor, self.model.tensor);
        for Layer { name, passes } in layers {
            self.add_pass(&format!("forward {name}"), passes[0], tensor);
        }
        for Layer { name, passes } in layers.iter().rev() {
            self.add_pass(&format!("input gradients {name}"), passes[1], tensor);
            let weights = format!("weight gradients {name}");
            self.compute(&weights, passes[2].ns);
            // Later work does not wait for this collective.
            let last = self.rank.last;
            self.communicate(&weights, passes[2], replicas);
            self.rank.last = last;
        }
    }

    fn add_pass(&mut self, name: &str, pass: LayerPass, own: (Option<u32>, u32)) {
        self.compute(name, pass.ns);
        self.communicate(name, pass, own);
    }

    fn compute(&mut self, name: &str, ns: u64) {
        self.ns = self.ns.saturating_add(ns);
        let micros = self.ns / 1000 - self.micros;
        if micros > 0 {
            self.rank.compute(name, micros);
        }
        self.micros += micros;
    }

    fn communicate(&mut self, name: &str, pass: LayerPass, own: (Option<u32>, u32)) {
        let Some((kind, span)) = pass.comm else {
            return;
        };
        let (experts, replicas) = (self.model.expert, self.place.pool.replicas);
        let (group, ranks) = match span {
            Span::Own => own,
            Span::Experts => (self.place.of_experts, experts),
            Span::SameExperts if experts == 1 => (self.place.of_replicas, replicas),
            Span::SameExperts => (self.place.of_same_experts, replicas / experts),
        };
        let bytes = match kind {
            CollectiveCommType::AllGather => pass.bytes / u64::from(ranks),
            _ => pass.bytes,
        };
        if bytes > 0 {
            self.rank.collective_among(name, kind, bytes, group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::model_tests::assert_communications;
    use crate::generate::tests::findings;
    use etlink_chakra::proto::NodeType;

    /// Two tensor and four data ranks of each of three stages, two of which share experts.
    const TEXT: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 3 \
        vpp: 1 ga: 1 all_gpus: 24 checkpoints: 0 checkpoint_initiates: 0 pp_comm 4096\n3\n\
        grad_gather\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLGATHER\t4000\t100\n\
        attention\t-1\t1750\tALLGATHER\t800\t875\tREDUCESCATTER\t800\t875\tNONE\t0\t100\n\
        moe\t-1\t500\tALLTOALL_EP\t640\t500\tALLTOALL\t320\t1\tREDUCESCATTER_DP_EP\t960\t100\n";

    #[test]
    fn layers_become_graphs_of_all_ranks_of_a_stage() {
        let (set, stages) = read_simai(TEXT).expect("reads");
        assert_eq!((stages, set.ranks.len()), (3, 8));
        assert_eq!(findings(&set), []);
        assert_communications(
            &set,
            5,
            &[
                ("forward attention", "ALL_GATHER", 400, &[4, 5], 1),
                ("forward moe", "ALL_TO_ALL", 640, &[5, 7], 1),
                ("input gradients moe", "ALL_TO_ALL", 320, &[4, 5], 1),
                ("weight gradients moe", "REDUCE_SCATTER", 960, &[1, 5], 1),
                (
                    "input gradients attention",
                    "REDUCE_SCATTER",
                    800,
                    &[4, 5],
                    1,
                ),
                (
                    "weight gradients grad_gather",
                    "ALL_GATHER",
                    1000,
                    &[1, 3, 5, 7],
                    1,
                ),
            ],
        );
        let nodes = &set.ranks[5].nodes;
        // 1 + 1750 + 500, then 500 + 1 + 875 + 875 + 1 + 1 ns
        let micros: u64 = nodes.iter().map(|node| node.duration_micros).sum();
        assert_eq!(micros, 4);
        // Nothing waits for the collectives of weight gradients.
        let awaited = nodes.iter().flat_map(|node| &node.data_deps);
        let awaited: Vec<u64> = awaited.copied().collect();
        let ends = nodes.iter().filter(|node| !awaited.contains(&node.id));
        let ends = ends.filter(|node| node.r#type() == NodeType::CommCollNode);
        assert!(ends.clone().count() >= 2);
        assert!(
            ends.clone()
                .all(|node| node.name.starts_with("weight gradients")),
            "{ends:?}"
        );
    }

    #[test]
    fn what_is_not_read_is_refused_by_line() {
        for (from, to, named) in [
            ("all_gpus: 24", "", "all_gpus is missing"),
            (
                "checkpoints: 0",
                "checkpoints: 1 0",
                "checkpoints are not 0",
            ),
            ("ep: 2", "ep: x", "line 1: ep is \"x\""),
            ("pp: 3", "pp: 5", "5 pipeline stages"),
            ("ep: 2", "ep: 3", "3 expert ranks"),
            ("\n3\n", "\n4\n", "4 layers, but the file has 3"),
            (
                "ALLTOALL_EP",
                "BROADCAST",
                "line 5: the collective BROADCAST",
            ),
            ("1750", "fast", "line 4: \"fast\""),
            ("\t875\tNONE\t0\t100", "", "line 4: a layer has 12 words"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let Err(error) = read_simai(&TEXT.replacen(from, to, 1)) else {
                panic!("{named} is read");
            };
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
