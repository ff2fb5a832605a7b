//! Bodies of the files layout type (RFC 8881, section 13).
//!
//! A device is a list of data servers, each with several addresses, and a list of stripe indices into the
//! servers. A layout has the first stripe index of a file, its stripe unit, and its handle on each server.

use bytes::Bytes;

use super::{DeviceId, FileHandle, NetAddr};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};
use crate::xdr_struct;

/// nfl_util: the stripe units are packed without gaps on each data server.
pub const UTIL_DENSE: u32 = 1;
/// nfl_util: COMMIT goes to the metaserver, not to the data servers.
pub const UTIL_COMMIT_THRU_MDS: u32 = 2;
/// nfl_util: mask of the flags.
pub const UTIL_FLAGS_MASK: u32 = 0x3f;
/// nfl_util: mask of the stripe unit in bytes, a multiple of 64.
pub const UTIL_STRIPE_UNIT_MASK: u32 = !UTIL_FLAGS_MASK;

xdr_struct! {
    /// nfsv4_1_file_layout_ds_addr4: the body of a device address.
    #[derive(Default)]
    pub struct DsAddr {
        /// Index in `multipath_ds_list` of each stripe column's data server.
        pub stripe_indices: Vec<u32>,
        /// Addresses of each data server.
        pub multipath_ds_list: Vec<Vec<NetAddr>>,
    }

    /// nfsv4_1_file_layout4: the body of a layout.
    pub struct FileLayout {
        /// The device.
        pub deviceid: DeviceId,
        /// The stripe unit, with [`UTIL_DENSE`] and [`UTIL_COMMIT_THRU_MDS`] in its low bits.
        pub util: u32,
        /// The index in `stripe_indices` of the file's first column.
        pub first_stripe_index: u32,
        /// Offset in the file where the striping pattern begins.
        pub pattern_offset: u64,
        /// Handles: one for all columns, or (dense) one for each column, or none to use the metaserver's
        /// handle.
        pub fh_list: Vec<FileHandle>,
    }
}

impl FileLayout {
    /// The stripe unit in bytes.
    #[must_use]
    pub fn stripe_unit_bytes(&self) -> u32 {
        self.util & UTIL_STRIPE_UNIT_MASK
    }

    /// True if the stripe units are packed without gaps.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.util & UTIL_DENSE != 0
    }
}

/// Encodes a layout or a device address as the body for LAYOUTGET or GETDEVICEINFO.
#[must_use]
pub fn to_body(value: &impl Encode) -> Bytes {
    let mut e = Encoder::new();
    value.encode(&mut e);
    e.finish().into_bytes()
}

/// Decodes the layout or device address in a body.
///
/// # Errors
/// [`DecodeError`] when it is malformed, or followed by more bytes.
pub fn from_body<T: Decode>(body: Bytes) -> Result<T, DecodeError> {
    let mut d = Decoder::new(body);
    let value = T::decode(&mut d)?;
    if d.remaining() == 0 { Ok(value) } else { Err(DecodeError::Range) }
}
