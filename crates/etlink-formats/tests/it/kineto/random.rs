//! Random damage: reading never panics and never depends on the number of threads.

use crate::kineto::support::{dump, events, read_with};
use etlink_formats::kineto::KinetoReadOptions;
use etlink_testing::{DeviceQueue, KinetoFlavour, ParamComms, TraceBuilder};
use proptest::prelude::*;

fn program(count: i64) -> Vec<u8> {
    let mut draw = TraceBuilder::new(KinetoFlavour::Cuda);
    let main = draw.thread();
    for at in 0..count {
        let start = at * 10_000;
        draw.op(main, "aten::mm", start, start + 9_000);
        draw.launch(
            main,
            (start + 1_000, start + 2_000),
            DeviceQueue::stream(7),
            "gemm<int, 4>",
            (start + 5_000, start + 8_000),
        );
        if at % 7 == 0 {
            draw.collective(
                main,
                &ParamComms::new("allreduce", 0..4, 1, at),
                start + 2_000,
                start + 3_000,
            );
        }
    }
    draw.kineto()
}

#[derive(Clone, Debug)]
enum Change {
    Set(u8),
    Remove(usize),
    Insert(&'static str),
    Cut,
}

fn change() -> impl Strategy<Value = Change> {
    let texts = [
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "nan",
        "-1.-500",
        "\"ph\"",
        "null,",
        "}, {\"ph\": \"X\"",
        "\n",
        "\u{fffd}",
    ];
    prop_oneof![
        6 => any::<u8>().prop_map(Change::Set),
        4 => (1usize..400).prop_map(Change::Remove),
        8 => prop::sample::select(texts.to_vec()).prop_map(Change::Insert),
        1 => Just(Change::Cut),
    ]
}

fn damaged(mut text: Vec<u8>, changes: &[(prop::sample::Index, Change)]) -> Vec<u8> {
    for (place, change) in changes {
        if text.is_empty() {
            break;
        }
        let at = place.index(text.len());
        match change {
            Change::Set(byte) => text[at] = *byte,
            Change::Remove(length) => drop(text.drain(at..(at + length).min(text.len()))),
            Change::Insert(piece) => drop(text.splice(at..at, piece.bytes())),
            Change::Cut => text.truncate(at),
        }
    }
    text
}

fn at_threads(text: &[u8], threads: usize) -> Option<String> {
    etlink_formats::kineto::read(
        text,
        KinetoReadOptions {
            threads,
            shapes: true,
            keep: etlink_model::KeepEvents::Auxiliary,
        },
    )
    .ok()
    .map(|trace| dump(&trace))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    })]

    #[test]
    fn a_small_file(
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 1..12),
    ) {
        let text = damaged(program(4), &changes);
        prop_assert_eq!(at_threads(&text, 1), at_threads(&text, 3));
    }

    #[test]
    fn one_change_costs_few_events(place in any::<prop::sample::Index>(), change in change()) {
        let whole = program(30);
        let list = whole.len() / 50;
        let at = list + place.index(whole.len() - 2 * list);
        let text = match change {
            Change::Cut => return Ok(()),
            Change::Set(byte) => [&whole[..at], &[byte], &whole[at + 1..]].concat(),
            Change::Remove(_) => [&whole[..at], &whole[at + 1..]].concat(),
            Change::Insert(piece) => [&whole[..at], piece.as_bytes(), &whole[at..]].concat(),
        };
        let (before, after) = (events(&read_with(&whole, 1)), events(&read_with(&text, 1)));
        prop_assert!(
            after + 3 >= before,
            "{after} of {before} events, changed at {at}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(24)
    })]

    #[test]
    fn a_file_of_several_chunks(
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 1..30),
    ) {
        let mut changes = changes;
        changes.retain(|(_, change)| !matches!(change, Change::Cut));
        let text = damaged(program(600), &changes);
        prop_assert!(at_threads(&text, 1) == at_threads(&text, 3));
    }
}
