//! The least that speaks RPC and NFSv4.1 compounds.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use wire::nfs4::backchannel_ctl::CallbackSec;
use wire::nfs4::callback::{CbCompound, CbReply};
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::open::{Claim, CreateHow, OpenHow};
use wire::nfs4::{ArgOp, ClientId, FileHandle, OwnerName, ResOp, SessionId, StateOwner, Stateid, Status};
use wire::nfs4::{
    bind_conn_to_session, create_session, exchange_id, layoutget, lock, open, putfh, reclaim_complete,
    sequence,
};
use wire::rpc::{
    AuthSys, CallHeader, Credential, FragmentHeader, MESSAGE_CALL, Rejection, ReplyHeader, frame,
};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::world::World;

/// A connection that calls one thing after the other.
pub struct Raw {
    stream: TcpStream,
    pub xid: u32,
    pub uid: u32,
    pub minor_version: u32,
    pub tag: Bytes,
}

impl Raw {
    pub async fn connect(world: &World) -> Self {
        Self::connect_from(world, ([127, 0, 0, 1], 0).into()).await
    }

    /// From this address; port 0: from any. When it is dropped the port is free at once.
    pub async fn connect_from(world: &World, from: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("an option");
        socket.set_zero_linger().expect("an option");
        socket.bind(from).expect("binds");
        let stream = socket.connect(world.server.address()).await.expect("connects");
        Self { stream, xid: 0, uid: 0, minor_version: 1, tag: Bytes::new() }
    }

    pub fn local(&self) -> SocketAddr {
        self.stream.local_addr().expect("an address")
    }

    /// A decoder at the results.
    pub async fn exchange(
        &mut self,
        (program, version): (u32, u32),
        procedure: u32,
        args: &(dyn Encode + Sync),
    ) -> Result<Decoder, Rejection> {
        self.xid += 1;
        self.send((program, version), procedure, args).await;
        self.reply().await
    }

    /// To the last call.
    async fn reply(&mut self) -> Result<Decoder, Rejection> {
        let mut record = self.record().await;
        // A call-back that is made once more: it was answered before, and need not be again.
        while record[4..8] == MESSAGE_CALL.to_be_bytes() {
            record = self.record().await;
        }
        let mut d = Decoder::new(record);
        let reply = ReplyHeader::decode(&mut d).expect("a reply");
        assert_eq!(reply.xid, self.xid);
        reply.outcome.map(|()| d)
    }

    /// A call under the present xid.
    pub async fn send(&mut self, (program, version): (u32, u32), procedure: u32, args: &(dyn Encode + Sync)) {
        let credential = Credential::Sys(AuthSys { uid: self.uid, ..AuthSys::default() });
        let mut e = Encoder::new();
        CallHeader { xid: self.xid, program, version, procedure, credential }.encode(&mut e);
        args.encode(&mut e);
        self.stream.write_all(&frame(e.finish()).concat()).await.expect("writes");
    }

    pub async fn record(&mut self) -> Bytes {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).await.expect("reads");
        let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
        self.stream.read_exact(&mut record).await.expect("reads");
        record.into()
    }

    /// A call-back: its header and compound, answered with `status` for each operation.
    pub async fn called_back(&mut self, answer: impl Fn(&CbCompound) -> CbReply) -> (CallHeader, CbCompound) {
        let record = self.record().await;
        self.answer(record, answer).await
    }

    async fn answer(
        &mut self,
        record: Bytes,
        answer: impl Fn(&CbCompound) -> CbReply,
    ) -> (CallHeader, CbCompound) {
        let mut d = Decoder::new(record);
        let header = CallHeader::decode(&mut d).expect("a call");
        let compound = CbCompound::decode(&mut d).expect("a compound");
        let mut e = Encoder::new();
        answer(&compound).encode(&mut e);
        let reply = wire::rpc::reply(header.xid, Ok(&e.finish()));
        self.stream.write_all(&frame(reply).concat()).await.expect("writes");
        (header, compound)
    }

    pub async fn compound(&mut self, ops: Vec<ArgOp>) -> CompoundReply {
        self.send_compound(ops).await;
        self.compound_reply().await
    }

    /// [`Raw::compound`], with call-backs before its reply.
    pub async fn compound_answering(
        &mut self,
        ops: Vec<ArgOp>,
        answer: impl Fn(&CbCompound) -> CbReply,
    ) -> CompoundReply {
        self.send_compound(ops).await;
        loop {
            let record = self.record().await;
            if record[4..8] != MESSAGE_CALL.to_be_bytes() {
                let mut d = Decoder::new(record);
                ReplyHeader::decode(&mut d).expect("a reply").outcome.expect("accepted");
                return CompoundReply::decode(&mut d).expect("a compound's reply");
            }
            self.answer(record, &answer).await;
        }
    }

    pub async fn send_compound(&mut self, ops: Vec<ArgOp>) {
        let tag = self.tag.clone().into();
        self.xid += 1;
        self.send((100_003, 4), 1, &CompoundCall { tag, minor_version: self.minor_version, ops }).await;
    }

    pub async fn compound_reply(&mut self) -> CompoundReply {
        let mut d = self.reply().await.expect("accepted");
        CompoundReply::decode(&mut d).expect("a compound's reply")
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
        let ownerid = Bytes::from_static(owner.as_bytes()).into();
        let args = exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier: [verifier; 8], ownerid },
            flags,
            state_protect: exchange_id::StateProtectArgs::None,
            client_impl_id: None,
        };
        match self.alone(ArgOp::ExchangeId(args)).await {
            ResOp::ExchangeId(res) => res,
            other => panic!("{other:?}"),
        }
    }

    pub async fn create_session(
        &mut self,
        clientid: ClientId,
        sequence: u32,
    ) -> Result<create_session::ResOk, Status> {
        self.create_session_with(create_session_args(clientid, sequence)).await
    }

    pub async fn create_session_with(
        &mut self,
        args: create_session::Args,
    ) -> Result<create_session::ResOk, Status> {
        match self.alone(ArgOp::CreateSession(args)).await {
            ResOp::CreateSession(res) => res,
            other => panic!("{other:?}"),
        }
    }
}

pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;

/// What a session is asked to be.
pub fn create_session_args(clientid: ClientId, sequence: u32) -> create_session::Args {
    let attrs = create_session::ChannelAttrs {
        max_request_size: 2 << 20,
        max_response_size: 2 << 20,
        max_response_size_cached: 8192,
        max_operations: 16,
        max_requests: 8,
        ..create_session::ChannelAttrs::default()
    };
    create_session::Args {
        clientid,
        sequence,
        flags: create_session::CONN_BACK_CHAN,
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
        cb_program: CALLBACK_PROGRAM,
        sec_parms: vec![CallbackSec::None],
    }
}

/// A client with a session, which uses its slot 0 unless told otherwise.
pub struct Client {
    pub raw: Raw,
    pub id: ClientId,
    pub session: SessionId,
    pub sequence: u32,
}

impl Client {
    /// A client that has nothing to reclaim.
    pub async fn mount(world: &World, owner: &'static str) -> Self {
        Self::mount_over(Raw::connect(world).await, owner).await
    }

    /// The same, over a connection from an address of its own.
    pub async fn mount_over(raw: Raw, owner: &'static str) -> Self {
        Self::mount_with_slots(raw, owner, 1).await
    }

    /// The same, with a session of so many slots. With one slot, a request waits 2 s for a data server.
    pub async fn mount_with_slots(mut raw: Raw, owner: &'static str, slots: u32) -> Self {
        let known = raw.exchange_id(owner, 1, 0).await.expect("exchanges ids");
        let mut args = create_session_args(known.clientid, known.sequenceid);
        args.fore_chan_attrs.max_requests = slots;
        let made = raw.create_session_with(args).await.expect("makes a session");
        let mut client = Self { raw, id: known.clientid, session: made.sessionid, sequence: 0 };
        client.ok(vec![ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs: false })]).await;
        client
    }

    /// The same session over another connection.
    pub fn over(&self, raw: Raw) -> Self {
        Self { raw, id: self.id, session: self.session, sequence: 0 }
    }

    /// A new connection, as after a server's restart.
    pub async fn reconnect(&mut self, world: &World) {
        self.raw = Raw { xid: self.raw.xid, ..Raw::connect(world).await };
    }

    /// Has call-backs come over this connection.
    pub fn bind_op(&self) -> ArgOp {
        ArgOp::BindConnToSession(bind_conn_to_session::Args {
            sessid: self.session,
            dir: bind_conn_to_session::DirFromClient::BackOrBoth,
            use_conn_in_rdma_mode: false,
        })
    }

    /// Call-backs come over this connection from now on.
    pub async fn bind(&mut self) {
        let bound = self.raw.compound(vec![self.bind_op()]).await;
        assert_eq!(bound.status, Status::Ok);
    }

    /// SEQUENCE and then `ops`: the results without SEQUENCE's, or SEQUENCE's refusal.
    pub async fn run(&mut self, ops: Vec<ArgOp>) -> Result<Vec<ResOp>, Status> {
        self.sequence += 1;
        let reply = self.at(0, self.sequence, ops).await;
        match &reply.ops[0] {
            ResOp::Sequence(Ok(_)) => Ok(reply.ops[1..].to_vec()),
            other => Err(other.status()),
        }
    }

    /// [`Client::run`]; all of them succeed.
    pub async fn ok(&mut self, ops: Vec<ArgOp>) -> Vec<ResOp> {
        let results = self.run(ops).await.expect("SEQUENCE succeeds");
        assert!(results.iter().all(|result| result.status() == Status::Ok), "{results:?}");
        results
    }

    /// The status of the last operation that was carried out.
    pub async fn status(&mut self, ops: Vec<ArgOp>) -> Status {
        self.run(ops)
            .await
            .map_or_else(|status| status, |results| results.last().map_or(Status::Ok, ResOp::status))
    }

    /// SEQUENCE's status flags, with call-backs before the reply.
    pub async fn flags_answering(&mut self, answer: impl Fn(&CbCompound) -> CbReply) -> u32 {
        self.sequence += 1;
        let sequence = self.sequence_op(0, self.sequence, false);
        match self.raw.compound_answering(vec![sequence], answer).await.ops.remove(0) {
            ResOp::Sequence(Ok(res)) => res.status_flags,
            other => panic!("{other:?}"),
        }
    }

    /// SEQUENCE's status flags.
    pub async fn flags(&mut self) -> u32 {
        self.sequence += 1;
        match self.at(0, self.sequence, vec![]).await.ops.remove(0) {
            ResOp::Sequence(Ok(res)) => res.status_flags,
            other => panic!("{other:?}"),
        }
    }

    pub async fn at(&mut self, slot: u32, sequence: u32, ops: Vec<ArgOp>) -> CompoundReply {
        let first = self.sequence_op(slot, sequence, true);
        self.raw.compound([vec![first], ops].concat()).await
    }

    pub fn sequence_op(&self, slot: u32, sequence: u32, cachethis: bool) -> ArgOp {
        ArgOp::Sequence(sequence::Args {
            sessionid: self.session,
            sequenceid: sequence,
            slotid: slot,
            highest_slotid: slot,
            cachethis,
        })
    }

    /// OPEN of a name in the root, made if need be.
    pub fn open_op(&self, owner: &'static str, name: &'static str, access: u32, deny: u32) -> ArgOp {
        self.open_how(owner, access, deny, OpenHow::Create(CreateHow::Unchecked(Box::default())), null(name))
    }

    /// OPEN; one for writing wants no delegation, unless `access` says more.
    pub fn open_how(
        &self,
        owner: &'static str,
        access: u32,
        deny: u32,
        openhow: OpenHow,
        claim: Claim,
    ) -> ArgOp {
        let writes = access & open::SHARE_ACCESS_WRITE != 0 && access & 0xff00 == 0;
        let access = if writes { access | open::WANT_NO_DELEG } else { access };
        ArgOp::Open(open::Args {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner: self.owner(owner),
            openhow,
            claim,
        })
    }

    pub fn owner(&self, owner: &'static str) -> StateOwner {
        StateOwner { clientid: self.id, owner: OwnerName::from(Bytes::from_static(owner.as_bytes())) }
    }

    /// Opens a file in the root: its handle and stateid.
    pub async fn open(
        &mut self,
        name: &'static str,
        access: u32,
        deny: u32,
    ) -> Result<(FileHandle, Stateid), Status> {
        let ops = vec![ArgOp::PutRootFh, self.open_op("owner", name, access, deny), ArgOp::GetFh];
        let results = self.run(ops).await?;
        match &results[..] {
            [_, ResOp::Open(Ok(opened)), ResOp::GetFh(Ok(handle))] => {
                Ok((handle.object.clone(), opened.stateid))
            }
            other => Err(other.last().expect("a result").status()),
        }
    }

    pub fn lock_op(&self, owner: &'static str, open: Stateid, offset: u64, length: u64) -> ArgOp {
        ArgOp::Lock(lock::Args {
            locktype: wire::nfs4::LockType::Write,
            reclaim: false,
            offset,
            length,
            locker: lock::Locker::New(lock::OpenToLockOwner {
                open_seqid: 0,
                open_stateid: open,
                lock_seqid: 0,
                lock_owner: self.owner(owner),
            }),
        })
    }
}

pub fn putfh(handle: &FileHandle) -> ArgOp {
    ArgOp::PutFh(putfh::Args { object: handle.clone() })
}

pub fn null(name: &'static str) -> Claim {
    Claim::Null(Bytes::from_static(name.as_bytes()))
}

/// LAYOUTGET of the whole file, to read and write.
pub fn layoutget_op(stateid: Stateid) -> ArgOp {
    ArgOp::LayoutGet(layoutget::Args {
        signal_layout_avail: false,
        layout_type: wire::nfs4::LayoutType::FILES,
        iomode: wire::nfs4::LayoutIoMode::ReadWrite,
        offset: 0,
        length: u64::MAX,
        minlength: 0,
        stateid,
        maxcount: 4096,
    })
}
