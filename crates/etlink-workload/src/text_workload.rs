//! Reads text workloads of ASTRA-sim 1.0, with a line per layer.
//!
//! ```text
//! DATA
//! 2
//! conv1 -1 100 NONE 0 80 NONE 0 60 ALLREDUCE 4096 10
//! conv2 -1 …
//! ```
//! The first line is the parallelism, the second the number of layers. A layer has a name, an
//! unused number, and a time (us), a type of communication and its size (bytes) for each of the
//! forward pass, the gradient of the inputs and the gradient of the weights. A time for the update
//! comes last and is unused. Dependencies follow `chakra_converter Text` (`text_converter.py` of
//! mlcommons/chakra), except that the converter adds an all-reduce if a layer states `NONE`. Here
//! there is no communication, and its dependents wait for the computation before it.

use crate::builder::{NodeId, WorkloadBuilder};
use etlink_chakra::messages::ChakraMessages;
use etlink_chakra::proto::CollectiveCommType;
use etlink_model::Failure;

/// Type of parallelism, which decides what is communicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parallelism {
    /// Gradients of weights only, one after the other.
    Micro,
    /// Gradients of weights.
    Data,
    /// Activations and their gradients.
    Model,
    /// Gradients of weights, and activations with their gradients.
    Hybrid,
    /// Gradients of weights, and an all-to-all of embeddings, for which the layer with this number
    /// waits.
    Dlrm { last_bottom: usize },
}

/// A computation and the communication after it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Work {
    micros: u64,
    collective: Option<(CollectiveCommType, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    name: String,
    forward: Work,
    input_gradient: Work,
    weight_gradient: Work,
}

/// A parsed text workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWorkload {
    parallelism: Parallelism,
    layers: Vec<Layer>,
}

/// Returns true if a text begins like a workload, by its first word.
pub fn is_text_workload(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines();
    let first = lines.next().and_then(|line| parallelism(line).ok());
    let second = lines.next().map(|line| line.trim().parse::<usize>());
    first.is_some() && matches!(second, Some(Ok(_)))
}

impl TextWorkload {
    /// Parses a text workload.
    ///
    /// # Errors
    /// A line is malformed.
    pub fn parse(text: &str) -> Result<TextWorkload, Failure> {
        let mut lines = text.lines();
        let parallelism = parallelism(lines.next().unwrap_or_default())?;
        let stated = lines.next().unwrap_or_default().trim().parse();
        let stated: usize =
            stated.map_err(|_| Failure::new("line 2: expected the number of layers"))?;
        let layers = (3..)
            .zip(lines)
            .filter(|(_, text)| !text.trim().is_empty())
            .map(|(line, text)| {
                parse_layer(text).map_err(|what| Failure::new(format!("line {line}: {what}")))
            })
            .collect::<Result<Vec<Layer>, Failure>>()?;
        if layers.len() != stated {
            let found = layers.len();
            return Err(Failure::new(format!(
                "line 2 states {stated} layers, but {found} follow; correct the number"
            )));
        }
        Ok(TextWorkload {
            parallelism,
            layers,
        })
    }

    /// Returns the number of layers.
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// Builds the graph of `passes` passes, which is the same for every rank.
    pub fn to_graph(&self, passes: u32) -> ChakraMessages {
        let mut run = Passes {
            layers: &self.layers,
            graph: WorkloadBuilder::default(),
            done: vec![Done::default(); self.layers.len()],
        };
        for _ in 0..passes {
            match self.parallelism {
                Parallelism::Micro => run.add_micro(),
                Parallelism::Data => run.add_pass(false, None),
                Parallelism::Dlrm { last_bottom } => run.add_pass(false, Some(last_bottom)),
                Parallelism::Model | Parallelism::Hybrid => {
                    run.add_pass(true, None);
                }
            }
        }
        run.graph.finish(&[("source", "text workload")])
    }
}

/// Last nodes of a layer, in the previous or the current pass.
#[derive(Clone, Debug, Default)]
struct Done {
    forward_collective: Option<NodeId>,
    weights: Option<NodeId>,
}

struct Passes<'w> {
    layers: &'w [Layer],
    graph: WorkloadBuilder,
    done: Vec<Done>,
}

impl Passes<'_> {
    fn add_micro(&mut self) {
        for layer in self.layers {
            self.add_collective(layer, &layer.weight_gradient, &[]);
        }
    }

    /// Adds a pass: forward through all layers, then backward. With `model`, activations and their
    /// gradients are communicated, and gradients of inputs come before gradients of weights.
    fn add_pass(&mut self, model: bool, last_bottom: Option<usize>) {
        let mut last = None;
        for (at, layer) in self.layers.iter().enumerate() {
            let mut deps: Vec<NodeId> = self.done[at].weights.into_iter().chain(last).collect();
            // the embeddings of the first layer are exchanged meanwhile
            if last_bottom == Some(at) {
                deps.extend(self.done[0].forward_collective);
            }
            let computed = self.add_computation(layer, "FWD", &layer.forward, &deps);
            let collective = self.add_collective(layer, &layer.forward, &[computed]);
            last = match collective {
                Some(collective) if last_bottom.is_none() => Some(collective),
                _ => Some(computed),
            };
            self.done[at].forward_collective = collective;
        }
        let mut last: Vec<NodeId> = last.into_iter().collect();
        for (at, layer) in self.layers.iter().enumerate().rev() {
            last = if model {
                self.add_model_gradients(at, layer, &last)
            } else {
                self.add_data_gradients(at, layer, &last)
            };
        }
    }

    /// Adds the gradient of the inputs, which the previous layer needs, then the gradient of the
    /// weights.
    fn add_model_gradients(&mut self, at: usize, layer: &Layer, deps: &[NodeId]) -> Vec<NodeId> {
        let inputs = self.add_computation(layer, "BWD_IG", &layer.input_gradient, deps);
        // there is no layer before the first
        let collective = match at {
            0 => None,
            _ => self.add_collective(layer, &layer.input_gradient, &[inputs]),
        };
        let weights = self.add_computation(layer, "BWD_WG", &layer.weight_gradient, &[inputs]);
        let update = self.add_collective(layer, &layer.weight_gradient, &[weights]);
        self.done[at].weights = update.or(Some(weights));
        [Some(weights), collective].into_iter().flatten().collect()
    }

    /// Adds the gradient of the weights, whose communication begins at once, then the gradient of
    /// the inputs.
    fn add_data_gradients(&mut self, at: usize, layer: &Layer, deps: &[NodeId]) -> Vec<NodeId> {
        let weights = self.add_computation(layer, "BWD_WG", &layer.weight_gradient, deps);
        let update = self.add_collective(layer, &layer.weight_gradient, &[weights]);
        self.done[at].weights = update.or(Some(weights));
        if at == 0 {
            return vec![weights];
        }
        let inputs = self.add_computation(layer, "BWD_IG", &layer.input_gradient, &[weights]);
        let collective = self.add_collective(layer, &layer.input_gradient, &[inputs]);
        vec![collective.unwrap_or(inputs)]
    }

    fn add_computation(
        &mut self,
        layer: &Layer,
        phase: &str,
        work: &Work,
        deps: &[NodeId],
    ) -> NodeId {
        let name = format!("COMP_NODE_{}_{phase}", layer.name);
        self.graph.add_computation(&name, work.micros, deps)
    }

    fn add_collective(&mut self, layer: &Layer, work: &Work, deps: &[NodeId]) -> Option<NodeId> {
        let (kind, bytes) = work.collective?;
        let word = kind.as_str_name().replace('_', "");
        let name = format!("COMM_COLL_NODE_{}_{word}", layer.name);
        Some(self.graph.add_collective(&name, kind, bytes, None, deps))
    }
}

fn parallelism(line: &str) -> Result<Parallelism, Failure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let last_bottom = words.get(1).and_then(|word| word.parse().ok());
    match (words.first().copied(), last_bottom) {
        (Some("MICRO"), _) => Ok(Parallelism::Micro),
        (Some("DATA"), _) => Ok(Parallelism::Data),
        (Some("MODEL"), _) => Ok(Parallelism::Model),
        (Some("HYBRID_DATA_MODEL" | "HYBRID_MODEL_DATA"), _) => Ok(Parallelism::Hybrid),
        (Some("HYBRID_DLRM" | "HYBRID_DLRM_ENHANCED"), Some(last_bottom)) => {
            Ok(Parallelism::Dlrm { last_bottom })
        }
        _ => Err(Failure::new(format!(
            "line 1: {:?} is not a parallelism; use MICRO, DATA, MODEL, HYBRID_DATA_MODEL, \
             HYBRID_MODEL_DATA or HYBRID_DLRM",
            line.trim()
        ))),
    }
}

fn parse_layer(text: &str) -> Result<Layer, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, _, forward @ .., _] = &words[..] else {
        return Err("a layer has 12 words".to_owned());
    };
    let [a, b, c, d, e, f, g, h, i] = forward else {
        return Err(format!(
            "a layer has 12 words, but this line has {}",
            words.len()
        ));
    };
    Ok(Layer {
        name: (*name).to_owned(),
        forward: parse_work([a, b, c])?,
        input_gradient: parse_work([d, e, f])?,
        weight_gradient: parse_work([g, h, i])?,
    })
}

fn parse_work([micros, kind, bytes]: [&str; 3]) -> Result<Work, String> {
    let number = |text: &str| {
        let number = text.parse::<u64>();
        number.map_err(|_| format!("{text:?} is not a whole number"))
    };
    let kind = match kind {
        "NONE" => None,
        "ALLREDUCE" => Some(CollectiveCommType::AllReduce),
        "ALLTOALL" => Some(CollectiveCommType::AllToAll),
        "ALLGATHER" => Some(CollectiveCommType::AllGather),
        "REDUCESCATTER" => Some(CollectiveCommType::ReduceScatter),
        other => {
            return Err(format!(
                "{other:?} is not a type of communication; use NONE, ALLREDUCE, ALLTOALL, ALLGATHER or \
                REDUCESCATTER"
            ));
        }
    };
    let bytes = number(bytes)?;
    Ok(Work {
        micros: number(micros)?,
        // in simulators, a collective of no bytes never ends
        collective: match kind {
            Some(kind) if bytes > 0 => Some((kind, bytes)),
            _ => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: &str = "2\n\
        a -1 5 ALLGATHER 8 6 REDUCESCATTER 16 7 ALLREDUCE 32 1\n\
        b -1 5 NONE 0 6 ALLTOALL 64 7 NONE 0 1\n";

    fn graph(parallelism: &str, passes: u32) -> Vec<(String, Vec<u64>)> {
        let text = format!("{parallelism}\n{LAYERS}");
        assert!(is_text_workload(text.as_bytes()));
        let workload = TextWorkload::parse(&text).expect("reads");
        let nodes = workload.to_graph(passes).nodes;
        nodes
            .into_iter()
            .map(|node| (node.name, node.data_deps))
            .collect()
    }

    fn names(nodes: &[(String, Vec<u64>)]) -> Vec<&str> {
        let names = nodes.iter().map(|(name, _)| &name[..]);
        names
            .map(|name| name.split_once("NODE_").map_or(name, |(_, rest)| rest))
            .collect()
    }

    #[test]
    fn data_parallel_layers_wait_for_their_gradients() {
        let nodes = graph("DATA", 2);
        assert_eq!(
            names(&nodes)[..8],
            [
                "a_FWD",
                "a_ALLGATHER",
                "b_FWD",
                "b_BWD_WG",
                "b_BWD_IG",
                "b_ALLTOALL",
                "a_BWD_WG",
                "a_ALLREDUCE"
            ]
        );
        // b does not communicate weights: its second pass waits for their computation
        assert_eq!(nodes[8].1, [7]);
        assert_eq!(nodes[10].1, [3, 9]);
    }

    #[test]
    fn model_parallel_gradients_of_inputs_come_first() {
        let nodes = graph("MODEL", 1);
        assert_eq!(
            names(&nodes),
            [
                "a_FWD",
                "a_ALLGATHER",
                "b_FWD",
                "b_BWD_IG",
                "b_ALLTOALL",
                "b_BWD_WG",
                "a_BWD_IG",
                "a_BWD_WG",
                "a_ALLREDUCE"
            ]
        );
        assert_eq!(nodes[6].1, [4, 5]);
    }

    #[test]
    fn embeddings_are_waited_for_where_the_first_line_says() {
        let nodes = graph("HYBRID_DLRM 1", 1);
        assert_eq!(names(&nodes)[..3], ["a_FWD", "a_ALLGATHER", "b_FWD"]);
        assert_eq!(nodes[2].1, [0, 1]);
        assert_eq!(names(&graph("MICRO", 2)), ["a_ALLREDUCE", "a_ALLREDUCE"]);
    }

    #[test]
    fn broken_workloads_are_named_by_line() {
        for (text, want) in [
            ("HYBRID_TRANSFORMER\n1\n", "HYBRID_TRANSFORMER"),
            ("DATA\nx\n", "line 2"),
            (
                "DATA\n2\na -1 5 NONE 0 6 NONE 0 7 NONE 0 1\n",
                "line 2 states 2",
            ),
            (
                "DATA\n1\na -1 5 NONE 0 6 NONE 0 7 SUM 0 1\n",
                "line 3: \"SUM\"",
            ),
            ("DATA\n1\na -1 5 NONE 0 6 NONE 0 7\n", "12 words"),
            (
                "DATA\n1\n\na -1 -5 NONE 0 6 NONE 0 7 NONE 0 1\n",
                "line 4: \"-5\"",
            ),
        ] {
            let error = TextWorkload::parse(text).expect_err(text).to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
