//! Commands of states: opens, locks, layouts and delegations.

use namespace::*;

use super::*;

impl Chooser<'_> {
    pub(super) fn command_of_state(&mut self, kind: usize) -> Option<Command> {
        Some(match kind {
            60..64 => {
                let (stateid, client, _) = self.open_state()?;
                Command::Close { client, stateid }
            }
            64..68 => {
                let (stateid, client, _) = self.open_state()?;
                let (access, deny) = (self.one(SHARES), self.one([Share::NONE, Share::NONE, Share::WRITE]));
                Command::OpenDowngrade { client, stateid, access, deny }
            }
            68..75 => {
                let (open, client, inode) = self.open_state()?;
                let kind = self.one([LockKind::Read, LockKind::Write]);
                let owner = LockOwner::New { open, owner: self.one(LOCK_OWNERS).as_bytes().to_vec() };
                Command::Lock { client, inode, owner, kind, range: self.range() }
            }
            75..80 => {
                let (lock, client, inode) = self.lock_state()?;
                let kind = self.one([LockKind::Read, LockKind::Write]);
                Command::Lock { client, inode, owner: LockOwner::Known { lock }, kind, range: self.range() }
            }
            80..83 => {
                let (stateid, client, _) = self.lock_state()?;
                let all = ByteRange { start: 0, end: u64::MAX };
                let range = if self.pick(3) == 1 { all } else { self.range() };
                Command::Unlock { client, stateid, range }
            }
            83..85 => {
                let (stateid, client, _) =
                    if self.pick(3) < 2 { self.lock_state()? } else { self.any_state()? };
                Command::FreeState { client, stateid }
            }
            90 => {
                let (_, client, inode) = self.layout_state()?;
                Command::LayoutRecall { client, inode }
            }
            85..90 => {
                let (stateid, client, inode) = self.open_state()?;
                let mode = self.one([IoMode::Read, IoMode::ReadWrite]);
                let made = self.made(inode);
                let version = self.one([1, 2, 3]);
                Command::LayoutGet { client, inode, stateid, mode, made, version, export: InodeId::ROOT }
            }
            91 => {
                let (stateid, client, inode) = self.any_state()?;
                let mode = self.one([IoMode::Read, IoMode::ReadWrite]);
                let made = self.made(inode);
                let version = self.one([1, 2, 3]);
                Command::LayoutGet { client, inode, stateid, mode, made, version, export: InodeId::ROOT }
            }
            92 if self.seldom(2) => Command::SpaceUsed { files: vec![self.space_told()?; self.one([1, 2])] },
            92 => Command::Observe { files: vec![self.observation()?; self.one([1, 1, 2])] },
            93..96 => {
                let (stateid, client, inode) =
                    if self.seldom(8) { self.any_state()? } else { self.layout_state()? };
                let last_write = self.one([None, Some(0), Some(7), Some(300), Some(u64::MAX)]);
                let observed = if self.seldom(2) { self.observation() } else { None };
                let modified = self.time();
                Command::LayoutCommit { client, inode, stateid, last_write, modified, observed }
            }
            96..99 => {
                let (stateid, client, inode) =
                    if self.seldom(8) { self.any_state()? } else { self.layout_state()? };
                let scope = match self.pick(6) {
                    0..3 => ReturnScope::File { inode, stateid },
                    3 => ReturnScope::Revoke { layout: stateid.id },
                    4 => ReturnScope::Unknown { layout: stateid.id },
                    _ => ReturnScope::All,
                };
                Command::LayoutReturn { client, scope }
            }
            _ => return None,
        })
    }

    /// Of a file whose space is not told, most often up to date.
    fn space_told(&mut self) -> Option<SpaceUsed> {
        let untold = self.plain.nodes.iter().filter_map(|(inode, node)| match &node.content {
            Content::File { space_is_told: false, epoch, .. } => Some((*inode, *epoch, node.change)),
            _ => None,
        });
        let (inode, epoch, change) = self.any(untold)?;
        let inode = if self.seldom(12) { self.inode() } else { inode };
        let (epoch, change) =
            (epoch + u32::from(self.seldom(8)), change.saturating_sub(u64::from(self.seldom(8))));
        Some(SpaceUsed { inode, epoch, change, bytes: self.one([0, 512, 4096]) })
    }

    /// Of an unsettled file, most often up to date.
    fn observation(&mut self) -> Option<Observation> {
        let plain = self.plain;
        let (inode, grant) = self.any(plain.unsettled.iter().map(|(inode, (grant, _))| (*inode, *grant)))?;
        let inode = if self.seldom(12) { self.inode() } else { inode };
        let epoch = match plain.nodes.get(&inode).map(|node| &node.content) {
            Some(Content::File { epoch, .. }) => epoch.wrapping_add(u32::from(self.seldom(8))),
            _ => 0,
        };
        Some(Observation {
            inode,
            grant: grant.wrapping_add(u64::from(self.seldom(8))),
            epoch,
            end: self.one([0, 5, 90, 70_000, u64::MAX]),
            modified: self.time().unwrap_or_default(),
            version: self.one([1, 2, 3]),
            durable: self.one([true, false]),
            space_used: self.one([None, Some(0), Some(4096)]),
        })
    }

    pub(super) fn command_of_delegation(&mut self) -> Option<Command> {
        let (stateid, client, inode) = self.delegation_state()?;
        Some(match self.pick(6) {
            0 | 1 => Command::DelegationReturn { client, stateid },
            5 => {
                let more = (0..self.pick(3)).filter_map(|_| self.delegation_state());
                let more = more.map(|(stateid, client, _)| (client, stateid)).collect::<Vec<_>>();
                Command::DelegationsReturn { returned: [vec![(client, stateid)], more].concat() }
            }
            2 => Command::DelegationRevoke { client, delegation: stateid.id },
            3 => Command::FreeState { client, stateid },
            _ => {
                let made = self.made(inode);
                Command::LayoutGet {
                    client,
                    inode,
                    stateid,
                    mode: IoMode::Read,
                    made,
                    version: 0,
                    export: InodeId::ROOT,
                }
            }
        })
    }
}
