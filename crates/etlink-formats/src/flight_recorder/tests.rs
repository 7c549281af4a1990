use super::*;
use crate::flight_recorder::dump::FlightState;
use etlink_model::{
    AnomalyKind, CollectiveKind, CpuOp, DeviceTrace, DurationNs, ProcessGroup, TimeNs, UnixNs,
};
use proptest::prelude::*;

/// A value to pickle.
enum Plain {
    Nothing,
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Plain>),
    Tuple(Vec<Plain>),
    Dict(Vec<(&'static str, Plain)>),
}

fn text(text: &str) -> Plain {
    Plain::Text(text.to_owned())
}

/// Writes like PyTorch's pickler: protocol 2, strings memoized.
struct PickleWriter {
    bytes: Vec<u8>,
    known: Vec<String>,
}

impl PickleWriter {
    fn pickle(value: &Plain) -> Vec<u8> {
        let mut writer = PickleWriter {
            bytes: vec![0x80, 2],
            known: vec![],
        };
        writer.write(value);
        writer.bytes.push(b'.');
        writer.bytes
    }

    fn write(&mut self, value: &Plain) {
        match value {
            Plain::Nothing => self.bytes.push(b'N'),
            Plain::Bool(value) => self.bytes.push(if *value { 0x88 } else { 0x89 }),
            Plain::Int(number) => {
                self.bytes.extend([0x8a, 8]);
                self.bytes.extend(number.to_le_bytes());
            }
            Plain::Text(text) => self.write_text(text),
            Plain::List(items) => {
                self.bytes.extend(b"](");
                items.iter().for_each(|item| self.write(item));
                self.bytes.push(b'e');
            }
            Plain::Tuple(items) => {
                self.bytes.push(b'(');
                items.iter().for_each(|item| self.write(item));
                self.bytes.push(b't');
            }
            Plain::Dict(pairs) => {
                self.bytes.extend(b"}(");
                for (key, value) in pairs {
                    self.write_text(key);
                    self.write(value);
                }
                self.bytes.push(b'u');
            }
        }
    }

    fn write_text(&mut self, text: &str) {
        if let Some(place) = self.known.iter().position(|known| known == text) {
            self.bytes.extend([b'h', place as u8]);
            return;
        }
        self.bytes.push(b'X');
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
        self.bytes.extend([b'q', self.known.len() as u8]);
        self.known.push(text.to_owned());
    }
}

/// Builds an entry as PyTorch 2.15 writes it.
fn entry(number: i64, name: &str, created: i64, elements: i64, is_retired: bool) -> Plain {
    let sizes = || Plain::List(vec![Plain::List(vec![Plain::Int(elements)])]);
    let dtypes = || Plain::List(vec![text("Float")]);
    let frame = |name: &str, file: &str, line: i64| {
        Plain::Dict(vec![
            ("name", text(name)),
            ("filename", text(file)),
            ("line", Plain::Int(line)),
        ])
    };
    Plain::Dict(vec![
        (
            "frames",
            Plain::List(vec![
                frame(
                    "all_reduce",
                    "/site/torch/distributed/distributed_c10d.py",
                    4174,
                ),
                frame("step", "/home/me/train.py", 31),
            ]),
        ),
        ("record_id", Plain::Int(number)),
        ("pg_id", Plain::Int(0)),
        (
            "process_group",
            Plain::Tuple(vec![text("0"), text("default_pg")]),
        ),
        ("collective_seq_id", Plain::Int(number)),
        ("p2p_seq_id", Plain::Int(0)),
        ("profiling_name", text(name)),
        ("time_created_ns", Plain::Int(created)),
        ("input_sizes", sizes()),
        ("input_dtypes", dtypes()),
        ("output_sizes", sizes()),
        ("output_dtypes", dtypes()),
        ("state", text("scheduled")),
        ("time_discovered_started_ns", Plain::Nothing),
        ("retired", Plain::Bool(is_retired)),
        ("timeout_ms", Plain::Int(1_800_000)),
        ("is_p2p", Plain::Bool(false)),
    ])
}

fn dump_of(entries: Vec<Plain>) -> Plain {
    let group = Plain::Dict(vec![
        ("name", text("")),
        ("desc", text("")),
        ("ranks", text("[0, 1]")),
    ]);
    let status = Plain::Dict(vec![
        ("last_enqueued_collective", Plain::Int(4)),
        ("last_started_collective", Plain::Int(-1)),
        ("last_completed_collective", Plain::Int(3)),
    ]);
    Plain::Dict(vec![
        ("version", text("2.10")),
        ("pg_config", Plain::Dict(vec![("", group)])),
        ("pg_status", Plain::Dict(vec![("0", status)])),
        ("entries", Plain::List(entries)),
    ])
}

fn pickled(entries: Vec<Plain>) -> Vec<u8> {
    PickleWriter::pickle(&dump_of(entries))
}

fn error_of(bytes: &[u8]) -> String {
    read(bytes).expect_err("refused").to_string()
}

#[test]
fn a_pickle_is_read_without_running_it() {
    let bytes = pickled(vec![
        entry(1, "gloo:all_reduce", 1_795_300_430_723_396_011, 10, true),
        entry(2, "nccl:send 0->1", 1_795_300_430_723_396_099, 4, false),
    ]);
    assert!(is_flight_dump(&bytes));
    let dump = read(&bytes[..]).expect("a dump");
    assert_eq!(
        (dump.version.as_str(), dump.groups[0].ranks.clone()),
        ("2.10", vec![0, 1])
    );
    assert_eq!(dump.completed[&0], 3);
    let [first, second] = &dump.entries[..] else {
        panic!("two entries")
    };
    assert_eq!(first.created, UnixNs(1_795_300_430_723_396_011));
    assert_eq!(first.kind, CollectiveKind::AllReduce);
    assert_eq!(dump.names.get(first.in_sizes), "[[10]]");
    assert_eq!((first.in_elements, first.out_elements), (10, 10));
    assert_eq!(dump.names.get(first.dtype), "Float");
    assert_eq!(dump.names.get(first.place), "train.py:31 step");
    assert_eq!(
        (first.state, first.is_done()),
        (FlightState::Scheduled, true)
    );
    assert_eq!((second.kind, second.peer), (CollectiveKind::Send, 1));
    assert!(!second.is_done());
    assert_eq!(dump.group_of(first).map(|group| group.ranks.len()), Some(2));
    assert!(!dump.anomalies.any(etlink_model::Severity::Info));
}

#[test]
fn json_says_the_same_as_the_pickle() {
    let json = r#"{"version": "2.10", "pg_config": {"": {"name": "", "desc": "", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_enqueued_collective": 4, "last_started_collective": -1,
        "last_completed_collective": 3}}, "entries": [{"frames": [
        {"name": "step", "filename": "C:\\me\\train.py", "line": 31}], "record_id": 1, "pg_id": 0,
        "process_group": ["0", "default_pg"], "collective_seq_id": 1, "p2p_seq_id": 0,
        "profiling_name": "gloo:all_reduce", "time_created_ns": 5, "input_sizes": [[10]],
        "input_dtypes": ["Float"], "output_sizes": [[10]], "output_dtypes": ["Float"],
        "state": "scheduled", "time_discovered_started_ns": null, "retired": true,
        "timeout_ms": 1800000, "is_p2p": false}]}"#;
    assert!(is_flight_dump(json.as_bytes()));
    let from_json = read(json.as_bytes()).expect("a dump");
    let bytes = pickled(vec![entry(1, "gloo:all_reduce", 5, 10, true)]);
    let from_pickle = read(&bytes[..]).expect("a dump");
    let said = |dump: &FlightDump| {
        let one = dump.entries[0];
        let names = [
            one.group_name,
            one.group_desc,
            one.name,
            one.in_sizes,
            one.dtype,
            one.place,
        ];
        let names = names.map(|name| dump.names.get(name).to_owned());
        (
            names,
            one.number,
            one.in_elements,
            one.is_retired,
            one.timeout_ms,
        )
    };
    assert_eq!(said(&from_json), said(&from_pickle));
    assert_eq!(from_json.groups, from_pickle.groups);
    assert_eq!(from_json.completed, from_pickle.completed);
}

#[test]
fn a_dump_that_is_cut_keeps_what_came_before() {
    let entries = |count: i64| {
        let all = (0..count).map(|number| entry(number, "gloo:all_reduce", 5, 10, true));
        all.collect::<Vec<Plain>>()
    };
    let bytes = pickled(entries(20));
    let whole = read(&bytes[..]).expect("a dump").entries.len();
    let mut most = 0;
    for cut in 60..bytes.len() - 1 {
        let Ok(dump) = read(&bytes[..cut]) else {
            continue;
        };
        assert_eq!(
            dump.anomalies.count(AnomalyKind::Truncated),
            1,
            "cut at {cut}"
        );
        let other = dump.anomalies.count(AnomalyKind::NamelessEntry);
        assert_eq!(other, 0, "cut at {cut}");
        assert!(
            dump.entries.len() >= most,
            "cut at {cut}: fewer than before"
        );
        most = dump.entries.len();
    }
    assert_eq!(most, whole);
    let json = br#"{"version": "2.10", "entries": [{"profiling_name": "nccl:barrier",
        "time_created_ns": 5}, {"profiling_name": "nccl:barr"#;
    let dump = read(&json[..]).expect("a dump");
    assert_eq!(
        (
            dump.entries.len(),
            dump.anomalies.count(AnomalyKind::Truncated)
        ),
        (1, 1)
    );
}

#[test]
fn what_versions_write_differently() {
    // version 1 has a single number, which some programs that merge dumps write as text
    let json = br#"{"version": "1.0", "entries": [{"profiling_name": "nccl:send 0->1",
        "time_created_ns": 5, "seq_id": "7", "is_p2p": true}]}"#;
    let dump = read(&json[..]).expect("a dump");
    let entry = &dump.entries[0];
    assert_eq!((entry.number, entry.is_message), (7, true));
}

#[test]
fn a_dump_without_entries_is_one_only_where_it_is_cut_behind_its_version() {
    let cut = read(&br#"{"version": "2.10", "pg_config": {"#[..]).expect("a dump");
    assert_eq!(cut.version, "2.10");
    assert!(error_of(br#"{"version": "2.10", "pg_config": {}}"#).contains("no \"entries\""));
    assert!(error_of(br#"{"pg_config": {"#).contains("no \"entries\""));
}

/// Source that fails like a truncated compressed file.
struct CutSource(&'static [u8]);

impl Read for CutSource {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(bytes)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

#[test]
fn a_source_that_fails_before_its_first_byte_is_an_error() {
    let empty = read(CutSource(b""));
    let error = empty.expect_err("no byte").to_string();
    assert!(error.starts_with("reading stopped at byte 0"), "{error}");
    let cut = read(CutSource(br#"{"version": "2.10", "entries": ["#)).expect("a dump");
    assert_eq!(cut.anomalies.count(AnomalyKind::SourceEnded), 1);
}

#[test]
fn a_pickle_that_would_call_code_is_refused_with_its_name() {
    let reduce = b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.";
    assert_eq!(
        error_of(reduce),
        "loading the file would call posix.system (byte 2), which PyTorch's own files never do; do not load it with Python, and check its origin. Give a dump of PyTorch's flight recorder (_dump_fr_trace, nccl_trace_rank_0)"
    );
    let stack_global = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.";
    assert!(error_of(stack_global).contains("would call builtins.eval (byte 18)"));
    let old = b"(ios\nsystem\n.";
    assert!(error_of(old).contains("would call os.system (byte 1)"));
    for code in [
        b"\x80\x02NR.",
        b"\x80\x02Nb.",
        b"\x80\x02No.",
        b"\x80\x02NQ.",
    ] {
        assert!(error_of(code).contains("would call "), "{code:?}");
    }
    // after a whole dump as well
    let mut hidden = pickled(vec![entry(1, "gloo:barrier", 5, 10, true)]);
    hidden.pop();
    hidden.extend(b"0cos\nsystem\n.");
    assert!(error_of(&hidden).contains("would call os.system"));
}

#[test]
fn what_a_pickle_would_call_is_named_without_control_characters() {
    let said = error_of(b"\x80\x02}X\x07\x00\x00\x00entriescos\n\x1b]0;pwn\x07\n.");
    assert!(!said.contains(char::is_control), "{said:?}");
    assert!(said.contains(r"would call os.\u{1b}]0;pwn\u{7} "), "{said}");
}

#[test]
fn pickles_and_chakra_graphs_of_others_are_no_dumps() {
    // a snapshot of CUDA's memory with a function of this name, protocol 4
    let snapshot =
        b"\x80\x04\x95\x9b\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]\x94\x8c\x0cload_entries\x94u.";
    assert!(!is_flight_dump(snapshot));
    // a Chakra message of 256 bytes
    assert!(!is_flight_dump(
        b"\x80\x02\x0a\x051.1.1\x0a\x14aten::lookup_entries"
    ));
    // `version` is a key of many programs
    assert!(!is_flight_dump(b"\x80\x02}(X\x07\0\0\0versionq\0K\x01u."));
    for dump in [
        // from PyTorch, from Python with protocols 2 and 4, and with a single key
        &b"\x80\x02}(X\x07\0\0\0versionq\0X\x04\0\0\x002.10q\x01X\x07\0\0\0entriesq\x02]u."[..],
        b"\x80\x02}q\0(X\x07\0\0\0entriesq\x01]q\x02u.",
        b"\x80\x04\x95\x12\0\0\0\0\0\0\0}\x94(\x8c\x07entries\x94]\x94u.",
        b"\x80\x02}X\x07\0\0\0entries]s.",
    ] {
        assert!(is_flight_dump(dump), "{dump:?}");
    }
}

#[test]
fn values_and_bad_entries_are_bounded() {
    let values = |count: usize| {
        let head = b"\x80\x02}X\x07\x00\x00\x00entries](";
        [&head[..], &b"N".repeat(count), b"es."].concat()
    };
    let dump = read(&values(100_000)[..]).expect("a dump");
    assert_eq!(
        dump.anomalies.count(AnomalyKind::NamelessEntry),
        MAX_BAD_ENTRIES
    );
    assert_eq!(dump.anomalies.count(AnomalyKind::Truncated), 1);
    let count = MAX_DUMP_VALUES as usize;
    for many in [
        values(count),
        [b"\x80\x02".to_vec(), b"(".repeat(count + 1)].concat(),
        [b"\x80\x02N".to_vec(), b"2".repeat(count + 1)].concat(),
        [&b"{\"entries\":["[..], &b"0,".repeat(count)].concat(),
        [&b"{\"entries\":"[..], &b"[".repeat(count + 1)].concat(),
    ] {
        assert!(error_of(&many).contains("has more than 10000000 values"));
    }
    let long = std::io::repeat(b' ').take(MAX_DUMP_BYTES + 1);
    let error = read(long).expect_err("too large").to_string();
    assert!(error.contains("is larger than"), "{error}");
}

#[test]
fn what_is_no_dump_is_refused() {
    assert!(error_of(b"\x80\x02}.").contains("no \"entries\" list found (4 bytes read)"));
    assert!(error_of(b"\x80\x02\xff").contains("byte 2 (0xff) is not a pickle instruction"));
    assert!(error_of(b"{}").contains("no \"entries\""));
    assert!(error_of(b"").contains("no \"entries\""));
    assert!(!is_flight_dump(br#"{"traceEvents": []}"#));
    assert!(!is_flight_dump(b"\x80\x02}."));
}

#[test]
fn claimed_lengths_and_depth_cost_nothing() {
    // strings of 4 GiB and of 2^63 bytes, whose contents are missing
    for head in [
        &b"\x80\x04X\xff\xff\xff\xff"[..],
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
    ] {
        assert!(read(head).is_err());
    }
    let deep = |open: &[u8]| [open.repeat(1_000_000), vec![b'.']].concat();
    drop(read(&deep(b"](")[..]));
    drop(read(&deep(b"(")[..]));
    drop(read(&deep(b"{\"a\":")[..]));
    drop(read(&[&b"{"[..], &deep(b"\"a\":[")].concat()[..]));
    // one list, referenced a million times
    let mut many = pickled(vec![]);
    many.truncate(many.len() - 3);
    many.extend(b"}(X\x06\x00\x00\x00framesq\xf0](");
    many.extend(b"}".repeat(100_000));
    many.extend(b"euq\xf1");
    many.extend(b"h\xf1".repeat(1_000_000));
    many.extend(b"eu.");
    let dump = read(&many[..]).expect("a dump");
    assert_eq!(dump.anomalies.count(AnomalyKind::Truncated), 1);
    assert!(dump.entries.is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(read(&bytes[..]));
        drop(read(&[&b"\x80\x02"[..], &bytes].concat()[..]));
        drop(read(&[&b"{"[..], &bytes].concat()[..]));
    }
}

/// Builds a trace that begins at Unix second 1, with the ops `c10d::…` at these milliseconds of it.
fn trace_of(ops: &[(&str, i64, &str)]) -> DeviceTrace {
    let mut trace = DeviceTrace::default();
    trace.header.base_ns = UnixNs(1_000_000_000);
    trace.header.groups = vec![ProcessGroup {
        name: "0".to_owned(),
        size: 2,
        ..ProcessGroup::default()
    }];
    for (name, at_ms, shapes) in ops {
        let op = CpuOp {
            name: trace.names.intern(name),
            start: TimeNs(at_ms * 1_000_000),
            duration: DurationNs(900_000),
            shapes: trace.names.intern(shapes),
            collective: u32::MAX,
            ..CpuOp::default()
        };
        trace.ops.push(op);
    }
    trace
}

fn ms(at: i64) -> i64 {
    1_000_000_000 + at * 1_000_000 + 400_000
}

#[test]
fn entries_are_the_ops_during_which_they_were_made() {
    let mut trace = trace_of(&[
        ("c10d::allreduce_", 0, "[[[10]], [], []]"),
        ("aten::add", 5, "[[10]]"),
        ("c10d::_reduce_scatter_base_", 10, "[[10], [20], [], []]"),
        ("c10d::allreduce_", 20, "[[[30]], [], []]"),
        ("c10d::barrier", 30, "[[1]]"),
    ]);
    let bytes = pickled(vec![
        entry(7, "gloo:all_reduce", ms(-500), 10, true),
        entry(8, "gloo:all_reduce", ms(0), 10, true),
        entry(9, "gloo:all_reduce", ms(10), 20, true),
        entry(10, "gloo:all_reduce", ms(20), 40, true),
        entry(11, "gloo:barrier", ms(30), 0, true),
    ]);
    let dump = read(&bytes[..]).expect("a dump");
    let matches = add_collectives(&mut trace, &dump);
    assert_eq!((matches.entries, matches.ops), (4, 4));
    assert_eq!(
        (matches.by_time, matches.by_order, matches.other_sizes),
        (3, 0, 1)
    );
    assert_eq!(trace.ops.collective, [0, u32::MAX, 1, u32::MAX, 2]);
    let record = trace.collectives.row(0);
    assert_eq!(
        (record.seq, record.in_elements, record.group_size),
        (8, 10, 2)
    );
    assert_eq!(trace.names.get(record.group_ranks), "[0, 1]");
    assert_eq!(trace.names.get(record.group_name), "0");
    let scattered = trace.collectives.row(1);
    assert_eq!(scattered.kind(&trace.names), CollectiveKind::ReduceScatter);
    assert_eq!((scattered.in_elements, scattered.out_elements), (20, 10));
}

#[test]
fn calls_that_are_closer_than_clocks_are_exact_keep_their_order() {
    let mut trace = trace_of(&[
        ("c10d::allreduce_", 0, ""),
        ("c10d::allreduce_", 1, ""),
        ("c10d::allreduce_", 2, ""),
    ]);
    let at = |at: i64| 1_000_000_000 + at;
    let bytes = pickled(vec![
        entry(1, "gloo:all_reduce", at(850_000), 10, true),
        entry(2, "gloo:all_reduce", at(1_050_000), 20, true),
        entry(3, "gloo:all_reduce", at(2_100_000), 30, true),
    ]);
    let dump = read(&bytes[..]).expect("a dump");
    let matches = add_collectives(&mut trace, &dump);
    assert_eq!((matches.by_time, matches.by_order), (1, 2));
    assert_eq!(trace.collectives.in_elements, [10, 20, 30]);
}

#[test]
fn a_dump_of_another_run_is_not_taken() {
    let mut trace = trace_of(&[("c10d::allreduce_", 0, "[[[10]]]")]);
    let bytes = pickled(vec![entry(1, "gloo:all_reduce", ms(3_600_000), 10, true)]);
    let dump = read(&bytes[..]).expect("a dump");
    let matches = add_collectives(&mut trace, &dump);
    assert!(matches.is_other_run);
    assert!(trace.collectives.is_empty());
}

#[test]
fn what_a_group_has_completed_has_ended() {
    let bytes = pickled(vec![
        entry(3, "nccl:_all_gather_base", 5, 10, false),
        entry(4, "nccl:_all_gather_base", 6, 10, false),
    ]);
    let dump = read(&bytes[..]).expect("a dump");
    let ended: Vec<bool> = dump
        .entries
        .iter()
        .map(|entry| dump.has_ended(entry))
        .collect();
    // `last_completed_collective` of the group is 3
    assert_eq!(ended, [true, false]);
}
