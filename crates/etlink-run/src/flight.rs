//! Dumps of PyTorch's flight recorder: finds them in a folder, and adds their data to traces.

use crate::Progress;
use crate::discover::search_folders;
use crate::error::RunError;
use crate::input::{self, InputFile, InputKind, WantedTrace};
use crate::run_files::FlightFolder;
use crate::text;
use etlink_formats::flight_recorder::{FlightDump, FlightMatches, add_collectives};
use etlink_model::{DeviceTrace, Diagnostic, Failure, Severity, diagnostic};
use std::path::Path;

/// Finds the dumps in `root` and its subfolders that are not next to traces, by folder.
///
/// # Errors
/// Fails if `root` cannot be read, or files in it are being replaced.
pub fn find_dumps(root: &Path) -> Result<Vec<FlightFolder>, RunError> {
    Ok(search_folders(root)?.dumps)
}

/// Reads a dump.
///
/// # Errors
/// Fails if the file cannot be opened, is not a dump, is a pickle that would call code, or has no
/// complete entry.
pub fn read_dump(path: &Path, progress: &Progress) -> Result<FlightDump, RunError> {
    match input::open(path, progress) {
        Ok(input) => read_opened(input),
        // "record it again" is no remedy for a rank that hung
        Err(RunError::EmptyFile { name }) => {
            let what = " is empty: its rank exited before it wrote the dump";
            let remedy = "the other ranks' dumps still show which ranks wait for it. Give ranks \
                          more time to write with TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC";
            Err(Failure::about(name, what).advise(remedy).into())
        }
        Err(error) => Err(error),
    }
}

fn read_opened(input: InputFile) -> Result<FlightDump, RunError> {
    if input.kind != InputKind::FlightRecorder {
        return Err(input.refuse_kind(WantedTrace::Times));
    }
    let name = input.name;
    let dump = etlink_formats::flight_recorder::read(input.content);
    let dump = dump.map_err(|cause| RunError::unreadable(&name, cause))?;
    // otherwise it would look like the dump of a rank without calls
    if dump.entries.is_empty() && dump.anomalies.any(Severity::Damage) {
        let what = format!(
            ": the dump has no complete collective ({} bytes read)",
            dump.bytes
        );
        let remedy = "copy it again from its origin";
        return Err(Failure::about(name, what).advise(remedy).into());
    }
    Ok(dump)
}

/// Adds data from the rank's dump to the collectives of a trace. Returns notes. An unreadable dump
/// does not prevent reading the trace.
pub(crate) fn describe_collectives(
    dump: Option<&Path>,
    device: &mut DeviceTrace,
    progress: &Progress,
) -> Vec<Diagnostic> {
    let Some(path) = dump else {
        return vec![];
    };
    let dump = match read_dump(path, progress) {
        Ok(dump) => dump,
        Err(error) => {
            let why = text::error_chain(&error);
            return vec![diagnostic!(DumpNotUsed, "{why}; the dump is not used")];
        }
    };
    let matches = add_collectives(device, &dump);
    let mut notes = vec![matches_note(&matches)];
    notes.extend(dump.anomalies.damage_in(input::display_name(path)));
    notes
}

fn matches_note(matches: &FlightMatches) -> Diagnostic {
    let FlightMatches {
        ops,
        by_time,
        by_order,
        other_sizes,
        is_other_run,
        ..
    } = *matches;
    if is_other_run {
        return diagnostic!(
            DumpNotUsed,
            "the flight recorder dump next to the trace is not used: it has no collective within the trace's \
             time. The dump is truncated or from another run, its buffer was too small (TORCH_FR_BUFFER_SIZE), \
             or the trace has only Gloo sends and receives, which PyTorch does not keep"
        )
        .advise("for a hang, run `etlink ranks` on a folder with only the dumps");
    }
    if ops == 0 {
        return diagnostic!(
            DumpNotUsed,
            "the flight recorder dump next to the trace is not needed: the trace has records of its \
             collectives, or no collectives"
        );
    }
    let known = by_time + by_order;
    let mut note = format!(
        "{known} of {} have group, sizes and type from the flight recorder dump: {by_time} by \
         call time, {by_order} by time and order",
        text::count(ops, "collective")
    );
    if other_sizes > 0 {
        note += &format!("; {other_sizes} are not used because sizes differ");
    }
    diagnostic!(DumpMatched, "{note}")
}
