//! Columns of numbers in pages of a scratch file, of which a bounded number is in memory.
//!
//! ```text
//! column ──> extents of 1, 1, 2, 4, 8 … pages in a row ──> page of the file ──> set ──> frame
//! ```
//! So a column knows its pages by some forty numbers, however long it is. A page may be in any of
//! the few frames of its set, which its number tells: where it is follows from looking at these. The
//! one of them that was used longest ago makes room for another page.

use crate::storage::{ScratchError, Storage, Value};
use std::fmt::{Debug, Formatter};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::ops::Range;

const PAGE_BYTES: usize = 4096;
/// What a frame takes beside its page: its entries in the lists below, and the allocator's.
const FRAME_BYTES: usize = PAGE_BYTES + 64;
/// How many frames a set has, if there are as many.
const WAYS: usize = 8;
/// Pages in a row of one extent are a power of two; so many kinds of extents there are.
const EXTENT_KINDS: usize = 48;
/// A quarter of the pages is as much as the numbers to be sorted may take; each is 16 bytes.
const SORTED_BYTES: usize = 16;
/// More runs are not merged at once.
const MOST_MERGED: usize = 64;
/// A frame without a page.
const EMPTY: u64 = u64::MAX;

/// A file that may be written and read anywhere: `std::fs::File` is one, and a `Cursor` of a `Vec`.
///
/// It has to be empty, or what is in it is lost. Nobody else may write to it.
pub trait ScratchFile: Read + Write + Seek + Send {}

impl<F: Read + Write + Seek + Send> ScratchFile for F {}

/// Pages of a scratch file.
pub(crate) struct PagedFile {
    file: Box<dyn ScratchFile>,
    /// How many frames a set has.
    ways: usize,
    /// By frame its page.
    pages: Vec<u64>,
    /// By frame when it was used last.
    used: Vec<u64>,
    /// By frame whether its page has changed since it was read.
    is_changed: Vec<bool>,
    /// By frame its bytes; allocated when it is used first.
    frames: Vec<Option<Box<[u8; PAGE_BYTES]>>>,
    /// How often a frame was used.
    uses: u64,
    /// Pages that were given to columns so far.
    given: u64,
    /// Extents that were given up, by the logarithm of their lengths.
    free: Vec<Vec<u64>>,
    /// How many numbers are sorted at once.
    sorted_at_once: usize,
    has_failed: bool,
}

/// Numbers in pages.
#[derive(Debug)]
pub(crate) struct PagedColumn<T> {
    len: usize,
    /// Where each extent begins, pages.
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

/// Which extent has a page of a column, and where in it.
fn extent_of(page: usize) -> (usize, u64) {
    match page.checked_ilog2() {
        None => (0, 0),
        Some(power) => (power as usize + 1, (page - (1 << power)) as u64),
    }
}

impl<T: Value> PagedColumn<T> {
    /// How many numbers a page has.
    const PER_PAGE: usize = PAGE_BYTES / T::BYTES;

    /// The page of the file, and where in it the number begins, bytes.
    #[inline]
    fn page(&self, at: usize) -> Result<(u64, usize), ScratchError> {
        let (extent, offset) = extent_of(at / Self::PER_PAGE);
        match self.extents.get(extent) {
            Some(begin) if at < self.len => Ok((begin + offset, at % Self::PER_PAGE * T::BYTES)),
            // a number that somebody else wrote into the file leads anywhere
            _ => Err(ScratchError(Error::new(
                ErrorKind::InvalidData,
                "somebody else has written to it",
            ))),
        }
    }
}

impl PagedFile {
    /// At most `memory_bytes` are taken by pages and by what is sorted; a page at least. `most_bytes`
    /// is what all columns together can never exceed.
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

    /// How many pages are in memory.
    #[cfg(test)]
    pub(crate) fn pages_in_memory(&self) -> usize {
        self.frames.iter().flatten().count()
    }

    /// The frame of a page, which is read if it is in none.
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

    /// Frames in which a page may be.
    #[inline]
    fn set_of(&self, page: u64) -> Range<usize> {
        let sets = (self.pages.len() / self.ways) as u64;
        // pages in a row come into sets far from each other, as columns grow side by side
        let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = ((u128::from(mixed) * u128::from(sets)) >> 64) as usize;
        set * self.ways..(set + 1) * self.ways
    }

    #[inline]
    fn mark_used(&mut self, frame: usize) {
        self.uses += 1;
        self.used[frame] = self.uses;
    }

    /// The bytes of a frame that has a page.
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

    /// The frame of a page whose contents nobody needs.
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

    /// The frame of a set that was used longest ago; its page is written.
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

    /// A page more at the end of a column, unless it has room of earlier.
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

    /// An extent of 2 to the power of `kind` pages.
    fn give(&mut self, kind: usize) -> u64 {
        if let Some(begin) = self.free.get_mut(kind).and_then(Vec::pop) {
            return begin;
        }
        let begin = self.given;
        self.given += 1 << kind;
        begin
    }

    /// The frame for numbers at the end of a column, and where in it they begin, bytes.
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
                "it failed before: open the graph once more",
            )))
        } else {
            Ok(())
        }
    }

    fn sorted_at_once(&self) -> usize {
        self.sorted_at_once
    }

    fn merged_at_once(&self) -> usize {
        // two columns of each run, and what is written
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
                // nobody needs what is in it
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
