//! Detects rules that match nothing in a graph: a misspelled name would look like a change without
//! effect.

use super::ReplayConfig;
use anyhow::{Result, bail};
use etlink_model::Setting;
use etlink_replay::{
    LabelSource, ReplayGraph, UnusedRule, check_edge_kind, explain_missing_name, find_node,
};

/// Rules that match nothing in a graph.
pub(super) struct UnusedRules {
    rules: Vec<IdleRule>,
}

struct IdleRule {
    /// Option as it was typed.
    option: String,
    /// Message about the option, with the reason.
    message: String,
}

impl UnusedRules {
    /// Checks all rules.
    pub(super) fn find(
        config: &ReplayConfig,
        graph: &ReplayGraph,
        labels: &dyn LabelSource,
    ) -> UnusedRules {
        let mut rules = vec![];
        if let Some(wanted) = &config.explain
            && find_node(graph, labels, wanted).is_none()
        {
            let why = explain_missing_name(graph, labels, wanted);
            rules.push(IdleRule {
                option: format!("--explain {wanted}"),
                message: why.to_string(),
            });
        }
        for scale in &config.settings.scales {
            if let Err(why) = scale.check_used(graph, labels) {
                rules.push(IdleRule::change(
                    format!("{} {scale}", Setting::Scale),
                    &why,
                ));
            }
        }
        for kind in &config.settings.drop_edges {
            if let Err(why) = check_edge_kind(graph, *kind) {
                rules.push(IdleRule::change(
                    format!("--drop-edges {}", kind.name()),
                    &why,
                ));
            }
        }
        UnusedRules { rules }
    }

    /// Returns notes for a run among others, in which the rules may match.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        let rules = self.rules.iter();
        rules.map(|rule| format!("{}: {}", rule.option, rule.message))
    }

    /// Rejects the first rule that matches nothing in any of the runs; `input` is their source.
    pub(super) fn refuse_idle(runs: &[UnusedRules], input: &str) -> Result<()> {
        let Some((first, others)) = runs.split_first() else {
            return Ok(());
        };
        for rule in &first.rules {
            if others.iter().all(|run| run.has(&rule.option)) {
                bail!("{input}: {}: {}", rule.option, rule.message);
            }
        }
        Ok(())
    }

    fn has(&self, option: &str) -> bool {
        self.rules.iter().any(|rule| rule.option == option)
    }
}

impl IdleRule {
    fn change(option: String, why: &UnusedRule) -> IdleRule {
        IdleRule {
            option,
            message: format!("changes nothing: {why}"),
        }
    }
}
