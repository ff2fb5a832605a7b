//! Layout of a file's data: columns on chains of targets, and conversion between file and object offsets.
//!
//! Objects are packed densely: stripe unit `n` of the file is unit `n / W` of column `n % W`. With a unit U
//! and W = 3:
//!
//! ```text
//! file      0    U    2U   3U   4U   5U   6U
//!           │ c0 │ c1 │ c2 │ c0 │ c1 │ c2 │
//! column 0  │ 0  │ 3U │ 6U …       object offsets 0, U, 2U
//! ```
//!
//! Chain `(c + first) % W` of the file's device keeps column `c`, so that many files share one device, and yet
//! begin at different chains.

use serde::{Deserialize, Serialize};

use crate::{ChainId, DeviceId};

/// Stripe unit: bytes on one column before the next, a multiple of 64 KiB, at most 1 GiB. The low six bits of
/// `nfl_util` are flags, so it must be at least a multiple of 64 (RFC 8881, section 13.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct StripeUnit(u32);

impl StripeUnit {
    /// Bytes that a stripe unit must be a multiple of.
    pub const STEP_BYTES: u32 = 64 * 1024;
    /// Maximum in bytes.
    pub const BYTES_MAX: u32 = 1024 * 1024 * 1024;
    /// 1 MiB.
    pub const DEFAULT: StripeUnit = StripeUnit(1024 * 1024);

    /// Makes a stripe unit; none if `bytes` is out of bounds.
    #[must_use]
    pub fn new(bytes: u32) -> Option<Self> {
        (bytes > 0 && bytes <= Self::BYTES_MAX && bytes.is_multiple_of(Self::STEP_BYTES))
            .then_some(Self(bytes))
    }

    /// Stripe unit in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0
    }
}

/// Conversion from a record: a damaged one is an error here, not a division by zero later.
impl TryFrom<u32> for StripeUnit {
    type Error = &'static str;

    fn try_from(bytes: u32) -> Result<Self, Self::Error> {
        Self::new(bytes).ok_or("a stripe unit that cannot be")
    }
}

/// Layout of the data of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLayout {
    /// Device: the ordered list of chains.
    pub device: DeviceId,
    /// Chain of column 0, as an index in the device.
    pub first: u32,
    /// Stripe unit.
    pub unit: StripeUnit,
    /// Number of columns: the number of the device's chains, 1 to [`COLUMNS_MAX`].
    #[serde(deserialize_with = "columns")]
    pub columns: u32,
}

/// A placement of a file's columns: its layout, and the epoch of the calls that made the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The layout.
    pub layout: FileLayout,
    /// The file's epoch then: each placement has its own.
    pub epoch: u32,
}

/// Maximum of columns of one file: a layout with more handles would not fit into a reply.
pub const COLUMNS_MAX: u32 = 64;

fn columns<'de, D: serde::Deserializer<'de>>(record: D) -> Result<u32, D::Error> {
    let columns = u32::deserialize(record)?;
    if (1..=COLUMNS_MAX).contains(&columns) {
        return Ok(columns);
    }
    Err(serde::de::Error::custom("a number of columns that cannot be"))
}

/// Contiguous bytes of a file on one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The column.
    pub column: u32,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Offset of the first byte in the object.
    pub object_offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl FileLayout {
    /// Index in the device of the chain of `column`.
    #[must_use]
    pub fn chain_index(&self, column: u32) -> usize {
        ((u64::from(column) + u64::from(self.first)) % u64::from(self.columns)) as usize
    }

    /// Chain of `column`, from the device's list.
    #[must_use]
    pub fn chain(&self, chains: &[ChainId], column: u32) -> Option<ChainId> {
        chains.get(self.chain_index(column)).copied()
    }

    /// Extents of the bytes `offset..offset + len`, in file order, one for each stripe unit touched.
    pub fn extents(&self, offset: u64, len: u64) -> impl Iterator<Item = Extent> + use<> {
        let (unit, columns) = (u64::from(self.unit.bytes()), u64::from(self.columns));
        let end = offset.saturating_add(len);
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (stripe, within) = (at / unit, at % unit);
            let len = (unit - within).min(end - at);
            let column = (stripe % columns) as u32;
            let extent =
                Extent { column, file_offset: at, object_offset: stripe / columns * unit + within, len };
            at += len;
            Some(extent)
        })
    }

    /// Length of the object of `column` in a file of `size` bytes without holes.
    #[must_use]
    pub fn object_len(&self, column: u32, size: u64) -> u64 {
        let (unit, columns, column) =
            (u64::from(self.unit.bytes()), u64::from(self.columns), u64::from(column));
        let row = unit * columns;
        let within = (size % row).saturating_sub(column * unit).min(unit);
        size / row * unit + within
    }

    /// File offset of a byte of the object of `column`: the reverse of an [`Extent`].
    #[must_use]
    pub fn file_offset(&self, column: u32, object_offset: u64) -> u64 {
        let (unit, columns, column) =
            (u64::from(self.unit.bytes()), u64::from(self.columns), u64::from(column));
        let stripe = (object_offset / unit).saturating_mul(columns).saturating_add(column);
        stripe.saturating_mul(unit).saturating_add(object_offset % unit)
    }

    /// Range of the object of `column` for the bytes `offset..offset + len` of the file, as (offset, bytes).
    #[must_use]
    pub fn object_range(&self, column: u32, offset: u64, len: u64) -> (u64, u64) {
        let start = self.object_len(column, offset);
        (start, self.object_len(column, offset.saturating_add(len)) - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_of_a_column_is_its_extents_and_each_offset_has_its_way_back() {
        for (unit, columns) in [(1, 1), (1, 3), (2, 4)] {
            let unit = StripeUnit::new(unit * StripeUnit::STEP_BYTES).unwrap();
            let layout = FileLayout { device: DeviceId(1), first: 0, unit, columns };
            let u = u64::from(unit.bytes());
            for (offset, len) in [(0, 10), (u - 1, 2), (3, 7 * u), (5 * u + 9, 2 * u), (u, 0), (9 * u, u)] {
                let mut runs = vec![(None, 0); columns as usize];
                for extent in layout.extents(offset, len) {
                    let back = layout.file_offset(extent.column, extent.object_offset);
                    assert_eq!(back, extent.file_offset);
                    let (start, sum) = &mut runs[extent.column as usize];
                    start.get_or_insert(extent.object_offset);
                    *sum += extent.len;
                }
                for (column, (start, sum)) in (0..).zip(runs) {
                    let (found, found_len) = layout.object_range(column, offset, len);
                    assert_eq!(found_len, sum, "{layout:?} column {column} of {offset}+{len}");
                    assert!(start.is_none_or(|start| start == found));
                }
            }
        }
    }
}
