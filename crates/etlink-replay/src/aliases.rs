//! Aliases of nodes in rules: short names of kernels, and their classes.
//!
//! Tables print short names, and a rule should accept what a table prints. The caller provides both
//! names and classes, which the replay does not compute.

use crate::labels::split_rank;
use crate::unused::list_text;
use std::collections::BTreeSet;
use wildmatch::WildMatch;

/// Prefix of a kernel class in a rule: `class=gemm`.
const CLASS: &str = "class=";

/// A node name with its aliases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameAlias {
    /// Name in the trace.
    pub name: String,
    /// Short name in tables.
    pub short: String,
    /// Classes, the broad one and the narrow one: `computation`, `gemm`.
    pub classes: Vec<String>,
}

/// Reason why a name cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// Several kernels have the name.
    #[error("the name matches several kernels{}", list_text(": ", shorts))]
    Ambiguous {
        /// Short names of the candidates.
        shorts: Vec<String>,
    },
    /// No kernel belongs to the class.
    #[error("no kernel of class {class:?}{}", list_text("; classes: ", classes))]
    NoClass {
        /// Class in the rule.
        class: String,
        /// Classes of the kernels.
        classes: Vec<String>,
    },
}

/// Returns the names that `wanted` stands for, in order; empty if it is not an alias. The caller
/// handles a prefix `rank=N/`. O(names).
///
/// # Errors
/// The name could be several kernels, or is a class without kernels.
pub fn resolve_alias(aliases: &[NameAlias], wanted: &str) -> Result<BTreeSet<String>, AliasError> {
    let (_, wanted) = split_rank(wanted);
    if let Some(class) = wanted.strip_prefix(CLASS) {
        return names_of_class(aliases, class);
    }
    // a table without enough room writes `…` for the omitted part
    let pattern = WildMatch::new(&wanted.replace('…', "*"));
    let exact = names_where(aliases, |alias| pattern.matches(&alias.short));
    if !exact.is_empty() {
        return Ok(exact);
    }
    let begun = |alias: &NameAlias| {
        let rest = alias.short.strip_prefix(wanted);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    };
    let names = names_where(aliases, |alias| !wanted.is_empty() && begun(alias));
    if names.len() > 1 {
        let meant = aliases.iter().filter(|alias| begun(alias));
        let shorts: BTreeSet<String> = meant.map(|alias| alias.short.clone()).collect();
        return Err(AliasError::Ambiguous {
            shorts: shorts.into_iter().collect(),
        });
    }
    Ok(names)
}

fn names_of_class(aliases: &[NameAlias], class: &str) -> Result<BTreeSet<String>, AliasError> {
    let is_of_class = |alias: &NameAlias| alias.classes.iter().any(|own| own == class);
    let names = names_where(aliases, is_of_class);
    if !names.is_empty() {
        return Ok(names);
    }
    let classes: BTreeSet<&String> = aliases.iter().flat_map(|alias| &alias.classes).collect();
    Err(AliasError::NoClass {
        class: class.to_owned(),
        classes: classes.into_iter().cloned().collect(),
    })
}

fn names_where(aliases: &[NameAlias], is_meant: impl Fn(&NameAlias) -> bool) -> BTreeSet<String> {
    let meant = aliases.iter().filter(|alias| is_meant(alias));
    meant.map(|alias| alias.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aliases() -> Vec<NameAlias> {
        let alias = |short: &str, class: &str| NameAlias {
            name: format!("void at::native::{short}(int)"),
            short: short.to_owned(),
            classes: vec!["computation".to_owned(), class.to_owned()],
        };
        vec![
            alias("elementwise_kernel<MulFunctor>", "elementwise"),
            alias("elementwise_kernel<AddFunctor>", "elementwise"),
            alias("flash_fwd_kernel<128>", "attention"),
        ]
    }

    fn resolved(wanted: &str) -> Result<Vec<String>, String> {
        let names = resolve_alias(&aliases(), wanted).map_err(|error| error.to_string())?;
        Ok(names.into_iter().collect())
    }

    #[test]
    fn short_names_and_classes_stand_for_names() {
        let mul = "void at::native::elementwise_kernel<MulFunctor>(int)";
        let add = "void at::native::elementwise_kernel<AddFunctor>(int)";
        let flash = "void at::native::flash_fwd_kernel<128>(int)";
        for (wanted, names) in [
            ("elementwise_kernel<MulFunctor>", vec![mul]),
            ("elementw…MulFunc…", vec![mul]),
            ("elementwise*", vec![add, mul]),
            ("rank=3/elementwise_kernel<AddFunctor>", vec![add]),
            ("flash_fwd_kernel", vec![flash]),
            ("class=attention", vec![flash]),
            ("class=computation", vec![add, mul, flash]),
            ("flash_fwd", vec![flash]),
            ("aten::mm", vec![]),
            ("", vec![]),
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(resolved(wanted), Ok(names), "{wanted}");
        }
    }

    #[test]
    fn what_could_be_several_is_listed() {
        assert_eq!(
            resolved("elementwise_kernel"),
            Err(
                "the name matches several kernels: elementwise_kernel<AddFunctor>, \
                 elementwise_kernel<MulFunctor>"
                    .to_owned()
            )
        );
        assert_eq!(
            resolved("class=gem"),
            Err(
                "no kernel of class \"gem\"; classes: attention, computation, elementwise"
                    .to_owned()
            )
        );
    }
}
