//! Columns as they are written and read.

use super::column::{Coding, NumberList, write_numbers};
use proptest::prelude::*;

fn written(coding: Coding, numbers: &[i64]) -> String {
    let mut out = vec![];
    write_numbers(&mut out, coding, numbers.iter().copied()).expect("writes");
    String::from_utf8(out).expect("text")
}

fn read(text: &str) -> NumberList {
    serde_json::from_str(text).expect("a list")
}

#[test]
fn runs_and_differences() {
    for (coding, numbers, text) in [
        (Coding::Plain, &[5, 5, 5, 7][..], "[5,5,5,7]"),
        (Coding::Plain, &[-1, -1, -1, -1, 0], "[[-1,4],0]"),
        (Coding::Delta, &[10, 11, 12, 13, 14], "[10,[1,4]]"),
        (Coding::Delta, &[7, 5], "[7,-2]"),
        (Coding::Plain, &[], "[]"),
    ] {
        assert_eq!(written(coding, numbers), text);
    }
    // a run says how much memory it takes, and no file says more than it has bytes for
    assert_eq!(
        written(Coding::Plain, &[3; 600]),
        "[[3,255],[3,255],[3,90]]"
    );
    assert!(serde_json::from_str::<NumberList>("[[3,256]]").is_err());
}

#[test]
fn other_lengths_are_refused() {
    assert_eq!(
        read("[1,[2,4]]").numbers(Coding::Plain, 5),
        Some(vec![1, 2, 2, 2, 2])
    );
    for rows in [0, 4, 6] {
        assert_eq!(read("[1,[2,4]]").numbers(Coding::Plain, rows), None);
    }
    for text in ["[1.5]", "[\"1\"]", "[[1]]", "{}", "[18446744073709551615]"] {
        assert!(serde_json::from_str::<NumberList>(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn numbers_come_back(
        numbers in prop::collection::vec(
            prop_oneof![Just(0i64), Just(1), Just(i64::MIN), any::<i64>()],
            0..40,
        ),
    ) {
        for coding in [Coding::Plain, Coding::Delta] {
            let list = read(&written(coding, &numbers));
            prop_assert_eq!(list.numbers(coding, numbers.len()), Some(numbers.clone()));
        }
    }
}
