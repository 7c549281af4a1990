//! Throws mutated recordings at the readers, the linker, the writers and the checker.
//!
//! A round takes a host and a device trace of one recording, damages them as crashes, disks and
//! writers do (cut, splice, repeat, flip, raw quotes, odd numbers), and runs everything. What may
//! not happen is a panic, output that its own checker faults, or a result that depends on threads.

use anyhow::{Context, Result, bail};
use etlink_chakra::{WriteOptions, check, et, etplus, finding::Severity, read};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Texts that real files have had in the wrong place.
const ODD: [&str; 14] =
    ["\"", "\\\"", "}", "]", "{", "},\n  {\n    \"ph\": ", "nan", "-1.-500", "1e999", "\u{0}", "\u{feff}", "99999999999999999999", "null", "[[[["];

/// Runs rounds for `seconds`, from `seed` on.
pub fn run(seconds: u64, seed: u64) -> Result<()> {
    let corpus = corpus(Path::new("testdata/pairs"))?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut round = seed;
    while Instant::now() < end {
        let mut random = fastrand::Rng::with_seed(round);
        let (host, device) = &corpus[random.usize(..corpus.len())];
        let (host, device) = (mutate(host, &mut random), mutate(device, &mut random));
        match catch_unwind(AssertUnwindSafe(|| one(&host, &device))) {
            Ok(Ok(())) => round += 1,
            Ok(Err(error)) => bail!("round {round}: {error:#}; again with: cargo dev fuzz --seed {round}"),
            Err(_) => bail!("round {round} panicked; again with: cargo dev fuzz --seed {round}"),
        }
    }
    println!("{} passed, 0 failed", round - seed);
    Ok(())
}

/// Host and device trace of the first rank of every recording, unpacked.
fn corpus(pairs: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut folders = pairs.read_dir().with_context(|| pairs.display().to_string())?.collect::<Result<Vec<_>, _>>()?;
    folders.sort_by_key(std::fs::DirEntry::path);
    let unpack = |path: std::path::PathBuf| -> Result<Vec<u8>> {
        let mut text = vec![];
        let file = std::fs::File::open(&path).with_context(|| path.display().to_string())?;
        flate2::read::MultiGzDecoder::new(file).read_to_end(&mut text)?;
        Ok(text)
    };
    let both =
        |folder: &std::fs::DirEntry| Ok((unpack(folder.path().join("torch_et_0.json.gz"))?, unpack(folder.path().join("kineto_trace_0.json.gz"))?));
    folders.iter().map(both).collect()
}

fn mutate(text: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..random.usize(..12) {
        if text.is_empty() {
            break;
        }
        let at = random.usize(..text.len());
        let until = (at + random.usize(..2_000)).min(text.len());
        match random.u8(..6) {
            0 => text[at] = random.u8(..),
            1 => drop(text.drain(at..until)),
            2 => drop(text.splice(at..at, ODD[random.usize(..ODD.len())].bytes())),
            3 => text.extend_from_within(at..until),
            4 => {
                let part = text[at..until].to_vec();
                let place = random.usize(..text.len());
                drop(text.splice(place..place, part));
            }
            _ if random.u8(..8) == 0 => text.truncate(at),
            _ => {}
        }
    }
    text
}

/// One round. Errors of readers and linker are fine: they are refusals.
fn one(host: &[u8], device: &[u8]) -> Result<()> {
    let outputs = |threads: usize| -> Option<(Vec<u8>, Vec<u8>)> {
        let device = etlink_kineto::read(device, etlink_kineto::ReadOptions { threads, shapes: true, asides: true }).ok()?;
        let mut host = etlink_host::read(host, etlink_host::ReadOptions { threads }).ok();
        host.iter_mut().for_each(|host| host.tensors = Some(etlink_host::tensor_uses(host)));
        let trace = etlink_link::link(host, device, etlink_link::LinkOptions { force: true, ..etlink_link::LinkOptions::default() }).ok()?;
        let (mut protobuf, mut json) = (vec![], vec![]);
        et::write_et(&trace, &WriteOptions::default(), &mut protobuf).ok()?;
        etplus::write_etplus(&trace, &mut json).ok()?;
        Some((protobuf, json))
    };
    let written = outputs(1);
    if written != outputs(3) {
        bail!("1 and 3 threads give different results");
    }
    let Some((protobuf, json)) = written else { return Ok(()) };
    serde_json::from_slice::<serde::de::IgnoredAny>(&json).context("the merged JSON is no JSON")?;
    for output in [&protobuf, &json] {
        let graph = read::read(&output[..]).context("own output cannot be read")?;
        let findings = check::check(&graph);
        if let Some(fault) = findings.iter().find(|finding| finding.severity == Severity::Error) {
            bail!("own output has faults: {fault:?}");
        }
    }
    // the readers of written files get damaged files too
    let half = &protobuf[..protobuf.len() / 2];
    drop(read::read(half).map(|graph| check::check(&graph)));
    Ok(())
}
