//! `etlink record`: runs a program with the hook, passes its exit code on, and says what was recorded.

mod child;
mod folder;

use crate::Outcome;
use crate::args::Record;
use anyhow::{Context, Result};
use etlink_schedule::Schedule;
use etlink_torch::{
    Ended, HOOK, Manifest, Options, Process, SETTINGS_VARIABLE, Settings, python_path,
};
use folder::Output;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Cycles when none are asked for: a program may make a million steps.
const REPEAT: i64 = 1;

pub fn run(args: &Record) -> Result<Outcome> {
    let arguments = args.schedule.arguments(REPEAT);
    let schedule = Schedule::new(arguments)?;
    let output = Output::new(&args.output, args.force)?;
    let tensorboard = args
        .tensorboard
        .as_deref()
        .map(folder::made)
        .transpose()
        .inspect_err(|_| output.restore())?;
    let settings = Settings {
        work: output.work().to_owned(),
        output: output.path.clone(),
        tensorboard,
        schedule: arguments.into(),
        step_on: args.step_on.clone(),
        ranks: args.ranks.clone(),
        options: options(args),
    };
    let hook = hook()?;
    let ended = command(args, &settings, hook.path())
        .and_then(|mut command| child::run(&mut command))
        .inspect_err(|_| output.restore())?;
    let hooked = hook.path().join(etlink_torch::MARKER).exists();
    let manifest =
        manifest(args, settings, ended).with(output.processes()?, hooked, &output.lost()?);
    output.write(&manifest)?;
    for note in schedule
        .warning()
        .iter()
        .map(ToString::to_string)
        .chain(manifest.notes.iter().cloned())
    {
        eprintln!("etlink: note: {note}");
    }
    if manifest.recorded() > 0 {
        eprintln!("etlink: {}", summary(&manifest, &args.output));
    }
    let linked = !args.link || manifest.recorded() == 0 || link(args).unwrap_or_else(failed);
    Ok(outcome(ended, manifest.is_complete() && linked))
}

fn options(args: &Record) -> Options {
    let what = args.what;
    Options {
        record_shapes: what.record_shapes,
        with_stack: what.with_stack,
        profile_memory: what.profile_memory,
        with_flops: what.with_flops,
        cuda_sync_events: what.cuda_sync_events,
        gzip: what.gzip,
    }
}

/// A private folder with the hook, gone when this is dropped.
fn hook() -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("etlink-hook-")
        .tempdir()
        .context("cannot make a temporary folder; TMPDIR names where")?;
    for (name, text) in HOOK {
        let path = folder.path().join(name);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(folder)
}

fn command(args: &Record, settings: &Settings, hook: &Path) -> Result<Command> {
    let (program, rest) = args
        .command
        .split_first()
        .context("no program to run; it comes after `--`")?;
    let path = python_path(hook, std::env::var_os("PYTHONPATH").as_deref()).with_context(|| {
        format!(
            "{} cannot be put on PYTHONPATH; TMPDIR names another place",
            hook.display()
        )
    })?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .env("PYTHONPATH", path)
        .env(SETTINGS_VARIABLE, serde_json::to_string(settings)?);
    Ok(command)
}

fn manifest(args: &Record, settings: Settings, ended: Ended) -> Manifest {
    Manifest {
        etlink: env!("CARGO_PKG_VERSION").to_owned(),
        command: args
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        ended,
        schedule: settings.schedule,
        step_on: settings.step_on,
        asked_ranks: settings.ranks,
        options: settings.options,
        ranks: vec![],
        notes: vec![],
    }
}

fn summary(manifest: &Manifest, output: &Path) -> String {
    let recorded: Vec<&Process> = manifest
        .ranks
        .iter()
        .map(|rank| &rank.process)
        .filter(|process| !process.cycles.is_empty())
        .collect();
    let cycles: Vec<_> = recorded
        .iter()
        .flat_map(|process| &process.cycles)
        .collect();
    let first = cycles
        .iter()
        .map(|cycle| cycle.first_step)
        .min()
        .unwrap_or(0);
    let last = cycles
        .iter()
        .map(|cycle| cycle.last_step)
        .max()
        .unwrap_or(0);
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    let each = recorded
        .iter()
        .map(|process| process.cycles.len())
        .max()
        .unwrap_or(0);
    let times = if each > 1 {
        format!(" in {each} cycles")
    } else {
        String::new()
    };
    format!(
        "recorded {}, steps {first}-{last}{times}: {}",
        count(recorded.len(), "rank"),
        output.join(etlink_run::manifest::MANIFEST).display()
    )
}

/// Links with this very program; what it prints is no output of the recorded program.
fn link(args: &Record) -> Result<bool> {
    let program = std::env::current_exe().context("cannot find etlink itself")?;
    let mut words: Vec<OsString> = vec![
        "merge".into(),
        args.output.clone().into(),
        "-o".into(),
        args.output.join("chakra").into(),
    ];
    words.extend(args.force.then(|| "--force".into()));
    let status = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .context("cannot run etlink merge")?;
    Ok(status.success())
}

/// The recording stands, and the program's exit code goes before ours.
fn failed(error: anyhow::Error) -> bool {
    eprintln!("etlink: {error:#}");
    false
}

/// The program's exit code; by convention 128 and the signal's number if one ended it.
fn outcome(ended: Ended, complete: bool) -> Outcome {
    let code = match ended {
        Ended::ExitCode(code) => code,
        Ended::Signal(signal) => 128 + signal,
    };
    match code {
        0 if complete => Outcome::Done,
        0 => Outcome::Found,
        code => Outcome::Ran(u8::try_from(code).unwrap_or(1)),
    }
}
