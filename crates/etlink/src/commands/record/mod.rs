//! `etlink record`: runs a program with the hook, passes on its exit code, and prints a summary of
//! the recording.

mod child;
mod earlier;
mod files;
mod finish;
mod folder;
mod hook_folder;
mod host_clock;
mod launchers;
mod left_list;
mod lock;
mod pack;
mod script;
mod summary;
mod task;
mod wrappers;

use crate::Outcome;
use crate::args::{ArmedArgs, RecordArgs};
use crate::notes;
use crate::own_command::own_command;
use anyhow::{Context, Result, bail};
use etlink_run::manifest::MANIFEST;
use etlink_schedule::{Arguments, Schedule};
use etlink_torch::{
    ArmedSettings, Ended, Options, OwnProfiler, SETTINGS_VARIABLE, Settings, python_path,
};
use finish::EndedRecording;
use folder::{MadeFolder, Output};
use hook_folder::HookFolder;
use host_clock::OffsetInterval;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use task::JobTask;

/// Default number of steps per requested recording.
const ARMED_STEPS: u64 = 2;

/// Warmup steps before a requested recording: the first step after the recorders start is slower.
const ARMED_WARMUP: u64 = 1;

pub fn run(args: &RecordArgs) -> Result<Outcome> {
    if args.json {
        bail!(
            "record does not support --json: standard output belongs to the program. {} describes the recording as \
            JSON",
            args.output.join(MANIFEST).display()
        );
    }
    if args.recover {
        return folder::recover(&args.output).map(|()| Outcome::Done);
    }
    let schedule = schedule(args)?;
    let armed = armed(&args.armed)?;
    let task = JobTask::find(|name| std::env::var(name).ok(), &words(args));
    let hook = HookFolder::new()?;
    let launcher = launcher(hook.path());
    let mut output = Output::new(
        &args.output,
        args.overwrite.overwrite,
        &launcher,
        task.as_ref(),
    )?;
    let clock = OffsetInterval::measure(output.work());
    // no `?` here: from now on an error has to give up the folder first, as below
    let tensorboard = args.tensorboard.as_deref().map(MadeFolder::make);
    let mut board = None;
    let settings = tensorboard.transpose().map(|made| Settings {
        work: output.work().to_owned(),
        output: output.path.clone(),
        hook: hook.path().to_owned(),
        launcher,
        clock: clock.map(OffsetInterval::clock),
        tensorboard: made.map(|made| board.insert(made).path.clone()),
        schedule: schedule.map(|(arguments, _)| arguments),
        armed,
        // the last one counts for a phase that is named twice, as with options
        phases: args.phase.iter().cloned().collect(),
        own_profiler: args.own_profiler,
        step_on: match args.phase.first() {
            Some(_) => "phase".to_owned(),
            None => args.step_on.clone(),
        },
        ranks: args.ranks.clone(),
        max_size: args.max_size.map(|size| size.as_u64()),
        // no choice means all activities, not none
        activities: (!args.activities.is_empty())
            .then(|| args.activities.iter().map(ToString::to_string).collect()),
        options: options(args),
    });
    let ended = settings.and_then(|settings| {
        // the draft does not show the exit code, which is unknown yet
        let draft = finish::empty_manifest(args, &settings, Ended::ExitCode(0));
        drop(left_list::write_draft(
            output.work(),
            &settings.launcher,
            &draft,
        ));
        let ended = child::run(&mut command(args, &settings, hook.path())?)?;
        Ok((settings, ended))
    });
    let (settings, ended) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            // report why nothing was started, rather than this error
            drop(output.give_up());
            board.iter().for_each(MadeFolder::remove_unused);
            return Err(error);
        }
    };
    // after the program, whose own output would have buried the warning
    let warning = schedule.and_then(|(_, schedule)| schedule.warning());
    if notes::are_wanted()
        && let Some(warning) = warning
    {
        notes::print_message(format_args!("note: {warning}"));
    }
    // the program has ended: whatever fails from here on, its exit code takes precedence
    let recording = EndedRecording {
        args,
        settings,
        clock,
        task,
        ended,
    };
    let finished = recording.finish(&mut output, hook);
    let finished = finished.unwrap_or_else(failed);
    let is_linked = !finished.is_to_be_linked || link(args).unwrap_or_else(failed_to_link);
    Ok(outcome(ended, finished.is_whole && is_linked))
}

/// Returns the recording schedule; `None` if something else decides, such as the program's own
/// profiler.
fn schedule(args: &RecordArgs) -> Result<Option<(Arguments, Schedule)>> {
    if args.armed.armed {
        return Ok(None);
    }
    let Some(arguments) = args.schedule.given() else {
        if !args.phase.is_empty() {
            return Ok(None);
        }
        if args.own_profiler == OwnProfiler::Leave {
            bail!("--own-profiler leave needs a schedule: --wait, --warmup and --active");
        }
        if args.what.interleave {
            bail!("--interleave needs a schedule: --wait, --warmup and --active");
        }
        return Ok(None);
    };
    if args.what.interleave && arguments.active % 2 != 0 {
        bail!(
            "--interleave needs an even number of steps, but --active is {}: half of the steps are in each \
             trace",
            arguments.active
        );
    }
    Ok(Some((arguments, Schedule::new(arguments)?)))
}

/// Returns the triggers of recordings if the program is armed.
fn armed(args: &ArmedArgs) -> Result<Option<ArmedSettings>> {
    if !args.armed {
        return Ok(None);
    }
    let steps = args.steps.unwrap_or(ARMED_STEPS);
    if let Some(every) = args.every
        && every <= steps + ARMED_WARMUP
    {
        bail!(
            "--every is {every}, but must exceed the {steps} steps of a recording plus 1 warmup \
             step"
        );
    }
    Ok(Some(ArmedSettings {
        steps,
        warmup: ARMED_WARMUP,
        every: args.every,
        when: args.when,
        keep: args.keep,
        signal: match args.trigger_signal.unwrap_or("SIGUSR2") {
            "" => None,
            name => Some(name.to_owned()),
        },
    }))
}

/// Returns the words of the command.
fn words(args: &RecordArgs) -> Vec<String> {
    let words = args.command.iter();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Returns a unique launcher name: the random part of the hook folder's name, and the process id.
fn launcher(hook: &Path) -> String {
    // process ids repeat, often at the same time in several containers; the random name does not
    let name = hook.file_name().unwrap_or_default().to_string_lossy();
    let unique = name.trim_start_matches(hook_folder::PREFIX);
    format!("{unique}-{}", std::process::id())
}

fn options(args: &RecordArgs) -> Options {
    let what = args.what;
    Options {
        record_shapes: what.record_shapes,
        with_stack: what.with_stack,
        profile_memory: what.profile_memory,
        with_flops: what.with_flops,
        cuda_sync_events: what.cuda_sync_events,
        thread_waits: what.thread_waits,
        memory_snapshot: what.memory_snapshot,
        cuda_graph_nodes: what.cuda_graph_nodes,
        gzip: what.gzip,
        interleave: what.interleave,
    }
}

fn command(args: &RecordArgs, settings: &Settings, hook: &Path) -> Result<Command> {
    let (program, rest) = args
        .command
        .split_first()
        .context("no program to run; give it after `--`")?;
    let path = python_path(hook, std::env::var_os("PYTHONPATH").as_deref()).with_context(|| {
        format!(
            "cannot put {} on PYTHONPATH; choose another place with TMPDIR",
            hook.display()
        )
    })?;
    let mut command = Command::new(program);
    command.args(rest).env("PYTHONPATH", path).env(
        SETTINGS_VARIABLE,
        // this is the only folder whose path was not checked before
        serde_json::to_string(settings)
            .with_context(|| format!("{}; choose another place with TMPDIR", hook.display()))?,
    );
    // Nothing else is put before the user's programs unless the script needs it. Without PATH,
    // shells search default folders, which an empty PATH would hide.
    if let Some(path) = std::env::var_os("PATH")
        && script::note(&args.command).is_some()
    {
        command.env("PATH", wrappers::path_with_wrappers(hook, &path)?);
    }
    Ok(command)
}

/// Links with this same executable, and sends its output to standard error.
fn link(args: &RecordArgs) -> Result<bool> {
    // in a separate process: frees its memory, and a crash ends only that process
    let mut command = own_command()?;
    let mut words: Vec<OsString> = vec![
        "merge".into(),
        args.output.clone().into(),
        "-o".into(),
        args.output.join("chakra").into(),
    ];
    words.extend(args.overwrite.overwrite.then(|| "--overwrite".into()));
    let status = command
        .args(words)
        // the rest of standard input was meant for the program
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .context("cannot run etlink merge")?;
    Ok(status.success())
}

/// Reports a failed link: the recording is kept, and the program's exit code takes precedence.
fn failed_to_link(error: anyhow::Error) -> bool {
    notes::print_message(format_args!("{error:#}"));
    false
}

/// Reports a failure to finish the recording.
fn failed(error: anyhow::Error) -> finish::Finished {
    notes::print_message(format_args!("the recording is incomplete: {error:#}"));
    finish::Finished {
        is_whole: false,
        is_to_be_linked: false,
    }
}

/// Returns the program's exit code; by convention 128 plus the signal's number if a signal ended
/// it.
fn outcome(ended: Ended, complete: bool) -> Outcome {
    let code = match ended {
        Ended::ExitCode(code) => code,
        Ended::Signal(signal) => 128 + signal,
    };
    match code {
        0 if complete => Outcome::Done,
        0 => Outcome::Found,
        // a code that does not fit a byte, as on Windows, cannot be passed on
        code => Outcome::Ran(u8::try_from(code).unwrap_or(1)),
    }
}
