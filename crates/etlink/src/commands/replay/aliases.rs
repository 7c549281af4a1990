//! Rules that refer to kernels by their short names, as tables print them, or by class.

use super::ReplayConfig;
use anyhow::{Result, anyhow};
use etlink_analysis::{KernelRules, short_names};
use etlink_model::Setting;
use etlink_replay::{
    DurationScale, LabelSource, NameAlias, ReplayGraph, ReplayKind, find_node, resolve_alias,
};
use std::collections::BTreeMap;

impl ReplayConfig {
    /// Replaces short names in rules and `--explain` by the names of a graph; `input` is its
    /// source.
    pub(super) fn resolve_names(
        &self,
        graph: &ReplayGraph,
        labels: &dyn LabelSource,
        input: &str,
    ) -> Result<ReplayConfig> {
        let mut config = self.clone();
        let is_unused = |scale: &DurationScale| scale.check_used(graph, labels).is_err();
        let explain = self.explain.as_deref();
        let missing = explain.filter(|wanted| find_node(graph, labels, wanted).is_none());
        // names of the trace itself are no aliases, and shortening all names takes long
        if missing.is_none() && !self.settings.scales.iter().any(is_unused) {
            return Ok(config);
        }
        let aliases = kernel_aliases(graph, labels)?;
        for scale in &mut config.settings.scales {
            let Some(name) = scale.name() else { continue };
            if is_unused(scale) {
                let names = resolve_alias(&aliases, &name)
                    .map_err(|why| anyhow!("{input}: {} {scale}: {why}", Setting::Scale))?;
                if !names.is_empty() {
                    *scale = scale.clone().with_names(names);
                }
            }
        }
        if let Some(wanted) = missing {
            let names = resolve_alias(&aliases, wanted)
                .map_err(|why| anyhow!("{input}: --explain {wanted}: {why}"))?;
            let mut nodes = graph.indices();
            let first = nodes.find(|node| names.contains(labels.name(*node)));
            if let Some(first) = first {
                let rank = wanted.starts_with("rank=").then(|| wanted.split_once('/'));
                let rank = rank.flatten().map(|(rank, _)| format!("{rank}/"));
                config.explain = Some(rank.unwrap_or_default() + labels.name(first));
            }
        }
        Ok(config)
    }
}

/// Returns the kernels and copies of a graph with their classes, and with their short names, as
/// `analyze` and `top` print them.
fn kernel_aliases(graph: &ReplayGraph, labels: &dyn LabelSource) -> Result<Vec<NameAlias>> {
    let rules = KernelRules::built_in()?;
    let mut kinds: BTreeMap<&str, ReplayKind> = BTreeMap::new();
    for node in graph.indices().filter(|node| graph.is_device_op(*node)) {
        kinds
            .entry(labels.name(node))
            .or_insert(graph.kind[node.index()]);
    }
    let shorts = short_names(kinds.keys().copied());
    let mut aliases = vec![];
    for ((name, kind), short) in kinds.into_iter().zip(shorts) {
        let (class, label) = match kind {
            // as in `analyze`: the row's own category takes precedence over its name
            ReplayKind::Collective => ("communication", "collective"),
            ReplayKind::MemoryCopy => ("memory", "memcpy"),
            _ => (rules.class(name).name(), rules.label(name)),
        };
        aliases.push(NameAlias {
            name: name.to_owned(),
            short: short.map_or_else(|| name.to_owned(), String::from),
            classes: vec![class.to_owned(), label.to_owned()],
        });
    }
    Ok(aliases)
}
