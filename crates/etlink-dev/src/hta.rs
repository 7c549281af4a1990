//! `cargo dev hta`: compares the Python class `etlink.hta.TraceAnalysis` with HTA's own.

use crate::support::{repository_root, run_command};
use crate::wheel::install_into;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::Command;

/// HTA, the packages that affect its results, and the needs of its tests.
const PACKAGES: [&str; 5] = [
    "traceinsight==0.6.1",
    "pandas==2.2.3",
    "numpy==2.4.6",
    "pyarrow==26.0.1",
    "pytest==9.2.0",
];

#[derive(Debug, Args)]
pub struct HtaSuiteOptions {
    /// Folder with traces to compare both classes on
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// HTA's sources with their test data, to run its tests with the class replaced
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
}

/// Compares the answers of both classes, or runs HTA's tests with each.
pub fn compare_classes(options: &HtaSuiteOptions) -> Result<()> {
    let asked = [
        ("hta_class.py", &options.traces),
        ("hta_tests.py", &options.checkout),
    ];
    if asked.iter().all(|(_, folder)| folder.is_none()) {
        bail!("give --traces, --checkout, or both");
    }
    let root = repository_root()?;
    let env = install_into(root.join("target/hta/class"), &PACKAGES)?;
    for (recipe, folder) in asked {
        let Some(folder) = folder else { continue };
        let mut python = Command::new(env.python());
        python.arg(root.join("crates/etlink-dev/recipes").join(recipe));
        run_command(python.arg(folder))?;
    }
    Ok(())
}
