//! Detects rules that match nothing in a graph: a misspelled name would look like a change without
//! effect.

use super::ReplayConfig;
use anyhow::{Result, bail};
use etlink_model::Setting;
use etlink_replay::{
    LabelSource, ReplayGraph, UnusedRule, check_edge_kind, explain_missing_name, find_node,
};

/// Rules that match nothing in a graph: each option as it was typed, and a message with the reason.
pub(super) type UnusedRules = Vec<(String, String)>;

/// Checks all rules.
pub(super) fn unused_rules(
    config: &ReplayConfig,
    graph: &ReplayGraph,
    labels: &dyn LabelSource,
) -> UnusedRules {
    let mut rules = vec![];
    if let Some(wanted) = &config.explain
        && find_node(graph, labels, wanted).is_none()
    {
        let why = explain_missing_name(graph, labels, wanted);
        rules.push((format!("--explain {wanted}"), why.to_string()));
    }
    let mut add = |option: String, used: Result<(), UnusedRule>| {
        if let Err(why) = used {
            rules.push((option, format!("changes nothing: {why}")));
        }
    };
    for scale in &config.settings.scales {
        let option = format!("{} {scale}", Setting::Scale);
        add(option, scale.check_used(graph, labels));
    }
    for kind in &config.settings.drop_edges {
        let option = format!("--drop-edges {}", kind.name());
        add(option, check_edge_kind(graph, *kind));
    }
    rules
}

/// Rejects the first rule that matches nothing in any of the runs; `input` is their source.
pub(super) fn refuse_unused(runs: &[UnusedRules], input: &str) -> Result<()> {
    let first = runs.first().into_iter().flatten();
    for (option, message) in first {
        let is_unused = |run: &UnusedRules| run.iter().any(|(other, _)| other == option);
        if runs.iter().all(is_unused) {
            bail!("{input}: {option}: {message}");
        }
    }
    Ok(())
}
