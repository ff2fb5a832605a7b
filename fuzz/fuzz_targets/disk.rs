//! What comes back from a damaged disk: log records and the state machine's store. The first word says what
//! follows: 0, a log record as it stands; 1, its numbers and its payload, which get the frame that makes it
//! sound; 2, a store with bytes of one value replaced: which pair, from which byte on (with the highest bit:
//! to the end), then the new bytes; 3, the same with a checksum that holds, as nothing but a fault of ours
//! could write it: that is only read.
//!
//! Damage is an error or a finding, never a panic; and nothing allocates what is not there.

#![no_main]

use std::ops::ControlFlow;
use std::sync::OnceLock;

use bytes::Bytes;
use fuzz::{bounded, kind};
use libfuzzer_sys::fuzz_target;
use namespace::*;
use store::{Durability, MemoryStore, Store, View};

fuzz_target!(|data: &[u8]| {
    let Some((what, bytes)) = kind(data) else { return };
    match what {
        0 => log_record(&bytes),
        1 => payload(&bytes),
        2 => damaged_store(&bytes, Sum::Old),
        3 => damaged_store(&bytes, Sum::Right),
        _ => {}
    }
});

fn log_record(bytes: &[u8]) {
    let Some(again) = bounded(bytes.len(), || replica::read_and_write(bytes)) else { return };
    assert_eq!(
        replica::read_and_write(&again).as_ref(),
        Some(&again),
        "what was read can be written, and read again"
    );
}

/// The same with a frame whose checksum holds, which the fuzzer would not find.
fn payload(numbers_and_body: &[u8]) {
    let Some(len) = numbers_and_body.len().checked_sub(32) else { return };
    let crc = crc32c::crc32c(numbers_and_body);
    let salt = [0; 8];
    log_record(&[&salt, &(len as u32).to_le_bytes()[..], &crc.to_le_bytes(), numbers_and_body].concat());
}

/// What becomes of the checksum of the damaged value.
#[derive(PartialEq, Eq)]
enum Sum {
    Old,
    Right,
}

fn damaged_store(bytes: &Bytes, sum: Sum) {
    let Some((pick, value)) = kind(bytes) else { return };
    let (pick, at, to_the_end) = ((pick >> 16) as usize, pick as u16 & 0x7fff, pick & 0x8000 != 0);
    let mut pairs = whole_store().clone();
    let which = pick % pairs.len();
    let old = &pairs[which].1;
    // In the place of as many bytes from `at` on, or of all of them.
    let at = usize::from(at).clamp(1, old.len().max(1));
    let tail = if to_the_end { &[] } else { old.get(at + value.len()..).unwrap_or(&[]) };
    pairs[which].1 = [old.get(..at).unwrap_or(&[1]), &value[..], tail].concat();
    if sum == Sum::Right
        && let (key, value) = &mut pairs[which]
        && let Some((header, record)) = value.split_first_chunk_mut::<5>()
    {
        let parts = [key, &header[..1], record];
        let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
        header[1..].copy_from_slice(&sum.to_le_bytes());
    }
    let store = MemoryStore::new();
    let put = store.batch(Durability::Deferred, &mut |edit| {
        pairs.iter().try_for_each(|(key, value)| edit.put(key, value))
    });
    put.expect("a store in memory takes what it is given");
    let view = store.snapshot().expect("a snapshot");
    // The store is read as a whole several times over, for each of the ids below.
    let len = 64 * pairs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    bounded(len, || {
        let _ = check(&*view);
        read_everything(&*view);
    });
    if sum == Sum::Right {
        return;
    }
    let _ = store.batch(Durability::Deferred, &mut |edit| {
        for proposal in afterwards() {
            apply(edit, &proposal)?;
        }
        Ok(())
    });
}

/// Every read that a metaserver does; errors are welcome.
fn read_everything(view: &dyn View) {
    let mut seen = 0;
    for id in 1..8 {
        let inode = InodeId(id);
        if let Ok(Some(Inode { kind: Kind::File(File { layout, .. }), size, .. })) = read::inode(view, inode)
        {
            let first: Vec<_> = layout.extents(size / 2, 10 << 20).into_iter().take(20).collect();
            seen += first.len();
            for column in 0..layout.columns.min(3) {
                seen += usize::from(layout.object_len(column, size) > 0);
                seen += usize::from(layout.chain(&[ChainId(1), ChainId(2)], column).is_some());
            }
        }
        let _ = read::lookup(view, inode, b"f");
        let _ = read::list(view, inode, 0, |entry| {
            seen += entry.name.len();
            ControlFlow::Continue(())
        });
        let _ = read::stripe_policy(view, inode);
        let _ = read::opens(view, inode);
        let _ = read::locks(view, inode);
        let _ = read::layouts(view, inode);
        let _ = read::in_use(view, inode);
        let _ = read::share_conflict(view, inode, Share::READ, None);
        let _ = read::pending_truncation(view, inode);
        let _ = read::state(view, StateId(id));
        let _ = read::device(view, DeviceId(id));
        let _ = read::target_server(view, TargetId(id));
    }
    for client in read::clients(view).unwrap_or_default() {
        let _ = read::client(view, client);
        let _ = read::states(view, client);
        for session in read::sessions(view, client).unwrap_or_default() {
            let _ = read::session(view, session);
            let _ = read::recorded(
                view,
                &RequestId::Compound(CompoundRequest { session, slot: 0, sequence: 1, index: 0 }),
            );
        }
    }
    let _ = read::devices(view);
    let _ = read::data_servers(view);
    let _ = read::deferred_ops(view, 100);
    let _ = read::counts(view);
    assert!(seen < 1 << 20);
}

/// Every pair of a store with something in most tables.
fn whole_store() -> &'static Vec<(Vec<u8>, Vec<u8>)> {
    static PAIRS: OnceLock<Vec<(Vec<u8>, Vec<u8>)>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let store = MemoryStore::new();
        store.batch(Durability::Deferred, &mut |edit| format(edit, &stamp(0), [7; 16])).expect("formats");
        let client = ClientId((stamp(0).random >> 32 << 32) + 1);
        for (n, command) in (1..).zip(before(client)) {
            let proposal = Proposal::new(stamp(n), None, command);
            let mut reply = None;
            let done = store.batch(Durability::Deferred, &mut |edit| {
                reply = Some(apply(edit, &proposal)?);
                Ok(())
            });
            done.expect("applies");
            assert!(!matches!(reply, Some(Reply::Refused(_))), "{proposal:?} -> {reply:?}");
        }
        let view = store.snapshot().expect("a snapshot");
        assert_eq!(check(&*view).expect("checks"), Vec::<String>::new());
        let mut pairs = Vec::new();
        let scan = view.scan(&[], &[0xff], &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        scan.expect("scans");
        pairs
    })
}

fn stamp(n: u64) -> Stamp {
    Stamp { time: Time { seconds: n as i64, nanoseconds: 7 }, random: 0xfeed_beef_0000_0001 + n }
}

fn opened(id: u64) -> Stateid {
    Stateid { sequence: 0, id: StateId(id) }
}

fn principal() -> Principal {
    Principal::Sys { uid: 0, machine: b"host".to_vec() }
}

fn create(name: &str, node: NewNode) -> Create {
    let attributes = NewAttributes { mode: 0o644, uid: 1, gid: 1, accessed: None, modified: None };
    Create { dir: InodeId::ROOT, name: name.into(), node, attributes, exists: Exists::Refuse }
}

fn volume(name: &str) -> NewVolume {
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    NewVolume { dir: InodeId::ROOT, name: name.into(), attributes, stripe: None }
}

fn open(client: ClientId, name: &str) -> Command {
    let target = OpenTarget::Name { dir: InodeId::ROOT, name: name.into() };
    Command::Open(Open {
        client,
        owner: b"o".to_vec(),
        target,
        access: Share::BOTH,
        deny: Share::NONE,
        delegate: false,
        export: InodeId::ROOT,
    })
}

fn before(client: ClientId) -> Vec<Command> {
    let targets = vec![TargetId(1), TargetId(2)];
    let addresses = vec!["10.0.0.1:2050".to_string()];
    let name = "ds".to_string();
    let channel = Channel {
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        cached_bytes_max: 4096,
        operations_max: 8,
        slots: 4,
    };
    let layout = FileLayout { device: DeviceId(1), first: 1, unit: StripeUnit::DEFAULT, columns: 2 };
    let range = ByteRange { start: 0, end: 9 };
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let owner = LockOwner::New { open: opened(1), owner: b"l".to_vec() };
    let size = SetAttributes { size: Some(3), ..SetAttributes::default() };
    vec![
        Command::PutDataServer {
            server: DataServer {
                id: DataServerId(1),
                name,
                addresses,
                service_address: None,
                zone: String::new(),
                targets: targets.clone(),
                process: 1,
            },
            known: None,
        },
        Command::DefineDevice { chains: targets.into_iter().map(ChainId::from).collect() },
        Command::ExchangeId {
            owner: b"c".to_vec(),
            verifier: [1; 8],
            principal: principal(),
            update: false,
            address,
        },
        Command::CreateSession {
            client,
            sequence: 1,
            principal: principal(),
            address,
            channels: Channels {
                fore: channel,
                back: channel,
                callback: Callback { program: 7, credential: CallbackCredential::Nobody },
            },
        },
        Command::Create(create("f", NewNode::File(layout))),
        Command::Create(create("d", NewNode::Directory)),
        Command::Create(create("s", NewNode::Symlink(b"f".to_vec()))),
        Command::SetStripe {
            dir: InodeId(4),
            policy: Some(StripePolicy {
                unit: StripeUnit::DEFAULT,
                columns: 1,
                copies: 1,
                pool: PoolId::DEFAULT,
            }),
        },
        open(client, "f"),
        Command::Lock { client, inode: InodeId(3), owner, kind: LockKind::Write, range },
        Command::LayoutGet {
            client,
            inode: InodeId(3),
            stateid: opened(1),
            mode: IoMode::ReadWrite,
            made: Some(Placed { layout, epoch: 0 }),
            version: 0,
            export: InodeId::ROOT,
        },
        Command::SetAttributes { inode: InodeId(3), set: size },
        Command::MakeVolume(volume("v")),
        Command::Create(Create {
            dir: VolumeId(1).root(),
            ..create("in-it", NewNode::File(layout))
        }),
    ]
}

/// What a client might do next; each touches records that may be the damaged one.
fn afterwards() -> Vec<Proposal> {
    let client = ClientId((stamp(0).random >> 32 << 32) + 1);
    let layout = FileLayout { device: DeviceId(1), first: 1, unit: StripeUnit::DEFAULT, columns: 2 };
    let range = ByteRange { start: 5, end: 20 };
    let size = SetAttributes { size: Some(1), ..SetAttributes::default() };
    let commands = vec![
        Command::Create(create("new", NewNode::File(layout))),
        Command::Create(create("newdir", NewNode::Directory)),
        Command::Link { inode: InodeId(3), dir: InodeId(4), name: b"l".to_vec() },
        Command::Rename {
            from_dir: InodeId::ROOT,
            from: b"s".to_vec(),
            to_dir: InodeId(4),
            to: b"t".to_vec(),
        },
        Command::Wrote { inode: InodeId(3), end: 50, bytes: 50, epoch: 1 },
        Command::LayoutCommit {
            client,
            inode: InodeId(3),
            stateid: opened(3),
            last_write: Some(99),
            modified: None,
            observed: None,
        },
        Command::Lock {
            client,
            inode: InodeId(3),
            owner: LockOwner::Known { lock: opened(2) },
            kind: LockKind::Read,
            range,
        },
        Command::Unlock { client, stateid: opened(2), range },
        Command::OpenDowngrade { client, stateid: opened(1), access: Share::READ, deny: Share::NONE },
        open(client, "f"),
        Command::SetAttributes { inode: InodeId(3), set: size },
        Command::LayoutRecall { client, inode: InodeId(3) },
        Command::LayoutReturn { client, scope: ReturnScope::Revoke { layout: StateId(3) } },
        Command::Remove { dir: InodeId::ROOT, name: b"f".to_vec(), expect: Expect::Anything },
        Command::Remove { dir: InodeId(4), name: b"l".to_vec(), expect: Expect::NotDirectory },
        Command::Close { client, stateid: opened(1) },
        Command::ExpireClient { client },
        Command::ExchangeId {
            owner: b"c".to_vec(),
            verifier: [2; 8],
            principal: principal(),
            update: false,
            address: std::net::Ipv4Addr::LOCALHOST.into(),
        },
        Command::DefineDevice { chains: vec![ChainId(2)] },
        Command::MakeSnapshot { volume: VolumeId::FIRST, name: b"s".to_vec() },
        Command::MakeVolume(volume("w")),
        Command::MakeSnapshot { volume: VolumeId(2), name: b"s".to_vec() },
        Command::MakeClone { snapshot: VolumeId((1 << 23) + 1), dir: InodeId::ROOT, name: b"c".to_vec() },
        Command::Promote { volume: VolumeId(1 << 22) },
        Command::RemoveVolume { dir: InodeId::ROOT, name: b"v".to_vec(), force: true },
        Command::RemoveLeftovers,
        Command::DeferredDone { ids: vec![1, 2, 3] },
    ];
    (100..).zip(commands).map(|(n, command)| Proposal::new(stamp(n), None, command)).collect()
}
