//! Walks the objects and lists around the events.

use etlink_json::{JsonScanner, JsonValue};

/// Calls `field` with each key and value of an object. A string that contains an object is accepted
/// too, because on-demand traces quote objects and lists.
pub(crate) fn object<'a>(value: JsonValue<'a>, mut field: impl FnMut(&'a [u8], JsonValue<'a>)) {
    let mut scanner = JsonScanner::new(value.raw());
    if scanner.enter().is_err() {
        return;
    }
    while let Ok(Some(key)) = scanner.key() {
        let Ok(value) = scanner.value() else { return };
        field(key, value);
    }
}

/// Calls `item` with each entry of a list.
pub(crate) fn list<'a>(value: JsonValue<'a>, mut item: impl FnMut(JsonValue<'a>)) {
    let mut scanner = JsonScanner::new(value.raw());
    if scanner.eat(b'[') {
        while let Ok(Some(value)) = scanner.item() {
            item(value);
        }
    }
}
