//! A data server that makes objects, and does nothing else: no data are written in these stories.

use std::ops::RangeInclusive;
use std::sync::Arc;

use host::SeededEntropy;
use nfs::{Answer, Call, Connection, Gatekeeper, Limits, Program, Programs, Server};
use wire::data::{self, Procedure, Reply};
use wire::rpc::{CallHeader, Rejection};
use wire::xdr::{Decoder, Encode, Encoder};

use crate::world::peer_key;

struct MakesObjects {
    gatekeeper: Gatekeeper,
}

impl Program for MakesObjects {
    fn number(&self) -> u32 {
        data::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        data::VERSION..=data::VERSION
    }

    fn trusts(&self, _: &CallHeader, _: Decoder, _: &Connection) -> bool {
        true
    }

    fn call(self: Arc<Self>, mut call: Call) -> Answer {
        Box::pin(async move {
            let procedure =
                Procedure::from_u32(call.header.procedure).ok_or(Rejection::ProcedureUnavailable)?;
            let arguments = data::Call::decode(procedure, &mut call.arguments);
            let reply = match arguments.map_err(|_| Rejection::GarbageArguments)? {
                data::Call::Hello(args) => Reply::Hello(self.gatekeeper.hello(&call.connection, &args)),
                data::Call::Prove(args) => Reply::Prove(self.gatekeeper.prove(&call.connection, &args)),
                data::Call::Make(_) => Reply::Make(Ok(())),
                _ => return Err(Rejection::ProcedureUnavailable),
            };
            let mut encoder = Encoder::default();
            reply.encode(&mut encoder);
            Ok(encoder.finish())
        })
    }
}

/// Starts one, on a port of its own.
pub async fn start() -> Server {
    let gatekeeper = Gatekeeper::new(peer_key(), Arc::new(SeededEntropy::new(5)));
    let programs = Programs::new(vec![Arc::new(MakesObjects { gatekeeper }) as Arc<dyn Program>]);
    let server = Server::start(([127, 0, 0, 1], 0).into(), programs, Limits::default(), Arc::default()).await;
    server.expect("it listens")
}
