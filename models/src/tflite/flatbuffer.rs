//! Tables and vectors of a FlatBuffer, read in place
//! (<https://flatbuffers.dev/internals/>).
//!
//! - Every position and length is checked: a damaged buffer is an error that names the field.
//! - Vectors may share their bytes, so each copied one has its own bound.
//! - Not here: which fields there are ([`super::schema`]).

use super::error::TfliteError;

/// Most tables of a vector; the largest detectors have some thousand tensors.
const MAX_TABLES: usize = 8192;

/// A field of a table: its slot, and its name for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field(pub(super) usize, pub(super) &'static str);

impl Field {
    fn damaged(self) -> TfliteError {
        TfliteError::Damaged { field: self.1 }
    }
}

/// A table in a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
    /// Positions of the fields after `at`, two bytes each; 0 where a field is absent.
    slots: &'a [u8],
}

impl<'a> Table<'a> {
    /// Returns the root table of a buffer.
    pub(super) fn root(buffer: &'a [u8]) -> Result<Self, TfliteError> {
        Self::behind(buffer, 0).ok_or(TfliteError::Damaged { field: "root" })
    }

    /// Follows the offset at `place` to a table.
    fn behind(buffer: &'a [u8], place: usize) -> Option<Self> {
        let at = follow(buffer, place)?;
        let back = i32::from_le_bytes(array(buffer, at)?);
        let vtable = i64::try_from(at).ok()?.checked_sub(i64::from(back))?;
        let vtable = usize::try_from(vtable).ok()?;
        let size = usize::from(u16::from_le_bytes(array(buffer, vtable)?));
        let slots = buffer.get(vtable..)?.get(4..size)?;
        Some(Self { buffer, at, slots })
    }

    /// Returns the position of a field's value; `None` if the field is absent.
    fn place(&self, field: Field) -> Option<usize> {
        let offset = u16::from_le_bytes(array(self.slots, field.0 * 2)?);
        // A table lies within the buffer, so its length plus a `u16` does not overflow.
        (offset != 0).then(|| self.at + usize::from(offset))
    }

    fn number<const N: usize>(&self, field: Field) -> Result<Option<[u8; N]>, TfliteError> {
        self.place(field)
            .map(|place| array(self.buffer, place).ok_or(field.damaged()))
            .transpose()
    }

    pub(super) fn byte(&self, field: Field) -> Result<u8, TfliteError> {
        Ok(self.number(field)?.map_or(0, u8::from_le_bytes))
    }

    /// Returns a number; `absent` where the field has its default.
    pub(super) fn int(&self, field: Field, absent: i32) -> Result<i32, TfliteError> {
        Ok(self.number(field)?.map_or(absent, i32::from_le_bytes))
    }

    pub(super) fn table(&self, field: Field) -> Result<Option<Self>, TfliteError> {
        self.place(field)
            .map(|place| Self::behind(self.buffer, place).ok_or(field.damaged()))
            .transpose()
    }

    /// Returns position and number of the items of a vector; an absent one has none.
    fn vector(&self, field: Field) -> Result<(usize, usize), TfliteError> {
        let Some(place) = self.place(field) else {
            return Ok((0, 0));
        };
        let read = || {
            let at = follow(self.buffer, place)?;
            let items = u32::from_le_bytes(array(self.buffer, at)?);
            Some((at + 4, usize::try_from(items).ok()?))
        };
        read().ok_or(field.damaged())
    }

    /// Returns the bytes of a vector of bytes.
    pub(super) fn bytes(&self, field: Field) -> Result<&'a [u8], TfliteError> {
        let (at, items) = self.vector(field)?;
        let bytes = self.buffer.get(at..).and_then(|rest| rest.get(..items));
        bytes.ok_or(field.damaged())
    }

    /// Returns the numbers of a vector of at most `most` 32-bit numbers.
    pub(super) fn ints(&self, field: Field, most: usize) -> Result<Vec<i32>, TfliteError> {
        self.items(field, most, |buffer, place| {
            array(buffer, place).map(i32::from_le_bytes)
        })
    }

    /// Returns the tables of a vector of tables.
    pub(super) fn tables(&self, field: Field) -> Result<Vec<Self>, TfliteError> {
        self.items(field, MAX_TABLES, Self::behind)
    }

    fn items<T>(
        &self,
        field: Field,
        most: usize,
        read: impl Fn(&'a [u8], usize) -> Option<T>,
    ) -> Result<Vec<T>, TfliteError> {
        let (at, items) = self.vector(field)?;
        if items > most {
            return Err(TfliteError::TooMany {
                field: field.1,
                found: items,
                most,
            });
        }
        (0..items)
            .map(|i| read(self.buffer, at + 4 * i).ok_or(field.damaged()))
            .collect()
    }
}

/// Follows the offset at `place`: it counts from there.
fn follow(buffer: &[u8], place: usize) -> Option<usize> {
    let offset = u32::from_le_bytes(array(buffer, place)?);
    place.checked_add(usize::try_from(offset).ok()?)
}

fn array<const N: usize>(buffer: &[u8], place: usize) -> Option<[u8; N]> {
    buffer.get(place..)?.first_chunk().copied()
}
