//! Choice of a client's next request. Names, files and offsets are few, so that clients conflict.

use bytes::Bytes;
use namespace::{
    ByteRange, ClientId, Command, Create, DeviceId, Exists, Expect, FileLayout, InodeId, Kind, LockKind,
    LockOwner, NewAttributes, NewNode, NewVolume, Open, OpenTarget, Reply, SetAttributes, Share, StripeUnit,
    VolumeId,
};

use crate::client::Knowledge;
use crate::request::Query;
use crate::rng::Rng;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Greatest number of known inodes of each kind, so that clients conflict.
const KNOWN_MAX: usize = 6;

/// Chosen request: a read or a change.
pub(crate) enum Choice {
    Query(Query),
    Change(Command),
}

pub(crate) fn request(client: ClientId, slot: u32, known: &Knowledge, rng: &mut Rng) -> Choice {
    let dir = |rng: &mut Rng| rng.of(&known.dirs).copied().unwrap_or(InodeId::ROOT);
    let name = |rng: &mut Rng| NAMES[rng.below(NAMES.len())].as_bytes().to_vec();
    let inode = |rng: &mut Rng| rng.of(&known.files).copied().unwrap_or(InodeId::ROOT);
    let opened = known.opens.iter().find(|(by, ..)| *by == slot);
    let locked = known.locks.iter().find(|(by, ..)| *by == slot);
    Choice::Change(match rng.below(24) {
        0..4 => return Choice::Query(Query::Lookup(dir(rng), name(rng))),
        4..6 => return Choice::Query(Query::List(dir(rng))),
        6 => return Choice::Query(Query::Attributes(inode(rng))),
        7 if rng.below(3) == 0 => {
            return Choice::Query(Query::Snapshot(VolumeId((1 << 23) + rng.below(4) as u32)));
        }
        7 => return Choice::Query(Query::Data(inode(rng))),
        8..11 => match rng.below(16) {
            0 => Command::MakeVolume(volume(dir(rng), name(rng))),
            1 => Command::RemoveVolume { dir: dir(rng), name: name(rng), force: rng.below(2) == 0 },
            2 => Command::MakeSnapshot { volume: VolumeId(rng.below(2) as u32), name: name(rng) },
            3 => {
                let volume = VolumeId(rng.below(2) as u32);
                Command::RemoveSnapshot { volume, name: name(rng), force: rng.below(2) == 0 }
            }
            4 => {
                let snapshot = VolumeId((1 << 23) + rng.below(4) as u32);
                Command::MakeClone { snapshot, dir: dir(rng), name: name(rng) }
            }
            5 if rng.below(4) == 0 => Command::Promote { volume: VolumeId((1 << 22) + rng.below(2) as u32) },
            _ => Command::Create(create(dir(rng), name(rng), rng)),
        },
        11 | 12 => Command::Link { inode: inode(rng), dir: dir(rng), name: name(rng) },
        13..15 => Command::Remove { dir: dir(rng), name: name(rng), expect: Expect::Anything },
        15..18 => Command::Rename { from_dir: dir(rng), from: name(rng), to_dir: dir(rng), to: name(rng) },
        18 => {
            let set = SetAttributes { mode: Some(rng.within(0..=0o777) as u32), ..SetAttributes::default() };
            Command::SetAttributes { inode: inode(rng), set }
        }
        19 => {
            let data = Bytes::from(vec![rng.number() as u8; 1 + rng.below(900)]);
            Command::WriteInline { inode: inode(rng), offset: rng.within(0..=500), data }
        }
        _ => match (opened, locked) {
            (Some((_, inode, _)), Some((_, _, lock))) if rng.below(3) > 0 => {
                let _ = inode;
                Command::Unlock { client, stateid: *lock, range: ByteRange { start: 0, end: u64::MAX } }
            }
            (Some((_, _, open)), _) if rng.below(4) == 0 => Command::Close { client, stateid: *open },
            (Some((_, inode, open)), _) => {
                let start = rng.within(0..=3);
                let owner = format!("owner {slot}").into_bytes();
                Command::Lock {
                    client,
                    inode: *inode,
                    owner: LockOwner::New { open: *open, owner },
                    kind: if rng.below(3) == 0 { LockKind::Read } else { LockKind::Write },
                    range: ByteRange { start, end: start + rng.within(1..=3) },
                }
            }
            (None, _) => {
                let mut create = create(InodeId::ROOT, name(rng), rng);
                create.node = NewNode::File(layout());
                create.exists = Exists::Take;
                Command::Open(Open {
                    client,
                    owner: format!("owner {slot}").into_bytes(),
                    target: OpenTarget::Create { create, truncate: false },
                    access: Share::BOTH,
                    deny: Share::NONE,
                    delegate: false,
                    export: InodeId::ROOT,
                })
            }
        },
    })
}

fn create(dir: InodeId, name: Vec<u8>, rng: &mut Rng) -> Create {
    let node = match rng.below(4) {
        0 | 1 => NewNode::Directory,
        2 => NewNode::File(layout()),
        _ => NewNode::Symlink(b"elsewhere".to_vec()),
    };
    let exists = match (&node, rng.below(3)) {
        (NewNode::File(_), 0) => Exists::Verify(rng.number().to_le_bytes()),
        (NewNode::File(_), 1) => Exists::Take,
        _ => Exists::Refuse,
    };
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    Create { dir, name, node, attributes, exists }
}

fn volume(dir: InodeId, name: Vec<u8>) -> NewVolume {
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    NewVolume { dir, name, attributes, stripe: None }
}

fn layout() -> FileLayout {
    FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 1 }
}

/// Updates a client's knowledge by the reply to a change.
pub(crate) fn learn(known: &mut Knowledge, slot: u32, command: &Command, reply: &Reply) {
    match (command, reply) {
        (_, Reply::Created { inode, .. } | Reply::Linked { inode, .. }) => {
            let all = match inode.kind {
                Kind::Directory(_) => &mut known.dirs,
                _ => &mut known.files,
            };
            if !all.contains(&inode.id) {
                all.push(inode.id);
                if all.len() > KNOWN_MAX {
                    all.remove(1);
                }
            }
        }
        (_, Reply::Opened { inode, stateid, .. }) => {
            known.opens.retain(|(by, ..)| *by != slot);
            known.opens.push((slot, inode.id, *stateid));
        }
        (Command::Close { .. }, Reply::State { .. }) => {
            known.opens.retain(|(by, ..)| *by != slot);
            known.locks.retain(|(by, ..)| *by != slot);
        }
        (Command::Lock { inode, .. }, Reply::State { stateid: Some(stateid) }) => {
            known.locks.retain(|(by, ..)| *by != slot);
            known.locks.push((slot, *inode, *stateid));
        }
        (Command::Unlock { .. }, Reply::State { .. }) => known.locks.retain(|(by, ..)| *by != slot),
        // Without state at the state machine the client has none.
        (Command::Close { .. } | Command::Lock { .. } | Command::Unlock { .. }, Reply::Refused(_)) => {
            known.opens.retain(|(by, ..)| *by != slot);
            known.locks.retain(|(by, ..)| *by != slot);
        }
        _ => {}
    }
}
