//! Commands to measure.

use super::inputs::BenchInput;
use super::{BenchOptions, PeerTool};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command with its name.
#[derive(Clone, Debug)]
pub struct BenchTool {
    pub name: &'static str,
    pub command: Vec<OsString>,
    /// Output file, removed before each run: replacing a large file takes time of its own.
    pub output: Option<PathBuf>,
    /// True if the tool takes minutes, so that it runs less often.
    pub slow: bool,
}

impl BenchTool {
    fn new(name: &'static str, words: impl IntoIterator<Item = impl Into<OsString>>) -> BenchTool {
        BenchTool {
            name,
            command: words.into_iter().map(Into::into).collect(),
            output: None,
            slow: false,
        }
    }

    fn arg(mut self, word: impl Into<OsString>) -> BenchTool {
        self.command.push(word.into());
        self
    }

    fn slow(self) -> BenchTool {
        BenchTool { slow: true, ..self }
    }
}

/// Returns the tools for `input`, `gzip -dc` first.
pub fn tools_for(
    input: &BenchInput,
    etlink: &Path,
    options: &BenchOptions,
    hta: Option<&Path>,
    folder: &Path,
) -> Vec<BenchTool> {
    let mut tools = vec![BenchTool {
        command: gzip_command(input),
        ..BenchTool::new("gzip -dc", [""; 0])
    }];
    // Also on one thread: that figure depends on the code rather than on the machine's cores.
    for (name, output, threads) in [
        ("etlink link, .et", "out.et", None),
        ("  one thread", "out.et", Some("1")),
        ("etlink link, ET+", "out.json", None),
    ] {
        let host = input
            .host
            .iter()
            .flat_map(|host| [OsString::from("--host"), host.into()]);
        let tool = BenchTool::new(
            name,
            [
                etlink.as_os_str(),
                "link".as_ref(),
                "--json".as_ref(),
                "-o".as_ref(),
            ],
        );
        let mut tool = tool
            .arg(folder.join(output))
            .arg("--device")
            .arg(&input.device);
        tool.output = Some(folder.join(output));
        tool.command.extend(host);
        tool.command.extend(
            threads
                .iter()
                .flat_map(|threads| [OsString::from("-j"), threads.into()]),
        );
        // merged JSON consists of host nodes
        if input.host.is_some() || output.ends_with(".et") {
            tools.push(tool);
        }
    }
    if let (true, Some((host, device))) =
        (options.against.contains(&PeerTool::Chakra), &input.plain)
    {
        let linked = folder.join("chakra.json");
        if let Some(command) = &options.chakra_link {
            tools.push(
                BenchTool::new("chakra_trace_link", command.split_whitespace())
                    .arg(host)
                    .arg(device)
                    .arg(&linked)
                    .slow(),
            );
        }
        if let Some(command) = &options.chakra_convert {
            tools.push(
                BenchTool::new("chakra_converter", command.split_whitespace())
                    .arg(&linked)
                    .arg(folder.join("chakra.0.et"))
                    .slow(),
            );
        }
    }
    if let Some(python) = hta {
        tools.push(
            BenchTool::new(
                "HTA, load",
                [
                    python.as_os_str(),
                    "-c".as_ref(),
                    HTA.as_ref(),
                    input.device.as_os_str(),
                ],
            )
            .slow(),
        );
    }
    tools
}

fn gzip_command(input: &BenchInput) -> Vec<OsString> {
    // its output is discarded, since no tool's output is kept
    let script = r#"gzip -dc -- "$@" > /dev/null"#;
    let words = ["sh", "-c", script, "sh"].map(OsString::from);
    words
        .into_iter()
        .chain(input.host.iter().chain([&input.device]).map(OsString::from))
        .collect()
}

/// Loads one device trace, the first step of every analysis by HTA.
const HTA: &str = "
import os, sys
from hta.trace_analysis import TraceAnalysis
path = os.path.abspath(sys.argv[1])
print(len(TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path)).t.get_trace(0)))
";

/// Returns the Python that has HTA, installed from PyPI; prints a note if it is unavailable.
pub fn hta_python(folder: &Path) -> Option<PathBuf> {
    // Next to the inputs, which can then be removed without a new installation.
    let place = folder.parent()?.join("bench-venv");
    let python = place.join("bin/python");
    // An installed package may still fail to import, for example with a newer Python.
    let works = || succeeds(Command::new(&python).args(["-c", "import hta.trace_analysis"]));
    if !works() {
        let made = succeeds(Command::new("python3").args(["-m", "venv"]).arg(&place));
        if !made
            || !succeeds(Command::new(&python).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "HolisticTraceAnalysis",
            ]))
            || !works()
        {
            println!(
                "HTA is left out: HolisticTraceAnalysis cannot be installed from PyPI into {}",
                place.display()
            );
            return None;
        }
    }
    Some(python)
}

fn succeeds(command: &mut Command) -> bool {
    let output = command.output();
    output.is_ok_and(|output| output.status.success())
}
