//! Transport between members of one incarnation of the group: each call has the incarnation's id; another one
//! is refused.
//!
//! ```text
//! body: │ 0 │ message │           from a member without an incarnation: it is joining
//!       │ 1 │ id, 16 │ message │
//! ```
//!
//! A restored group and the group of its backup have the same secret, and may have the same addresses. A late
//! message of one must not be carried out by the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::state::integrity::Integrity;
use crate::transport::{CallFuture, Channel, Transport};
use crate::types::Member;

const ID_BYTES: usize = 16;

/// Transport of this member's calls.
pub(crate) struct GroupTransport {
    pub inner: Arc<dyn Transport>,
    pub integrity: Arc<Integrity>,
}

impl Transport for GroupTransport {
    fn call(&self, to: &Member, channel: Channel, body: Bytes, limit: Duration) -> CallFuture {
        let own = self.integrity.incarnation();
        let mut whole = BytesMut::with_capacity(1 + ID_BYTES + body.len());
        whole.put_u8(u8::from(own.is_some()));
        whole.extend(own.iter().flat_map(|own| own.id));
        whole.extend_from_slice(&body);
        self.inner.call(to, channel, whole.freeze(), limit)
    }

    fn refuses_connections(&self, member: &Member) -> crate::transport::ProbeFuture {
        self.inner.refuses_connections(member)
    }
}

/// Message of a call, if it has this member's incarnation, or one of the two has none yet.
pub(crate) fn opened<'a>(body: &'a [u8], integrity: &Integrity) -> Result<&'a [u8], String> {
    let (theirs, message) = match body.split_first() {
        Some((0, message)) => return Ok(message),
        Some((1, rest)) => rest.split_first_chunk::<ID_BYTES>().ok_or("a message cut short")?,
        _ => return Err("a malformed message".into()),
    };
    match integrity.incarnation() {
        Some(own) if own.id != *theirs => Err(format!(
            "this member is of another incarnation of the group ({:032x}, not {:032x}): one of them was restored from a \
             backup, and they are two groups",
            u128::from_be_bytes(own.id),
            u128::from_be_bytes(*theirs)
        )),
        Some(_) | None => Ok(message),
    }
}
