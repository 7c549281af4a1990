//! What a user chose that keeps a rank from being linked in parts.

use crate::job::ChakraOptions;
use crate::output::{OutputFormat, Packing};
use etlink_chakra::LatencyMode;
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
    /// `--pack zstd`, which takes more than there is.
    Zstd,
}

impl PartsObstacle {
    /// Those of what is written: `None` of nothing.
    pub fn of_output(
        format: Option<OutputFormat>,
        form: ChakraOptions,
        is_simulated: bool,
    ) -> Vec<PartsObstacle> {
        let all = [
            (format.is_none(), PartsObstacle::NoOutput),
            (
                format.is_some_and(|format| format != OutputFormat::Chakra),
                PartsObstacle::Format,
            ),
            (is_simulated, PartsObstacle::Simulator),
            (form.latency == LatencyMode::Node, PartsObstacle::Latency),
            (form.dep_latencies, PartsObstacle::DepLatencies),
            (form.no_gaps, PartsObstacle::NoGaps),
        ];
        let found = all.into_iter().filter(|(is_found, _)| *is_found);
        found.map(|(_, obstacle)| obstacle).collect()
    }

    /// What is left out without it, by the name that it has for users; `None` where something else
    /// than to leave it out helps.
    fn option(self) -> Option<String> {
        let option = match self {
            PartsObstacle::NoOutput | PartsObstacle::Format | PartsObstacle::Pipe => return None,
            PartsObstacle::Simulator => return Some(Setting::ForAstraSim.to_string()),
            PartsObstacle::Latency => "--latency node",
            PartsObstacle::DepLatencies => "--dep-latencies",
            PartsObstacle::NoGaps => "--no-gaps",
            PartsObstacle::Strict => return Some(Setting::Strict.to_string()),
            PartsObstacle::StepsBy => "--steps-by",
            PartsObstacle::Capture => "--capture",
            PartsObstacle::Metrics => "--metrics",
            PartsObstacle::Zstd => "--pack zstd",
        };
        Some(option.to_owned())
    }
}

/// What lets a rank be linked in parts.
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
    if obstacles.contains(&PartsObstacle::Pipe) {
        remedies.push("give files, which can be read again".to_owned());
    }
    match remedies.is_empty() {
        true => None,
        false => Some(format!(
            "to let the rank be linked in parts {}, ",
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
        let form = ChakraOptions {
            no_gaps: true,
            ..ChakraOptions::default()
        };
        let of = PartsObstacle::of_output;
        assert_eq!(
            parts_remedy(&of(
                Some(OutputFormat::Chakra),
                ChakraOptions::default(),
                false
            )),
            None
        );
        assert_eq!(
            parts_remedy(&of(None, form, false)).as_deref(),
            Some(
                "to let the rank be linked in parts leave out --no-gaps and write the graph with -o \
                 x.et, "
            )
        );
        let obstacles = [PartsObstacle::Strict, PartsObstacle::Zstd];
        let told = parts_remedy(&obstacles).expect("a remedy");
        assert!(
            told.contains("leave out --strict and --pack zstd"),
            "{told}"
        );
    }
}
