//! Form of all results: a status, then a body that depends on it.

use super::Status;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Error of an operation: mostly a [`Status`] alone, sometimes with a body.
pub trait OpError: From<Status> {
    /// Status on the wire.
    fn status(&self) -> Status;
    /// Encodes the body after the status.
    fn encode_body(&self, e: &mut Encoder);
    /// Decodes the body after the status.
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

/// An error must not encode as success: the peer would decode results that do not follow.
pub(super) fn failure(status: Status) -> Status {
    match status {
        Status::Ok => Status::ServerFault,
        status => status,
    }
}

/// Result of an operation.
pub trait OpResult: Sized {
    /// Status on the wire.
    fn status(&self) -> Status;
    /// Failure with a status only.
    fn failed(status: Status) -> Self;
    /// Encodes status and body.
    fn encode_result(&self, e: &mut Encoder);
    /// Decodes status and body.
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
