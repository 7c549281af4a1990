//! A trace as text, with the places of the numbers that change between repetitions.

use anyhow::{Context, Result};
use etlink_json::micros_to_ns;
use regex::Regex;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::{self, Write};
use std::ops::Range;

/// Meaning of a number. Numbers of one family are shifted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFamily {
    /// Ids of host trace nodes: `id`, `ctrl_deps`, `parent`, `fw_parent`.
    Node,
    /// Ids of op calls: `rf_id`, `Record function id`, `External id`.
    Function,
    /// Autograd's `seq_id`, `Sequence number`.
    Sequence,
    /// `correlation`, and the `id` of flows, which equals the correlation of the joined events.
    Correlation,
    /// `Ev Idx`.
    Event,
    /// `Python id`, `Python parent id`.
    Python,
    /// The number of a `ProfilerStep#`.
    Step,
    /// A point in time, ns.
    Time,
    /// Id of a root, which is not repeated.
    Root,
}

const FAMILIES: usize = NumberFamily::Root as usize + 1;

/// Keys of a trace's numbers, with the least number that is an id; below it there is none.
pub(super) type NumberKeys = &'static [(&'static str, NumberFamily, i64)];

/// Keys of a host trace's nodes (schema 1.0.1), or of their `attrs`. Ids of tensors and storages
/// are unchanged: a training loop reuses their memory.
pub(super) const HOST_KEYS: NumberKeys = &[
    ("id", NumberFamily::Node, 1),
    ("ctrl_deps", NumberFamily::Node, 1),
    // Schema 1.0.1 has `parent`; later ones call it `ctrl_deps`.
    ("parent", NumberFamily::Node, 1),
    ("fw_parent", NumberFamily::Node, 1),
    ("rf_id", NumberFamily::Function, 1),
    ("seq_id", NumberFamily::Sequence, 0),
];

/// Keys of a Kineto event and its `args` (`output_json.cpp`).
// 0 is not a valid id, except that the first event, sequence and Python call are numbered 0.
pub(super) const DEVICE_KEYS: NumberKeys = &[
    ("ts", NumberFamily::Time, i64::MIN),
    ("id", NumberFamily::Correlation, 1),
    ("External id", NumberFamily::Function, 1),
    ("external id", NumberFamily::Function, 1),
    ("Record function id", NumberFamily::Function, 1),
    ("correlation", NumberFamily::Correlation, 1),
    (
        "wait_on_cuda_event_record_corr_id",
        NumberFamily::Correlation,
        1,
    ),
    ("Sequence number", NumberFamily::Sequence, 0),
    ("Ev Idx", NumberFamily::Event, 0),
    ("Python id", NumberFamily::Python, 0),
    ("Python parent id", NumberFamily::Python, 0),
];

/// Name prefix of the nodes of the process and of threads, which are not repeated.
const ROOT: &str = "\"[pytorch|profiler|execution_trace|";

/// A number in the text.
#[derive(Clone, Debug)]
struct NumberPlace {
    at: Range<usize>,
    family: NumberFamily,
    value: i64,
}

/// An element of the array, with the text between it and the previous one.
#[derive(Clone, Debug)]
struct ArrayElement {
    text: Range<usize>,
    places: Vec<NumberPlace>,
    once: bool,
}

/// A document that is mostly one array.
#[derive(Debug, Default)]
pub(super) struct TraceText {
    text: String,
    elements: Vec<ArrayElement>,
    /// First start and last end of the elements with a duration, ns.
    window: Option<(i64, i64)>,
}

/// The array of a trace.
#[derive(Deserialize)]
struct Elements<'t> {
    #[serde(borrow, alias = "traceEvents")]
    nodes: Vec<&'t RawValue>,
}

/// Returns the places of a trace's elements in its text.
pub(super) fn element_places(text: &str) -> Result<Vec<Range<usize>>> {
    let trace: Elements<'_> =
        serde_json::from_str(text).context("only undamaged traces can be repeated")?;
    let place = |element: &&RawValue| {
        let start = element.get().as_ptr().addr() - text.as_ptr().addr();
        start..start + element.get().len()
    };
    Ok(trace.nodes.iter().map(place).collect())
}

impl TraceText {
    /// Finds the elements of the trace, and the numbers with these keys in them.
    pub(super) fn new(text: Vec<u8>, keys: NumberKeys) -> Result<TraceText> {
        let text = String::from_utf8(text)?;
        let names: Vec<&str> = keys.iter().map(|key| key.0).collect();
        let numbers = Regex::new(&format!(
            r#""(?<key>{})"(?:, "type": "\w+", "value")?:\s*"?(?<number>-?[\d.]+)(?:"?,\s*"dur":\s*(?<length>[\d.]+))?|"name":\s*"ProfilerStep#(?<step>\d+)"#,
            names.join("|")
        ))?;
        let mut found = TraceText::default();
        let (mut roots, mut from) = (vec![], None);
        for element in element_places(&text)? {
            let mut places = vec![];
            let once = text[element.clone()].contains(ROOT);
            for number in numbers.captures_iter(&text[element.clone()]) {
                let Some(digits) = number.name("number").or(number.name("step")) else {
                    continue;
                };
                let key = number.name("key").map(|key| key.as_str());
                let (_, family, least) = keys
                    .iter()
                    .find(|(name, ..)| Some(*name) == key)
                    .copied()
                    .unwrap_or(("", NumberFamily::Step, 0));
                let value = if family == NumberFamily::Time {
                    micros_to_ns(digits.as_str().as_bytes())
                } else {
                    digits.as_str().parse().ok()
                };
                let Some(value) = value.filter(|value| *value >= least) else {
                    continue;
                };
                if once && key == Some("id") {
                    roots.push(value);
                }
                let length = number
                    .name("length")
                    .and_then(|length| micros_to_ns(length.as_str().as_bytes()));
                if let Some(length) = length {
                    let end = value.saturating_add(length);
                    let (first, last) = found.window.unwrap_or((value, end));
                    found.window = Some((first.min(value), last.max(end)));
                }
                places.push(NumberPlace {
                    at: element.start + digits.start()..element.start + digits.end(),
                    family,
                    value,
                });
            }
            // The comma belongs to the element after it, so that any number of elements can be
            // written.
            let text = from.unwrap_or(element.start)..element.end;
            from = Some(element.end);
            found.elements.push(ArrayElement { text, places, once });
        }
        // References to a root refer to the same one in all repetitions.
        for place in found.elements.iter_mut().flat_map(|one| &mut one.places) {
            if place.family == NumberFamily::Node && roots.contains(&place.value) {
                place.family = NumberFamily::Root;
            }
        }
        found.text = text;
        Ok(found)
    }

    /// Returns the size of the text, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Writes the document with its elements repeated `times` times.
    pub(super) fn write(
        &self,
        times: u32,
        steps: &FamilySteps,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (Some(first), Some(last)) = (self.elements.first(), self.elements.last()) else {
            return out.write_all(self.text.as_bytes());
        };
        out.write_all(&self.text.as_bytes()[..first.text.start])?;
        for time in 0..i64::from(times) {
            for (index, element) in self
                .elements
                .iter()
                .enumerate()
                // A second root of a thread would be a second thread.
                .filter(|(_, element)| time == 0 || !element.once)
            {
                // The text of the first element has no leading comma.
                if time > 0 && index == 0 {
                    out.write_all(b",")?;
                }
                self.write_element(element, time, steps, out)?;
            }
        }
        out.write_all(&self.text.as_bytes()[last.text.end..])
    }

    fn write_element(
        &self,
        element: &ArrayElement,
        time: i64,
        steps: &FamilySteps,
        out: &mut impl Write,
    ) -> io::Result<()> {
        // The first repetition is the recording itself, byte for byte.
        if time == 0 {
            return out.write_all(&self.text.as_bytes()[element.text.clone()]);
        }
        let mut from = element.text.start;
        for place in &element.places {
            out.write_all(&self.text.as_bytes()[from..place.at.start])?;
            from = place.at.end;
            let value = place.value + time * steps.0[place.family as usize];
            if place.family == NumberFamily::Time {
                write_micros(value, out)?;
            } else {
                write!(out, "{value}")?;
            }
        }
        out.write_all(&self.text.as_bytes()[from..element.text.end])
    }
}

/// Shift of each family per repetition.
#[derive(Clone, Debug)]
pub struct FamilySteps([i64; FAMILIES]);

impl FamilySteps {
    /// Returns the smallest shifts that suit both traces of a pair.
    pub(super) fn new(documents: &[&TraceText]) -> Result<FamilySteps> {
        let mut by = [0; FAMILIES];
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        let elements = documents.iter().flat_map(|document| &document.elements);
        for place in elements.flat_map(|element| &element.places) {
            let by = &mut by[place.family as usize];
            match place.family {
                NumberFamily::Root | NumberFamily::Time => {}
                NumberFamily::Step => {
                    (least, most) = (least.min(place.value), most.max(place.value));
                    *by = most - least + 1;
                }
                // One more than the largest id, so that the next repetition begins with a new one.
                _ => *by = place.value.saturating_add(1).max(*by),
            }
        }
        for (start, end) in documents.iter().filter_map(|document| document.window) {
            // Whole milliseconds keep the decimals of all times as written.
            const MS: i64 = 1_000_000;
            let length = end
                .checked_sub(start)
                .context("the trace's times span more than 292 years")?;
            // a gap of at least a millisecond, so that repetitions never touch
            by[NumberFamily::Time as usize] = (length / MS + 2) * MS;
        }
        Ok(FamilySteps(by))
    }
}

/// Writes nanoseconds in Kineto's notation, as microseconds.
pub(super) fn write_micros(ns: i64, out: &mut impl Write) -> io::Result<()> {
    let sign = if ns < 0 { "-" } else { "" };
    write!(
        out,
        "{sign}{}.{:03}",
        ns.unsigned_abs() / 1000,
        ns.unsigned_abs() % 1000
    )
}
