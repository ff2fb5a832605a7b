//! The least that speaks RPC to a metaserver: bytes in, bytes out, and compounds in a session.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::{ArgOp, ResOp, SessionId, Status, create_session, exchange_id, reclaim_complete, sequence};
use wire::rpc::{AuthSys, CallHeader, Credential, FragmentHeader, Rejection, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder, Message};

use crate::Scene;

pub const NFS4: (u32, u32) = (100_003, 4);
pub const NFS3: (u32, u32) = (100_003, 3);
pub const MOUNT: (u32, u32) = (100_005, 3);

/// A connection that calls one thing after the other.
pub struct Raw {
    pub stream: TcpStream,
    xid: u32,
    pub uid: u32,
}

impl Raw {
    pub async fn connect(scene: &Scene) -> Self {
        Self::connect_to(scene.server.address()).await
    }

    pub async fn connect_to(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), xid: 0, uid: 0 }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next record; none when the server ended the connection.
    pub async fn record(&mut self) -> Option<Decoder> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).await.ok()?;
        let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
        self.stream.read_exact(&mut record).await.ok()?;
        Some(Decoder::new(record.into()))
    }

    /// A call with these bytes as arguments; a decoder at the results.
    pub async fn call_bytes(
        &mut self,
        (program, version): (u32, u32),
        procedure: u32,
        arguments: Bytes,
    ) -> Result<Decoder, Rejection> {
        self.xid += 1;
        let credential = Credential::Sys(AuthSys { uid: self.uid, ..AuthSys::default() });
        let mut e = Encoder::new();
        CallHeader { xid: self.xid, program, version, procedure, credential }.encode(&mut e);
        e.message(&Message { len: arguments.len(), segments: vec![arguments] });
        self.send(&frame(e.finish()).concat()).await;
        let mut d = self.record().await.expect("an answer");
        let reply = ReplyHeader::decode(&mut d).unwrap();
        assert_eq!(reply.xid, self.xid);
        reply.outcome.map(|()| d)
    }

    pub async fn call<R: Decode>(&mut self, to: (u32, u32), procedure: u32, arguments: &dyn Encode) -> R {
        let mut d = self.call_bytes(to, procedure, encoded(arguments)).await.unwrap();
        let results = R::decode(&mut d).unwrap();
        assert_eq!(d.remaining(), 0, "nothing stands behind the results");
        results
    }

    pub async fn compound(&mut self, ops: Vec<ArgOp>) -> CompoundReply {
        self.call(NFS4, 1, &CompoundCall::new(2, ops)).await
    }

    /// The one result of a compound of one operation.
    pub async fn alone(&mut self, op: ArgOp) -> ResOp {
        self.compound(vec![op]).await.ops.remove(0)
    }
}

pub fn encoded(value: &dyn Encode) -> Bytes {
    let mut e = Encoder::new();
    value.encode(&mut e);
    e.finish().into_bytes()
}

/// A client with a session, of which it uses one slot.
pub struct Client {
    pub raw: Raw,
    pub session: SessionId,
    pub fore: create_session::ChannelAttrs,
    sequence: u32,
}

impl Client {
    pub async fn mount(scene: &Scene, owner: &'static str) -> Self {
        Self::mount_at(scene.server.address(), owner).await
    }

    /// The same client, after its machine has started again.
    pub async fn mount_again(scene: &Scene, owner: &'static str) -> Self {
        Self::mount_as(scene.server.address(), owner, [2; 8]).await
    }

    /// At a metaserver or a data server.
    pub async fn mount_at(address: SocketAddr, owner: &'static str) -> Self {
        Self::mount_as(address, owner, [1; 8]).await
    }

    async fn mount_as(address: SocketAddr, owner: &'static str, verifier: [u8; 8]) -> Self {
        let mut raw = Raw::connect_to(address).await;
        let ownerid = Bytes::from_static(owner.as_bytes()).into();
        let args = exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier, ownerid },
            flags: 0,
            state_protect: exchange_id::StateProtectArgs::None,
            client_impl_id: None,
        };
        let ResOp::ExchangeId(Ok(id)) = raw.alone(ArgOp::ExchangeId(args)).await else { panic!("no client") };
        let attrs = create_session::ChannelAttrs {
            max_request_size: 2 << 20,
            max_response_size: 2 << 20,
            max_response_size_cached: 8192,
            max_operations: 64,
            max_requests: 4,
            ..create_session::ChannelAttrs::default()
        };
        let args = create_session::Args {
            clientid: id.clientid,
            sequence: id.sequenceid,
            flags: 0,
            fore_chan_attrs: attrs,
            back_chan_attrs: attrs,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        };
        let made = raw.alone(ArgOp::CreateSession(args)).await;
        let ResOp::CreateSession(Ok(made)) = made else { panic!("{made:?}") };
        let mut client = Self { raw, session: made.sessionid, fore: made.fore_chan_attrs, sequence: 0 };
        // A data server has nothing to reclaim, and says so.
        client.run(vec![ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs: false })]).await;
        client
    }

    /// The bytes of a compound with SEQUENCE in front, of the next sequence.
    pub fn compound_bytes(&mut self, tag: Bytes, minor_version: u32, ops: Vec<ArgOp>) -> Bytes {
        self.sequence += 1;
        let args = sequence::Args {
            sessionid: self.session,
            sequenceid: self.sequence,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
        };
        let ops = [vec![ArgOp::Sequence(args)], ops].concat();
        encoded(&CompoundCall { tag: tag.into(), minor_version, ops })
    }

    /// The server did not take the last compound into the slot.
    pub fn not_taken(&mut self) {
        self.sequence -= 1;
    }

    /// SEQUENCE and then `ops`: the reply.
    pub async fn run(&mut self, ops: Vec<ArgOp>) -> CompoundReply {
        let bytes = self.compound_bytes(Bytes::new(), 2, ops);
        let reply = self.raw.call_bytes(NFS4, 1, bytes).await.unwrap();
        CompoundReply::decode_all(reply).expect("a reply that can be read")
    }

    /// The last result of `ops`.
    pub async fn last(&mut self, ops: Vec<ArgOp>) -> ResOp {
        self.run(ops).await.ops.pop().expect("SEQUENCE's at the least")
    }

    pub async fn status(&mut self, ops: Vec<ArgOp>) -> Status {
        self.run(ops).await.status
    }
}
