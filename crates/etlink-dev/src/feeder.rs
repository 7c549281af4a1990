//! Tests the interfaces of `etlink-feeder`: its C header, a C program that uses it, and Chakra's
//! own feeder.

use crate::support::{etlink_path, install_tool, repository_root, run_command};
use anyhow::{Context, Result, bail, ensure};
use etlink_feeder::{Feeder, IssueOrder};
use std::collections::VecDeque;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

// Pinned, because another version may format the header differently.
const CBINDGEN: &str = "cbindgen@0.29.4";

/// Recorded runs to feed: one thread, several threads, groups, messages.
const RECORDED: [&str; 4] = [
    "mlp-2.15.0",
    "threads-2.15.0",
    "tpdp4-2.15.0",
    "pipeline4-2.15.0",
];
/// Maximum numbers of nodes in flight.
const LIMITS: [usize; 3] = [1, 3, 16];
/// Memory for a graph with its index in a scratch file: some pages.
const SCARCE_BYTES: usize = 1 << 16;

/// `cargo dev feeder`.
#[derive(Debug, clap::Args)]
pub struct FeederOptions {
    /// Write the header instead of comparing it
    #[arg(long)]
    write: bool,
    /// Chakra's repository, with `et_def.pb.cc` in `schema/protobuf`: also compares its feeder
    /// (needs protobuf's library)
    #[arg(long, value_name = "DIR")]
    chakra: Option<PathBuf>,
    /// More `.et` files to feed, besides recordings of testdata
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Compares the header, and the issue order of a C program, of Rust and of Chakra's own feeder.
pub fn test_feeder(options: &FeederOptions) -> Result<()> {
    let root = repository_root()?;
    let folder = root.join("target/feeder");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    check_header(&root, &folder, options.write)?;
    let program = compile_example(&root, &folder)?;
    let stock = options.chakra.as_ref();
    let stock = stock.map(|chakra| compile_stock(&root, &folder, chakra));
    let stock = stock.transpose()?;
    let mut files = options.files.clone();
    for name in RECORDED {
        let run = folder.join(name);
        let mut merge = Command::new(etlink_path()?);
        merge.args(["-q", "merge", "--overwrite"]);
        merge.arg(root.join("testdata/pairs").join(name));
        run_command(merge.arg("-o").arg(&run).stdout(Stdio::null()))?;
        files.extend(graphs_in(&run)?);
    }
    let mut nodes = 0;
    for file in &files {
        for limit in LIMITS {
            let issued = issue_all(open_in_memory(file)?, limit)?;
            nodes += issued.lines().count();
            let mut others = vec![
                ("C", run_feeder(&program, file, limit, None)?),
                (
                    "C with a scratch file",
                    run_feeder(&program, file, limit, Some(&folder))?,
                ),
                (
                    "Rust with a scratch file",
                    issue_all(open_with_scratch(file)?, limit)?,
                ),
            ];
            if let Some(stock) = &stock {
                others.push(("Chakra", run_feeder(stock, file, limit, None)?));
            }
            for (name, printed) in others {
                ensure!(
                    printed == issued,
                    "{}, {limit} at once: by {name} in another order",
                    file.display()
                );
            }
        }
    }
    ensure!(nodes > 0, "no node was issued");
    let others = if stock.is_some() {
        "C, Chakra's feeder"
    } else {
        "C"
    };
    println!(
        "{} graphs, {nodes} nodes issued: the same order by Rust and {others}, in memory and with a scratch file",
        files.len()
    );
    Ok(())
}

fn check_header(root: &Path, folder: &Path, write: bool) -> Result<()> {
    let cbindgen = install_tool(CBINDGEN)?;
    let committed = root.join("crates/etlink-feeder/include/etlink_feeder.h");
    let header = if write {
        committed.clone()
    } else {
        folder.join("etlink_feeder.h")
    };
    let mut make = Command::new(cbindgen);
    make.current_dir(root.join("crates/etlink-feeder"));
    make.args([
        ".",
        "--quiet",
        "--config",
        "cbindgen.toml",
        "--crate",
        "etlink-feeder",
        "-o",
    ]);
    run_command(make.arg(&header))?;
    if std::fs::read(&header)? != std::fs::read(&committed)? {
        bail!(
            "{}: not what src/c_api.rs gives: run `cargo dev feeder --write`",
            committed.display()
        );
    }
    Ok(())
}

/// Compiles the C example, with sanitizers for invalid memory use and leaks.
fn compile_example(root: &Path, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("issue");
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-g"])
        .arg("-fsanitize=address,undefined")
        .arg("-I")
        .arg(root.join("crates/etlink-feeder/include"))
        .arg(root.join("crates/etlink-feeder/examples/issue.c"))
        .arg(library()?)
        .args(["-lpthread", "-ldl", "-lm", "-o"]);
    run_command(compile.arg(&program))?;
    Ok(program)
}

/// Returns the library's path, as cargo built it with this program, which depends on it.
fn library() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("this program is in no folder")?;
    let library = folder.join("deps/libetlink_feeder.a");
    ensure!(
        library.exists(),
        "{}: cargo builds it with this program",
        library.display()
    );
    Ok(library)
}

fn compile_stock(root: &Path, folder: &Path, chakra: &Path) -> Result<PathBuf> {
    let sources = chakra.join("src/feeder_v3");
    let schema = chakra.join("schema/protobuf");
    let program = folder.join("stock_feeder");
    let mut compile = Command::new("g++");
    compile
        .args(["-O2", "-std=c++17", "-I"])
        .arg(&sources)
        .arg("-I")
        .arg(&schema);
    compile.arg(root.join("crates/etlink-dev/recipes/stock_feeder.cpp"));
    for name in [
        "et_feeder.cpp",
        "dependancy_solver.cpp",
        "et_feeder_node.cpp",
    ] {
        compile.arg(sources.join(name));
    }
    compile.arg(schema.join("et_def.pb.cc"));
    run_command(
        compile
            .args(["-lprotobuf", "-lpthread", "-o"])
            .arg(&program),
    )?;
    Ok(program)
}

fn graphs_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "et") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn open_in_memory(path: &Path) -> Result<Feeder<File>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Feeder::new(file, IssueOrder::Stock).with_context(|| path.display().to_string())
}

fn open_with_scratch(path: &Path) -> Result<Feeder<File>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let scratch = tempfile::tempfile()?;
    Feeder::with_scratch(file, IssueOrder::Stock, scratch, SCARCE_BYTES)
        .with_context(|| path.display().to_string())
}

/// Returns a line per node, in issue order.
fn issue_all(mut feeder: Feeder<File>, limit: usize) -> Result<String> {
    let (mut lines, mut under_way) = (String::new(), VecDeque::new());
    loop {
        while under_way.len() < limit
            && let Some(id) = feeder.issue_next()?
        {
            writeln!(lines, "{id}")?;
            under_way.push_back(id);
        }
        let Some(id) = under_way.pop_front() else {
            return Ok(lines);
        };
        feeder.end(id)?;
    }
}

/// Returns a program's output; with a folder, its scratch file is there, with one page in memory.
fn run_feeder(program: &Path, file: &Path, limit: usize, scratch: Option<&Path>) -> Result<String> {
    let mut command = Command::new(program);
    command.arg(file).arg(limit.to_string());
    if let Some(folder) = scratch {
        command.arg(folder).arg("0");
    }
    let ran = command.output();
    let ran = ran.with_context(|| program.display().to_string())?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!(
            "{} on {}: {}",
            program.display(),
            file.display(),
            said.trim()
        );
    }
    Ok(String::from_utf8(ran.stdout)?)
}
