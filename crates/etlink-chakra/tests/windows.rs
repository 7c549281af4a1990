//! A rank that is linked window by window gives the bytes of one that is linked as a whole.
#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

use etlink_chakra::et::{EtSurvey, EtWindowWriter, write_et};
use etlink_chakra::{
    AttributeSet, RankAgreement, WriteOptions, agree, simulated_sizes, simulated_window_sizes,
};
use etlink_host::HostReadOptions;
use etlink_kineto::KinetoReadOptions;
use etlink_link::ranks::{RankSummary, join_ranks};
use etlink_link::windows::{
    LinkedWindow, Seams, Survey, SurveyOptions, WindowCounts, WindowError, WindowLinker,
    WindowSummary, survey,
};
use etlink_link::{LinkOptions, LinkReport, TensorEdges};
use etlink_model::{Anomalies, DurationNs, GlobalRank, HostTrace, TimeNs, WantedNodes};
use etlink_testing::{HostSchema, Machine, all_reduce_steps, random_program};
use std::io::Read;
use std::path::Path;

/// A rank that was linked as a whole.
struct WholeRank {
    /// Its `.et`.
    bytes: Vec<u8>,
    report: LinkReport,
    summary: RankSummary,
    sizes: Vec<Option<i64>>,
    /// What it is written with, as the only rank of its run.
    agreement: RankAgreement,
}

/// The two traces of a rank, unpacked.
struct Pair {
    host: Option<Vec<u8>>,
    device: Vec<u8>,
}

impl Pair {
    fn kineto_options(&self) -> KinetoReadOptions {
        KinetoReadOptions {
            shapes: self.host.is_none(),
            ..KinetoReadOptions::default()
        }
    }

    fn read_host(&self, wanted: Option<&WantedNodes>, tensors: TensorEdges) -> Option<HostTrace> {
        let text = self.host.as_deref()?;
        let mut host =
            etlink_host::read_part(text, HostReadOptions::default(), wanted).expect("a host trace");
        if tensors != TensorEdges::None {
            host.tensors = Some(etlink_host::tensor_uses(&host));
        }
        Some(host)
    }

    fn whole(&self, link: LinkOptions, attributes: AttributeSet) -> Option<WholeRank> {
        let device =
            etlink_kineto::read(&self.device[..], self.kineto_options()).expect("a device trace");
        let host = self.read_host(None, link.tensor_deps);
        let trace = etlink_link::link(host, device, link).ok()?;
        let summary = RankSummary::from_trace(&trace, GlobalRank(0));
        let sizes = simulated_sizes(&trace, &summary);
        let ranks = [summary];
        let mut agreed = agree(
            &ranks,
            std::slice::from_ref(&sizes),
            &join_ranks(&ranks),
            false,
        );
        let agreement = agreed.ranks.swap_remove(0);
        let options = WriteOptions {
            attributes,
            agreement: Some(&agreement),
            ..WriteOptions::default()
        };
        let mut bytes = vec![];
        write_et(&trace, &options, &mut bytes).expect("writes");
        let [summary] = ranks;
        Some(WholeRank {
            bytes,
            report: trace.report,
            summary,
            sizes,
            agreement,
        })
    }

    /// The bytes, and how many windows there were; or what is no seam, if that is known, and why. What
    /// the join needs has to be that of the whole.
    fn by_windows(
        &self,
        how: SurveyOptions<'_>,
        attributes: AttributeSet,
        whole: &WholeRank,
    ) -> Result<(Vec<u8>, usize), (Option<TimeNs>, WindowError)> {
        let options = &WriteOptions {
            attributes,
            agreement: Some(&whole.agreement),
            ..WriteOptions::default()
        };
        let mut device =
            etlink_kineto::read(&self.device[..], self.kineto_options()).expect("a device trace");
        let only_ids = WantedNodes {
            only_ids: true,
            ..WantedNodes::default()
        };
        let listed = self.read_host(Some(&only_ids), TensorEdges::None);
        let survey = survey(&mut device, listed.as_ref(), how).map_err(|error| (None, error))?;
        let mut seen = EtSurvey::default();
        let (mut summary, mut sizes) = (WindowSummary::new(&survey), vec![]);
        let mut counts = WindowCounts::new(&survey);
        let mut linker = WindowLinker::new(&survey, how.link);
        for (place, window) in survey.windows.iter().enumerate() {
            let seam = match place {
                0 => window.until,
                _ => window.from,
            };
            let linked = self.window(&survey, place, how.link, &mut linker);
            let linked = linked.map_err(|error| (Some(seam), error))?;
            seen.add(&linked, options)
                .map_err(|error| (Some(seam), error))?;
            counts.add(&linked, window);
            let places = summary.add(&survey, &linked);
            sizes.extend(simulated_window_sizes(&linked, &places));
        }
        linker.finish().map_err(|error| (None, error))?;
        let summary = summary.finish(&survey, GlobalRank(0));
        assert_eq!(format!("{summary:?}"), format!("{:?}", whole.summary));
        assert_eq!(sizes, whole.sizes);
        assert_eq!(
            counted(counts.finish(&survey)),
            counted(whole.report.clone())
        );
        let mut bytes = vec![];
        let mut writer = EtWindowWriter::new(&seen, *options);
        let mut linker = WindowLinker::new(&survey, how.link);
        for place in 0..survey.windows.len() {
            let window = self.window(&survey, place, how.link, &mut linker);
            let window = window.expect("the same as before");
            writer.write(&window, &mut bytes).expect("writes");
        }
        writer.finish().expect("all nodes");
        Ok((bytes, survey.windows.len()))
    }

    fn window(
        &self,
        survey: &Survey,
        place: usize,
        link: LinkOptions,
        linker: &mut WindowLinker<'_>,
    ) -> Result<LinkedWindow, WindowError> {
        let window = &survey.windows[place];
        let options = self.kineto_options();
        let device = etlink_kineto::read_part(&self.device[..], options, Some(&window.ops))
            .expect("a device trace");
        let nodes = window.nodes_of(&device);
        let host = self.read_host(Some(&nodes), link.tensor_deps);
        linker.link(host, device)
    }
}

/// A report without its sentences: what was wrong, and all other counts.
fn counted(mut report: LinkReport) -> (Anomalies, String) {
    report.notes.clear();
    // kinds come in the order of files in one, and of windows in the other
    let anomalies = std::mem::take(&mut report.anomalies);
    (anomalies, format!("{report:#?}"))
}

fn unpacked(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).expect("a file");
    let mut text = vec![];
    match file.starts_with(&[0x1f, 0x8b]) {
        true => {
            flate2::read::MultiGzDecoder::new(&file[..])
                .read_to_end(&mut text)
                .expect("unpacks");
        }
        false => text = file,
    }
    text
}

/// How a pair is linked and written.
#[derive(Clone, Copy, Debug)]
struct Form {
    tensor_deps: TensorEdges,
    attributes: AttributeSet,
}

const FULL: Form = Form {
    tensor_deps: TensorEdges::Raw,
    attributes: AttributeSet::Full,
};

/// Compares; how many windows there were, or why there are none. `None`: the traces are refused.
fn compare(
    name: &str,
    pair: &Pair,
    form: Form,
    how: SurveyOptions<'_>,
) -> Option<Result<usize, WindowError>> {
    let link = LinkOptions {
        tensor_deps: form.tensor_deps,
        ..LinkOptions::default()
    };
    let whole = pair.whole(link, form.attributes)?;
    let mut not_at = vec![];
    loop {
        let how = SurveyOptions {
            link,
            not_at: &not_at,
            ..how
        };
        match pair.by_windows(how, form.attributes, &whole) {
            Ok((bytes, windows)) => {
                let whole = &whole.bytes;
                let at = bytes
                    .iter()
                    .zip(whole)
                    .position(|(one, other)| one != other);
                assert!(
                    bytes == *whole,
                    "{name}: {windows} windows, {form:?} {how:?}: {} and {} bytes, differ at {at:?}",
                    bytes.len(),
                    whole.len()
                );
                return Some(Ok(windows));
            }
            // As the command does: another place is tried.
            Err((Some(seam), _)) if not_at.len() < 16 => not_at.push(seam),
            Err((_, error)) => return Some(Err(error)),
        }
    }
}

/// The ranks of a recording.
fn pairs(folder: &Path) -> Vec<(String, Pair)> {
    let mut pairs = vec![];
    for rank in 0..8 {
        let host = folder.join(format!("torch_et_{rank}.json.gz"));
        let device = folder.join(format!("kineto_trace_{rank}.json.gz"));
        if host.exists() && device.exists() {
            let pair = Pair {
                host: Some(unpacked(&host)),
                device: unpacked(&device),
            };
            pairs.push((format!("{} {rank}", folder.display()), pair));
        }
    }
    pairs
}

#[test]
fn recordings_by_steps_and_by_ops() {
    let mut folders: Vec<_> = std::fs::read_dir("../../testdata/pairs")
        .expect("recordings")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    folders.sort();
    let (mut cut, mut refused) = (0, 0);
    for folder in folders {
        for (name, mut pair) in pairs(&folder) {
            for (windows, seams) in [(1_000, Seams::Steps), (9, Seams::Ops)] {
                let how = SurveyOptions {
                    windows,
                    seams,
                    ..SurveyOptions::default()
                };
                let linked = [compare(&name, &pair, FULL, how), {
                    let host = pair.host.take();
                    let alone = compare(&name, &pair, FULL, how);
                    pair.host = host;
                    alone
                }];
                for linked in linked.into_iter().flatten() {
                    cut += usize::from(linked.is_ok());
                    refused += usize::from(linked.is_err());
                }
            }
        }
    }
    // Most of the recordings have Gloo's collectives, which are refused.
    assert!(
        cut >= 40,
        "{cut} are linked window by window, {refused} refused"
    );
}

#[test]
fn every_form_of_a_recording() {
    let folder = Path::new("../../testdata/pairs/threads-2.15.0");
    for (name, pair) in pairs(folder) {
        for tensor_deps in [TensorEdges::Raw, TensorEdges::All, TensorEdges::None] {
            for attributes in [AttributeSet::Full, AttributeSet::Minimal] {
                let form = Form {
                    tensor_deps,
                    attributes,
                };
                let how = SurveyOptions {
                    windows: 5,
                    seams: Seams::Ops,
                    ..SurveyOptions::default()
                };
                let windows = compare(&name, &pair, form, how).expect("is linked");
                // Its threads read what others wrote in an earlier step.
                let reason = windows.err();
                let is_known = reason == Some(WindowError::TensorOverSeam);
                let is_allowed = is_known && tensor_deps != TensorEdges::None;
                assert!(reason.is_none() || is_allowed, "{form:?}: {reason:?}");
            }
        }
    }
}

/// How many programs are drawn.
const SEEDS: u64 = 24;

/// Programs that launch, record, wait, poll and fill launch queues. Windows are shorter than what a
/// device is behind its host.
#[test]
fn random_programs() {
    let (mut cut, mut windows) = (0, 0);
    for seed in 0..SEEDS {
        let (program, options, change) = random_program(seed);
        let machine = Machine::run(&program, options, change);
        let pair = Pair {
            host: Some(machine.trace.host(HostSchema::V1_1_1)),
            device: machine.trace.kineto(),
        };
        let how = SurveyOptions {
            windows: 10,
            seams: Seams::Ops,
            margin: DurationNs(5_000),
            ..SurveyOptions::default()
        };
        let found = compare(&format!("seed {seed}"), &pair, FULL, how).expect("is linked");
        if let Ok(found) = found {
            (cut, windows) = (cut + 1, windows + found);
        }
    }
    assert!(
        cut * 4 >= SEEDS,
        "{cut} of {SEEDS} programs, {windows} windows"
    );
}

/// The devices of a rank communicate: what other ranks need to know of it is the same.
#[test]
fn collectives_of_devices() {
    for steps in [2, 9] {
        let pair = Pair {
            host: None,
            device: all_reduce_steps(1, 4, steps, 60),
        };
        for (windows, seams) in [(1_000, Seams::Steps), (5, Seams::Ops)] {
            let how = SurveyOptions {
                windows,
                seams,
                margin: DurationNs(5_000),
                ..SurveyOptions::default()
            };
            let whole = pair
                .whole(LinkOptions::default(), AttributeSet::Full)
                .expect("is linked");
            assert_eq!(whole.summary.communications.len(), steps as usize);
            assert_eq!(whole.summary.steps.all.len(), steps as usize);
            let windows = compare("all-reduces", &pair, FULL, how).expect("is linked");
            assert!(windows.expect("has seams") > 1);
        }
    }
}

/// A trace that shows nothing of a seam is refused, and says why.
#[test]
fn what_cannot_be_cut_is_refused() {
    for (recording, reason) in [
        ("ddp2-2.15.0", WindowError::HostCollectives),
        ("mlp-2.3.1", WindowError::NotById),
        ("inference-2.15.0", WindowError::NoSteps),
    ] {
        let folder = Path::new("../../testdata/pairs").join(recording);
        let (name, pair) = pairs(&folder).swap_remove(0);
        let how = SurveyOptions {
            windows: 10,
            ..SurveyOptions::default()
        };
        let found = compare(&name, &pair, FULL, how).expect("is linked");
        assert_eq!(found, Err(reason), "{recording}");
    }
}
