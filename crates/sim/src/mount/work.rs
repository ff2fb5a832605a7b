//! Workers of a mount: each opens one file after the other, of few, and locks, writes, truncates and removes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wire::handle::FileHandle;
use wire::nfs4::open::{self, Claim as OpenClaim, CreateHow, OpenHow};
use wire::nfs4::{ArgOp, Fattr, LockType, ResOp, StableHow, StateOwner, Stateid, Status};
use wire::nfs4::{close, lock, locku, read, remove, setattr, write};

use super::calls::putfh;
use super::{Gone, Mount, Session};
use crate::claims::{Claim, Delays, Held, LEASE_MS, LockAttempt, LockWait};
use crate::service::handle_key;

/// Names of all files: few, so that clients meet.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Longest time for which a request that is put off is repeated: longer than a revocation may take.
const PATIENCE_MS: u64 = 3 * LEASE_MS;
/// Longest pause of a client that waits for a lock and is not told.
const LOCK_PAUSE_MS_MAX: u64 = 1_600;
/// Age at which an open for reading is in the state machine, if its client heard of it over the same connection.
const BRIEF_MS_MAX: u64 = 3_000;
/// First number of what clients do that do not linger.
const LINGERING: usize = 14;
/// Bytes of the unit in which locks begin and end: small, as those of the model that replies are compared with.
const LOCK_UNIT: u64 = 1;

/// Open file of a worker.
struct OpenFile {
    session: Session,
    slot: u32,
    name: &'static str,
    handle: Bytes,
    inode: u64,
    stateid: Stateid,
    writes: bool,
    claim: usize,
    lock_stateid: Option<Stateid>,
    lock: Option<(Held, usize)>,
    /// Time of its OPEN, and connections of the mount until then.
    opened: (u64, u64),
}

impl OpenFile {
    /// True if the open began in the memory of a leader: see `metaserver::state::brief_opens`.
    fn is_brief(&self) -> bool {
        self.stateid.other[0] & 0x80 != 0
    }
}

/// True if an answer says that a state is gone.
fn is_loss(status: Status) -> bool {
    matches!(
        status,
        Status::BadSession
            | Status::BadStateid
            | Status::Expired
            | Status::StaleStateid
            | Status::AdminRevoked
            | Status::OldStateid
            | Status::Stale
    )
}

pub(super) fn last_status(results: &[ResOp]) -> Status {
    results.last().map_or(Status::Ok, ResOp::status)
}

impl Mount {
    /// Works until the simulation ends.
    pub(super) async fn work(self: Arc<Self>, slot: u32) {
        while !self.shared.is_ending() {
            let session = self.begin().await;
            let _ = self.use_file(session, slot).await;
            self.pause(400).await;
        }
    }

    pub(super) async fn pause(&self, most_ms: u64) {
        let ms = self.within(0..=most_ms);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// A compound that is repeated while it is put off.
    pub(super) async fn patiently(
        self: &Arc<Self>,
        session: Session,
        slot: u32,
        ops: Vec<ArgOp>,
    ) -> Result<Vec<ResOp>, Gone> {
        let began_ms = self.shared.now_ms();
        let mut put_off: Option<(u64, usize)> = None;
        loop {
            let results = self.compound(session, slot, ops.clone()).await?;
            let now_ms = self.shared.now_ms();
            if last_status(&results) != Status::Delay || now_ms > began_ms + PATIENCE_MS {
                return Ok(results);
            }
            let at = self.known().at;
            {
                let mut claims = self.shared.claims();
                match put_off {
                    Some((of, number)) if of == at => claims.delays[number].ms.1 = now_ms,
                    Some(_) | None => {
                        let what = ops.get(1).map_or("nothing", ArgOp::name);
                        claims.delays.push(Delays {
                            what: format!("{what} of client {}", self.address),
                            name: ops.get(1).and_then(name_of_file),
                            ms: (now_ms, now_ms),
                        });
                        put_off = Some((at, claims.delays.len() - 1));
                    }
                }
            }
            self.pause(200).await;
        }
    }

    async fn use_file(self: &Arc<Self>, session: Session, slot: u32) -> Result<(), Gone> {
        if self.below(12) == 0 {
            let name = NAMES[self.below(NAMES.len())];
            let target = Bytes::from_static(name.as_bytes());
            let remove = ArgOp::Remove(remove::Args { target });
            return self.patiently(session, slot, vec![ArgOp::PutRootFh, remove]).await.map(drop);
        }
        let Some(mut file) = self.open(session, slot).await? else { return Ok(()) };
        for _ in 0..self.below(5) {
            // Clients that linger lock, lay out and truncate more.
            let (kinds, pause_ms) = if self.shared.clients_linger { (14, 2500) } else { (10, 1500) };
            let choice = self.below(kinds) + if self.shared.clients_linger { 0 } else { LINGERING };
            match choice {
                0..4 | 14..17 => self.lock(&mut file).await?,
                4 | 17 => self.unlock(&mut file).await?,
                5..8 | 18 | 19 => {
                    self.lay_out(session, slot, &file.handle, file.stateid, file.writes).await?;
                }
                8 | 20 => self.give_back_layout(session, slot, &file.handle).await?,
                10 | 21 if !file.writes && self.opens_without_creating() => self.read(&file).await?,
                9 | 10 | 21 if file.writes => self.truncate(&file).await?,
                11 | 22 if file.writes => self.write(&file).await?,
                _ => self.pause(pause_ms).await,
            }
            self.pause(200).await;
        }
        self.unlock(&mut file).await?;
        self.close(file).await
    }

    /// Not beside data servers with copies: see docs/known-issues.md.
    fn opens_without_creating(&self) -> bool {
        !self.shared.data.is_whole
    }

    async fn open(self: &Arc<Self>, session: Session, slot: u32) -> Result<Option<OpenFile>, Gone> {
        let name = NAMES[self.below(NAMES.len())];
        let access = [1, 1, 1, 2, 3, 3][self.below(6)];
        let deny = [0, 0, 0, 0, 0, 0, 2, 3][self.below(8)];
        let openhow = match self.opens_without_creating() && self.below(2) == 0 {
            true if access == 1 => OpenHow::NoCreate,
            _ => OpenHow::Create(CreateHow::Unchecked(Box::default())),
        };
        let args = open::Args {
            seqid: 0,
            share_access: access,
            share_deny: deny,
            owner: self.owner(session, slot),
            openhow,
            claim: OpenClaim::Null(Bytes::from_static(name.as_bytes())),
        };
        let asked_ms = self.shared.now_ms();
        let connections = self.known().connections;
        let ops = vec![ArgOp::PutRootFh, ArgOp::Open(args), ArgOp::GetFh];
        let results = self.patiently(session, slot, ops).await?;
        let [_, ResOp::Open(Ok(opened)), ResOp::GetFh(Ok(got))] = &results[..] else { return Ok(None) };
        let (stateid, handle) = (opened.stateid, got.object.0.clone());
        let inode = FileHandle::open(&handle, &handle_key()).map_or(0, |file| file.inode);
        self.takes_delegation(&handle, &opened.delegation);
        *self.known().opens.entry(handle.clone()).or_default() += 1;
        let held = Held::Open { access, deny };
        let claim = self.claim(session, slot, inode, held, asked_ms);
        let writes = access & 2 != 0;
        let (lock_stateid, lock) = (None, None);
        let opened = (asked_ms, connections);
        Ok(Some(OpenFile {
            session,
            slot,
            name,
            handle,
            inode,
            stateid,
            writes,
            claim,
            lock_stateid,
            lock,
            opened,
        }))
    }

    fn claim(&self, session: Session, slot: u32, inode: u64, held: Held, asked_ms: u64) -> usize {
        let from_ms = self.shared.now_ms();
        self.shared.note(|| format!("client {}.{slot} holds {held:?} of {inode}", self.address));
        let (life, owner) = (session.life, slot);
        let claim = Claim { life, owner, inode, held, asked_ms, from_ms, until_ms: None, gone_ms: None };
        let mut claims = self.shared.claims();
        let number = claims.claim(claim);
        if self.known().session.is_none_or(|now| now.id != session.id) {
            claims.giving_back(number, from_ms);
        }
        number
    }

    pub(super) fn owner(&self, session: Session, slot: u32) -> StateOwner {
        let owner = Bytes::from(format!("worker {slot}")).into();
        StateOwner { clientid: session.client, owner }
    }

    /// The state of a file is gone.
    fn loses(&self, file: &OpenFile, what: &str, status: Status) -> Gone {
        let now_ms = self.shared.now_ms();
        let connections = self.known().connections;
        let mut claims = self.shared.claims();
        // Such an open may be lost with its leader: the client opens again.
        let may_be_lost = file.is_brief()
            && (now_ms < file.opened.0 + BRIEF_MS_MAX || connections != file.opened.1)
            && file.lock.is_none();
        if !may_be_lost {
            claims.loses(
                file.session.life,
                now_ms,
                &format!("{what} of {} ({}): {status:?}", file.inode, file.name),
            );
        }
        claims.gone(file.claim, now_ms);
        if let Some((_, lock)) = file.lock {
            claims.gone(lock, now_ms);
        }
        Gone
    }

    async fn close(self: &Arc<Self>, file: OpenFile) -> Result<(), Gone> {
        self.shared.claims().giving_back(file.claim, self.shared.now_ms());
        self.closes(&file);
        let close = ArgOp::Close(close::Args { seqid: 0, open_stateid: file.stateid });
        let results = self.patiently(file.session, file.slot, vec![putfh(&file.handle), close]).await?;
        match last_status(&results) {
            Status::Ok => {
                self.shared.claims().gone(file.claim, self.shared.now_ms());
                Ok(())
            }
            // It was closed the first time, and went with its last open (docs/known-issues.md).
            Status::Stale if self.known().repeated[file.slot as usize] => {
                self.shared.claims().gone(file.claim, self.shared.now_ms());
                Ok(())
            }
            status if is_loss(status) => Err(self.loses(&file, "an open", status)),
            status => {
                self.unexpected(format!("CLOSE: {status:?}"));
                Ok(())
            }
        }
    }

    /// With the last open of a file its layout goes back, too. A client that does not linger goes on to believe
    /// that it has it.
    fn closes(&self, file: &OpenFile) {
        let mut known = self.known();
        if !self.shared.clients_linger || known.session.is_none_or(|now| now.id != file.session.id) {
            return;
        }
        let opens = known.opens.entry(file.handle.clone()).or_default();
        *opens = opens.saturating_sub(1);
        if *opens == 0 {
            known.layouts.remove(&file.handle);
        }
    }

    pub(super) fn unexpected(&self, what: String) {
        let what = format!("client {}: {what}", self.address);
        self.shared.claims().unexpected.push(what);
    }

    async fn lock(self: &Arc<Self>, file: &mut OpenFile) -> Result<(), Gone> {
        if file.lock.is_some() {
            return Ok(());
        }
        let is_write = file.writes && self.below(3) > 0;
        if !is_write && self.below(2) == 0 {
            return Ok(());
        }
        let (start, length) = (LOCK_UNIT * self.within(0..=2), LOCK_UNIT * self.within(1..=2));
        let held = Held::Lock { is_write, start, end: start + length };
        let locktype = if is_write { LockType::WriteWait } else { LockType::ReadWait };
        let began_ms = self.shared.now_ms();
        let (mut pause_ms, mut wait) = (100, None);
        while self.shared.now_ms() < began_ms + PATIENCE_MS {
            let locker = match file.lock_stateid {
                Some(lock_stateid) => {
                    lock::Locker::Existing(lock::ExistLockOwner { lock_stateid, lock_seqid: 0 })
                }
                None => lock::Locker::New(lock::OpenToLockOwner {
                    open_seqid: 0,
                    open_stateid: file.stateid,
                    lock_seqid: 0,
                    lock_owner: self.owner(file.session, file.slot),
                }),
            };
            let op = ArgOp::Lock(lock::Args { locktype, reclaim: false, offset: start, length, locker });
            let asked_ms = self.shared.now_ms();
            let told = self.lock_is_free.notified();
            let attempt = {
                let (owner, inode) = ((file.session.life, file.slot), file.inode);
                let attempts = &mut self.shared.claims().attempts;
                attempts.push(LockAttempt { owner, inode, held, asked_ms, is_answered: false });
                attempts.len() - 1
            };
            let results = self.compound(file.session, file.slot, vec![putfh(&file.handle), op]).await?;
            self.shared.claims().attempts[attempt].is_answered = true;
            match results.last() {
                Some(ResOp::Lock(Ok(locked))) => {
                    file.lock_stateid = Some(locked.lock_stateid);
                    let claim = self.claim(file.session, file.slot, file.inode, held, asked_ms);
                    file.lock = Some((held, claim));
                    return Ok(());
                }
                Some(other) if matches!(other.status(), Status::Denied | Status::Delay) => {
                    self.note_wait(&mut wait, file, held);
                    pause_ms = match other.status() {
                        Status::Denied => LOCK_PAUSE_MS_MAX,
                        _ => (2 * pause_ms).min(LOCK_PAUSE_MS_MAX),
                    };
                    let _ = tokio::time::timeout(Duration::from_millis(pause_ms), told).await;
                }
                Some(other) if is_loss(other.status()) => {
                    return Err(self.loses(file, "an open", other.status()));
                }
                Some(other) => {
                    // A file that is open to read cannot be locked to write, and so on.
                    self.shared.note(|| format!("client {}: LOCK: {:?}", self.address, other.status()));
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn note_wait(&self, wait: &mut Option<usize>, file: &OpenFile, held: Held) {
        let now_ms = self.shared.now_ms();
        let mut claims = self.shared.claims();
        match wait {
            Some(number) => claims.waits[*number].until_ms = now_ms,
            None => {
                let (owner, inode) = ((file.session.life, file.slot), file.inode);
                claims.waits.push(LockWait { owner, inode, held, from_ms: now_ms, until_ms: now_ms });
                *wait = Some(claims.waits.len() - 1);
            }
        }
    }

    async fn unlock(self: &Arc<Self>, file: &mut OpenFile) -> Result<(), Gone> {
        let (Some((Held::Lock { start, end, .. }, claim)), Some(lock_stateid)) =
            (file.lock, file.lock_stateid)
        else {
            return Ok(());
        };
        self.shared.claims().giving_back(claim, self.shared.now_ms());
        let op = ArgOp::LockU(locku::Args {
            locktype: LockType::Write,
            seqid: 0,
            lock_stateid,
            offset: start,
            length: end - start,
        });
        let results = self.patiently(file.session, file.slot, vec![putfh(&file.handle), op]).await?;
        match results.last() {
            Some(ResOp::LockU(Ok(unlocked))) => {
                file.lock_stateid = Some(unlocked.lock_stateid);
                file.lock = None;
                self.shared.claims().gone(claim, self.shared.now_ms());
                Ok(())
            }
            Some(other) if is_loss(other.status()) => Err(self.loses(file, "a lock", other.status())),
            other => {
                self.unexpected(format!("LOCKU: {:?}", other.map(ResOp::status)));
                Ok(())
            }
        }
    }

    async fn truncate(self: &Arc<Self>, file: &OpenFile) -> Result<(), Gone> {
        let size = Some(self.within(0..=1) * 100);
        let attributes = Box::new(Fattr { size, ..Fattr::default() });
        let op = ArgOp::SetAttr(setattr::Args { stateid: file.stateid, obj_attributes: attributes });
        let results = self.patiently(file.session, file.slot, vec![putfh(&file.handle), op]).await?;
        self.lost_by(file, last_status(&results))
    }

    async fn write(self: &Arc<Self>, file: &OpenFile) -> Result<(), Gone> {
        let data = Bytes::from(vec![1; self.within(1..=200) as usize]).into();
        let op = ArgOp::Write(write::Args {
            stateid: file.stateid,
            offset: self.within(0..=100),
            stable: StableHow::FileSync,
            data,
        });
        let results = self.patiently(file.session, file.slot, vec![putfh(&file.handle), op]).await?;
        self.lost_by(file, last_status(&results))
    }

    async fn read(self: &Arc<Self>, file: &OpenFile) -> Result<(), Gone> {
        let op = ArgOp::Read(read::Args { stateid: file.stateid, offset: 0, count: 100 });
        let results = self.patiently(file.session, file.slot, vec![putfh(&file.handle), op]).await?;
        self.lost_by(file, last_status(&results))
    }

    fn lost_by(&self, file: &OpenFile, status: Status) -> Result<(), Gone> {
        if is_loss(status) { Err(self.loses(file, "an open", status)) } else { Ok(()) }
    }
}

/// Name of the file that an operation is about; none: it is the current one.
fn name_of_file(op: &ArgOp) -> Option<Vec<u8>> {
    match op {
        ArgOp::Open(open::Args { claim: OpenClaim::Null(name), .. }) => Some(name.to_vec()),
        ArgOp::Remove(remove::Args { target }) => Some(target.to_vec()),
        _ => None,
    }
}
