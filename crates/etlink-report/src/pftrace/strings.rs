//! Resolves strings by number, and arguments that refer to them.

use crate::pftrace::schema::{DebugAnnotation, InternedData, InternedString};
use etlink_json::write::{number, text};

/// Strings of a sequence. etlink numbers each kind consecutively from 1.
#[derive(Debug, Default)]
pub(crate) struct SequenceStrings {
    names: Vec<String>,
    categories: Vec<String>,
    keys: Vec<String>,
    /// Text arguments: odd numbers from 3.
    texts: Vec<String>,
    /// Arguments that contain JSON: even numbers from 2.
    json_texts: Vec<String>,
}

impl SequenceStrings {
    /// Adds the strings that a packet defines.
    pub(crate) fn learn(&mut self, data: InternedData) -> Result<(), String> {
        for (known, list) in [
            (&mut self.names, data.event_names),
            (&mut self.categories, data.event_categories),
            (&mut self.keys, data.debug_annotation_names),
        ] {
            for string in list {
                let number = string.iid();
                learn_string(known, number, string)?;
            }
        }
        for string in data.debug_annotation_string_values {
            let iid = string.iid();
            let known = match iid % 2 {
                0 => &mut self.json_texts,
                _ => &mut self.texts,
            };
            learn_string(known, iid / 2, string)?;
        }
        Ok(())
    }

    pub(crate) fn name(&self, iid: Option<u64>) -> Result<&str, String> {
        known_string(&self.names, iid.unwrap_or(0))
    }

    pub(crate) fn category(&self, iid: Option<u64>) -> Result<&str, String> {
        known_string(&self.categories, iid.unwrap_or(0))
    }

    /// Returns the key of an argument.
    pub(crate) fn key<'a>(&'a self, annotation: &'a DebugAnnotation) -> Result<&'a str, String> {
        match &annotation.name {
            Some(name) => Ok(name),
            None => known_string(&self.keys, annotation.name_iid()),
        }
    }

    /// Appends arguments as a JSON object.
    pub(crate) fn put_object(
        &self,
        out: &mut Vec<u8>,
        entries: &[DebugAnnotation],
    ) -> Result<(), String> {
        out.push(b'{');
        for (place, entry) in entries.iter().enumerate() {
            out.extend_from_slice(if place > 0 { b", " } else { b"" });
            put_text(out, self.key(entry)?)?;
            out.extend_from_slice(b": ");
            self.put_value(out, entry)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// Returns the value of an argument as JSON.
    pub(crate) fn value_text(&self, annotation: &DebugAnnotation) -> Result<String, String> {
        let mut value = vec![];
        self.put_value(&mut value, annotation)?;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    fn put_value(&self, out: &mut Vec<u8>, annotation: &DebugAnnotation) -> Result<(), String> {
        let Some(iid) = annotation.string_value_iid else {
            let has_value = put_plain_value(out, annotation)?;
            let missing = || "an argument has no value".to_owned();
            return has_value.then_some(()).ok_or_else(missing);
        };
        if iid % 2 == 1 {
            return put_text(out, known_string(&self.texts, iid / 2)?);
        }
        let json = known_string(&self.json_texts, iid / 2)?;
        out.extend_from_slice(json.as_bytes());
        Ok(())
    }
}

/// Appends the value of an argument that is a text, a number or a flag. Returns false for others.
pub(crate) fn put_plain_value(
    out: &mut Vec<u8>,
    argument: &DebugAnnotation,
) -> Result<bool, String> {
    let written = if let Some(value) = &argument.string_value {
        text(out, value)
    } else if let Some(value) = argument.int_value {
        number(out, value)
    } else if let Some(value) = argument.uint_value {
        number(out, value)
    } else if let Some(value) = argument.bool_value {
        number(out, value)
    } else if let Some(value) = argument.double_value.filter(|value| value.is_finite()) {
        // The shortest text with this value, which is the text it was read from.
        out.extend_from_slice(format!("{value:?}").as_bytes());
        Ok(())
    } else {
        return Ok(false);
    };
    written.map_err(|error| error.to_string())?;
    Ok(true)
}

pub(crate) fn put_text(out: &mut Vec<u8>, value: &str) -> Result<(), String> {
    text(out, value).map_err(|error| error.to_string())
}

pub(crate) fn put_number(out: &mut Vec<u8>, value: i64) -> Result<(), String> {
    number(out, value).map_err(|error| error.to_string())
}

fn learn_string(
    known: &mut Vec<String>,
    number: u64,
    string: InternedString,
) -> Result<(), String> {
    // Any other number means damage, and may exceed the memory.
    if number != known.len() as u64 + 1 {
        return Err(format!("string {number} is out of order"));
    }
    known.push(string.name.unwrap_or_default());
    Ok(())
}

/// Returns the string of a number; 0 is the empty string.
fn known_string(known: &[String], number: u64) -> Result<&str, String> {
    if number == 0 {
        return Ok("");
    }
    let string = usize::try_from(number - 1)
        .ok()
        .and_then(|at| known.get(at));
    let string = string.ok_or_else(|| format!("no earlier packet has string {number}"))?;
    Ok(string)
}
