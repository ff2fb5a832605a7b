//! The form of all results: a status, then what depends on it.

use super::Status;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Why an operation failed: mostly a [`Status`] alone, sometimes with more behind it.
pub trait OpError: From<Status> {
    /// The status on the wire.
    fn status(&self) -> Status;
    /// Writes what follows the status.
    fn encode_body(&self, e: &mut Encoder);
    /// Reads what follows the status.
    ///
    /// # Errors
    /// [`DecodeError`] when it is malformed.
    fn decode_body(status: Status, d: &mut Decoder) -> Result<Self, DecodeError>;
}

impl OpError for Status {
    fn status(&self) -> Status {
        *self
    }

    fn encode_body(&self, _: &mut Encoder) {}

    fn decode_body(status: Status, _: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(status)
    }
}

/// A failure must never read as success: the peer would take what follows for results.
pub(super) fn failure(status: Status) -> Status {
    match status {
        Status::Ok => Status::ServerFault,
        status => status,
    }
}

/// What an operation ends with.
pub trait OpResult: Sized {
    /// The status on the wire.
    fn status(&self) -> Status;
    /// A failure that has only a status.
    fn failed(status: Status) -> Self;
    /// Writes status and body.
    fn encode_result(&self, e: &mut Encoder);
    /// Reads status and body.
    ///
    /// # Errors
    /// [`DecodeError`] when they are malformed.
    fn decode_result(d: &mut Decoder) -> Result<Self, DecodeError>;
}

impl<T: Encode + Decode, E: OpError> OpResult for Result<T, E> {
    fn status(&self) -> Status {
        self.as_ref().map_or_else(|error| failure(error.status()), |_| Status::Ok)
    }

    fn failed(status: Status) -> Self {
        Err(failure(status).into())
    }

    fn encode_result(&self, e: &mut Encoder) {
        self.status().encode(e);
        match self {
            Ok(value) => value.encode(e),
            Err(error) => error.encode_body(e),
        }
    }

    fn decode_result(d: &mut Decoder) -> Result<Self, DecodeError> {
        match Status::decode(d)? {
            Status::Ok => Ok(Ok(T::decode(d)?)),
            status => Ok(Err(E::decode_body(status, d)?)),
        }
    }
}
