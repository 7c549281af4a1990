//! `etlink record`: runs a program with the hook, passes its exit code on, and says what was
//! recorded.

mod child;
mod disk;
mod earlier;
mod file_names;
mod finish;
mod folder;
mod hook_folder;
mod host_clock;
mod launchers;
mod left_list;
mod lock;
mod node_command;
mod pack;
mod script;
mod summary;
mod task;
mod wrappers;

use crate::Outcome;
use crate::args::{ArmedArgs, OwnProfilerArg, RecordArgs};
use crate::notes;
use crate::own_command::own_command;
use anyhow::{Context, Result, bail};
use etlink_run::manifest::MANIFEST;
use etlink_schedule::{Arguments, Schedule};
use etlink_torch::{
    ArmedSettings, Ended, Options, OwnProfiler, SETTINGS_VARIABLE, ScheduleSettings, Settings,
    python_path,
};
use finish::EndedRecording;
use folder::{MadeFolder, Output};
use hook_folder::HookFolder;
use host_clock::OffsetInterval;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use task::JobTask;

/// Steps of a recording that is asked for, when nobody says how many.
const ARMED_STEPS: u64 = 2;

/// Steps before it for which the recorders warm up: the first one after their start takes longer.
const ARMED_WARMUP: u64 = 1;

/// Cycles when none are asked for: a program may make a million steps.
const REPEAT: i64 = 1;

pub fn run(args: &RecordArgs) -> Result<Outcome> {
    if args.json {
        bail!(
            "record has no --json: standard output is the program's; {} has what was recorded as \
            JSON",
            args.output.join(MANIFEST).display()
        );
    }
    if args.recover {
        return folder::recover(&args.output).map(|()| Outcome::Done);
    }
    let schedule = schedule(args)?;
    let armed = armed(&args.armed)?;
    let words = args.command.iter();
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let task = JobTask::find(|name| std::env::var(name).ok(), &words);
    let hook = HookFolder::new()?;
    let launcher = launcher(hook.path());
    let mut output = Output::new(
        &args.output,
        args.overwrite.overwrite,
        &launcher,
        task.as_ref(),
    )?;
    let clock = OffsetInterval::measure(output.work());
    // no `?` here: from now on an error has to give the folder up first, as below
    let tensorboard = args.tensorboard.as_deref().map(MadeFolder::make);
    let mut board = None;
    let settings = tensorboard.transpose().map(|made| Settings {
        work: output.work().to_owned(),
        output: output.path.clone(),
        hook: hook.path().to_owned(),
        launcher,
        clock: clock.map(OffsetInterval::clock),
        tensorboard: made.map(|made| board.insert(made).path.clone()),
        schedule: schedule.map(|(arguments, _)| arguments.into()),
        armed,
        phases: phases(args),
        own_profiler: own_profiler(args),
        step_on: step_on(args),
        ranks: args.ranks.clone(),
        max_size: args.max_size.map(|size| size.as_u64()),
        activities: activities(args),
        options: options(args),
    });
    let ended = settings.and_then(|settings| {
        // how it ends nobody knows yet, and the draft does not say it
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
            // the reason why nothing was started is what the user has to hear
            drop(output.give_up());
            board.iter().for_each(MadeFolder::remove_unused);
            return Err(error);
        }
    };
    // behind the program, whose own output would have buried it
    let warning = schedule.and_then(|(_, schedule)| schedule.warning());
    if notes::are_wanted()
        && let Some(warning) = warning
    {
        notes::print_message(format_args!("note: {warning}"));
    }
    // the program has ended: whatever goes wrong from here on, its exit code goes before ours
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

/// When to record; none: when a profiler of the program's own does.
fn schedule(args: &RecordArgs) -> Result<Option<(Arguments, Schedule)>> {
    if args.armed.armed {
        return Ok(None);
    }
    let Some(given) = args.schedule.given() else {
        if !args.phase.is_empty() {
            return Ok(None);
        }
        if args.own_profiler == OwnProfilerArg::Leave {
            bail!("--own-profiler leave needs a schedule: --wait, --warmup and --active");
        }
        if args.what.interleave {
            bail!("--interleave needs a schedule: --wait, --warmup and --active");
        }
        return Ok(None);
    };
    let arguments = given.torch_arguments(REPEAT);
    if args.what.interleave && arguments.active % 2 != 0 {
        bail!(
            "--interleave needs an even number of steps, --active is {}: half of them are in each \
             trace",
            arguments.active
        );
    }
    Ok(Some((arguments, Schedule::new(arguments)?)))
}

/// What asks for recordings, if the program is armed.
fn armed(args: &ArmedArgs) -> Result<Option<ArmedSettings>> {
    if !args.armed {
        return Ok(None);
    }
    let steps = args.steps.unwrap_or(ARMED_STEPS);
    if let Some(every) = args.every
        && every <= steps + ARMED_WARMUP
    {
        bail!(
            "--every is {every}, needs to be more than the {steps} steps of a recording and one of \
             warmup"
        );
    }
    Ok(Some(ArmedSettings {
        steps,
        warmup: ARMED_WARMUP,
        every: args.every,
        when: args.when,
        keep: args.keep,
        signal: args.trigger_signal.unwrap_or_default().name(),
    }))
}

/// Schedules of phases; of a phase that is named twice the last one counts, as with options.
fn phases(args: &RecordArgs) -> BTreeMap<String, ScheduleSettings> {
    let schedules = args.phase.iter();
    schedules
        .map(|phase| (phase.name.clone(), phase.schedule.into()))
        .collect()
}

/// What counts as a step.
fn step_on(args: &RecordArgs) -> String {
    match args.phase.first() {
        Some(_) => "phase".to_owned(),
        None => args.step_on.clone(),
    }
}

fn activities(args: &RecordArgs) -> Option<Vec<String>> {
    let chosen = args.activities.iter();
    // none chosen is all of them, not none
    (!args.activities.is_empty()).then(|| chosen.map(|kind| kind.name().to_owned()).collect())
}

fn own_profiler(args: &RecordArgs) -> OwnProfiler {
    match args.own_profiler {
        OwnProfilerArg::Adopt => OwnProfiler::Adopt,
        OwnProfilerArg::Leave => OwnProfiler::Leave,
    }
}

/// The folder's own name, which no other launcher of this machine has, and the process id.
fn launcher(hook: &Path) -> String {
    // process ids come again, in containers often at once: the random name does not
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
        .context("no program to run; it comes after `--`")?;
    let path = python_path(hook, std::env::var_os("PYTHONPATH").as_deref()).with_context(|| {
        format!(
            "{} cannot be put on PYTHONPATH; TMPDIR names another place",
            hook.display()
        )
    })?;
    let mut command = Command::new(program);
    command.args(rest).env("PYTHONPATH", path).env(
        SETTINGS_VARIABLE,
        // of the folders only this one was not looked at before
        serde_json::to_string(settings)
            .with_context(|| format!("{}: TMPDIR names another place", hook.display()))?,
    );
    // Nothing else is put before the user's own programs unless the script asks for it.
    // Without PATH shells look in folders of their own, which an empty one would hide.
    if let Some(path) = std::env::var_os("PATH")
        && script::note(&args.command).is_some()
    {
        command.env("PATH", wrappers::path_with_wrappers(hook, &path)?);
    }
    Ok(command)
}

/// Links with this very program; what it prints is no output of the recorded program.
fn link(args: &RecordArgs) -> Result<bool> {
    // in a process of its own: its memory is given back, and a failure of it ends only itself
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
        // what is left of standard input was meant for the program
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .context("cannot run etlink merge")?;
    Ok(status.success())
}

/// The recording stands, and the program's exit code goes before ours.
fn failed_to_link(error: anyhow::Error) -> bool {
    notes::print_message(format_args!("{error:#}"));
    false
}

/// What can be said of a recording whose end went wrong.
fn failed(error: anyhow::Error) -> finish::Finished {
    notes::print_message(format_args!("the recording is not complete: {error:#}"));
    finish::Finished {
        is_whole: false,
        is_to_be_linked: false,
    }
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
        // a code that is no byte, as Windows has them, cannot be passed on
        code => Outcome::Ran(u8::try_from(code).unwrap_or(1)),
    }
}
