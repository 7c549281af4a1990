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

use super::WorkloadSizes;
use super::transformer::{Among, ModelRank, Transformer};
use crate::set::{GroupNumbers, WorkloadSet};
use etlink_chakra::proto::CollectiveCommType as Kind;
use etlink_model::Failure;

/// First word of a workload.
const FIRST_WORD: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";

/// Returns true if a file with this beginning is a workload of SimAI.
pub fn is_simai_workload(head: &[u8]) -> bool {
    head.starts_with(FIRST_WORD.as_bytes())
}

/// Largest number of ranks, as for `etlink generate`.
const MOST_RANKS: u32 = 65_536;

/// Nanoseconds, collective and bytes of a pass on a layer.
type LayerPass = (u64, Option<(Kind, Among)>, u64);

/// Name of a layer, with its forward pass, input gradients and weight gradients.
type Layer<'t> = (&'t str, [LayerPass; 3]);

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
    let missing = || Failure::new("line 1: all_gpus is missing, the number of ranks");
    let all = number("all_gpus")?.ok_or_else(missing)?;
    if !(1..=MOST_RANKS).contains(&all) {
        return Err(Failure::new(format!(
            "line 1: all_gpus is {all}, but must be from 1 to {MOST_RANKS}"
        )));
    }
    let stages = positive("pp")?;
    let model = Transformer {
        tensor: positive("model_parallel_NPU_group")?,
        expert: positive("ep")?,
        context: 1,
        pipeline: 1,
        ..Transformer::default()
    };
    if !all.is_multiple_of(stages) {
        return Err(Failure::new(format!(
            "line 1: {all} ranks cannot be divided into {stages} pipeline stages"
        )));
    }
    let layers = read_layers(lines)?;
    let pool = model.pool(0, all / stages);
    let pool = pool.map_err(|why| Failure::new(format!("line 1: {why}")))?;
    let (mut numbers, mut set) = (GroupNumbers::default(), WorkloadSet::default());
    let sizes = WorkloadSizes {
        ranks: all / stages,
        ..WorkloadSizes::default()
    };
    for rank in 0..sizes.ranks {
        let mut own = ModelRank::new(model, rank, pool, &sizes, &mut numbers);
        own.add_layers(&layers);
        set.ranks.push(own.work.graph.finish(&[("source", "AICB")]));
    }
    set.groups = numbers.into_groups();
    Ok((set, stages))
}

fn read_layers<'t>(
    mut lines: impl Iterator<Item = (u64, &'t str)>,
) -> Result<Vec<Layer<'t>>, Failure> {
    let stated = lines.next().and_then(|(_, line)| line.trim().parse().ok());
    let none = || Failure::new("line 2 must be the number of layers");
    let stated: usize = stated.ok_or_else(none)?;
    let mut layers = vec![];
    let rows = lines.filter(|(_, text)| !text.trim().is_empty());
    for (line, text) in rows {
        let faulty = |why: String| Failure::new(format!("line {line}: {why}"));
        if layers.len() == stated {
            return Err(faulty(format!(
                "line 2 states {stated} layers, and this is one more"
            )));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| {
            let word = words.get(at).copied().unwrap_or_default();
            let number = word.parse().ok();
            number.ok_or_else(|| faulty(format!("{word:?} must be a number")))
        };
        let mut passes = [(0, None, 0); 3];
        let owns = [Among::Tensor, Among::Tensor, Among::Replicas];
        for ((pass, at), own) in passes.iter_mut().zip([2, 5, 8]).zip(owns) {
            let comm = words.get(at + 1).copied().unwrap_or_default();
            let known = collective(comm, own);
            let known = known.ok_or_else(|| faulty(format!("the collective {comm:?} is unknown")));
            let bytes = number(at + 2)?;
            if i64::try_from(bytes).is_err() {
                return Err(faulty(format!("{bytes} bytes are too many")));
            }
            *pass = (number(at)?, known?, bytes);
        }
        layers.push((words[0], passes));
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
fn collective(word: &str, own: Among) -> Option<Option<(Kind, Among)>> {
    let (kind, among) = match (word.strip_suffix("_DP_EP"), word.strip_suffix("_EP")) {
        (Some(kind), _) => (kind, Among::SameExperts),
        (None, Some(kind)) => (kind, Among::Experts),
        (None, None) => (word, own),
    };
    let kind = match kind {
        "NONE" => return Some(None),
        "ALLREDUCE" => Kind::AllReduce,
        "ALLGATHER" => Kind::AllGather,
        "REDUCESCATTER" => Kind::ReduceScatter,
        "ALLTOALL" => Kind::AllToAll,
        _ => return None,
    };
    Some(Some((kind, among)))
}

impl ModelRank<'_> {
    fn add_layers(&mut self, layers: &[Layer<'_>]) {
        // Time so far: rounding errors do not add up.
        let mut ns = 0;
        for (name, [forward, ..]) in layers {
            self.add_pass(&format!("forward {name}"), *forward, &mut ns);
        }
        for (name, [_, inputs, weights]) in layers.iter().rev() {
            self.add_pass(&format!("input gradients {name}"), *inputs, &mut ns);
            let name = format!("weight gradients {name}");
            self.add_pass(&name, (weights.0, None, 0), &mut ns);
            // Later work does not wait for this collective.
            let last = self.work.last;
            self.add_pass(&name, (0, weights.1, weights.2), &mut ns);
            self.work.last = last;
        }
    }

    fn add_pass(&mut self, name: &str, (take, comm, bytes): LayerPass, ns: &mut u64) {
        let micros = (*ns % 1000).saturating_add(take) / 1000;
        *ns = ns.saturating_add(take);
        if micros > 0 {
            self.work.compute(name, micros);
        }
        if let Some((kind, among)) = comm {
            self.communicate(name, kind, bytes, among);
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
            ("all_gpus: 24", "all_gpus: 0", "line 1: all_gpus is 0"),
            (
                "all_gpus: 24",
                "all_gpus: 4000000000",
                "line 1: all_gpus is 4000000000",
            ),
            ("\n3\n", "\n2\n", "line 5: line 2 states 2 layers"),
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
                "line 5: the collective \"BROADCAST\"",
            ),
            ("1750", "fast", "line 4: \"fast\""),
            ("\t875\tNONE\t0\t100", "", "line 4: \"\" must be a number"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let Err(error) = read_simai(&TEXT.replacen(from, to, 1)) else {
                panic!("{named} is read");
            };
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
