//! Checks that etlink's scanner, simd-json and serde_json read the same values from a valid
//! document.
#![cfg(test)]

use etlink_json::{ArrayLayout, BrokenJson, JsonScanner, JsonValue, read_elements, scan_fields};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Converts a scanned value to serde_json's type, recursively: test documents are shallow.
fn value(scanned: JsonValue<'_>) -> Value {
    match scanned {
        JsonValue::Text(_) => Value::String(scanned.text().into_owned()),
        JsonValue::Word(word) => serde_json::from_slice(word).expect("a number or a word"),
        JsonValue::Nested(text) => {
            let mut scanner = JsonScanner::new(text);
            if scanner.peek() == Some(b'{') {
                scanner.enter().expect("an object");
                Value::Object(object(&mut scanner).expect("keys and values"))
            } else {
                assert!(scanner.eat(b'['));
                let mut items = vec![];
                while let Some(item) = scanner.item().expect("an item") {
                    items.push(value(item));
                }
                Value::Array(items)
            }
        }
    }
}

/// Reads the rest of the current object. The last of repeated keys counts.
fn object(scanner: &mut JsonScanner<'_>) -> Result<Map<String, Value>, BrokenJson> {
    let mut object = Map::new();
    while let Some(key) = scanner.key()? {
        let key = etlink_json::unescape(key).into_owned();
        object.insert(key, value(scanner.value()?));
    }
    Ok(object)
}

/// Reads the document with etlink's reader.
fn scanned(text: &[u8], threads: usize, chunk_bytes: usize) -> Value {
    let layout = ArrayLayout {
        array: "list",
        first_keys: &["ph", "name"],
        chunk_bytes,
    };
    let mut elements = vec![];
    let envelope = read_elements(
        text,
        layout,
        threads,
        |part: &mut Vec<Value>, scanner| {
            part.push(Value::Object(object(scanner)?));
            scanner.end_element()
        },
        |part| elements.append(part),
    )
    .expect("reads");
    assert_eq!(envelope.damage, etlink_json::ReadDamage::default());
    let mut document = Map::new();
    for around in [&envelope.header, &envelope.trailer] {
        let scan = scan_fields(around, |key, field| {
            let key = etlink_json::unescape(key).into_owned();
            document.insert(key, value(field));
        });
        assert_eq!(scan, etlink_json::FieldScan::default());
    }
    document.insert("list".to_owned(), Value::Array(elements));
    Value::Object(document)
}

fn string() -> impl Strategy<Value = String> {
    let pieces = [
        "aten::mm", "\"", "\\", "/", "\n", "\t", "\u{0}", "\u{1f}", "\u{7f}", "é", "日本", "🦀",
        "{", "}", "[", "]", ",", ":", "\"ph\":", "{\"ph\"", "},{", "nan", " ",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..5).prop_map(|all| all.concat())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // All parsers round these alike. For others, serde_json is off by one unit in the last
        // place.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        (-1_000_000i64..1_000_000).prop_map(|n| Value::from(n as f64 / 1_000.0)),
        string().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((string(), inner), 0..4)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

/// Draws an object of the array whose first key is one that chunks can be split at.
fn element() -> impl Strategy<Value = Value> {
    let rest = prop::collection::vec((string(), json()), 0..4);
    (string(), rest).prop_map(|(phase, rest)| {
        let mut object = Map::new();
        object.insert("ph".to_owned(), Value::from(phase));
        object.extend(rest);
        Value::Object(object)
    })
}

fn document() -> impl Strategy<Value = Value> {
    let around = (json(), json());
    (around, prop::collection::vec(element(), 0..12)).prop_map(|((before, after), list)| {
        let mut object = Map::new();
        object.insert("before".to_owned(), before);
        object.insert("list".to_owned(), Value::from(list));
        object.insert("after".to_owned(), after);
        Value::Object(object)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    })]

    #[test]
    fn all_parsers_agree(
        document in document(),
        pretty in any::<bool>(),
        chunk_bytes in 64usize..2_000,
    ) {
        let text = if pretty {
            serde_json::to_vec_pretty(&document)
        } else {
            serde_json::to_vec(&document)
        }
        .expect("JSON");
        let by_serde: Value = serde_json::from_slice(&text).expect("JSON");
        let mut copy = text.clone();
        let by_simd: Value = simd_json::serde::from_slice(&mut copy).expect("JSON");
        prop_assert_eq!(&by_simd, &by_serde);
        prop_assert_eq!(
            &etlink_json::from_slice::<Value>(&text).expect("JSON"),
            &by_serde
        );
        for threads in [1, 3] {
            prop_assert_eq!(&scanned(&text, threads, chunk_bytes), &by_serde);
        }
    }

    #[test]
    fn all_parsers_agree_on_times(ns in any::<i64>()) {
        // As Kineto writes them: whole microseconds and three decimals.
        let mut text = vec![];
        etlink_json::write::micros(&mut text, ns).expect("writes");
        prop_assert_eq!(
            etlink_json::micros_to_ns(&text),
            Some(ns).filter(|ns| *ns > i64::MIN)
        );
        // As floats: serde_json rounds some numbers with this many digits incorrectly.
        let by_simd: f64 = simd_json::serde::from_slice(&mut text.clone()).expect("a number");
        let text = String::from_utf8(text).expect("utf8");
        prop_assert_eq!(by_simd, text.parse::<f64>().expect("a number"));
    }
}
