//! Compressed graphs: written, read by every command, and replaced; packed folders and other files
//! that people are sent.

use crate::tool::Tool;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::path::Path;

const LINK: &str = "link --host {pairs}/ddp2-2.15.0/torch_et_0.json.gz \
                    --device {pairs}/ddp2-2.15.0/kineto_trace_0.json.gz";

#[test]
fn a_packed_graph_is_read_as_the_plain_one() {
    let tool = Tool::new();
    let outputs = ["x.et", "x.et.gz", "x.et.zst"];
    for output in outputs {
        tool.run(&format!("{LINK} -o {output}")).exits(0);
    }
    let plain = tool.read("x.et");
    assert_eq!(
        zstd::decode_all(&tool.read("x.et.zst")[..]).expect("zstd"),
        plain
    );
    assert!(
        tool.read("x.et.zst").len() * 4 < plain.len(),
        "the file is compressed"
    );
    let commands = [
        "check {file} --json",
        "replay {file} --json",
        "analyze {file} --json",
        "report {file} -o {file}.html",
        "inspect {file} --json",
        "convert {file} {file}.json --json",
        "convert {file} {file}.dot --range 1..20 --json",
    ];
    for command in commands {
        let answers = outputs.map(|file| {
            let ran = tool.run(&command.replace("{file}", file));
            assert_eq!(ran.code, 0, "{command}: {}", ran.shown());
            let answer = ran.stdout.replace(file, "FILE");
            // stored sizes, and the bytes of a page, differ per file
            let lines = answer.lines().filter(|line| !line.contains("bytes\""));
            let lines = lines.map(|line| line.split_once(" kB, ").map_or(line, |(_, rest)| rest));
            lines.map(str::to_owned).collect::<Vec<String>>()
        });
        assert_eq!(answers[0], answers[1], "{command}");
        assert_eq!(answers[0], answers[2], "{command}");
    }
    let [json, gz, zst] = outputs.map(|file| tool.read(&format!("{file}.json")));
    assert!(json == gz && json == zst);
}

#[test]
fn packed_bytes_are_the_same_at_any_number_of_threads() {
    let tool = Tool::new();
    for ending in ["gz", "zst"] {
        let bytes = [1, 2, 7].map(|threads| {
            let output = format!("{threads}.et.{ending}");
            tool.run(&format!("{LINK} -j {threads} -o {output}"))
                .exits(0);
            tool.read(&output)
        });
        assert!(bytes[0] == bytes[1] && bytes[0] == bytes[2], "{ending}");
    }
}

#[test]
fn ranks_are_packed_and_replaced() {
    let tool = Tool::new();
    let merge = "merge {pairs}/ddp2-2.15.0 -o run";
    tool.run(merge).exits(0);
    let plain = tool.run("replay run --json").exits(0).only_run();
    // files compressed by somebody else stay
    let copy = zstd::bulk::compress(&tool.read("run/ddp2-2.15.0.1.et"), 3).expect("packs");
    tool.file("run/ddp2-2.15.0.7.et.zst", &copy);
    let names = |tool: &Tool| {
        let entries = std::fs::read_dir(tool.path("run")).expect("lists");
        let names = entries.map(|entry| entry.expect("entry").file_name());
        let mut names: Vec<String> = names
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| name != "comm_group.json")
            .collect();
        names.sort();
        names
    };
    for (pack, ending) in [("zstd", ".zst"), ("gzip", ".gz"), ("zstd", ".zst")] {
        tool.run(&format!("{merge} --pack {pack} --overwrite"))
            .exits(0);
        let ranks = [0, 1].map(|rank| format!("ddp2-2.15.0.{rank}.et{ending}"));
        let mut want = ranks.to_vec();
        want.push("ddp2-2.15.0.7.et.zst".to_owned());
        assert_eq!(names(&tool), want, "{pack}");
    }
    std::fs::remove_file(tool.path("run/ddp2-2.15.0.7.et.zst")).expect("removes");
    let packed = tool.run("replay run --json").exits(0).only_run();
    assert_eq!(packed["figures"], plain["figures"]);
    tool.run("check run").exits(0).says("2 ranks together");
    tool.run("scale run --ranks 4 -o scaled").exits(0);
    tool.run("convert run run.goal").exits(0);
    tool.run(&format!("{merge} --overwrite")).exits(0);
    assert_eq!(names(&tool), ["ddp2-2.15.0.0.et", "ddp2-2.15.0.1.et"]);
}

#[test]
fn packing_is_refused_where_nobody_would_read_it() {
    let tool = Tool::new();
    let merge = "merge {pairs}/ddp2-2.15.0 -o run --pack zstd";
    tool.run(&format!("{merge} --format etplus"))
        .exits(2)
        .complains(&["--pack", ".et"]);
    let refused = tool.run(&format!("{merge} --for astra-sim")).exits(2);
    assert!(refused.stderr.contains("--pack"), "{}", refused.stderr);
    tool.run(&format!("{LINK} -o x.json.zst"))
        .exits(2)
        .complains(&[".zst after .et"]);
}

#[test]
fn a_rank_that_is_packed_otherwise_replaces_its_file() {
    let tool = Tool::new();
    let merge = "merge {pairs}/ddp2-2.15.0 -o run";
    tool.run(merge).exits(0);
    tool.run(&format!("{merge} --overwrite --ranks 0 --pack zstd"))
        .exits(0);
    let mut names: Vec<String> = tool.files("run").into_keys().collect();
    names.retain(|name| name.contains(".et"));
    assert_eq!(names, ["ddp2-2.15.0.0.et.zst", "ddp2-2.15.0.1.et"]);
    tool.run(&format!("{merge} --overwrite --ranks 0")).exits(0);
    let mut names: Vec<String> = tool.files("run").into_keys().collect();
    names.retain(|name| name.contains(".et"));
    assert_eq!(names, ["ddp2-2.15.0.0.et", "ddp2-2.15.0.1.et"]);
    tool.run("check run").exits(0).says("2 ranks together");
}

/// Traces of a run of two ranks.
fn traces() -> Vec<(String, Vec<u8>)> {
    let pairs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pairs/ddp2-2.15.0");
    let names = [
        "kineto_trace_0",
        "kineto_trace_1",
        "torch_et_0",
        "torch_et_1",
    ];
    let read = |name: &str| {
        let name = format!("{name}.json.gz");
        let content = std::fs::read(pairs.join(&name)).expect("a trace");
        (name, content)
    };
    names.map(read).to_vec()
}

/// Returns a tar archive with the traces in a folder: one by a name that leaves the archive, one as
/// the second name of a file, one as a link.
fn packed_as_tar() -> Vec<u8> {
    let mut tar = tar::Builder::new(vec![]);
    let mut add = |name: &str, kind: tar::EntryType, target: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        // the builder refuses names that leave the archive
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        tar.append(&header, content).expect("packs");
    };
    let file = tar::EntryType::Regular;
    let [one, two, three, four] = traces().try_into().expect("four traces");
    add(&format!("../run/{}", one.0), file, "", &one.1);
    add("./run/blob", file, "", &two.1);
    add(
        &format!("run/{}", two.0),
        tar::EntryType::Link,
        "run/blob",
        b"",
    );
    add("other/blob", file, "", &three.1);
    let link = tar::EntryType::Symlink;
    add(&format!("run/{}", three.0), link, "../other/blob", b"");
    add(&format!("/run/{}", four.0), file, "", &four.1);
    tar.into_inner().expect("packs")
}

#[test]
fn a_packed_folder_is_read_as_the_folder() {
    let tool = Tool::new();
    for (name, content) in traces() {
        tool.file(&format!("run/{name}"), content);
    }
    let tar = packed_as_tar();
    let mut zip = zip::ZipWriter::new(File::create(tool.path("run.ZIP")).expect("creates"));
    for (name, content) in traces() {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(format!("__MACOSX/._{name}"), options)
            .expect("packs");
        zip.write_all(b"\0\x05\x16\x07").expect("packs");
        zip.start_file(name, options).expect("packs");
        zip.write_all(&content).expect("packs");
    }
    zip.finish().expect("packs");
    tool.file(
        "run.tar.zst",
        zstd::encode_all(Cursor::new(&tar), 3).expect("packs"),
    );
    tool.file("run.tar", tar);

    tool.run("merge run -o merged").exits(0);
    let found = tool.run("findings run --json").exits(0).stdout;
    for archive in ["run.ZIP", "run.tar.zst", "run.tar", "run.tar/run"] {
        let merged = format!("merged-{}", archive.replace(['/', '.'], "-"));
        tool.run(&format!("merge {archive} -o {merged}")).exits(0);
        let folder = tool.path(&merged);
        let folder = match folder.join("run") {
            inner if inner.is_dir() => inner,
            _ => folder,
        };
        for name in ["run.0.et", "run.1.et", "comm_group.json"] {
            let written = std::fs::read(folder.join(name)).expect("written");
            assert!(
                written == tool.read(&format!("merged/{name}")),
                "{archive}: {name}"
            );
        }
        let answer = tool
            .run(&format!("findings {archive} --json"))
            .exits(0)
            .stdout;
        assert_eq!(answer.lines().count(), found.lines().count(), "{archive}");
    }
    let pair = "--host run.tar/run/torch_et_0.json.gz --device run.tar/run/kineto_trace_0.json.gz";
    tool.run(&format!("link {pair} -o 0.et")).exits(0);
}

/// Packs files, each in a folder of its own, and one with a password's flag.
fn packed_as_zip(folders: usize) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(vec![]));
    let options = zip::write::SimpleFileOptions::default();
    for folder in 0..folders {
        zip.start_file(format!("{folder}/notes.txt"), options)
            .expect("packs");
    }
    for (name, content) in traces() {
        zip.start_file(name, options).expect("packs");
        zip.write_all(&content).expect("packs");
    }
    zip.finish().expect("packs").into_inner()
}

#[test]
fn many_folders_and_unreadable_files_spoil_no_archive() {
    let tool = Tool::new();
    let mut zip = packed_as_zip(20_000);
    // the flags of the first file in the list at the end: it has a password
    let mut windows = zip.windows(4);
    let list = windows.position(|bytes| bytes == b"PK\x01\x02");
    let list = list.expect("a list");
    zip[list + 8] |= 1;
    tool.file("run.zip", zip);
    tool.run("ranks run.zip").exits(0).says("2 ranks");
}

#[test]
fn an_output_never_replaces_the_archive_of_its_input() {
    let tool = Tool::new();
    tool.file("run.tar", packed_as_tar());
    let trace = "run.tar/run/kineto_trace_0.json.gz";
    tool.run(&format!(
        "link --device {trace} --format chakra -f -o run.tar"
    ))
    .exits(2);
    tool.run("merge run.tar -o run.tar -f").exits(2);
    assert!(tool.read("run.tar") == packed_as_tar());
}

#[test]
fn a_damaged_archive_is_an_error_that_says_so() {
    let tool = Tool::new();
    let tar = packed_as_tar();
    tool.file("cut.tar", &tar[..tar.len() / 2]);
    tool.file("page.zip", "<!DOCTYPE html>");
    for archive in ["cut.tar", "page.zip"] {
        for command in ["ranks", "merge -o out", "analyze"] {
            let ran = tool.run(&format!("{command} {archive}")).exits(2);
            assert!(ran.stderr.contains("cannot be unpacked"), "{}", ran.stderr);
        }
    }
}

#[test]
fn utf_16_is_read_as_utf_8() {
    let tool = Tool::new();
    let (_, packed) = traces().remove(0);
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(&packed[..]);
    unpacked.read_to_string(&mut text).expect("unpacks");
    let units = || "\u{feff}".encode_utf16().chain(text.encode_utf16());
    tool.file("plain.json", &text);
    tool.file(
        "le.json",
        units().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
    );
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    tool.file("be.json", zstd::encode_all(&big[..], 1).expect("packs"));
    let answers = ["plain", "le", "be"].map(|name| {
        let ran = tool.run(&format!("analyze {name}.json --json")).exits(0);
        ran.stdout.replace(&format!("{name}.json"), "FILE")
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn an_archive_in_a_folder_is_named_and_none_is_written() {
    let tool = Tool::new();
    tool.shell("cp -r {pairs}/mlp-2.15.0 run").exits(0);
    tool.file("run/older.tar.gz", b"");
    for command in ["analyze run", "merge run -o out", "ranks run"] {
        tool.run(command).exits(0).notes("older.tar.gz");
    }
    for output in ["new.zip", "new.tar.gz"] {
        tool.run(&format!("merge run -o {output}"))
            .exits(2)
            .complains(&[output]);
        assert!(!tool.path(output).exists());
    }
}

#[test]
fn a_command_for_folders_names_the_one_for_a_file() {
    let tool = Tool::new();
    let file = "{pairs}/mlp-2.15.0/kineto_trace_0.json.gz";
    for command in [format!("merge {file} -o out"), format!("ranks {file}")] {
        tool.run(&command).exits(2).complains(&["etlink link"]);
    }
}
