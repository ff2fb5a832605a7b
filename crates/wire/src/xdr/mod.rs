//! External Data Representation (RFC 4506): the one codec under every program.
//!
//! ```text
//! Decoder: one record (Bytes) ── u32, u64, opaque, array ──▶ values; opaque data are slices of the record
//! Encoder: values ──▶ head bytes │ payload │ head bytes │ payload …   (segments for one vectored write)
//! ```

mod decoder;
mod encoder;
mod macros;
mod payload;

pub use decoder::{Decode, DecodeError, Decoder};
pub use encoder::{Encode, Encoder, Message};
pub use payload::Payload;
