//! Reads the output of `etlink convert` with other readers: protobuf's JSON, networkx, Graphviz,
//! and LogGOPSim's parser of GOAL if given.

use crate::support::{etlink_path, install_from_pypi, repository_root, run_command};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Recorded runs to convert: a single file, groups of some ranks, messages.
const RECORDED: [&str; 3] = ["tpdp4-2.15.0", "pipeline4-2.15.0", "transformer-2.15.0"];
// Pinned, so that a failure of the suite is due to our change and not a reader's.
const PACKAGES: [&str; 3] = [
    "protobuf==7.36.2",
    "grpcio-tools==1.85.1",
    "networkx==3.4.2",
];

/// `cargo dev converted`.
#[derive(Debug, clap::Args)]
pub struct ConvertedOptions {
    /// LogGOPSim's `txt2bin`, to read GOAL
    #[arg(long, value_name = "PROGRAM")]
    goal_parser: Option<PathBuf>,
    /// SARIF's JSON schema (sarif-schema-2.1.0.json of OASIS), to validate `check --format sarif`
    #[arg(long, value_name = "FILE")]
    sarif_schema: Option<PathBuf>,
}

/// Output of the recipe.
#[derive(Debug, Deserialize)]
struct Compared {
    graphs: u64,
    nodes: u64,
    edges: u64,
}

/// Converts recorded runs and reads them with other tools.
pub fn test_converted(options: &ConvertedOptions) -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/converted");
    let packages = install_readers(&folder)?;
    let files = folder.join("files");
    if files.exists() {
        std::fs::remove_dir_all(&files).with_context(|| files.display().to_string())?;
    }
    std::fs::create_dir_all(&files).with_context(|| files.display().to_string())?;
    for name in RECORDED {
        let run = folder.join("runs").join(name);
        let traces = root.join("testdata/pairs").join(name);
        etlink(&["merge", "--overwrite"], &[&traces], Some(&run))?;
        convert_run(&run, &files, name, options)?;
    }
    if let Some(schema) = &options.sarif_schema {
        validate_sarif(schema, &root, &packages)?;
    }
    let schema = root.join("schemas/chakra/et_def.proto");
    let recipe = root.join("crates/etlink-dev/recipes/converted.py");
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages).arg(recipe);
    let ran = python.arg(schema).arg(&files).output()?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("the readers failed: {}", said.trim());
    }
    let compared: Compared =
        serde_json::from_slice(&ran.stdout).context("reading what the recipe printed")?;
    ensure!(compared.edges > 0, "no edge was compared");
    println!(
        "{} graphs, {} nodes, {} edges: as protobuf and networkx read them",
        compared.graphs, compared.nodes, compared.edges
    );
    Ok(())
}

/// Validates the findings of `check` on the corpus of faulty files, as SARIF.
fn validate_sarif(schema: &Path, root: &Path, packages: &Path) -> Result<()> {
    let mut check = Command::new(etlink_path()?);
    check
        .args(["check", "--format", "sarif"])
        .arg(root.join("testdata/check"));
    let log = root.join("target/converted/check.sarif");
    std::fs::write(&log, check.output()?.stdout)?;
    let recipe = root.join("crates/etlink-dev/recipes/sarif.py");
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages).arg(recipe);
    run_command(python.arg(schema).arg(log))
}

/// Converts every rank to JSON and GraphML, a part to a picture, and all together to GOAL.
fn convert_run(run: &Path, files: &Path, name: &str, options: &ConvertedOptions) -> Result<()> {
    let mut ranks = 0;
    for entry in std::fs::read_dir(run)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "et") {
            continue;
        }
        let copy = files.join(path.file_name().unwrap_or_default());
        std::fs::copy(&path, &copy)?;
        for ending in ["json", "graphml"] {
            etlink(&["convert"], &[&copy, &copy.with_extension(ending)], None)?;
        }
        let picture = copy.with_extension("dot");
        etlink(&["convert", "--range", "20..80"], &[&copy, &picture], None)?;
        draw(&picture)?;
        ranks += 1;
    }
    println!("{name}: pictures of {ranks} ranks drawn by Graphviz");
    for collectives in ["ring", "tree", "pairwise"] {
        let goal = files.join(format!("{name}-{collectives}.goal"));
        etlink(
            &["convert", "--collectives", collectives],
            &[run, &goal],
            None,
        )?;
        if let Some(parser) = &options.goal_parser {
            let mut parse = Command::new(parser);
            parse
                .arg("-i")
                .arg(&goal)
                .arg("-o")
                .arg(goal.with_extension("bin"));
            run_command(parse.stdout(Stdio::null()))?;
            println!("{name}: GOAL of {collectives} read by {}", parser.display());
        }
    }
    Ok(())
}

fn etlink(options: &[&str], paths: &[&Path], output: Option<&Path>) -> Result<()> {
    let mut command = Command::new(etlink_path()?);
    command.arg("-q").args(options).args(paths);
    if let Some(output) = output {
        command.arg("-o").arg(output);
    }
    run_command(command.stdout(Stdio::null()))
}

fn draw(picture: &Path) -> Result<()> {
    let mut dot = Command::new("dot");
    dot.arg("-Tsvg")
        .arg(picture)
        .arg("-o")
        .arg(picture.with_extension("svg"));
    run_command(&mut dot)
}

/// Installs the readers: packages of PyPI, and Graphviz.
fn install_readers(folder: &Path) -> Result<PathBuf> {
    let packages = folder.join(PACKAGES.join("+"));
    if !packages.join("networkx").is_dir() {
        install_from_pypi(&PACKAGES, &packages, true)?;
    }
    let is_there = Command::new("dot").arg("-V").stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        println!("installing graphviz");
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends", "graphviz"]);
        run_command(&mut install)
            .context("there is no `dot`, and apt-get could not install it: install Graphviz")?;
    }
    Ok(packages)
}
