//! Where the numbers of a graph lie: in memory, or in pages of a scratch file (`paged_file.rs`).
//!
//! What reads and feeds a graph is written once, over [`Storage`]. In memory a column is a `Vec`,
//! and nothing fails: the compiler leaves out all that looks for errors.

use std::fmt::Debug;
use std::io;
use std::ops::Range;

/// The scratch file failed.
#[derive(Debug)]
pub(crate) struct ScratchError(pub(crate) io::Error);

/// What a column may hold: a number of a fixed number of bytes.
pub(crate) trait Value: Copy + Debug {
    /// A power of two: no number lies in two pages.
    const BYTES: usize;

    /// From the first bytes.
    fn from_page(bytes: &[u8]) -> Self;
    /// To the first bytes.
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

/// Columns of numbers. A column belongs to the storage that it was filled by.
pub(crate) trait Storage: Debug {
    /// Numbers, one behind the other.
    type Column<T: Value>: Debug + Default;

    /// Fails once the scratch file has failed: columns are half changed then.
    fn check(&self) -> Result<(), ScratchError>;

    /// How many numbers with their places are sorted at once.
    fn sorted_at_once(&self) -> usize;

    /// How many sorted runs are merged at once, two at least.
    fn merged_at_once(&self) -> usize;

    /// An empty column, of which so many numbers are to be expected.
    fn with_room<T: Value>(&mut self, count: usize) -> Self::Column<T>;

    /// How many numbers a column has.
    fn len<T: Value>(column: &Self::Column<T>) -> usize;

    /// The number at a place.
    fn get<T: Value>(&mut self, column: &Self::Column<T>, at: usize) -> Result<T, ScratchError>;

    /// Changes the number at a place that there is.
    fn set<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        at: usize,
        value: T,
    ) -> Result<(), ScratchError>;

    /// Adds a number at the end.
    fn push<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        value: T,
    ) -> Result<(), ScratchError>;

    /// Adds numbers at the end.
    fn extend<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        values: &[T],
    ) -> Result<(), ScratchError>;

    /// Puts the numbers of a range in the place of those in `values`.
    fn read<T: Value>(
        &mut self,
        column: &Self::Column<T>,
        range: Range<usize>,
        values: &mut Vec<T>,
    ) -> Result<(), ScratchError>;

    /// Cuts a column, or fills it up with one value.
    fn resize<T: Value>(
        &mut self,
        column: &mut Self::Column<T>,
        len: usize,
        value: T,
    ) -> Result<(), ScratchError>;

    /// Removes all numbers, and keeps the room.
    fn clear<T: Value>(&mut self, column: &mut Self::Column<T>);

    /// Gives up the room of a column.
    fn free<T: Value>(&mut self, column: Self::Column<T>);

    /// Takes the last number out.
    fn pop<T: Value>(&mut self, column: &mut Self::Column<T>) -> Result<Option<T>, ScratchError>;

    /// A column with the same numbers.
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

    /// Adds to the number at a place.
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

    /// The place of a number in a column whose numbers rise.
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

/// All columns are in memory.
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
