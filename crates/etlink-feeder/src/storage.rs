//! Storage of a graph's numbers: in memory, or in pages of a scratch file (`paged_file.rs`).
//!
//! The code that reads and feeds a graph is generic over [`Storage`]. In memory a column is a
//! `Vec`, and nothing can fail: the compiler removes the error checks.

use std::fmt::Debug;
use std::io;
use std::ops::Range;

/// Failure of the scratch file.
#[derive(Debug)]
pub(crate) struct ScratchError(pub(crate) io::Error);

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

whole_number!(u8);
whole_number!(u32);
whole_number!(u64);

/// Columns of numbers. A column belongs to the storage that filled it.
pub(crate) trait Storage: Debug {
    /// A sequence of numbers.
    type Column<T: Value>: Debug + Default;

    /// Fails once the scratch file has failed, since columns may then be partly changed.
    fn check(&self) -> Result<(), ScratchError>;

    /// Returns how many numbers, with their places, may be sorted at once.
    fn sorted_at_once(&self) -> usize;

    /// Returns how many sorted runs may be merged at once; at least two.
    fn merged_at_once(&self) -> usize;

    /// Creates an empty column with room for `count` numbers.
    fn with_room<T: Value>(&mut self, count: usize) -> Self::Column<T>;

    /// Returns the length of a column.
    fn len<T: Value>(column: &Self::Column<T>) -> usize;

    /// Returns the number at a place.
    fn get<T: Value>(&mut self, column: &Self::Column<T>, at: usize) -> Result<T, ScratchError>;

    /// Overwrites the number at an existing place.
    fn set<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        at: usize,
        value: T,
    ) -> Result<(), ScratchError>;

    /// Appends a number.
    fn push<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        value: T,
    ) -> Result<(), ScratchError>;

    /// Appends several numbers.
    fn extend<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        values: &[T],
    ) -> Result<(), ScratchError>;

    /// Replaces the contents of `values` with the numbers in a range.
    fn read<T: Value>(
        &mut self,
        column: &Self::Column<T>,
        range: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<(), ScratchError>;

    /// Truncates a column, or extends it with one value.
    fn resize<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        len: usize,
        value: T,
    ) -> Result<(), ScratchError>;

    /// Removes all numbers, but keeps the room.
    fn clear<T: Value>(&mut self, column: &mut Self::Column<T>);

    /// Frees the room of a column.
    fn free<T: Value>(&mut self, column: Self::Column<T>);

    /// Removes and returns the last number.
    fn pop<T: Value>(&mut self, column: &mut Self::Column<T>) -> Result<Option<T>, ScratchError>;

    /// Copies a column.
    fn copy<T: Value>(
        &mut self,
        column: &Self::Column<T>,
    ) -> Result<Self::Column<T>, ScratchError> {
        let mut copied = Self::Column::default();
        for at in 0..Self::len(column) {
            let value = self.get(column, at)?;
            self.push(&mut copied, value)?;
        }
        Ok(copied)
    }

    /// Adds to the number at a place; returns the sum.
    fn add(
        &mut self,
        column: &mut Self::Column<u32>,
        at: usize,
        more: u32,
    ) -> Result<u32, ScratchError> {
        let sum = self.get(column, at)?.wrapping_add(more);
        self.set(column, at, sum)?;
        Ok(sum)
    }

    /// Searches an ascending column for a number's place.
    fn search(
        &mut self,
        column: &Self::Column<u64>,
        value: u64,
    ) -> Result<Option<usize>, ScratchError> {
        let (mut low, mut high) = (0, Self::len(column));
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.get(column, middle)?;
            if found == value {
                return Ok(Some(middle));
            }
            if found < value {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(None)
    }
}

/// Storage with all columns in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory;

impl Storage for Memory {
    type Column<T: Value> = Vec<T>;

    fn check(&self) -> Result<(), ScratchError> {
        Ok(())
    }

    fn sorted_at_once(&self) -> usize {
        usize::MAX
    }

    fn merged_at_once(&self) -> usize {
        2
    }

    fn with_room<T: Value>(&mut self, count: usize) -> Vec<T> {
        Vec::with_capacity(count)
    }

    fn len<T: Value>(column: &Vec<T>) -> usize {
        column.len()
    }

    #[inline]
    fn get<T: Value>(&mut self, column: &Vec<T>, at: usize) -> Result<T, ScratchError> {
        Ok(column[at])
    }

    #[inline]
    fn set<T: Value>(
        &mut self,
        column: &mut Vec<T>,
        at: usize,
        value: T,
    ) -> Result<(), ScratchError> {
        column[at] = value;
        Ok(())
    }

    #[inline]
    fn push<T: Value>(&mut self, column: &mut Vec<T>, value: T) -> Result<(), ScratchError> {
        column.push(value);
        Ok(())
    }

    fn extend<T: Value>(&mut self, column: &mut Vec<T>, values: &[T]) -> Result<(), ScratchError> {
        column.extend_from_slice(values);
        Ok(())
    }

    fn read<T: Value>(
        &mut self,
        column: &Vec<T>,
        range: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<(), ScratchError> {
        values.clear();
        values.extend_from_slice(&column[range]);
        Ok(())
    }

    fn resize<T: Value>(
        &mut self,
        column: &mut Vec<T>,
        len: usize,
        value: T,
    ) -> Result<(), ScratchError> {
        column.resize(len, value);
        Ok(())
    }

    fn clear<T: Value>(&mut self, column: &mut Vec<T>) {
        column.clear();
    }

    fn free<T: Value>(&mut self, column: Vec<T>) {
        drop(column);
    }

    fn pop<T: Value>(&mut self, column: &mut Vec<T>) -> Result<Option<T>, ScratchError> {
        Ok(column.pop())
    }

    fn copy<T: Value>(&mut self, column: &Vec<T>) -> Result<Vec<T>, ScratchError> {
        Ok(column.clone())
    }
}
