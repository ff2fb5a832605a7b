//! The least that speaks RPC and NFSv4.1 compounds.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::{ArgOp, ClientId, OwnerName, ResOp, SessionId, Status};
use wire::nfs4::{create_session, exchange_id, putfh, sequence};
use wire::rpc::{AuthSys, CallHeader, Credential, FragmentHeader, Rejection, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::Served;

/// A connection that calls one thing after the other.
pub struct Raw {
    stream: TcpStream,
    xid: u32,
    pub uid: u32,
}

impl Raw {
    pub async fn connect(served: &Served) -> Self {
        Self { stream: TcpStream::connect(served.server.address()).await.unwrap(), xid: 0, uid: 0 }
    }

    /// From another address of this machine.
    pub async fn connect_from(served: &Served, from: [u8; 4]) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        Self { stream: socket.connect(served.server.address()).await.unwrap(), xid: 0, uid: 0 }
    }

    /// A decoder at the results.
    pub async fn exchange(
        &mut self,
        to: (u32, u32),
        procedure: u32,
        args: &(dyn Encode + Sync),
    ) -> Result<Decoder, Rejection> {
        self.send(to, procedure, args).await;
        let (xid, outcome) = self.receive().await;
        assert_eq!(xid, self.xid);
        outcome
    }

    async fn send(&mut self, (program, version): (u32, u32), procedure: u32, args: &(dyn Encode + Sync)) {
        self.xid += 1;
        let credential = Credential::Sys(AuthSys { uid: self.uid, ..AuthSys::default() });
        let mut e = Encoder::new();
        CallHeader { xid: self.xid, program, version, procedure, credential }.encode(&mut e);
        args.encode(&mut e);
        self.stream.write_all(&frame(e.finish()).concat()).await.unwrap();
    }

    /// The xid of the next reply, and a decoder at its results.
    async fn receive(&mut self) -> (u32, Result<Decoder, Rejection>) {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).await.unwrap();
        let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
        self.stream.read_exact(&mut record).await.unwrap();
        let mut d = Decoder::new(record.into());
        let reply = ReplyHeader::decode(&mut d).unwrap();
        (reply.xid, reply.outcome.map(|()| d))
    }

    pub async fn call<R: Decode>(&mut self, to: (u32, u32), procedure: u32, args: &(dyn Encode + Sync)) -> R {
        R::decode(&mut self.exchange(to, procedure, args).await.unwrap()).unwrap()
    }

    pub async fn compound(&mut self, ops: Vec<ArgOp>) -> CompoundReply {
        self.call((100_003, 4), 1, &CompoundCall { tag: OwnerName::default(), minor_version: 1, ops }).await
    }

    /// Sends EXCHANGE_ID and does not wait for the answer.
    pub async fn send_exchange_id(&mut self, owner: &'static str) {
        let ops = vec![exchange_id_op(owner, 1, 0)];
        self.send((100_003, 4), 1, &CompoundCall { tag: OwnerName::default(), minor_version: 1, ops }).await;
    }

    /// The status of the next compound that is answered.
    pub async fn next_status(&mut self) -> Status {
        CompoundReply::decode(&mut self.receive().await.1.unwrap()).unwrap().status
    }

    /// The one result of a compound of one operation.
    pub async fn alone(&mut self, op: ArgOp) -> ResOp {
        self.compound(vec![op]).await.ops.remove(0)
    }

    pub async fn exchange_id(
        &mut self,
        owner: &'static str,
        verifier: u8,
        flags: u32,
    ) -> Result<exchange_id::ResOk, Status> {
        match self.alone(exchange_id_op(owner, verifier, flags)).await {
            ResOp::ExchangeId(res) => res,
            other => panic!("{other:?}"),
        }
    }

    pub async fn create_session(
        &mut self,
        clientid: ClientId,
        sequence: u32,
    ) -> Result<create_session::ResOk, Status> {
        let attrs = create_session::ChannelAttrs {
            max_request_size: 2 << 20,
            max_response_size: 2 << 20,
            max_response_size_cached: 8192,
            max_operations: 8,
            max_requests: 100,
            ..create_session::ChannelAttrs::default()
        };
        let args = create_session::Args {
            clientid,
            sequence,
            flags: create_session::CONN_BACK_CHAN | create_session::PERSIST,
            fore_chan_attrs: attrs,
            back_chan_attrs: attrs,
            cb_program: 0x4000_0000,
            sec_parms: Vec::new(),
        };
        match self.alone(ArgOp::CreateSession(args)).await {
            ResOp::CreateSession(res) => res,
            other => panic!("{other:?}"),
        }
    }
}

fn exchange_id_op(owner: &'static str, verifier: u8, flags: u32) -> ArgOp {
    ArgOp::ExchangeId(exchange_id::Args {
        clientowner: exchange_id::ClientOwner {
            verifier: [verifier; 8],
            ownerid: Bytes::from_static(owner.as_bytes()).into(),
        },
        flags,
        state_protect: exchange_id::StateProtectArgs::None,
        client_impl_id: None,
    })
}

/// A client with a session, which uses its slot 0 unless told otherwise.
pub struct Client {
    pub raw: Raw,
    pub session: SessionId,
    sequence: u32,
}

impl Client {
    pub async fn mount(served: &Served, owner: &'static str) -> Self {
        let mut raw = Raw::connect(served).await;
        let id = raw.exchange_id(owner, 1, exchange_id::USE_PNFS_DS).await.unwrap();
        let session = raw.create_session(id.clientid, id.sequenceid).await.unwrap().sessionid;
        Self { raw, session, sequence: 0 }
    }

    /// SEQUENCE and then `ops`; the results without SEQUENCE's.
    pub async fn run(&mut self, ops: Vec<ArgOp>) -> Result<Vec<ResOp>, Status> {
        self.sequence += 1;
        let reply = self.at(0, self.sequence, ops).await;
        match &reply.ops[0] {
            ResOp::Sequence(Ok(_)) => Ok(reply.ops[1..].to_vec()),
            other => Err(other.status()),
        }
    }

    pub async fn at(&mut self, slot: u32, sequence: u32, ops: Vec<ArgOp>) -> CompoundReply {
        let args = sequence::Args {
            sessionid: self.session,
            sequenceid: sequence,
            slotid: slot,
            highest_slotid: slot,
            // As Linux: a reply of READ need not be kept, and could not.
            cachethis: ops.iter().any(|op| matches!(op, ArgOp::Write(_))),
        };
        self.raw.compound([vec![ArgOp::Sequence(args)], ops].concat()).await
    }

    /// PUTFH and `op`; the result of `op`, or of PUTFH when that failed.
    pub async fn on(&mut self, handle: &Bytes, op: ArgOp) -> ResOp {
        let putfh = ArgOp::PutFh(putfh::Args { object: handle.clone().into() });
        self.run(vec![putfh, op]).await.unwrap().pop().unwrap()
    }
}
