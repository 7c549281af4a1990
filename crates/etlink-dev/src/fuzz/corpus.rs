//! Inputs of the fuzzer, and the damage done to them.

use anyhow::{Context, Result};
use etlink_testing::{DeviceQueue, HostSchema, ParamComms, TraceBuilder};
use std::fs::DirEntry;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Host and device trace of each rank.
pub(super) type FuzzRecording = Vec<(Vec<u8>, Vec<u8>)>;

/// Number of ranks taken from a recording.
// Two suffice to join collectives, and keep a round short.
const RANKS: usize = 2;

/// Texts that real files contained in the wrong place.
const ODD: [&str; 14] = [
    "\"",
    "\\\"",
    "}",
    "]",
    "{",
    "},\n  {\n    \"ph\": ",
    "nan",
    "-1.-500",
    "1e999",
    "\u{0}",
    "\u{feff}",
    "99999999999999999999",
    "null",
    "[[[[",
];

/// Numbers that replace others.
const NUMBERS: [&str; 8] = [
    "0",
    "-1",
    "1",
    "4294967296",
    "9223372036854775.807",
    "-9223372036854775.808",
    "18446744073709551615",
    "1e15",
];

/// Reads the recordings in testdata, a generated one with devices, and each device trace in
/// `folders` separately; uncompressed.
pub(super) fn read_corpus(folders: &[PathBuf]) -> Result<Vec<FuzzRecording>> {
    let mut all = vec![];
    for folder in sorted_entries(Path::new("testdata/pairs"))? {
        let traces = |rank: usize| {
            ["torch_et", "kineto_trace"]
                .map(|name| folder.path().join(format!("{name}_{rank}.json.gz")))
        };
        let ranks = (0..RANKS)
            .map(traces)
            .filter(|paths| paths.iter().all(|path| path.exists()));
        all.push(
            ranks
                .map(|[host, device]| Ok((read_unpacked(&host)?, read_unpacked(&device)?)))
                .collect::<Result<FuzzRecording>>()?,
        );
    }
    all.push(
        (0..RANKS as i64)
            .map(|rank| draw_pair(rank, RANKS as i64))
            .collect(),
    );
    for folder in folders {
        let packed = sorted_entries(folder)?
            .into_iter()
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|end| end == "gz"));
        all.extend(
            packed
                .map(|path| Ok(vec![(vec![], read_unpacked(&path)?)]))
                .collect::<Result<Vec<FuzzRecording>>>()?,
        );
    }
    Ok(all)
}

pub(super) fn sorted_entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let mut entries = folder
        .read_dir()
        .with_context(|| folder.display().to_string())?
        .collect::<Result<Vec<_>, _>>()?;
    // A seed selects a recording by index, which must be the same on each machine.
    entries.sort_by_key(DirEntry::path);
    Ok(entries)
}

pub(super) fn read_unpacked(path: &Path) -> Result<Vec<u8>> {
    let mut text = vec![];
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut text)?;
    Ok(text)
}

/// Writes a recording to a folder, with the names that `etlink` looks for.
pub(super) fn keep_recording(recording: &FuzzRecording, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (rank, (host, device)) in recording.iter().enumerate() {
        std::fs::write(folder.join(format!("torch_et_{rank}.json")), host)?;
        std::fs::write(folder.join(format!("kineto_trace_{rank}.json")), device)?;
    }
    Ok(())
}

/// Generates steps of a rank with two devices, which the recordings on CPUs lack.
fn draw_pair(rank: i64, ranks: i64) -> (Vec<u8>, Vec<u8>) {
    let mut draw = TraceBuilder::default();
    draw.distributed(rank, ranks);
    let main = draw.thread();
    for step in 0..20i64 {
        let at = |us: i64| 1_000 * (us + 200 * step + 3 * rank);
        draw.annotation(main, &format!("ProfilerStep#{step}"), at(0), at(190));
        draw.python(main, "train.py(7): step", at(1), at(150));
        draw.op(main, "aten::mm", at(2), at(40));
        draw.launch(
            main,
            (at(5), at(8)),
            DeviceQueue::stream(7),
            "gemm",
            (at(12), at(60)),
        );
        draw.launch(
            main,
            (at(10), at(12)),
            DeviceQueue {
                device: 1,
                context: 1,
                stream: 9,
            },
            "elementwise",
            (at(20), at(45)),
        );
        let copy = draw.next_correlation();
        draw.call(main, "cudaMemcpyAsync", (at(15), at(18)), copy);
        draw.memcpy(
            DeviceQueue::stream(7),
            "Memcpy HtoD (Pinned -> Device)",
            (at(62), at(70)),
            copy,
            4096,
        );
        let comms = ParamComms::new("allreduce", 0..ranks as u64, rank, step);
        draw.collective(main, &comms, at(50), at(60));
        let reduce = draw.next_correlation();
        draw.call(main, "cudaLaunchKernelExC", (at(52), at(55)), reduce);
        draw.collective_kernel(
            DeviceQueue::stream(24),
            "ncclDevKernel_AllReduce_Sum_f32",
            (at(58), at(90)),
            reduce,
            &comms,
        );
        let wait = draw.next_correlation();
        draw.call(main, "cudaStreamWaitEvent", (at(92), at(93)), wait);
        draw.sync(
            "Stream Wait Event",
            DeviceQueue::stream(7),
            (at(92), at(93)),
            wait,
            Some((24, reduce)),
        );
        draw.launch(
            main,
            (at(95), at(97)),
            DeviceQueue::stream(7),
            "gemm",
            (at(99), at(130)),
        );
        // Half a microsecond: times with one decimal are rare, and readers must not round them.
        draw.raw(&format!(
            concat!(
                r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "#,
                r#""pid": 1000, "tid": 1000, "ts": {}.5, "#,
                r#""args": {{"Total Allocated": 4096, "Total Reserved": 8192, "Bytes": 512, "#,
                r#""Device Id": 0, "Device Type": 1}}}}"#,
            ),
            at(3) / 1_000
        ));
    }
    (draw.host(HostSchema::V1_1_1), draw.kineto())
}

/// Damages a text in up to eleven places.
pub(super) fn mutate_text(text: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut text = text.to_vec();
    // Some texts stay whole: the laws hold for them too, and a pair may have a single damaged file.
    for _ in 0..random.usize(..12) {
        if text.is_empty() {
            break;
        }
        let at = random.usize(..text.len());
        let until = (at + random.usize(..2_000)).min(text.len());
        match random.u8(..8) {
            0 => text[at] = random.u8(..),
            1 => drop(text.drain(at..until)),
            2 => drop(text.splice(at..at, ODD[random.usize(..ODD.len())].bytes())),
            3 => text.extend_from_within(at..until),
            4 => {
                let part = text[at..until].to_vec();
                let place = random.usize(..text.len());
                drop(text.splice(place..place, part));
            }
            // Twice as often as the others: readers accept such text, so it reaches linker and
            // figures.
            5 | 6 => {
                let number = number_after(&text, at);
                drop(text.splice(number, NUMBERS[random.usize(..NUMBERS.len())].bytes()));
            }
            // Rarely, because a truncated part cannot be damaged further.
            _ if random.u8(..8) == 0 => text.truncate(at),
            _ => {}
        }
    }
    text
}

/// Returns the range of the first number from `at`; empty at the end if there is none.
fn number_after(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = text[at..]
        .iter()
        .position(u8::is_ascii_digit)
        .map_or(text.len(), |digit| at + digit);
    let length = text[start..]
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b'.')
        .unwrap_or(text.len() - start);
    start..start + length
}
