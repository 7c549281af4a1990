use super::gzip::Gzip;
use flate2::{Compression, GzBuilder, bufread::MultiGzDecoder};
use std::io::{BufReader, Cursor, ErrorKind, Read, Write};

/// Bytes read from a source, and the error that ended it.
type Outcome = (Vec<u8>, Option<(ErrorKind, String)>);

fn drain(mut source: impl Read, step: usize) -> Outcome {
    let (mut all, mut buffer) = (vec![], vec![0; step]);
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return (all, None),
            Ok(read) => all.extend_from_slice(&buffer[..read]),
            Err(error) => return (all, Some((error.kind(), error.to_string()))),
        }
    }
}

/// Inflates in steps of different sizes, and checks that the results are equal.
fn inflated(stored: &[u8]) -> Outcome {
    let stored = || Cursor::new(stored.to_vec());
    let one = drain(Gzip::new(Box::new(stored())), 64 << 10);
    let small = BufReader::with_capacity(37, stored());
    assert!(
        drain(Gzip::new(Box::new(small)), 777) == one,
        "in small pieces"
    );
    one
}

fn serially(stored: &[u8]) -> Outcome {
    drain(MultiGzDecoder::new(stored), 64 << 10)
}

fn text(bytes: usize) -> Vec<u8> {
    let lines = (0u64..).map(|i| {
        format!(
            "{{\"ph\": \"X\", \"name\": \"n{}\", \"ts\": {}}},\n",
            i % 97,
            i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        )
    });
    lines.flat_map(String::into_bytes).take(bytes).collect()
}

fn member(text: &[u8], level: u32) -> Vec<u8> {
    let mut packed = GzBuilder::new()
        .filename("a")
        .comment("b")
        .write(vec![], Compression::new(level));
    packed.write_all(text).expect("packs");
    packed.finish().expect("packs")
}

/// Packs like bgzip, with an empty block at the end.
fn bgzf(text: &[u8]) -> Vec<u8> {
    let block = |text: &[u8]| {
        let mut packed = GzBuilder::new()
            .extra(*b"BC\x02\0\0\0")
            .write(vec![], Compression::fast());
        packed.write_all(text).expect("packs");
        let mut packed = packed.finish().expect("packs");
        let size = packed.len() as u16 - 1;
        packed[16..18].copy_from_slice(&size.to_le_bytes());
        packed
    };
    text.chunks(65280)
        .chain([&b""[..]])
        .flat_map(block)
        .collect()
}

#[test]
fn members_of_all_sizes_give_their_text() {
    let text = text(5 << 20);
    let many = |sizes: &[usize]| {
        let (mut stored, mut rest, mut sizes) = (vec![], &text[..], sizes.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().expect("sizes")));
            stored.extend(member(now, 1));
            rest = later;
        }
        stored
    };
    let large = text.len() / 2;
    for stored in [
        bgzf(&text),
        many(&[100, 0, 3000]),
        many(&[300_000, 0, 0]),
        many(&[70_000, 70_000, 1 << 20, 2 << 20]),
        many(&[large]),
    ] {
        assert!(inflated(&stored) == (text.clone(), None));
    }
    assert_eq!(inflated(&bgzf(b"")), (vec![], None));
}

#[test]
fn a_cut_gives_what_is_before_it() {
    let text = text(700_000);
    let stored = bgzf(&text);
    for cut in (19..stored.len()).step_by(stored.len() / 40) {
        let found = inflated(&stored[..cut]);
        let (given, error) = serially(&stored[..cut]);
        assert!(found.0 == given && text.starts_with(&given), "cut at {cut}");
        assert_eq!(found.1, error, "cut at {cut}");
    }
}

#[test]
fn damage_gives_what_is_before_it() {
    let text = text(1_500_000);
    for stored in [bgzf(&text), member(&text, 6)] {
        for at in (3..stored.len()).step_by(stored.len() / 50) {
            let mut stored = stored.clone();
            stored[at] ^= 0x55;
            let (given, error) = inflated(&stored);
            let (least, expected) = serially(&stored);
            assert!(given.starts_with(&least), "flipped at {at}");
            assert_eq!(error, expected, "flipped at {at}");
        }
    }
}

#[test]
fn zeros_behind_the_last_member_are_no_damage() {
    let text = text(300_000);
    for stored in [bgzf(&text), member(&text, 6)] {
        for zeros in [1, 9, 512, 300_000] {
            assert!(inflated(&[&stored[..], &vec![0; zeros]].concat()) == (text.clone(), None));
        }
        for garbage in [
            &b"garbage that is long"[..],
            b"\0\0\0\0garbage that is long",
            b"\0\x1f\x8b\x08 a member behind zeros",
        ] {
            let stored = [&stored[..], garbage].concat();
            assert_eq!(
                serially(&stored).1,
                Some((ErrorKind::InvalidInput, "invalid gzip header".into()))
            );
            assert!(inflated(&stored) == serially(&stored));
        }
        let stored = [&stored[..], b"short"].concat();
        assert!(inflated(&stored) == serially(&stored));
    }
}

#[test]
fn a_source_that_fails_gives_what_is_before_it() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(ErrorKind::PermissionDenied.into())
        }
    }
    let text = text(700_000);
    let stored = bgzf(&text);
    let source = BufReader::new(Cursor::new(stored[..stored.len() - 5000].to_vec()).chain(Fails));
    let (given, error) = drain(Gzip::new(Box::new(source)), 4096);
    assert!(given == serially(&stored[..stored.len() - 5000]).0);
    assert_eq!(
        error.map(|error| error.0),
        Some(ErrorKind::PermissionDenied)
    );
}
