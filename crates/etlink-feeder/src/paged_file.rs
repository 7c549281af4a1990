//! Columns of numbers in pages of a scratch file, with a bounded number of pages in memory.
//!
//! ```text
//! column ──> extents of 1, 1, 2, 4, 8 … pages in a row ──> page of the file ──> set ──> frame
//! ```
//! So a column needs only some forty numbers to find its pages, however long it is. A page may be
//! in any of the few frames of its set, which follows from its number, so a lookup checks only
//! these frames. The least recently used frame of the set makes room for another page.

use crate::storage::{ScratchError, Storage, Value};
use std::fmt::{Debug, Formatter};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::ops::Range;

const PAGE_BYTES: usize = 4096;
/// Bytes of a frame: its page, its entries in the lists below, and the allocator's overhead.
const FRAME_BYTES: usize = PAGE_BYTES + 64;
/// Frames per set, if there are enough.
const WAYS: usize = 8;
/// Number of extent sizes; each extent has a power of two of consecutive pages.
const EXTENT_KINDS: usize = 48;
/// Bytes per number while sorting; sorting may use a quarter of the memory.
const SORTED_BYTES: usize = 16;
/// Maximum number of runs merged at once.
const MOST_MERGED: usize = 64;
/// Marks a frame without a page.
const EMPTY: u64 = u64::MAX;

/// A file with reads and writes at any offset, such as `std::fs::File`, or a `Cursor` of a `Vec`.
///
/// Its previous contents are lost. No other program may write to it.
pub trait ScratchFile: Read + Write + Seek + Send {}

impl<F: Read + Write + Seek + Send> ScratchFile for F {}

/// Page cache of a scratch file.
pub(crate) struct PagedFile {
    file: Box<dyn ScratchFile>,
    /// Number of frames per set.
    ways: usize,
    /// Page in each frame.
    pages: Vec<u64>,
    /// Time of last use of each frame, in `uses`.
    used: Vec<u64>,
    /// For each frame: true if its page has changed since it was read.
    is_changed: Vec<bool>,
    /// Bytes of each frame; allocated on first use.
    frames: Vec<Option<Box<[u8; PAGE_BYTES]>>>,
    /// Number of uses of all frames so far.
    uses: u64,
    /// Number of pages given to columns so far.
    given: u64,
    /// Freed extents, by the logarithm of their lengths.
    free: Vec<Vec<u64>>,
    /// Number of numbers sorted at once.
    sorted_at_once: usize,
    has_failed: bool,
}

/// A column of numbers in pages.
#[derive(Debug)]
pub(crate) struct PagedColumn<T> {
    len: usize,
    /// First page of each extent.
    extents: Vec<u64>,
    value: PhantomData<T>,
}

impl<T> Default for PagedColumn<T> {
    fn default() -> PagedColumn<T> {
        PagedColumn {
            len: 0,
            extents: vec![],
            value: PhantomData,
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

impl<T: Value> PagedColumn<T> {
    /// Numbers per page.
    const PER_PAGE: usize = PAGE_BYTES / T::BYTES;

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

impl PagedFile {
    /// Creates a page cache that uses at most `memory_bytes` for pages and sorting, but at least
    /// one page. `most_bytes` is an upper bound of all columns together.
    pub(crate) fn new(
        file: impl ScratchFile + 'static,
        memory_bytes: usize,
        most_bytes: u64,
    ) -> PagedFile {
        let most_bytes = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        let memory_bytes = memory_bytes.min(most_bytes);
        let sorted_bytes = memory_bytes / 4;
        let count = ((memory_bytes - sorted_bytes) / FRAME_BYTES).max(1);
        let ways = count.min(WAYS);
        let count = count / ways * ways;
        PagedFile {
            file: Box::new(file),
            ways,
            pages: vec![EMPTY; count],
            used: vec![0; count],
            is_changed: vec![false; count],
            frames: vec![const { None }; count],
            uses: 0,
            given: 0,
            free: vec![vec![]; EXTENT_KINDS],
            sorted_at_once: (sorted_bytes / SORTED_BYTES).max(2),
            has_failed: false,
        }
    }

    /// Returns the number of pages in memory.
    #[cfg(test)]
    pub(crate) fn pages_in_memory(&self) -> usize {
        self.frames.iter().flatten().count()
    }

    /// Returns the frame of a page; reads the page if it is not in memory.
    #[inline]
    fn frame(&mut self, page: u64) -> Result<usize, ScratchError> {
        let set = self.set_of(page);
        if let Some(way) = self.pages[set.clone()].iter().position(|own| *own == page) {
            let frame = set.start + way;
            self.mark_used(frame);
            return Ok(frame);
        }
        self.load(page, set)
    }

    /// Returns the frames that may hold a page.
    #[inline]
    fn set_of(&self, page: u64) -> Range<usize> {
        let sets = (self.pages.len() / self.ways) as u64;
        // consecutive pages go to distant sets, because columns grow in parallel
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = ((u128::from(mixed) * u128::from(sets)) >> 64) as usize;
        set * self.ways..(set + 1) * self.ways
    }

    #[inline]
    fn mark_used(&mut self, frame: usize) {
        self.uses += 1;
        self.used[frame] = self.uses;
    }

    /// Returns the bytes of a frame that holds a page.
    #[inline]
    fn bytes(&mut self, frame: usize) -> &mut [u8; PAGE_BYTES] {
        self.frames[frame].get_or_insert_with(|| Box::new([0; PAGE_BYTES]))
    }

    #[cold]
    fn load(&mut self, page: u64, set: Range<usize>) -> Result<usize, ScratchError> {
        let frame = self.make_room(set)?;
        let file = &mut self.file;
        let bytes = self.frames[frame].get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
        let read = seek(file, page).and_then(|()| file.read_exact(&mut bytes[..]));
        self.keep_failure(read)?;
        self.pages[frame] = page;
        self.mark_used(frame);
        Ok(frame)
    }

    /// Returns a frame for a page without reading the page's contents.
    #[cold]
    fn fresh(&mut self, page: u64) -> Result<usize, ScratchError> {
        let set = self.set_of(page);
        let own = self.pages[set.clone()].iter().position(|own| *own == page);
        let frame = match own {
            Some(way) => set.start + way,
            None => self.make_room(set)?,
        };
        self.pages[frame] = page;
        self.mark_used(frame);
        Ok(frame)
    }

    /// Frees the least recently used frame of a set; writes its page if it has changed.
    fn make_room(&mut self, set: Range<usize>) -> Result<usize, ScratchError> {
        let first = set.start;
        let frame = set.min_by_key(|frame| self.used[*frame]).unwrap_or(first);
        if self.is_changed[frame]
            && let Some(bytes) = &self.frames[frame]
        {
            let file = &mut self.file;
            let written = seek(file, self.pages[frame]).and_then(|()| file.write_all(&bytes[..]));
            self.keep_failure(written)?;
        }
        self.is_changed[frame] = false;
        self.pages[frame] = EMPTY;
        Ok(frame)
    }

    fn keep_failure(&mut self, result: Result<(), Error>) -> Result<(), ScratchError> {
        self.has_failed |= result.is_err();
        result.map_err(ScratchError)
    }

    /// Adds a page at the end of a column, unless an allocated one remains.
    fn grow<T: Value>(&mut self, column: &mut PagedColumn<T>) -> Result<usize, ScratchError> {
        let page = column.len / PagedColumn::<T>::PER_PAGE;
        let (extent, offset) = extent_of(page);
        let begin = match column.extents.get(extent) {
            Some(begin) => *begin,
            None => {
                let begin = self.give(extent.saturating_sub(1));
                column.extents.push(begin);
                begin
            }
        };
        self.fresh(begin + offset)
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

    /// Returns the frame for the end of a column, and the offset of the end in it, bytes.
    #[inline]
    fn end<T: Value>(
        &mut self,
        column: &mut PagedColumn<T>,
    ) -> Result<(usize, usize), ScratchError> {
        let at = column.len % PagedColumn::<T>::PER_PAGE;
        let frame = match at {
            0 => self.grow(column)?,
            _ => {
                let (page, _) = column.page(column.len - 1)?;
                self.frame(page)?
            }
        };
        self.is_changed[frame] = true;
        Ok((frame, at * T::BYTES))
    }
}

fn seek(file: &mut dyn ScratchFile, page: u64) -> Result<(), Error> {
    file.seek(SeekFrom::Start(page * PAGE_BYTES as u64))?;
    Ok(())
}

impl Debug for PagedFile {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("PagedFile")
            .field("frames", &self.frames.len())
            .field("given", &self.given)
            .field("has_failed", &self.has_failed)
            .finish_non_exhaustive()
    }
}

impl Storage for PagedFile {
    type Column<T: Value> = PagedColumn<T>;

    fn check(&self) -> Result<(), ScratchError> {
        if self.has_failed {
            Err(ScratchError(Error::other(
                "it failed before; open the graph again",
            )))
        } else {
            Ok(())
        }
    }

    fn sorted_at_once(&self) -> usize {
        self.sorted_at_once
    }

    fn merged_at_once(&self) -> usize {
        // two columns per run, plus the output
        (self.pages.len() / 4).clamp(2, MOST_MERGED)
    }

    fn with_room<T: Value>(&mut self, _: usize) -> PagedColumn<T> {
        PagedColumn::default()
    }

    fn len<T: Value>(column: &PagedColumn<T>) -> usize {
        column.len
    }

    #[inline]
    fn get<T: Value>(&mut self, column: &PagedColumn<T>, at: usize) -> Result<T, ScratchError> {
        let (page, offset) = column.page(at)?;
        let frame = self.frame(page)?;
        Ok(T::from_page(&self.bytes(frame)[offset..]))
    }

    #[inline]
    fn set<T: Value>(
        &mut self,
        column: &mut PagedColumn<T>,
        at: usize,
        value: T,
    ) -> Result<(), ScratchError> {
        let (page, offset) = column.page(at)?;
        let frame = self.frame(page)?;
        self.is_changed[frame] = true;
        value.to_page(&mut self.bytes(frame)[offset..]);
        Ok(())
    }

    #[inline]
    fn push<T: Value>(
        &mut self,
        column: &mut PagedColumn<T>,
        value: T,
    ) -> Result<(), ScratchError> {
        let (frame, offset) = self.end(column)?;
        value.to_page(&mut self.bytes(frame)[offset..]);
        column.len += 1;
        Ok(())
    }

    fn extend<T: Value>(
        &mut self,
        column: &mut PagedColumn<T>,
        values: &[T],
    ) -> Result<(), ScratchError> {
        for value in values {
            self.push(column, *value)?;
        }
        Ok(())
    }

    fn read<T: Value>(
        &mut self,
        column: &PagedColumn<T>,
        range: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<(), ScratchError> {
        values.clear();
        for at in range {
            values.push(self.get(column, at)?);
        }
        Ok(())
    }

    fn resize<T: Value>(
        &mut self,
        column: &mut PagedColumn<T>,
        len: usize,
        value: T,
    ) -> Result<(), ScratchError> {
        column.len = column.len.min(len);
        while column.len < len {
            let (frame, offset) = self.end(column)?;
            let count = (len - column.len).min((PAGE_BYTES - offset) / T::BYTES);
            let rest = &mut self.bytes(frame)[offset..];
            for own in rest.chunks_exact_mut(T::BYTES).take(count) {
                value.to_page(own);
            }
            column.len += count;
        }
        Ok(())
    }

    fn clear<T: Value>(&mut self, column: &mut PagedColumn<T>) {
        column.len = 0;
    }

    fn free<T: Value>(&mut self, column: PagedColumn<T>) {
        for (extent, begin) in column.extents.iter().enumerate() {
            let kind = extent.saturating_sub(1);
            let pages = *begin..begin + (1 << kind);
            for (page, is_changed) in self.pages.iter().zip(&mut self.is_changed) {
                // its contents are no longer needed
                *is_changed &= !pages.contains(page);
            }
            if let Some(free) = self.free.get_mut(kind) {
                free.push(*begin);
            }
        }
    }

    fn pop<T: Value>(&mut self, column: &mut PagedColumn<T>) -> Result<Option<T>, ScratchError> {
        let Some(last) = column.len.checked_sub(1) else {
            return Ok(None);
        };
        let value = self.get(column, last)?;
        column.len = last;
        Ok(Some(value))
    }
}
