//! Factors on durations: `NAME=0.5`, `kind=device 2.0`.

mod staging;

use crate::graph::{ReplayGraph, ReplayKind};
use crate::labels::{LabelSource, split_rank};
use crate::unused::{self, UnusedRule};
use etlink_model::{DurationNs, GlobalRank, NodeIdx};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::str::FromStr;
use wildmatch::WildMatch;

/// A factor for all nodes of a name or kind.
#[derive(Clone, Debug, PartialEq)]
pub struct DurationScale {
    rule: String,
    /// Rank to which the rule is limited; `None` for all ranks.
    rank: Option<GlobalRank>,
    nodes: Selection,
    factor: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Selection {
    /// Names that match a pattern with `*` and `?`.
    Name(WildMatch),
    /// Names that a short name or a class stands for.
    Names(BTreeSet<String>),
    Kinds(&'static [ReplayKind]),
}

/// Words for kinds in rules.
const KINDS: [(&str, &[ReplayKind]); 13] = [
    (
        "host",
        &[ReplayKind::HostOp, ReplayKind::Runtime, ReplayKind::HostGap],
    ),
    ("host_op", &[ReplayKind::HostOp]),
    ("runtime", &[ReplayKind::Runtime]),
    ("host_gap", &[ReplayKind::HostGap]),
    ("gap", &[ReplayKind::HostGap]),
    ("device", &[ReplayKind::Kernel, ReplayKind::MemoryCopy]),
    ("device_op", &[ReplayKind::Kernel, ReplayKind::MemoryCopy]),
    ("kernel", &[ReplayKind::Kernel]),
    ("memory_copy", &[ReplayKind::MemoryCopy]),
    ("collective", &[ReplayKind::Collective]),
    ("boundary", &[ReplayKind::Boundary]),
    ("unexplained_wait", &[ReplayKind::UnexplainedWait]),
    ("latency", &[ReplayKind::Latency]),
];

impl DurationScale {
    /// Returns the factor on durations.
    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }
}

/// Error of parsing a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationScaleError {
    /// No factor at the end.
    #[error("expected a name or kind and a factor, as in 'gemm*=0.5' or 'kind=device 2.0'")]
    NoFactor,
    /// The factor is not a number of at least 0.
    #[error("the factor {0:?} is not a number of at least 0")]
    BadFactor(String),
    /// The word is not a kind.
    #[error("unknown kind {0:?}; kinds: {list}", list = kind_words())]
    UnknownKind(String),
    /// The word before `=` is not a key.
    #[error(
        "unknown key {0:?}; write a name alone (aten::mm), kind=KIND or class=CLASS, and rank=N/ before it"
    )]
    UnknownKey(String),
}

/// Returns the word that stands for a single kind.
fn kind_word(kind: ReplayKind) -> Option<&'static str> {
    let word = KINDS.iter().find(|(_, kinds)| *kinds == [kind]);
    word.map(|(word, _)| *word)
}

/// Returns the kinds of a graph's nodes, as words in rules.
fn node_kinds(graph: &ReplayGraph) -> Vec<&'static str> {
    let kinds: BTreeSet<ReplayKind> = graph.kind.iter().copied().collect();
    kinds.into_iter().filter_map(kind_word).collect()
}

fn kind_words() -> String {
    KINDS.map(|(word, _)| word).join(", ")
}

impl FromStr for DurationScale {
    type Err = DurationScaleError;

    /// Parses a rule: the part before the last `=` or space selects nodes, the part after it is the
    /// factor. A prefix `rank=N/` limits the rule to nodes of that rank.
    fn from_str(rule: &str) -> Result<DurationScale, DurationScaleError> {
        let (nodes, factor) = rule
            .trim()
            // The last one, since kernel names contain spaces and equals signs themselves.
            .rsplit_once(['=', ' '])
            .ok_or(DurationScaleError::NoFactor)?;
        let (rank, nodes) = split_rank(nodes.trim_end_matches(['=', ' ']));
        // `kind=2.0` lacks either the kind or the factor; it is not a kernel named `kind`.
        if nodes.is_empty() || nodes == "kind" {
            return Err(DurationScaleError::NoFactor);
        }
        let number = factor
            .parse()
            .ok()
            .filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
        let factor = number.ok_or_else(|| DurationScaleError::BadFactor(factor.to_owned()))?;
        // names of kernels have spaces or brackets before an equals sign
        if let Some((key, _)) = nodes.split_once('=')
            && !["kind", "class"].contains(&key)
            && key
                .bytes()
                .all(|letter| letter.is_ascii_lowercase() || letter == b'_')
        {
            return Err(DurationScaleError::UnknownKey(key.to_owned()));
        }
        let nodes = match nodes.strip_prefix("kind=") {
            None => Selection::Name(WildMatch::new(nodes)),
            Some(word) => {
                let known = KINDS.iter().find(|(known, _)| *known == word);
                Selection::Kinds(
                    known
                        .ok_or_else(|| DurationScaleError::UnknownKind(word.to_owned()))?
                        .1,
                )
            }
        };
        Ok(DurationScale {
            rule: rule.to_owned(),
            rank,
            nodes,
            factor,
        })
    }
}

/// Prints the rule as it was written.
impl std::fmt::Display for DurationScale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.rule)
    }
}

/// Returns the durations of all nodes; the factors of all matching rules are multiplied.
pub(crate) fn durations(
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
    scales: &[DurationScale],
) -> Vec<DurationNs> {
    let mut durations = graph.duration.clone();
    if scales.is_empty() {
        return durations;
    }
    // few names for many nodes
    let mut by_name: FxHashMap<(Option<GlobalRank>, &str), f64> = FxHashMap::default();
    let named: Vec<&DurationScale> = scales
        .iter()
        .filter(|scale| !matches!(scale.nodes, Selection::Kinds(_)))
        .collect();
    // Calls that last as long as a scaled copy.
    let mut copying = vec![];
    for (node, duration) in graph.indices().zip(&mut durations) {
        let (rank, kind) = (graph.rank(node), graph.kind[node.index()]);
        let kinds = scales
            .iter()
            .filter(|scale| scale.has_kind(kind) && scale.is_of(rank));
        let mut factor: f64 = kinds.map(|scale| scale.factor).product();
        if !named.is_empty() {
            let name = labels.name(node);
            let known = by_name.entry((rank, name));
            factor *= *known.or_insert_with(|| name_factor(&named, name, rank));
        }
        // Durations above 2^53 ns would lose digits in a float, so unscaled ones stay untouched.
        if factor != 1.0 {
            *duration = scaled(*duration, factor);
            copying.extend(staging::staging_call(graph, node).map(|call| (call, factor)));
        }
    }
    for (call, factor) in copying {
        let duration = &mut durations[call.index()];
        *duration = scaled(*duration, factor);
    }
    durations
}

fn scaled(duration: DurationNs, factor: f64) -> DurationNs {
    DurationNs((duration.0 as f64 * factor).round() as i64)
}

/// Returns the product of all factors for a name on a rank.
fn name_factor(named: &[&DurationScale], name: &str, rank: Option<GlobalRank>) -> f64 {
    let fitting = named
        .iter()
        .filter(|scale| scale.has_name(name) && scale.is_of(rank));
    fitting.map(|scale| scale.factor).product()
}

impl DurationScale {
    /// Returns the name pattern of the rule; `None` for a kind.
    pub fn name(&self) -> Option<String> {
        match &self.nodes {
            Selection::Name(pattern) => Some(pattern.to_string()),
            Selection::Names(_) | Selection::Kinds(_) => None,
        }
    }

    /// Returns the rule for all nodes of these names; see [`resolve_alias`](crate::resolve_alias).
    pub fn with_names(self, names: BTreeSet<String>) -> DurationScale {
        DurationScale {
            nodes: Selection::Names(names),
            ..self
        }
    }

    fn has_name(&self, name: &str) -> bool {
        match &self.nodes {
            Selection::Name(pattern) => pattern.matches(name),
            Selection::Names(names) => names.contains(name),
            Selection::Kinds(_) => false,
        }
    }

    /// Returns true if the rule applies to nodes of a rank.
    fn is_of(&self, rank: Option<GlobalRank>) -> bool {
        self.rank.is_none() || self.rank == rank
    }

    fn has_kind(&self, kind: ReplayKind) -> bool {
        matches!(self.nodes, Selection::Kinds(kinds) if kinds.contains(&kind))
    }

    /// Checks that a node of the rule's rank has its name or kind. O(nodes).
    ///
    /// # Errors
    /// No node has; the error states the alternatives.
    pub fn check_used(
        &self,
        graph: &ReplayGraph,
        labels: &dyn LabelSource,
    ) -> Result<(), UnusedRule> {
        let mut nodes = graph.indices().filter(|node| self.is_of(graph.rank(*node)));
        let fits = |node: NodeIdx| match &self.nodes {
            Selection::Kinds(kinds) => kinds.contains(&graph.kind[node.index()]),
            _ => self.has_name(labels.name(node)),
        };
        if nodes.any(fits) {
            return Ok(());
        }
        unused::check_rank(graph, self.rank)?;
        Err(match &self.nodes {
            Selection::Name(pattern) => {
                unused::missing_name(graph, labels, self.rank, &pattern.to_string())
            }
            Selection::Names(_) => UnusedRule::NoName { similar: vec![] },
            Selection::Kinds(_) => UnusedRule::NoNodeKind {
                kinds: node_kinds(graph),
            },
        })
    }

    /// Returns true if the rule applies to a node of this kind and name, on a matching rank.
    pub fn fits(&self, kind: ReplayKind, name: &str) -> bool {
        self.has_kind(kind) || self.has_name(name)
    }
}
