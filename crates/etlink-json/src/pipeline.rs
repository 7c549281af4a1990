//! Parses a document's chunks on several threads and merges the results in order.

use crate::chunk::FirstKeys;
use crate::{
    ArrayLayout, BrokenJson, ChunkReader, JsonReadError, JsonScanner, MAX_ELEMENT_BYTES,
    ReadDamage, TextChunk,
};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::io::Read;

/// Text around the array, and the damage found while reading.
#[derive(Debug, Default)]
pub struct ArrayEnvelope {
    /// Text before the first element.
    pub header: Vec<u8>,
    /// Text after the array's closing bracket.
    pub trailer: Vec<u8>,
    /// Length of the document, in bytes.
    pub bytes: u64,
    /// Repairs and losses.
    pub damage: ReadDamage,
}

/// Memory that passes from chunk to chunk, so that it is allocated once.
#[derive(Default)]
struct SpareMemory<T> {
    text: Vec<u8>,
    value: T,
}

/// Result of parsing one chunk.
struct ParsedChunk<T> {
    value: T,
    damage: ReadDamage,
    end: ChunkEnd,
    chunk: TextChunk,
}

/// End of the elements in a chunk.
enum ChunkEnd {
    /// The elements end with the chunk.
    Consumed,
    /// The array's `]` precedes this position.
    Array(usize),
    /// The element that begins here continues past the chunk.
    Inside(usize),
}

/// Reads all elements of a document's array.
///
/// `parse` is called once per element, with a scanner positioned after the element's `{`, and has
/// to advance it past the element's `}`. It must not keep any part of an element for which it
/// returns an error, because the element may be offered a second time for repair. `merge` receives
/// the values of the chunks in file order, so the result does not depend on `threads`. It has to
/// leave its value as good as new, because the value is reused for a later chunk. The `threads`
/// threads take turns: each reads (and decompresses) a chunk, then parses it.
///
/// # Errors
/// See [`JsonReadError`]. A source that ends early (truncated gzip) is not an error; [`ReadDamage`]
/// reports it.
pub fn read_elements<R, T>(
    source: R,
    layout: ArrayLayout,
    threads: usize,
    parse: impl Fn(&mut T, &mut JsonScanner<'_>) -> Result<(), BrokenJson> + Sync,
    merge: impl FnMut(&mut T),
) -> Result<ArrayEnvelope, JsonReadError>
where
    R: Read + Send,
    T: Default + Send,
{
    let mut cutter = ChunkReader::open(source, layout)?;
    let envelope = ArrayEnvelope {
        header: cutter.header().to_vec(),
        ..ArrayEnvelope::default()
    };
    let elements = ElementParser {
        first_keys: cutter.first_keys().clone(),
        parse,
    };
    let mut merger = ChunkMerger {
        envelope,
        carry: None,
        after: false,
        elements: &elements,
        merge,
    };
    // A single thread needs no channels, and its memory stays in the cache.
    if threads <= 1 {
        let mut spare = SpareMemory::default();
        while let Some(chunk) = cutter.next(spare.text)? {
            spare = merger.take(elements.parse_chunk(chunk, spare.value, false))?;
        }
    } else {
        in_threads(
            &mut cutter,
            threads,
            |chunk, value| elements.parse_chunk(chunk, value, false),
            |parsed| merger.take(parsed),
        )?;
    }
    let mut envelope = merger.envelope;
    envelope.damage.source_error = cutter.source_error().map(str::to_owned);
    Ok(envelope)
}

/// Chunk to parse, value to parse it into, and the channel that takes the result.
type ChunkJob<T> = (TextChunk, T, Sender<ParsedChunk<T>>);

/// Unread part of a document, from which threads take chunks.
struct ChunkSource<'c, R, T> {
    cutter: &'c mut ChunkReader<R>,
    /// Channel that orders the results as the chunks; `None` after the last chunk.
    order: Option<Sender<Receiver<ParsedChunk<T>>>>,
}

impl<R: Read, T> ChunkSource<'_, R, T> {
    /// Returns the next chunk and the channel for its result.
    fn next(&mut self, spare: SpareMemory<T>) -> Result<Option<ChunkJob<T>>, JsonReadError> {
        let Some(order) = &self.order else {
            return Ok(None);
        };
        // The chunk takes its place in line before it is parsed. This alone fixes the order of the
        // merge.
        let (reply, parsed) = bounded(1);
        let next = self.cutter.next(spare.text);
        match next {
            Ok(Some(chunk)) if order.send(parsed).is_ok() => Ok(Some((chunk, spare.value, reply))),
            // Dropping the sender ends the merging thread's loop once it has taken all results.
            ended => {
                self.order = None;
                ended.map(|_| None)
            }
        }
    }
}

/// Lets each thread in turn read (and decompress) a chunk, then parse it; the calling thread
/// merges.
fn in_threads<R: Read + Send, T: Default + Send>(
    cutter: &mut ChunkReader<R>,
    threads: usize,
    work: impl Fn(TextChunk, T) -> ParsedChunk<T> + Sync,
    mut take: impl FnMut(ParsedChunk<T>) -> Result<SpareMemory<T>, JsonReadError>,
) -> Result<(), JsonReadError> {
    // The bound on `order` limits memory: it is the maximum number of chunks in flight.
    let (spare_in, spare_out) = bounded::<SpareMemory<T>>(4 * threads);
    let (order_in, order_out) = bounded::<Receiver<ParsedChunk<T>>>(2 * threads);
    let source = std::sync::Mutex::new(ChunkSource {
        cutter,
        order: Some(order_in),
    });
    let (work, source) = (&work, &source);
    std::thread::scope(|scope| {
        let mut workers = vec![];
        for _ in 0..threads {
            let spare_out = spare_out.clone();
            let thread = std::thread::Builder::new();
            let spawned = thread.spawn_scoped(scope, move || -> Result<(), JsonReadError> {
                loop {
                    let next = source
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .next(spare_out.try_recv().unwrap_or_default());
                    let Some((chunk, value, reply)) = next? else {
                        return Ok(());
                    };
                    // Sending fails only if the merging thread has given up; nobody needs the
                    // result then.
                    drop(reply.send(work(chunk, value)));
                }
            });
            match spawned {
                Ok(worker) => workers.push(worker),
                // A limit of the process was reached; fewer threads do the same work.
                Err(_) if !workers.is_empty() => break,
                Err(source) => return Err(JsonReadError::NoThread { source }),
            }
        }
        let merged = order_out
            .into_iter()
            .filter_map(|reply| reply.recv().ok())
            .try_for_each(|parsed| {
                // If the channel is full, enough memory is in circulation, and this piece is freed.
                drop(spare_in.try_send(take(parsed)?));
                Ok(())
            });
        // The merge's error takes precedence: workers may have stopped only because of it.
        workers.into_iter().fold(merged, |done, worker| {
            done.and(
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        })
    })
}

/// Parser of the elements of chunks.
struct ElementParser<F> {
    first_keys: FirstKeys,
    parse: F,
}

impl<F> ElementParser<F> {
    fn parse_chunk<T>(&self, chunk: TextChunk, mut value: T, joined: bool) -> ParsedChunk<T>
    where
        F: Fn(&mut T, &mut JsonScanner<'_>) -> Result<(), BrokenJson>,
    {
        let mut damage = ReadDamage::default();
        let text = &chunk.text;
        let mut scanner = JsonScanner::new(text);
        let end = loop {
            while scanner.eat(b',') {}
            let start = scanner.pos();
            let read = match scanner.peek() {
                None => break ChunkEnd::Consumed,
                // A stray `]` between elements does not end the array if elements follow it.
                Some(b']') if closes_array(text, start) => break ChunkEnd::Array(start + 1),
                Some(b'{') => self
                    .element(&mut value, &mut scanner, start)
                    .map(|repaired| damage.repaired += u64::from(repaired)),
                Some(_) => self
                    .skip_non_object(&mut scanner)
                    .map(|()| damage.not_objects += 1),
            };
            let here = Some(chunk.offset + start as u64);
            let Err(broken) = read else {
                if scanner.repaired() {
                    damage.first_offset = damage.first_offset.or(here);
                }
                continue;
            };
            let next = self.after_damage(text, start, broken);
            // Damage that reaches the end of the chunk may come from the chunk's border. It is
            // judged after the next chunk has been joined.
            if broken.at >= text.len() && (next.is_none() || !(joined || chunk.last)) {
                break ChunkEnd::Inside(start);
            }
            damage.first_offset = damage.first_offset.or(here);
            damage.skipped += 1;
            match next.or_else(|| array_end(text, broken.at)) {
                Some(next) => scanner.restart(next, false),
                None => break ChunkEnd::Consumed,
            }
        };
        ParsedChunk {
            value,
            damage,
            end,
            chunk,
        }
    }

    /// Skips a value that is not an object. Fails at a stray bracket, which would otherwise appear
    /// to hold all elements up to the end of the array.
    fn skip_non_object(&self, scanner: &mut JsonScanner<'_>) -> Result<(), BrokenJson> {
        let broken = BrokenJson { at: scanner.pos() };
        let value = scanner.value()?;
        match self.first_keys.next_anchor(value.raw(), 0) {
            Some(_) => Err(broken),
            None => scanner.end_element(),
        }
    }

    /// Returns the position at which to resume after the element or other text that begins at
    /// `start`.
    fn after_damage(&self, text: &[u8], start: usize, broken: BrokenJson) -> Option<usize> {
        if text[start] != b'{' {
            return self.first_keys.next_begin(text, start + 1);
        }
        // An element that was never closed breaks at the start of the next one.
        if broken.at > start && self.first_keys.begins(text, broken.at) {
            return Some(broken.at);
        }
        self.first_keys.next_anchor(text, start + 1)
    }

    /// Parses the element at `start`, if necessary a second time in careful mode. Returns true if a
    /// string was repaired.
    fn element<T>(
        &self,
        value: &mut T,
        scanner: &mut JsonScanner<'_>,
        start: usize,
    ) -> Result<bool, BrokenJson>
    where
        F: Fn(&mut T, &mut JsonScanner<'_>) -> Result<(), BrokenJson>,
    {
        // The first attempt trusts quotes that are followed by structure, as in all valid JSON.
        scanner.restart(start + 1, false);
        if (self.parse)(value, scanner).is_ok() {
            return Ok(scanner.repaired());
        }
        scanner.restart(start + 1, true);
        (self.parse)(value, scanner).map(|()| true)
    }
}

/// Returns true if the `]` at `at` can close the array: only the rest of the document's object may
/// follow.
fn closes_array(text: &[u8], at: usize) -> bool {
    match text[at + 1..].trim_ascii_start().split_first() {
        None | Some((b'}', _)) => true,
        Some((b',', rest)) => rest.trim_ascii_start().first() != Some(&b'{'),
        Some(_) => false,
    }
}

/// Returns the first position at or after `from` at which the array seems to end: `}` and a `]`
/// that can close it.
fn array_end(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let brackets = memchr::memchr_iter(b']', rest).map(|at| from + at);
    brackets
        .into_iter()
        .find(|&at| text[..at].trim_ascii_end().ends_with(b"}") && closes_array(text, at))
}

/// Merger of the chunks' values, in order.
struct ChunkMerger<'e, F, M> {
    envelope: ArrayEnvelope,
    /// Element truncated at the end of its chunk, with its offset.
    carry: Option<(u64, Vec<u8>)>,
    after: bool,
    elements: &'e ElementParser<F>,
    merge: M,
}

impl<F, M> ChunkMerger<'_, F, M> {
    /// Takes the next chunk's values and returns the memory for reuse.
    fn take<T: Default>(
        &mut self,
        mut parsed: ParsedChunk<T>,
    ) -> Result<SpareMemory<T>, JsonReadError>
    where
        F: Fn(&mut T, &mut JsonScanner<'_>) -> Result<(), BrokenJson>,
        M: FnMut(&mut T),
    {
        self.envelope.bytes = parsed.chunk.offset + parsed.chunk.text.len() as u64;
        if self.after {
            self.append_trailer(&parsed.chunk, 0);
            return Ok(SpareMemory {
                text: parsed.chunk.text,
                value: T::default(),
            });
        }
        if let Some((offset, mut text)) = self.carry.take() {
            // An element across a border is parsed again here, in the one thread that sees both
            // parts.
            text.extend_from_slice(&parsed.chunk.text);
            if text.len() > MAX_ELEMENT_BYTES {
                return Err(JsonReadError::TooLarge { offset });
            }
            // The values of the first parse are dropped with all their state, which depends on the
            // threads.
            parsed = self.elements.parse_chunk(
                TextChunk {
                    offset,
                    text,
                    last: parsed.chunk.last,
                },
                T::default(),
                true,
            );
        }
        (self.merge)(&mut parsed.value);
        self.envelope.damage.add(parsed.damage);
        match parsed.end {
            ChunkEnd::Array(at) => {
                self.after = true;
                self.append_trailer(&parsed.chunk, at);
            }
            ChunkEnd::Inside(at) if !parsed.chunk.last => {
                self.carry = Some((
                    parsed.chunk.offset + at as u64,
                    parsed.chunk.text[at..].to_vec(),
                ));
            }
            // Without a `]` in the last chunk, the document is truncated.
            ChunkEnd::Inside(_) | ChunkEnd::Consumed => {
                self.envelope.damage.truncated |= parsed.chunk.last
            }
        }
        Ok(SpareMemory {
            text: parsed.chunk.text,
            value: parsed.value,
        })
    }

    /// Appends text after the array to the trailer, up to [`MAX_ELEMENT_BYTES`]; longer text is not
    /// a trailer.
    fn append_trailer(&mut self, chunk: &TextChunk, at: usize) {
        let room = MAX_ELEMENT_BYTES.saturating_sub(self.envelope.trailer.len());
        self.envelope
            .trailer
            .extend(chunk.text[at..].iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, threads: usize) -> (Vec<String>, ArrayEnvelope) {
        let layout = ArrayLayout {
            array: "list",
            first_keys: &["ph"],
            chunk_bytes: 64,
        };
        let mut all: Vec<String> = vec![];
        let envelope = read_elements(
            text.as_bytes(),
            layout,
            threads,
            |out: &mut Vec<String>, scanner| {
                let mut name = String::new();
                while let Some(key) = scanner.key()? {
                    let value = scanner.value()?;
                    if key == b"name" {
                        name = value.text().into_owned();
                    }
                }
                out.push(name);
                Ok(())
            },
            |part| all.append(part),
        )
        .expect("reads");
        (all, envelope)
    }

    fn document(count: usize, entry: impl Fn(usize) -> String) -> String {
        let list: Vec<String> = (0..count).map(entry).collect();
        format!("{{\"a\": 1, \"list\": [{}], \"z\": 2}}", list.join(",\n"))
    }

    fn clean(i: usize) -> String {
        format!(r#"{{"ph": "X", "name": "n{i}", "args": {{"x": [{{"ph": 1}},{{"ph": 2}}]}}}}"#)
    }

    #[test]
    fn order_does_not_depend_on_threads() {
        let text = document(30_000, clean);
        let (one, envelope) = read(&text, 1);
        assert_eq!(one.len(), 30_000);
        assert_eq!(one[29_999], "n29999");
        assert_eq!(envelope.damage, ReadDamage::default());
        assert_eq!(envelope.trailer, b", \"z\": 2}");
        assert_eq!(envelope.bytes, text.len() as u64);
        assert_eq!(read(&text, 3).0, one);
    }

    #[test]
    fn every_cut_gives_the_whole_elements_before_it() {
        let text = document(5, |i| {
            format!(r#"{{"ph": "X", "name": "n{i}", "args": {{"x": [1, "}}]"]}}}}"#)
        });
        let ends: Vec<usize> = memchr::memmem::find_iter(text.as_bytes(), r#""]}}"#)
            .map(|at| at + 4)
            .collect();
        assert_eq!(ends.len(), 5);
        for cut in text.find('[').expect("list") + 1..=ends[4] {
            let (names, envelope) = read(&text[..cut], 1);
            assert_eq!(
                names.len(),
                ends.iter().filter(|end| **end <= cut).count(),
                "cut at {cut}"
            );
            assert!(envelope.damage.truncated, "cut at {cut}");
        }
    }

    #[test]
    fn one_bad_element_costs_one_element() {
        let text = document(20_000, |i| {
            if i == 7_000 {
                r#"{"ph": "X" "name" oops, {{{"#.to_owned() + "}"
            } else {
                clean(i)
            }
        });
        let (names, envelope) = read(&text, 2);
        assert_eq!((names.len(), envelope.damage.skipped), (19_999, 1));
        assert_eq!(
            envelope.damage.first_offset,
            text.find(r#"{"ph": "X" "name""#).map(|at| at as u64)
        );
    }

    #[test]
    fn a_bad_element_across_a_border_is_told_where_it_begins() {
        // The first chunk holds 128 KiB of text and ends inside the bad element.
        let text = document(600, |i| {
            if i == 500 {
                let inner = vec![r#"{"ph": 1}"#; 11_000].join(",");
                format!(r#"{{"ph": "bad", "args": [{inner}], oops}}"#)
            } else {
                clean(i)
            }
        });
        let bad = text.find(r#"{"ph": "bad""#).map(|at| at as u64);
        for threads in [1, 2] {
            let damage = read(&text, threads).1.damage;
            assert_eq!((damage.skipped > 0, damage.first_offset), (true, bad));
        }
    }

    #[test]
    fn an_element_that_never_closes_costs_one_element() {
        let text = document(20_000, |i| {
            if i == 7_000 {
                r#"{"ph": "X", "name": "open, {"#.to_owned() + "}"
            } else {
                clean(i)
            }
        });
        let (names, envelope) = read(&text, 2);
        assert_eq!(envelope.damage.skipped, 1);
        assert!(names.len() >= 19_998);
    }

    #[test]
    fn a_bad_last_element_does_not_hide_the_end() {
        let text = document(3, |i| {
            if i == 2 {
                r#"{"ph" "X", "name": [1]}"#.to_owned()
            } else {
                clean(i)
            }
        });
        let (names, envelope) = read(&text, 1);
        assert_eq!(
            (
                names.len(),
                envelope.damage.skipped,
                envelope.damage.truncated
            ),
            (2, 1, false)
        );
        assert_eq!(envelope.trailer, b", \"z\": 2}");
    }

    #[test]
    fn text_between_elements_costs_no_element() {
        for garbage in ["}", "]x", "[", "oops }, {", "\"x\": 1}"] {
            let text = document(20_000, |i| {
                if i == 7_000 {
                    garbage.to_owned()
                } else {
                    clean(i)
                }
            });
            let (names, envelope) = read(&text, 2);
            assert_eq!(
                (names.len(), envelope.damage.skipped),
                (19_999, 1),
                "{garbage}"
            );
        }
    }

    #[test]
    fn an_element_without_its_brace_costs_itself_alone() {
        let text = document(50, |i| {
            if i % 10 == 5 {
                r#"{"ph": "s", "name": "flow""#.to_owned()
            } else {
                clean(i)
            }
        });
        let (names, envelope) = read(&text, 1);
        assert_eq!(
            (
                names.len(),
                envelope.damage.skipped,
                envelope.damage.repaired
            ),
            (45, 5, 0)
        );
    }

    #[test]
    fn any_text_may_stand_behind_the_list() {
        let text = document(10, clean) + &"{\"ph\": 1},\n".repeat(MAX_ELEMENT_BYTES / 11);
        let (names, envelope) = read(&text, 2);
        assert_eq!(
            (names.len(), envelope.trailer.len()),
            (10, MAX_ELEMENT_BYTES)
        );
    }

    #[test]
    fn what_is_not_an_object_is_counted() {
        let text = r#"{"list": [null, {"ph": 1, "name": "a"}, 3, [1], {"ph": 1, "name": "b"}]}"#;
        let (names, envelope) = read(text, 1);
        assert_eq!((names.len(), envelope.damage.not_objects), (2, 3));
    }
}
