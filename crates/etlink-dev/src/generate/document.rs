//! A trace as text, with the places of the numbers that change between repetitions.

use anyhow::{Context, Result, bail};
use etlink_json::{
    ArrayLayout, BrokenJson, ChunkReader, JsonScanner, JsonValue, micros_to_ns, parse_int,
};
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
    /// A duration, ns; it is not shifted.
    Duration,
    /// Id of a root, which is not repeated.
    Root,
}

const FAMILIES: usize = NumberFamily::Root as usize + 1;

/// A number's place in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberPlace {
    pub(super) at: usize,
    pub(super) length: u32,
    pub(super) family: NumberFamily,
    pub(super) value: i64,
}

/// An element of the array, with the text between it and the previous one.
#[derive(Clone, Debug)]
pub(super) struct ArrayElement {
    pub(super) text: Range<usize>,
    pub(super) places: Range<usize>,
    once: bool,
}

/// A document that is mostly one array.
#[derive(Debug, Default)]
pub(super) struct TraceText {
    pub(super) text: Vec<u8>,
    pub(super) elements: Vec<ArrayElement>,
    pub(super) places: Vec<NumberPlace>,
    /// First start and last end of the elements with a duration, ns.
    pub(super) window: Option<(i64, i64)>,
}

/// Shift of each family per repetition.
#[derive(Clone, Debug, Default)]
pub struct FamilySteps {
    by: [i64; FAMILIES],
    first_step: Option<i64>,
}

impl FamilySteps {
    /// Enlarges the shifts to fit `document` too.
    pub(super) fn include(&mut self, document: &TraceText) -> Result<()> {
        for family in [
            NumberFamily::Node,
            NumberFamily::Function,
            NumberFamily::Sequence,
            NumberFamily::Correlation,
            NumberFamily::Event,
            NumberFamily::Python,
        ] {
            let after = document
                .values(family)
                .max()
                // One more than the largest id, so that the next repetition begins with a new one.
                .map_or(0, |max| max.saturating_add(1));
            self.by[family as usize] = self.by[family as usize].max(after);
        }
        // Both traces of a pair contain the steps, and shift by the longer list.
        let first = document
            .values(NumberFamily::Step)
            .chain(self.first_step)
            .min();
        let before = self
            .first_step
            .map(|first| first + self.by[NumberFamily::Step as usize] - 1);
        let last = document.values(NumberFamily::Step).chain(before).max();
        self.by[NumberFamily::Step as usize] =
            first.zip(last).map_or(0, |(first, last)| last - first + 1);
        self.first_step = first;
        if let Some((start, end)) = document.window {
            // Whole milliseconds keep the decimals of all times as written.
            const MS: i64 = 1_000_000;
            let length = end
                .checked_sub(start)
                .context("the trace's times span more than 292 years")?;
            // a gap of at least a millisecond, so that repetitions never touch
            self.by[NumberFamily::Time as usize] = (length / MS + 2) * MS;
        }
        Ok(())
    }
}

impl TraceText {
    /// Finds the elements of the array `key`; `read` walks an element and notes its numbers.
    pub(super) fn new(
        text: Vec<u8>,
        key: &'static str,
        read: impl Fn(&mut NumberFinder<'_>) -> Result<(), BrokenJson>,
    ) -> Result<TraceText> {
        let start = ChunkReader::open(
            &text[..],
            ArrayLayout {
                array: key,
                first_keys: &[],
                chunk_bytes: 1 << 16,
            },
        )?
        .header()
        .len();
        let mut found = TraceText::default();
        let mut finder = NumberFinder {
            scanner: JsonScanner::new(&text[start..]),
            offset: start,
            places: vec![],
            window: None,
            root: None,
        };
        let mut roots = vec![];
        loop {
            let from = start + finder.scanner.pos();
            // The comma belongs to the element after it, so that any number of elements can be
            // written.
            while finder.scanner.eat(b',') {}
            if finder.scanner.peek() == Some(b']') {
                break;
            }
            let first_place = finder.places.len();
            let read = finder.scanner.enter().and_then(|()| read(&mut finder));
            if read.is_err() || finder.scanner.repaired() {
                // The places of numbers in a repaired element are uncertain.
                bail!("damaged at byte {from}: only undamaged traces can be repeated");
            }
            let root = finder.root.take();
            roots.extend(root);
            let (text, places) = (
                from..start + finder.scanner.pos(),
                first_place..finder.places.len(),
            );
            found.elements.push(ArrayElement {
                text,
                places,
                once: root.is_some(),
            });
        }
        (found.places, found.window) = (finder.places, finder.window);
        // References to a root refer to the same one in all repetitions.
        for place in found
            .places
            .iter_mut()
            .filter(|place| place.family == NumberFamily::Node && roots.contains(&place.value))
        {
            place.family = NumberFamily::Root;
        }
        found.text = text;
        Ok(found)
    }

    /// Iterates over the values of a family's numbers.
    fn values(&self, family: NumberFamily) -> impl Iterator<Item = i64> {
        let places = self.places.iter();
        let of_family = places.filter(move |place| place.family == family);
        of_family.map(|place| place.value)
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
            return out.write_all(&self.text);
        };
        out.write_all(&self.text[..first.text.start])?;
        for time in 0..i64::from(times) {
            for (index, element) in self
                .elements
                .iter()
                .enumerate()
                // A second root of a thread would be a second thread.
                .filter(|(_, element)| time == 0 || !element.once)
            {
                // The first element follows the bracket, so its text has no leading comma.
                if time > 0 && index == 0 {
                    out.write_all(b",")?;
                }
                self.write_element(element, time, steps, out)?;
            }
        }
        out.write_all(&self.text[last.text.end..])
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
            return out.write_all(&self.text[element.text.clone()]);
        }
        let mut from = element.text.start;
        for place in &self.places[element.places.clone()] {
            out.write_all(&self.text[from..place.at])?;
            from = place.at + place.length as usize;
            let value = place.value + time * steps.by[place.family as usize];
            if matches!(place.family, NumberFamily::Time | NumberFamily::Duration) {
                write_micros(value, out)?;
            } else {
                write!(out, "{value}")?;
            }
        }
        out.write_all(&self.text[from..element.text.end])
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

/// Walks an element and notes the places of its numbers.
pub(super) struct NumberFinder<'a> {
    /// Scanner inside the element.
    pub(super) scanner: JsonScanner<'a>,
    offset: usize,
    places: Vec<NumberPlace>,
    window: Option<(i64, i64)>,
    root: Option<i64>,
}

impl<'a> NumberFinder<'a> {
    /// Reads a value of this family; it is an id if it is at least `least`, otherwise there is
    /// none.
    pub(super) fn number(
        &mut self,
        family: NumberFamily,
        least: i64,
    ) -> Result<Option<i64>, BrokenJson> {
        let (at, value) = self.value()?;
        let number = parse_int(value.raw());
        if let Some(number) = number.filter(|number| *number >= least) {
            self.note(at, value.raw(), family, number);
        }
        Ok(number)
    }

    /// Reads a time in microseconds; returns nanoseconds.
    pub(super) fn time(&mut self) -> Result<Option<i64>, BrokenJson> {
        self.micros(NumberFamily::Time)
    }

    /// Reads a value in microseconds; returns nanoseconds.
    pub(super) fn micros(&mut self, family: NumberFamily) -> Result<Option<i64>, BrokenJson> {
        let (at, value) = self.value()?;
        let ns = micros_to_ns(value.raw());
        if let Some(ns) = ns {
            self.note(at, value.raw(), family, ns);
        }
        Ok(ns)
    }

    /// Reads a name; notes the number in `ProfilerStep#7`.
    pub(super) fn name(&mut self) -> Result<&'a [u8], BrokenJson> {
        let (at, value) = self.value()?;
        const STEP: &[u8] = b"ProfilerStep#";
        if let Some(digits) = value.raw().strip_prefix(STEP)
            && let Some(number) = parse_int(digits)
        {
            self.note(at + STEP.len(), digits, NumberFamily::Step, number);
        }
        Ok(value.raw())
    }

    /// Extends the window by a range from `start` to `end`, ns.
    pub(super) fn lasts(&mut self, start: i64, end: i64) {
        let (first, last) = self.window.unwrap_or((start, end));
        self.window = Some((first.min(start), last.max(end)));
    }

    /// Marks the element as a root with this id.
    pub(super) fn is_root(&mut self, id: i64) {
        self.root = Some(id);
    }

    /// Reads a value; also returns the position of its first character.
    fn value(&mut self) -> Result<(usize, JsonValue<'a>), BrokenJson> {
        // Skips blanks, so that the position is the value's own.
        self.scanner.peek();
        let at = self.offset + self.scanner.pos();
        let value = self.scanner.value()?;
        // The quote of a text is not part of the number in it.
        Ok((at + usize::from(matches!(value, JsonValue::Text(_))), value))
    }

    fn note(&mut self, at: usize, text: &[u8], family: NumberFamily, value: i64) {
        self.places.push(NumberPlace {
            at,
            length: text.len() as u32,
            family,
            value,
        });
    }
}
