//! `cargo dev budget`: whether `--memory` is kept, by every command that takes it.
//!
//! ```text
//! 64 ranks × {pretty, compact} × {plain, gz} × commands × budgets -> peak, or a refusal
//! ```
//! A command keeps its budget if the process never holds more, or refuses with exit code 2, a message
//! that names `--memory`, and nothing written.

use crate::bench::{build_release, measure};
use crate::support::repository_root;
use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use clap::Args;
use etlink_dev::generate::ranks::{RankTemplate, ScenarioSettings};
use etlink_testing::Oddity;
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// How often the recorded window comes in a rank: 23 MB with both traces.
const WINDOWS: u32 = 32;
/// Events of a drawn rank.
const EVENTS: usize = 60_000;
/// The arguments that graphs are made of.
const LINKED_ARGUMENTS: [&str; 17] = [
    "External id",
    "Record function id",
    "Sequence number",
    "Fwd thread id",
    "correlation",
    "device",
    "context",
    "stream",
    "bytes",
    "Collective name",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "Process Group Name",
    "Process Group Ranks",
    "Seq",
];
/// The same of nodes of host traces.
const LINKED_ATTRIBUTES: [&str; 6] = ["rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid"];

/// What the traces are like.
const KINDS: [&str; 3] = ["recorded", "names", "stacks"];
const FORMS: [&str; 2] = ["pretty", "compact"];

/// Commands, where `{}` is the folder of traces and `OUT` one for results.
const COMMANDS: [(&str, &str); 10] = [
    ("merge", "merge {} -o OUT/merged"),
    (
        "merge --format perfetto",
        "merge {} -o OUT/merged --format perfetto",
    ),
    ("ranks", "ranks {} --json"),
    ("analyze", "analyze {} --json"),
    ("findings", "findings {} --json"),
    ("replay", "replay {} --json --critical-path"),
    ("report", "report {} -o OUT/page.html"),
    ("top", "top {} --json"),
    ("diff", "diff {} {} --json"),
    ("link", "link --device FIRST -o OUT/linked.et"),
];

/// `cargo dev budget`.
#[derive(Debug, Args)]
pub struct BudgetOptions {
    /// Number of ranks
    #[arg(long, value_name = "N", default_value_t = 64)]
    ranks: usize,
    /// Budgets
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        default_value = "100M,300M,1G"
    )]
    memory: Vec<ByteSize>,
    /// Only traces of these kinds: recorded, names, stacks
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    kind: Vec<String>,
    /// Only these forms: pretty, compact
    #[arg(long, value_name = "FORM,...", value_delimiter = ',')]
    form: Vec<String>,
    /// Only packed (gz), or only plain
    #[arg(long, value_name = "PACKING")]
    packing: Option<String>,
    /// Only these commands
    #[arg(long, value_name = "COMMAND,...", value_delimiter = ',')]
    command: Vec<String>,
    /// Threads
    #[arg(short = 'j', long, value_name = "N", default_value_t = 8)]
    threads: u32,
    /// The etlink to measure [default: built here, release]
    #[arg(long, value_name = "FILE")]
    etlink: Option<PathBuf>,
}

/// Makes the traces, runs the commands, prints a row for each, and how many kept their budget.
pub fn test_budgets(options: &BudgetOptions) -> Result<()> {
    let root = repository_root()?;
    let etlink = match &options.etlink {
        Some(etlink) => etlink.clone(),
        None => build_release(&root)?,
    };
    let folder = root.join("target/budget");
    println!("| traces | command | budget MB | peak MB | result |");
    println!("|---|---|---|---|---|");
    let (mut kept, mut all) = (0, 0);
    for kind in chosen(&KINDS, &options.kind) {
        for form in chosen(&FORMS, &options.form) {
            for packing in ["plain", "gz"] {
                if options.packing.as_ref().is_some_and(|only| only != packing) {
                    continue;
                }
                let traces = folder.join("traces");
                write_traces(kind, form, packing == "gz", options.ranks, &traces)?;
                let name = format!("{kind}, {form}, {packing}");
                for (command, words) in COMMANDS {
                    let is_wanted = |only: &String| only == command;
                    if !options.command.is_empty() && !options.command.iter().any(is_wanted) {
                        continue;
                    }
                    for budget in &options.memory {
                        all += 1;
                        let run = BudgetRun {
                            etlink: &etlink,
                            traces: &traces,
                            output: &folder.join("out"),
                            threads: options.threads,
                            budget: *budget,
                        };
                        let (peak, result) = run.measure(words)?;
                        kept += usize::from(result != RunResult::Over);
                        println!(
                            "| {name} | `{command}` | {} | {:.0} | {} |",
                            budget.as_u64() / 1_000_000,
                            peak as f64 / 1e6,
                            result.word(),
                        );
                    }
                }
            }
        }
    }
    println!("{kept} of {all} kept their budget");
    if kept < all {
        bail!("{} commands held more than they were allowed", all - kept);
    }
    Ok(())
}

fn chosen<'c>(all: &[&'c str], only: &[String]) -> Vec<&'c str> {
    let is_wanted = |one: &&str| only.is_empty() || only.iter().any(|only| only == one);
    all.iter().copied().filter(is_wanted).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunResult {
    Done,
    Refused,
    Over,
}

impl RunResult {
    fn word(self) -> &'static str {
        match self {
            RunResult::Done => "done",
            RunResult::Refused => "refused",
            RunResult::Over => "**over**",
        }
    }
}

/// A command with a budget.
struct BudgetRun<'r> {
    etlink: &'r Path,
    traces: &'r Path,
    output: &'r Path,
    threads: u32,
    budget: ByteSize,
}

impl BudgetRun<'_> {
    fn measure(&self, words: &str) -> Result<(u64, RunResult)> {
        empty_folder(self.output)?;
        let first = std::fs::read_dir(self.traces)?.flatten();
        let first = first.map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("kineto_trace_0.")
        });
        let first = first.context("there is no first rank")?;
        let mut command: Vec<OsString> = vec![self.etlink.into()];
        for word in words.split(' ') {
            let place = self.output.display().to_string();
            command.push(match word {
                "{}" => self.traces.into(),
                "FIRST" => first.clone().into(),
                word => word.replace("OUT", &place).into(),
            });
        }
        let budget = self.budget.as_u64().to_string();
        let threads = self.threads.to_string();
        let more = ["--allow-mismatch", "-j", &threads, "--memory", &budget];
        command.extend(more.map(OsString::from));
        let usage = measure::measure_command(&command)?;
        let result = if usage.peak_bytes > self.budget.as_u64() {
            RunResult::Over
        } else if let Some(failed) = &usage.failed {
            let is_clean = std::fs::read_dir(self.output)?.next().is_none();
            // a command that failed for another reason, or left something, kept nothing
            if !failed.contains("status: 2") || !failed.contains("--memory") || !is_clean {
                bail!("{command:?}: {failed}");
            }
            RunResult::Refused
        } else {
            RunResult::Done
        };
        Ok((usage.peak_bytes, result))
    }
}

fn empty_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))
}

/// Writes the traces of all ranks.
fn write_traces(kind: &str, form: &str, gzip: bool, ranks: usize, folder: &Path) -> Result<()> {
    empty_folder(folder)?;
    let template = match kind {
        "recorded" => Some(open_recorded()?),
        _ => None,
    };
    let settings = ScenarioSettings {
        ranks,
        skew_ns: 5_000_000,
        drift_ppb: 0,
        jitter_ns: 20_000,
        late: None,
        seed: 1,
    };
    let scenario = match &template {
        Some(template) => Some(template.scenario(&settings)?),
        None => None,
    };
    for rank in 0..ranks {
        let (host, device) = if let (Some(template), Some(scenario)) = (&template, &scenario) {
            let (mut host, mut device) = (vec![], vec![]);
            template.write_host(scenario, rank, &mut host)?;
            template.write_device(scenario, rank, &mut device)?;
            (Some(host), device)
        } else {
            let oddity = match kind {
                "names" => Oddity::Names,
                _ => Oddity::FrameNames,
            };
            let drawn = oddity.draw_rank(EVENTS, rank);
            (drawn.host, drawn.device)
        };
        let name = |trace: &str| folder.join(format!("{trace}_{rank}.json"));
        write_form(&name("kineto_trace"), device, form, gzip)?;
        if let Some(host) = host {
            write_form(&name("torch_et"), host, form, gzip)?;
        }
    }
    Ok(())
}

fn open_recorded() -> Result<RankTemplate> {
    let folder = repository_root()?.join("testdata/pairs/ddp2-2.15.0");
    RankTemplate::open(
        &folder.join("torch_et_0.json.gz"),
        &folder.join("kineto_trace_0.json.gz"),
        WINDOWS,
    )
}

fn write_form(path: &Path, text: Vec<u8>, form: &str, gzip: bool) -> Result<()> {
    let text = match form {
        "compact" => {
            let mut document: Value = serde_json::from_slice(&text)?;
            keep_linked(&mut document);
            serde_json::to_vec(&document)?
        }
        // what was recorded has its writer's lines already
        _ if text.windows(4).take(4096).any(|begin| begin == b"\n   ") => text,
        _ => serde_json::to_vec_pretty(&serde_json::from_slice::<Value>(&text)?)?,
    };
    let path = if gzip {
        path.with_extension("json.gz")
    } else {
        path.to_owned()
    };
    let file = std::fs::File::create(&path);
    let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
    if gzip {
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(&text)?;
        packed.finish()?;
    } else {
        file.write_all(&text)?;
    }
    Ok(())
}

/// Leaves out what no graph is made of.
fn keep_linked(document: &mut Value) {
    if let Some(events) = document["traceEvents"].as_array_mut() {
        events.retain(|event| event["ph"] == "X" || event["ph"] == "M");
        for event in events.iter_mut().filter(|event| event["ph"] == "X") {
            if let Some(arguments) = event["args"].as_object_mut() {
                arguments.retain(|key, _| LINKED_ARGUMENTS.contains(&key.as_str()));
            }
        }
    }
    if let Some(nodes) = document["nodes"].as_array_mut() {
        let lists = nodes
            .iter_mut()
            .filter_map(|node| node["attrs"].as_array_mut());
        for attributes in lists {
            attributes.retain(|attribute| {
                let name = attribute["name"].as_str().unwrap_or_default();
                LINKED_ATTRIBUTES.contains(&name)
            });
        }
    }
}
