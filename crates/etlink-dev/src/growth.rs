//! `cargo dev growth`: traces that are odd in one way may not take much longer than ordinary ones.
//!
//! ```text
//! Oddity::ALL -> target/growth/KIND -> each command of etlink -> processor time,
//!                                                                ratio to the ordinary
//! ```
//! Processor time is compared and not wall time, which other work on the machine stretches.

use crate::bench::{build_release, measure};
use anyhow::{Context, Result, bail};
use clap::Args;
use etlink_testing::Oddity;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is quadratic passes this by far at a million events; what is linear does not come near.
const MOST_TIMES_ORDINARY: f64 = 4.0;
/// Starting a process takes about this, so that figures below say nothing.
const LEAST_SECONDS: f64 = 0.05;

/// `cargo dev growth`.
#[derive(Debug, Args)]
pub struct GrowthOptions {
    /// Events of each input
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    events: usize,
    /// Kinds of inputs, beside the ordinary ones that they are compared with [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
    /// Commands to run, such as link,report [default: all]
    #[arg(long, value_name = "COMMAND", value_delimiter = ',')]
    command: Vec<String>,
    /// Give up a command after so long
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    limit: u32,
    /// The etlink to measure [default: built here, release]
    #[arg(long, value_name = "FILE")]
    etlink: Option<PathBuf>,
}

/// What one command took for one kind of input.
struct Measurement {
    seconds: f64,
    peak_bytes: u64,
    /// Why there are no figures.
    failed: Option<String>,
}

/// The inputs of one kind.
struct GrowthInput {
    folder: PathBuf,
    device: PathBuf,
    host: Option<PathBuf>,
    is_run: bool,
}

/// Writes the inputs, runs the commands, prints the table.
pub fn test_growth(options: &GrowthOptions) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize()?;
    let etlink = match &options.etlink {
        Some(etlink) => etlink.clone(),
        None => build_release(&root)?,
    };
    let folder = root.join("target/growth");
    let kinds = wanted_kinds(&options.kind)?;
    println!("| kind | command | CPU s | to ordinary | peak MB |");
    println!("|---|---|---|---|---|");
    let mut ordinary: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    let mut slow = vec![];
    for oddity in kinds {
        let input = write_input(oddity, options.events, &folder)?;
        for (name, arguments) in input_commands(&input) {
            if !options.command.is_empty() && !options.command.iter().any(|one| one == name) {
                continue;
            }
            let measurement = measure_command(&etlink, &arguments, options.limit)?;
            let reference = (oddity.ordinary().name(), name);
            if oddity == oddity.ordinary() {
                ordinary.insert(reference, measurement.seconds);
            }
            let seconds = ordinary.get(&reference).copied().unwrap_or(f64::NAN);
            // Small figures are mostly the start of a process: their ratio would be chance.
            let ratio = measurement.seconds / seconds.max(LEAST_SECONDS);
            print_row(oddity, name, &measurement, ratio);
            // The run goes on after a failure: the table shows which other commands have the same
            // weakness.
            if measurement.failed.is_some() || ratio > MOST_TIMES_ORDINARY {
                slow.push(format!("{} {name}", oddity.name()));
            }
        }
        // All kinds together would take many GB of target/.
        std::fs::remove_dir_all(&input.folder)
            .with_context(|| format!("cannot remove {}", input.folder.display()))?;
    }
    if !slow.is_empty() {
        bail!(
            "failed, or over {MOST_TIMES_ORDINARY} times the ordinary input: {}",
            slow.join(", ")
        );
    }
    Ok(())
}

/// The kinds of those names with the ordinary ones that they need, in order of [`Oddity::ALL`].
fn wanted_kinds(names: &[String]) -> Result<Vec<Oddity>> {
    let all = Oddity::ALL;
    if let Some(name) = names
        .iter()
        .find(|name| all.iter().all(|oddity| oddity.name() != *name))
    {
        let names = all.map(Oddity::name).join(", ");
        bail!("there is no kind {name:?}; kinds are {names}");
    }
    let is_named = |oddity: Oddity| names.iter().any(|name| name == oddity.name());
    let mut wanted = vec![];
    for oddity in all {
        // A ratio needs its ordinary trace, even where only the odd kind is named.
        let is_compared = all
            .iter()
            .any(|other| other.ordinary() == oddity && is_named(*other));
        if names.is_empty() || is_named(oddity) || is_compared {
            wanted.push(oddity);
        }
    }
    Ok(wanted)
}

/// Draws an input into a folder of its own.
fn write_input(oddity: Oddity, events: usize, folder: &Path) -> Result<GrowthInput> {
    let folder = folder.join(oddity.name());
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let traces = folder.join("traces");
    std::fs::create_dir_all(&traces)
        .with_context(|| format!("cannot make folder {}", traces.display()))?;
    let ranks = oddity.rank_count(events);
    let mut host = None;
    for rank in 0..ranks {
        let drawn = oddity.draw_rank(events, rank);
        write_file(&traces.join(format!("kineto.{rank}.json")), &drawn.device)?;
        if let Some(text) = drawn.host {
            let path = traces.join(format!("torch_et.{rank}.json"));
            write_file(&path, &text)?;
            host = Some(path);
        }
    }
    Ok(GrowthInput {
        device: traces.join("kineto.0.json"),
        folder,
        host,
        is_run: ranks > 1,
    })
}

fn write_file(path: &Path, text: &[u8]) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The commands that read an input, with a name each.
fn input_commands(input: &GrowthInput) -> Vec<(&'static str, Vec<OsString>)> {
    let output = |name: &str| input.folder.join(name).into_os_string();
    let mut commands: Vec<(&str, Vec<OsString>)> = vec![];
    if input.is_run {
        let traces = input.folder.join("traces").into_os_string();
        for (name, words, written) in [
            ("merge", &["merge", "--allow-mismatch"][..], Some("merged")),
            ("ranks", &["ranks", "--allow-mismatch"], None),
            ("findings", &["findings", "--allow-mismatch"], None),
            ("analyze", &["analyze", "--allow-mismatch", "--json"], None),
            ("report", &["report", "--allow-mismatch"], Some("page.html")),
            (
                "replay",
                &["replay", "--allow-mismatch", "--critical-path"],
                None,
            ),
        ] {
            let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
            arguments.push(traces.clone());
            arguments.extend(written.iter().flat_map(|name| ["-o".into(), output(name)]));
            commands.push((name, arguments));
        }
        return commands;
    }
    for (name, words, written) in [
        // `--allow-mismatch`: the traces of some kinds have few names in common
        ("link", &["link", "--allow-mismatch"][..], Some("out.et")),
        (
            "perfetto",
            &["link", "--allow-mismatch"],
            Some("out.pftrace"),
        ),
        ("analyze", &["analyze", "--allow-mismatch", "--json"], None),
        ("findings", &["findings", "--allow-mismatch"], None),
        ("top", &["top", "--allow-mismatch", "--rows", "0"], None),
        (
            "top-stack",
            &["top", "--allow-mismatch", "--group", "stack"],
            None,
        ),
        ("report", &["report", "--allow-mismatch"], Some("page.html")),
        (
            "replay",
            &["replay", "--allow-mismatch", "--critical-path"],
            None,
        ),
        (
            "resources",
            &["replay", "--allow-mismatch", "--resources"],
            None,
        ),
    ] {
        let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        let host = input.host.iter();
        arguments.extend(host.flat_map(|host| ["--host".into(), host.into()]));
        // these take a pair as two options
        if matches!(words, ["link" | "replay", ..]) {
            arguments.push("--device".into());
        }
        arguments.push(input.device.clone().into());
        arguments.extend(written.iter().flat_map(|name| ["-o".into(), output(name)]));
        commands.push((name, arguments));
    }
    commands
}

/// Runs the command in a process of its own. What takes longer than `limit` seconds is ended.
fn measure_command(etlink: &Path, arguments: &[OsString], limit: u32) -> Result<Measurement> {
    // What is quadratic would take hours for a million events.
    let mut command: Vec<OsString> = vec!["timeout".into(), limit.to_string().into()];
    command.push(etlink.into());
    command.extend(arguments.iter().cloned());
    let usage = measure::measure_command(&command)?;
    Ok(Measurement {
        seconds: usage.cpu,
        peak_bytes: usage.peak_bytes,
        failed: usage.failed,
    })
}

fn print_row(oddity: Oddity, command: &str, measurement: &Measurement, ratio: f64) {
    let kind = oddity.name();
    match &measurement.failed {
        Some(why) => println!("| {kind} | {command} | failed: {why} |"),
        None => println!(
            "| {kind} | {command} | {:.2} | {ratio:.1} | {:.0} |",
            measurement.seconds,
            measurement.peak_bytes as f64 / 1e6,
        ),
    }
}
