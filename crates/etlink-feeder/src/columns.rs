//! Columns of numbers: in memory, or in pages of a scratch file with a bounded number of pages in
//! memory.
//!
//! ```text
//! column ──> extents of 1, 1, 2, 4, 8 … pages in a row ──> page of the file ──> set ──> frame
//! ```
//! So a column needs only some forty numbers to find its pages, however long it is. A page may be
//! in any of the few frames of its set, which follows from its number, so a lookup checks only
//! these frames. The least recently used frame of the set makes room for another page.

use std::fmt::{Debug, Formatter};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;

const PAGE_BYTES: usize = 4096;
/// Bytes of a frame: its page, its entry in the list, and the allocator's overhead.
const FRAME_BYTES: usize = PAGE_BYTES + 64;
/// Frames per set, if there are enough.
const WAYS: usize = 8;
/// Number of extent sizes; each extent has a power of two of consecutive pages.
const EXTENT_KINDS: usize = 48;
/// Marks a frame without a page.
const EMPTY: u64 = u64::MAX;

/// A file with reads and writes at any offset, such as `std::fs::File`, or a `Cursor` of a `Vec`.
///
/// Its previous contents are lost. No other program may write to it.
pub trait ScratchFile: Read + Write + Seek + Send {}

impl<F: Read + Write + Seek + Send> ScratchFile for F {}

/// Failure of the scratch file.
#[derive(Debug)]
pub(crate) struct ScratchError(pub(crate) Error);

/// Type of the numbers in a column, with a fixed size in bytes.
pub(crate) trait Value: Copy + Debug {
    /// Size in bytes, a power of two: no number spans two pages.
    const BYTES: usize;

    /// Decodes a number from the first bytes.
    fn from_page(bytes: &[u8]) -> Self;
    /// Encodes the number into the first bytes.
    fn to_page(self, bytes: &mut [u8]);
}

macro_rules! whole_number {
    ($number:ty) => {
        impl Value for $number {
            const BYTES: usize = size_of::<$number>();

            fn from_page(bytes: &[u8]) -> $number {
                let mut own = [0; size_of::<$number>()];
                own.copy_from_slice(&bytes[..size_of::<$number>()]);
                <$number>::from_le_bytes(own)
            }

            fn to_page(self, bytes: &mut [u8]) {
                bytes[..size_of::<$number>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

whole_number!(u32);
whole_number!(u64);

/// A sequence of numbers. Belongs to the storage that filled it.
#[derive(Debug)]
pub(crate) struct Column<T> {
    len: usize,
    /// The numbers, if they are in memory.
    values: Vec<T>,
    /// First page of each extent, if they are in the scratch file.
    extents: Vec<u64>,
}

impl<T> Default for Column<T> {
    fn default() -> Column<T> {
        Column {
            len: 0,
            values: vec![],
            extents: vec![],
        }
    }
}

/// Returns the extent that contains a page of a column, and the page's position in it.
fn extent_of(page: usize) -> (usize, u64) {
    match page.checked_ilog2() {
        None => (0, 0),
        Some(power) => (power as usize + 1, (page - (1 << power)) as u64),
    }
}

impl<T: Value> Column<T> {
    /// Numbers per page.
    const PER_PAGE: usize = PAGE_BYTES / T::BYTES;

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the page in the file, and the offset of the number in it, bytes.
    #[inline]
    fn page(&self, at: usize) -> Result<(u64, usize), ScratchError> {
        let (extent, offset) = extent_of(at / Self::PER_PAGE);
        match self.extents.get(extent) {
            Some(begin) if at < self.len => Ok((begin + offset, at % Self::PER_PAGE * T::BYTES)),
            // a number overwritten by another program may lead anywhere
            _ => Err(ScratchError(Error::new(
                ErrorKind::InvalidData,
                "another program has written to it",
            ))),
        }
    }
}

/// Storage of all columns.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Pages of the scratch file; `None` if all columns are in memory, where nothing fails.
    pages: Option<Pages>,
}

impl Storage {
    /// Storage in memory.
    pub(crate) const MEMORY: Storage = Storage { pages: None };

    /// Creates a storage in `file` that uses at most `memory_bytes` for pages, but at least one
    /// page. `most_bytes` is an upper bound of all columns together.
    pub(crate) fn with_scratch(
        file: impl ScratchFile + 'static,
        memory_bytes: usize,
        most_bytes: u64,
    ) -> Storage {
        let most_bytes = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        let count = (memory_bytes.min(most_bytes) / FRAME_BYTES).max(1);
        let ways = count.min(WAYS);
        let mut frames = vec![];
        frames.resize_with(count / ways * ways, Frame::default);
        let pages = Pages {
            file: Box::new(file),
            ways,
            frames,
            uses: 0,
            given: 0,
            free: vec![vec![]; EXTENT_KINDS],
            has_failed: false,
        };
        Storage { pages: Some(pages) }
    }

    /// Returns the number of pages in memory.
    #[cfg(test)]
    pub(crate) fn pages_in_memory(&self) -> usize {
        let frames = self.pages.iter().flat_map(|pages| &pages.frames);
        frames.filter(|frame| frame.bytes.is_some()).count()
    }

    /// Fails once the scratch file has failed, since columns may then be partly changed.
    pub(crate) fn check(&self) -> Result<(), ScratchError> {
        match &self.pages {
            Some(pages) if pages.has_failed => Err(ScratchError(Error::other(
                "it failed before; open the graph again",
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the number at a place.
    #[inline]
    pub(crate) fn get<T: Value>(
        &mut self,
        column: &Column<T>,
        at: usize,
    ) -> Result<T, ScratchError> {
        let Some(pages) = &mut self.pages else {
            return Ok(column.values[at]);
        };
        let (page, offset) = column.page(at)?;
        let frame = pages.frame(page)?;
        Ok(T::from_page(&pages.bytes(frame)[offset..]))
    }

    /// Overwrites the number at an existing place.
    #[inline]
    pub(crate) fn set<T: Value>(
        &mut self,
        column: &mut Column<T>,
        at: usize,
        value: T,
    ) -> Result<(), ScratchError> {
        let Some(pages) = &mut self.pages else {
            column.values[at] = value;
            return Ok(());
        };
        let (page, offset) = column.page(at)?;
        let frame = pages.frame(page)?;
        pages.frames[frame].is_changed = true;
        value.to_page(&mut pages.bytes(frame)[offset..]);
        Ok(())
    }

    /// Appends a number.
    #[inline]
    pub(crate) fn push<T: Value>(
        &mut self,
        column: &mut Column<T>,
        value: T,
    ) -> Result<(), ScratchError> {
        let Some(pages) = &mut self.pages else {
            column.values.push(value);
            column.len += 1;
            return Ok(());
        };
        if column.len.is_multiple_of(Column::<T>::PER_PAGE) {
            pages.add_page(column)?;
        }
        column.len += 1;
        self.set(column, column.len - 1, value)
    }

    /// Extends a column to `len` numbers.
    pub(crate) fn extend<T: Value>(
        &mut self,
        column: &mut Column<T>,
        len: usize,
        value: T,
    ) -> Result<(), ScratchError> {
        while column.len < len {
            self.push(column, value)?;
        }
        Ok(())
    }

    /// Removes all numbers from `len` on, but keeps the room.
    pub(crate) fn truncate<T: Value>(&mut self, column: &mut Column<T>, len: usize) {
        column.len = column.len.min(len);
        column.values.truncate(len);
    }

    /// Removes and returns the last number.
    pub(crate) fn pop<T: Value>(
        &mut self,
        column: &mut Column<T>,
    ) -> Result<Option<T>, ScratchError> {
        let Some(last) = column.len.checked_sub(1) else {
            return Ok(None);
        };
        let value = self.get(column, last)?;
        self.truncate(column, last);
        Ok(Some(value))
    }

    /// Adds to the number at a place, and returns the sum.
    pub(crate) fn add(
        &mut self,
        column: &mut Column<u32>,
        at: usize,
        more: u32,
    ) -> Result<u32, ScratchError> {
        let sum = self.get(column, at)?.wrapping_add(more);
        self.set(column, at, sum)?;
        Ok(sum)
    }

    /// Replaces the contents of `values` with the numbers in a range.
    pub(crate) fn read<T: Value>(
        &mut self,
        column: &Column<T>,
        range: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<(), ScratchError> {
        values.clear();
        for at in range {
            values.push(self.get(column, at)?);
        }
        Ok(())
    }

    /// Copies a column.
    pub(crate) fn copy<T: Value>(&mut self, column: &Column<T>) -> Result<Column<T>, ScratchError> {
        let mut copied = Column::default();
        for at in 0..column.len {
            let value = self.get(column, at)?;
            self.push(&mut copied, value)?;
        }
        Ok(copied)
    }

    /// Frees the pages of a column.
    pub(crate) fn free<T>(&mut self, column: Column<T>) {
        let Some(pages) = &mut self.pages else { return };
        for (extent, begin) in column.extents.into_iter().enumerate() {
            if let Some(free) = pages.free.get_mut(extent.saturating_sub(1)) {
                free.push(begin);
            }
        }
    }
}

/// Page cache of a scratch file.
struct Pages {
    file: Box<dyn ScratchFile>,
    /// Number of frames per set.
    ways: usize,
    frames: Vec<Frame>,
    /// Number of uses of all frames so far.
    uses: u64,
    /// Number of pages given to columns so far.
    given: u64,
    /// Freed extents, by the logarithm of their lengths.
    free: Vec<Vec<u64>>,
    has_failed: bool,
}

/// Room for a page in memory.
struct Frame {
    page: u64,
    /// Time of last use, in `uses`.
    used: u64,
    /// True if the page has changed since it was read.
    is_changed: bool,
    /// Bytes of the page; allocated on first use.
    bytes: Option<Box<[u8; PAGE_BYTES]>>,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame {
            page: EMPTY,
            used: 0,
            is_changed: false,
            bytes: None,
        }
    }
}

impl Pages {
    /// Returns the frame of a page; reads the page if it is not in memory.
    #[inline]
    fn frame(&mut self, page: u64) -> Result<usize, ScratchError> {
        match self.find(page) {
            Some(frame) => Ok(frame),
            None => self.load(page),
        }
    }

    /// Returns the frame of a page that is in memory.
    #[inline]
    fn find(&mut self, page: u64) -> Option<usize> {
        let mut set = self.set_of(page);
        let frame = set.find(|frame| self.frames[*frame].page == page)?;
        self.uses += 1;
        self.frames[frame].used = self.uses;
        Some(frame)
    }

    /// Returns the frames that may hold a page.
    #[inline]
    fn set_of(&self, page: u64) -> Range<usize> {
        let sets = (self.frames.len() / self.ways) as u64;
        // consecutive pages go to distant sets, because columns grow in parallel
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = ((u128::from(mixed) * u128::from(sets)) >> 64) as usize;
        set * self.ways..(set + 1) * self.ways
    }

    #[inline]
    fn bytes(&mut self, frame: usize) -> &mut [u8; PAGE_BYTES] {
        let bytes = &mut self.frames[frame].bytes;
        bytes.get_or_insert_with(|| Box::new([0; PAGE_BYTES]))
    }

    #[cold]
    fn load(&mut self, page: u64) -> Result<usize, ScratchError> {
        let frame = self.make_room(page)?;
        let read = seek(&mut self.file, page).and_then(|()| {
            let bytes = &mut self.frames[frame].bytes;
            let bytes = bytes.get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
            self.file.read_exact(&mut bytes[..])
        });
        self.keep_failure(read)?;
        self.frames[frame].page = page;
        Ok(frame)
    }

    /// Frees the least recently used frame for a page; writes the page in it if it has changed.
    fn make_room(&mut self, page: u64) -> Result<usize, ScratchError> {
        let set = self.set_of(page);
        let first = set.start;
        let least_used = set.min_by_key(|frame| self.frames[*frame].used);
        let at = least_used.unwrap_or(first);
        let frame = &self.frames[at];
        if frame.is_changed
            && let Some(bytes) = &frame.bytes
        {
            let written = seek(&mut self.file, frame.page);
            let written = written.and_then(|()| self.file.write_all(&bytes[..]));
            self.keep_failure(written)?;
        }
        self.uses += 1;
        let frame = &mut self.frames[at];
        (frame.page, frame.used, frame.is_changed) = (EMPTY, self.uses, false);
        Ok(at)
    }

    fn keep_failure(&mut self, result: Result<(), Error>) -> Result<(), ScratchError> {
        self.has_failed |= result.is_err();
        result.map_err(ScratchError)
    }

    /// Adds a page at the end of a column, whose last page is full, without reading it.
    fn add_page<T: Value>(&mut self, column: &mut Column<T>) -> Result<(), ScratchError> {
        let (extent, offset) = extent_of(column.len / Column::<T>::PER_PAGE);
        let begin = match column.extents.get(extent) {
            // from before the column was truncated
            Some(begin) => *begin,
            None => {
                let begin = self.give(extent.saturating_sub(1));
                column.extents.push(begin);
                begin
            }
        };
        let page = begin + offset;
        if self.find(page).is_none() {
            let frame = self.make_room(page)?;
            self.frames[frame].page = page;
        }
        Ok(())
    }

    /// Allocates an extent of 2 to the power of `kind` pages.
    fn give(&mut self, kind: usize) -> u64 {
        if let Some(begin) = self.free.get_mut(kind).and_then(Vec::pop) {
            return begin;
        }
        let begin = self.given;
        self.given += 1 << kind;
        begin
    }
}

fn seek(file: &mut dyn ScratchFile, page: u64) -> Result<(), Error> {
    file.seek(SeekFrom::Start(page * PAGE_BYTES as u64))?;
    Ok(())
}

impl Debug for Pages {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Pages")
            .field("frames", &self.frames.len())
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}
