//! EXCHANGE_ID, sessions, slots and connections.

use wire::nfs4::backchannel_ctl::{self, AuthSysParms, CallbackSec};
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp, SequenceOk};
use wire::nfs4::exchange_id::{self, CONFIRMED_R, SUPP_FENCE_OPS, UPD_CONFIRMED_REC_A};
use wire::nfs4::{ArgOp, ClientId, OwnerName, ResOp, SessionId, Status};
use wire::nfs4::{bind_conn_to_session, destroy_clientid, destroy_session, remove};
use wire::rpc::{AuthSys, Credential};

use crate::drc;
use crate::raw::{CALLBACK_PROGRAM, Client, Raw, create_session_args, layoutget_op, putfh};
use crate::world::World;

const BOTH: u32 = 3;

fn sys(machine: &'static str, uid: u32) -> CallbackSec {
    let machine = bytes::Bytes::from_static(machine.as_bytes()).into();
    CallbackSec::Sys(AuthSysParms { stamp: 1, machine, uid, gid: 5, gids: vec![6] })
}

/// RFC 8881, section 18.35.4: what a record that is there makes of EXCHANGE_ID.
#[tokio::test]
async fn exchange_id_answers_by_the_table() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let update = UPD_CONFIRMED_REC_A;
    assert_eq!(raw.exchange_id("a", 1, update).await.expect_err("case 7, nothing there"), Status::NoEnt);
    let first = raw.exchange_id("a", 1, 0).await.expect("case 1");
    assert_eq!((first.sequenceid, first.flags & CONFIRMED_R), (1, 0));
    assert_eq!(raw.exchange_id("a", 1, update).await.expect_err("case 7, unconfirmed"), Status::NoEnt);
    let again = raw.exchange_id("a", 1, 0).await.expect("case 4");
    assert_ne!(again.clientid, first.clientid);
    assert_eq!(raw.create_session(first.clientid, 1).await.expect_err("replaced"), Status::StaleClientid);
    raw.uid = 1;
    assert_eq!(raw.create_session(again.clientid, 1).await.expect_err("another user"), Status::ClidInUse);
    raw.uid = 0;
    raw.create_session(again.clientid, 1).await.expect("confirms");

    let known = raw.exchange_id("a", 1, 0).await.expect("case 2");
    assert_eq!(
        (known.clientid, known.sequenceid, known.flags & CONFIRMED_R),
        (again.clientid, 2, CONFIRMED_R)
    );
    assert_eq!(known.server_owner, first.server_owner, "one server, whatever the path: trunking");
    assert_eq!(known.server_scope, first.server_scope);
    let updated = raw.exchange_id("a", 1, update).await.expect("case 6");
    assert_eq!(updated.clientid, again.clientid);
    assert_eq!(raw.exchange_id("a", 2, update).await.expect_err("case 8"), Status::NotSame);
    raw.uid = 1;
    assert_eq!(raw.exchange_id("a", 2, update).await.expect_err("case 8 comes first"), Status::NotSame);
    assert_eq!(raw.exchange_id("a", 1, update).await.expect_err("case 9"), Status::Perm);
    assert_eq!(raw.exchange_id("a", 1, 0).await.expect_err("case 3, in use"), Status::ClidInUse);
    raw.uid = 0;
    let reborn = raw.exchange_id("a", 2, 0).await.expect("case 5");
    assert_ne!(reborn.clientid, again.clientid);
    assert!(world.client(again.clientid).is_some(), "until the new one confirms");
    raw.create_session(reborn.clientid, 1).await.expect("confirms");
    assert_eq!(world.client(again.clientid), None);
}

#[tokio::test]
async fn flags_of_exchange_id_are_those_of_the_minor_version() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    assert_eq!(raw.exchange_id("a", 1, CONFIRMED_R).await.expect_err("the server's"), Status::Inval);
    assert_eq!(raw.exchange_id("a", 1, 0x20).await.expect_err("nobody's"), Status::Inval);
    // RFC 7862, section 14.1.3, gave it a meaning.
    assert_eq!(raw.exchange_id("a", 1, SUPP_FENCE_OPS).await.expect_err("not in 4.1"), Status::Inval);
    raw.minor_version = 2;
    raw.exchange_id("a", 1, SUPP_FENCE_OPS).await.expect("in 4.2");
}

#[tokio::test]
async fn operations_that_stand_alone_are_alone() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let destroy = ArgOp::DestroyClientid(destroy_clientid::Args { clientid: ClientId(1) });
    assert_eq!(raw.compound(vec![destroy.clone(), ArgOp::PutRootFh]).await.status, Status::NotOnlyOp);
    assert_eq!(raw.compound(vec![destroy]).await.status, Status::StaleClientid);
    assert_eq!(raw.compound(vec![ArgOp::PutRootFh]).await.status, Status::OpNotInSession);
    let mut ash = Client::mount(&world, "ash").await;
    let bind = ArgOp::BindConnToSession(bind_conn_to_session::Args {
        sessid: ash.session,
        dir: bind_conn_to_session::DirFromClient::Fore,
        use_conn_in_rdma_mode: false,
    });
    assert_eq!(ash.status(vec![bind]).await, Status::NotOnlyOp);
    let again = ash.sequence_op(1, 1, false);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, again]).await, Status::SequencePos);
    let own = ArgOp::DestroySession(destroy_session::Args { sessionid: ash.session });
    assert_eq!(ash.status(vec![own.clone(), ArgOp::PutRootFh]).await, Status::NotOnlyOp);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, own]).await, Status::Ok, "last it may");
    assert_eq!(ash.run(vec![]).await.expect_err("destroyed"), Status::BadSession);
}

#[tokio::test]
async fn a_tag_is_utf8_and_comes_back() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    raw.tag = bytes::Bytes::from_static("mæl".as_bytes());
    let reply = raw.compound(vec![ArgOp::PutRootFh]).await;
    assert_eq!((reply.status, reply.tag.0), (Status::OpNotInSession, raw.tag.clone()));
    raw.tag = bytes::Bytes::from_static(b"\xc0\xc1");
    let reply = raw.compound(vec![ArgOp::PutRootFh]).await;
    assert_eq!((reply.status, reply.ops.len()), (Status::Inval, 0));
    raw.tag = bytes::Bytes::new();
    raw.minor_version = 3;
    assert_eq!(raw.compound(vec![ArgOp::PutRootFh]).await.status, Status::MinorVersMismatch);
}

/// RFC 8881, section 2.10.6.1.
#[tokio::test]
async fn a_slot_takes_the_next_request_and_repeats_the_last() {
    let world = World::start().await;
    let mut ash = Client::mount_with_slots(Raw::connect(&world).await, "ash", 8).await;
    let first = |reply: &wire::nfs4::compound::CompoundReply| reply.ops[0].status();
    let make = vec![ArgOp::PutRootFh, ash.open_op("o", "f", BOTH, 0), ArgOp::GetFh];
    assert_eq!(first(&ash.at(1, 2, make.clone()).await), Status::SeqMisordered, "a slot begins with 1");
    assert_eq!(first(&ash.at(1, 0, make.clone()).await), Status::SeqMisordered);
    assert_eq!(first(&ash.at(8, 1, make.clone()).await), Status::BadSlot, "there are eight");
    let made = ash.at(1, 1, make.clone()).await;
    assert_eq!(made.status, Status::Ok);
    assert_eq!(ash.at(1, 1, make.clone()).await, made, "word for word");
    assert_eq!(first(&ash.at(1, 3, make.clone()).await), Status::SeqMisordered);
    // Something else under the same number.
    assert_eq!(first(&ash.at(1, 1, vec![ArgOp::PutRootFh]).await), Status::SeqFalseRetry);
    ash.raw.uid = 1;
    assert_eq!(first(&ash.at(1, 1, make.clone()).await), Status::SeqFalseRetry, "somebody else");
    ash.raw.uid = 0;
    assert_eq!(ash.at(1, 1, make).await, made);
}

/// A new server does not know the slots: what was changed before is known to the state machine.
#[tokio::test]
async fn a_repetition_at_a_new_server_is_not_done_again() {
    let mut world = World::start().await;
    let mut ash = Client::mount_with_slots(Raw::connect(&world).await, "ash", 8).await;
    ash.open("f", BOTH, 0).await.expect("opens");
    let remove = remove::Args { target: bytes::Bytes::from_static(b"f") };
    let ops = vec![ArgOp::PutRootFh, ArgOp::Remove(remove)];
    let removed = ash.at(1, 1, ops.clone()).await;
    assert_eq!(removed.status, Status::Ok);
    world.restart().await;
    ash.reconnect(&world).await;
    let again = ash.at(1, 1, ops.clone()).await;
    assert_eq!(again.ops[1..], removed.ops[1..], "all but SEQUENCE's flags: there is no back channel yet");
    assert_eq!(ash.at(1, 2, ops).await.status, Status::NoEnt);
}

#[tokio::test]
async fn limits_of_a_session_are_kept() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let known = raw.exchange_id("ash", 1, 0).await.expect("exchanges ids");
    let mut args = create_session_args(known.clientid, 1);
    args.fore_chan_attrs.max_operations = 3;
    args.fore_chan_attrs.max_request_size = 300;
    args.fore_chan_attrs.max_response_size = 400;
    args.fore_chan_attrs.max_response_size_cached = 260;
    let made = raw.create_session_with(args.clone()).await.expect("makes a session");
    assert_eq!(raw.create_session_with(args).await.expect("again"), made, "a repetition");
    let mut ash = Client { raw, id: known.clientid, session: made.sessionid, sequence: 0 };
    assert_eq!(ash.run(vec![ArgOp::PutRootFh; 3]).await.expect_err("four with SEQUENCE"), Status::TooManyOps);
    ash.sequence -= 1; // SEQUENCE failed: the slot did not move
    let name = bytes::Bytes::from(vec![b'x'; 255]);
    let too_long = vec![ArgOp::Remove(remove::Args { target: name })];
    assert_eq!(ash.run(too_long).await.expect_err("more than 300 bytes"), Status::ReqTooBig);
    ash.sequence -= 1;
    let all = wire::nfs4::getattr::Args { attr_request: (0..=47).collect() };
    let ops = vec![ArgOp::PutRootFh, ArgOp::GetAttr(all)];
    assert_eq!(ash.status(ops.clone()).await, Status::RepTooBigToCache);
    ash.sequence += 1;
    let sequence = ash.sequence_op(0, ash.sequence, false);
    assert_eq!(ash.raw.compound([vec![sequence], ops].concat()).await.status, Status::RepTooBig);
}

/// RFC 8881, section 2.10.6.4: what cannot be told is not done.
#[tokio::test]
async fn a_change_whose_reply_would_not_fit_is_not_made() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let known = raw.exchange_id("ash", 1, 0).await.expect("exchanges ids");
    let mut args = create_session_args(known.clientid, 1);
    args.fore_chan_attrs.max_response_size_cached = 180;
    let made = raw.create_session_with(args).await.expect("makes a session");
    let mut ash = Client { raw, id: known.clientid, session: made.sessionid, sequence: 0 };
    ash.ok(vec![ArgOp::ReclaimComplete(wire::nfs4::reclaim_complete::Args { one_fs: false })]).await;
    let open = ash.open_op("o", "f", BOTH, 0);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, open]).await, Status::RepTooBigToCache);
    let lookup = wire::nfs4::lookup::Args { objname: bytes::Bytes::from_static(b"f") };
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, ArgOp::Lookup(lookup)]).await, Status::NoEnt);
}

/// RFC 8881, section 18.37.3: over a connection that is associated with the session.
#[tokio::test]
async fn a_session_is_destroyed_over_a_connection_of_its_own() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut stranger = Raw::connect(&world).await;
    let destroy = ArgOp::DestroySession(destroy_session::Args { sessionid: ash.session });
    assert_eq!(stranger.compound(vec![destroy.clone()]).await.status, Status::ConnNotBoundToSession);
    let none = destroy_session::Args { sessionid: SessionId([3; 16]) };
    assert_eq!(stranger.compound(vec![ArgOp::DestroySession(none)]).await.status, Status::BadSession);
    std::mem::swap(&mut ash.raw, &mut stranger);
    ash.ok(vec![]).await; // a request of the session associates the connection
    assert_eq!(ash.raw.compound(vec![destroy.clone()]).await.status, Status::Ok);
    assert_eq!(ash.raw.compound(vec![destroy]).await.status, Status::BadSession);
    let client = ArgOp::DestroyClientid(destroy_clientid::Args { clientid: ash.id });
    assert_eq!(ash.raw.compound(vec![client.clone()]).await.status, Status::Ok);
    assert_eq!(ash.raw.compound(vec![client]).await.status, Status::StaleClientid);
}

#[tokio::test]
async fn a_client_is_not_destroyed_while_it_has_a_session() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let client = ArgOp::DestroyClientid(destroy_clientid::Args { clientid: ash.id });
    assert_eq!(ash.raw.compound(vec![client]).await.status, Status::ClientidBusy);
}

/// Ids of clients are easy to guess. A stranger that destroys each of them before its CREATE_SESSION would
/// keep all from mounting, and would write to the log with each call.
#[tokio::test]
async fn a_client_is_destroyed_from_its_own_address_only() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let ash = raw.exchange_id("ash", 1, 0).await.expect("an id");
    let mut stranger = Raw::connect_from(&world, ([127, 0, 0, 99], 0).into()).await;
    let destroy = ArgOp::DestroyClientid(destroy_clientid::Args { clientid: ash.clientid });
    let applied =
        |world: &World| replica::applied_next(&*world.replica.view().expect("a view")).expect("reads");
    let before = applied(&world);
    assert_eq!(stranger.compound(vec![destroy.clone()]).await.status, Status::StaleClientid);
    assert_eq!(applied(&world), before, "nothing was written");
    raw.create_session(ash.clientid, 1).await.expect("confirms");
    let birch = raw.exchange_id("birch", 1, 0).await.expect("an id");
    let destroy = ArgOp::DestroyClientid(destroy_clientid::Args { clientid: birch.clientid });
    assert_eq!(raw.compound(vec![destroy]).await.status, Status::Ok);
}

/// What the client asked for in CREATE_SESSION, and later in BACKCHANNEL_CTL, holds at a server that it never
/// told.
#[tokio::test]
async fn an_adopted_session_is_called_back_as_its_client_asked() {
    let mut world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let known = raw.exchange_id("ash", 1, 0).await.expect("exchanges ids");
    let args = wire::nfs4::create_session::Args {
        sec_parms: vec![sys("birch", 77)],
        ..create_session_args(known.clientid, 1)
    };
    let made = raw.create_session_with(args).await.expect("makes a session");
    let mut ash = Client { raw, id: known.clientid, session: made.sessionid, sequence: 0 };
    ash.ok(vec![ArgOp::ReclaimComplete(wire::nfs4::reclaim_complete::Args { one_fs: false })]).await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    ash.ok(vec![putfh(&file), layoutget_op(open)]).await;
    let credential = |machine: &'static str, uid| {
        let machine = bytes::Bytes::from_static(machine.as_bytes());
        Credential::Sys(AuthSys { machine, uid, gid: 5, gids: vec![6] })
    };

    world.restart().await;
    ash.reconnect(&world).await;
    assert_ne!(ash.flags().await, 0, "no connection for call-backs");
    ash.bind().await;
    assert_eq!(ash.flags().await, 0);
    assert_eq!(recalled(&world, &mut ash).await, (CALLBACK_PROGRAM, credential("birch", 77)));

    let other = backchannel_ctl::Args {
        cb_program: CALLBACK_PROGRAM + 1,
        sec_parms: vec![sys("cedar", 78), CallbackSec::None],
    };
    ash.ok(vec![ArgOp::BackchannelCtl(other)]).await;
    assert_eq!(recalled(&world, &mut ash).await, (CALLBACK_PROGRAM + 1, credential("cedar", 78)));
    world.restart().await;
    ash.reconnect(&world).await;
    ash.bind().await;
    assert_eq!(recalled(&world, &mut ash).await, (CALLBACK_PROGRAM + 1, credential("cedar", 78)));
}

/// Somebody truncates the file that ash has a layout of: the program and credential of the call that ash
/// gets. It keeps the layout, so that it is asked again.
async fn recalled(world: &World, ash: &mut Client) -> (u32, Credential) {
    ash.ok(vec![]).await; // reads what an earlier recall may have left in the connection
    let mut raw = Raw::connect(world).await;
    let truncation = tokio::spawn(async move {
        let root = drc::root(&mut raw).await;
        drc::truncate(&mut raw, &root, "f").await
    });
    let (header, compound) = ash.raw.called_back(not_now).await;
    assert!(matches!(compound.ops[1], CbArgOp::LayoutRecall(_)), "{compound:?}");
    assert_eq!(truncation.await.expect("it ends"), Some(wire::nfs3::Status::Jukebox));
    (header.program, header.credential)
}

fn not_now(call: &CbCompound) -> CbReply {
    says(call, Status::Delay)
}

/// The answer to a call-back that recalls a layout.
pub fn says(call: &CbCompound, status: Status) -> CbReply {
    let CbArgOp::Sequence(args) = &call.ops[0] else { panic!("{call:?}") };
    let sequence = SequenceOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: 0,
        target_highest_slotid: 0,
    };
    let ops = vec![CbResOp::Sequence(Ok(sequence)), CbResOp::LayoutRecall(Err(status))];
    CbReply { status, tag: OwnerName::default(), ops }
}

/// EXCHANGE_ID costs a caller nothing: what it leaves behind must have an end.
#[tokio::test]
async fn a_flood_of_exchange_id_leaves_a_bounded_number_of_clients() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut raw = Raw::connect(&world).await;
    let mut first = None;
    for n in 0..namespace::UNCONFIRMED_OF_ADDRESS_MAX + 1 {
        let ownerid = bytes::Bytes::from(format!("flood {n}")).into();
        let args = exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier: [1; 8], ownerid },
            flags: 0,
            state_protect: exchange_id::StateProtectArgs::None,
            client_impl_id: None,
        };
        match raw.alone(ArgOp::ExchangeId(args)).await {
            ResOp::ExchangeId(Ok(known)) => first = first.or(Some(known.clientid)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.client(first.expect("one")), None);
    ash.ok(vec![]).await;
}

/// ```text
/// a stranger at another address, by ash's name         -> CLID_INUSE
/// it makes a session of ash's client id                -> STALE_CLIENTID
/// ash goes on; ash restarts at its own address         -> a new client
/// ```
#[tokio::test]
async fn a_client_that_is_alive_is_ended_by_nobody_at_another_address() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut stranger = Raw::connect_from(&world, ([127, 0, 0, 9], 0).into()).await;
    assert_eq!(stranger.exchange_id("ash", 2, 0).await, Err(Status::ClidInUse));
    let known = ash.raw.exchange_id("ash", 1, 0).await.unwrap();
    let taken = stranger.create_session(known.clientid, known.sequenceid).await;
    assert_eq!(taken.map(|_| ()), Err(Status::StaleClientid));
    ash.ok(vec![]).await;

    let mut again = Raw::connect(&world).await;
    let new = again.exchange_id("ash", 3, 0).await.unwrap();
    again.create_session(new.clientid, new.sequenceid).await.unwrap();
    assert_eq!(world.client(known.clientid), None);
}

/// A CREATE_SESSION that is sent again is the one that was answered, also when there is no room for one more.
#[tokio::test]
async fn the_last_session_that_a_client_may_have_is_told_again() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let id = raw.exchange_id("ash", 1, 0).await.unwrap();
    let mut last = None;
    for sequence in 1..=namespace::SESSIONS_OF_CLIENT_MAX as u32 {
        last = Some(raw.create_session(id.clientid, sequence).await.unwrap());
    }
    let last = last.expect("one at least");
    let again = raw.create_session(id.clientid, last.sequence).await.unwrap();
    assert_eq!(again.sessionid, last.sessionid);
    let further = raw.create_session(id.clientid, last.sequence + 1).await;
    assert_eq!(further.map(|_| ()), Err(Status::NoSpc));
}
