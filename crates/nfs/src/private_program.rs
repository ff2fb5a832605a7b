//! Private programs between servers of one cluster. Authentication runs before the program, so that no
//! procedure can skip it.
//!
//! ```text
//! call ─▶ NULL, HELLO, PROVE: answered here
//!      ─▶ any other: is the connection proven?  no  ─▶ NotProven; the arguments are not decoded
//!                                               yes ─▶ PrivateProgram::call_of_peer
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;

use wire::handshake::{Call as Opening, Procedure, Reply, Status, null};
use wire::rpc::{CallHeader, Rejection};
use wire::xdr::{Decoder, Encode, Encoder, Message};

use crate::{Answer, Call, Connection, PeerAuth, Program};

/// Program that only servers of the cluster may call.
pub trait PrivateProgram: Send + Sync + 'static {
    /// Program number.
    fn number(&self) -> u32;
    /// Program version; there is one.
    fn version(&self) -> u32;
    /// Authentication of connections.
    fn peer_auth(&self) -> &PeerAuth;
    /// Executes a call of a proven peer: a procedure from 3 on.
    fn call_of_peer(self: Arc<Self>, call: Call) -> Answer;
}

/// Private program behind its authentication.
pub struct Authenticated<P>(pub Arc<P>);

impl<P: PrivateProgram> Program for Authenticated<P> {
    fn number(&self) -> u32 {
        self.0.number()
    }

    fn versions(&self) -> RangeInclusive<u32> {
        self.0.version()..=self.0.version()
    }

    fn trusts(&self, _: &CallHeader, _: Decoder, connection: &Connection) -> bool {
        connection.is_member()
    }

    fn call(self: Arc<Self>, mut call: Call) -> Answer {
        let auth = self.0.peer_auth();
        let answer = match Procedure::from_u32(call.header.procedure) {
            Some(procedure) => open(auth, procedure, &mut call),
            None if auth.is_proven(call.connection.id()) => return Arc::clone(&self.0).call_of_peer(call),
            None => Ok(encoded(&Err::<(), _>(Status::NotProven))),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn open(auth: &PeerAuth, procedure: Procedure, call: &mut Call) -> Result<Message, Rejection> {
    let opening = Opening::decode(procedure, &mut call.arguments).map_err(|_| Rejection::GarbageArguments)?;
    Ok(encoded(&match opening {
        Opening::Null(_) => Reply::Null(null::Res {}),
        Opening::Hello(args) => Reply::Hello(auth.hello(&call.connection, &args)),
        Opening::Prove(args) => Reply::Prove(auth.prove(&call.connection, &args)),
    }))
}

/// Encodes results.
pub fn encoded(results: &impl Encode) -> Message {
    let mut encoder = Encoder::default();
    results.encode(&mut encoder);
    encoder.finish()
}
