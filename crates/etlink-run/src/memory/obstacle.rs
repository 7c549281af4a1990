//! What a user chose that keeps a rank from being linked in parts.

use crate::output::Packing;
use etlink_model::Setting;

/// Memory of zstd while it packs a file, beside what it packs, bytes: a window of 2 MiB twice, and its
/// tables.
pub(crate) const ZSTD_BYTES: u64 = 5_000_000;

/// What a rank that is larger than memory is not linked in parts for, and a user can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartsObstacle {
    /// Nothing is written.
    NoOutput,
    /// The output is something else than a `.et`.
    Format,
    /// `--for astra-sim`.
    Simulator,
    /// `--latency node`.
    Latency,
    /// `--dep-latencies`.
    DepLatencies,
    /// `--no-gaps`.
    NoGaps,
    /// `--strict`.
    Strict,
    /// `--steps-by`.
    StepsBy,
    /// `--capture`.
    Capture,
    /// `--metrics`.
    Metrics,
    /// A trace on standard input or in a pipe, which can be read once.
    Pipe,
    /// Files are packed by zstd, which takes more than there is.
    Zstd,
}

impl PartsObstacle {
    /// What is left out without it, by the name that it has for users; `None` where something else
    /// than to leave it out helps.
    fn option(self) -> Option<String> {
        let option = match self {
            PartsObstacle::NoOutput
            | PartsObstacle::Format
            | PartsObstacle::Pipe
            | PartsObstacle::Zstd => return None,
            PartsObstacle::Simulator => return Some(Setting::ForAstraSim.to_string()),
            PartsObstacle::Latency => "--latency node",
            PartsObstacle::DepLatencies => "--dep-latencies",
            PartsObstacle::NoGaps => "--no-gaps",
            PartsObstacle::Strict => return Some(Setting::Strict.to_string()),
            PartsObstacle::StepsBy => "--steps-by",
            PartsObstacle::Capture => "--capture",
            PartsObstacle::Metrics => "--metrics",
        };
        Some(option.to_owned())
    }
}

/// What may let a rank be linked in parts: whether it can be cut is known when it is tried.
pub(crate) fn parts_remedy(obstacles: &[PartsObstacle]) -> Option<String> {
    let mut remedies = vec![];
    let options: Vec<String> = obstacles.iter().filter_map(|one| one.option()).collect();
    if !options.is_empty() {
        remedies.push(format!("leave out {}", options.join(" and ")));
    }
    if obstacles.contains(&PartsObstacle::NoOutput) {
        remedies.push("write the graph with -o x.et".to_owned());
    }
    if obstacles.contains(&PartsObstacle::Format) {
        remedies.push("write a .et".to_owned());
    }
    if obstacles.contains(&PartsObstacle::Zstd) {
        remedies.push("write files that are not packed by zstd".to_owned());
    }
    if obstacles.contains(&PartsObstacle::Pipe) {
        remedies.push("give files, which can be read again".to_owned());
    }
    match remedies.is_empty() {
        true => None,
        false => Some(format!(
            "{}, so that the rank may be linked in parts, or ",
            remedies.join(" and ")
        )),
    }
}

/// Memory that packing takes beside a part.
pub(crate) fn packing_bytes(packing: Packing) -> u64 {
    match packing {
        Packing::Zstd => ZSTD_BYTES,
        Packing::Plain | Packing::Gzip => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_are_those_of_the_call() {
        assert_eq!(parts_remedy(&[]), None);
        let told = parts_remedy(&[PartsObstacle::NoOutput, PartsObstacle::NoGaps]);
        assert_eq!(
            told.as_deref(),
            Some(
                "leave out --no-gaps and write the graph with -o x.et, so that the rank may be \
                 linked in parts, or "
            )
        );
        let obstacles = [PartsObstacle::Strict, PartsObstacle::Zstd];
        let told = parts_remedy(&obstacles);
        assert!(told.is_some_and(|told| {
            told.starts_with("leave out --strict and write files that are not packed by zstd, ")
        }));
    }
}
