//! OPEN of a small file for reading: in memory, if this metaserver leads (see [`crate::state::brief_opens`]).

use std::sync::Arc;
use std::time::Duration;

use namespace::{
    Change, ClientId, Command, DataPlace, Inode, InodeId, Open, OpenState, OpenTarget, Reply, Share, Stateid,
    read,
};
use nfs::Connection;
use store::View;
use wire::nfs4::Status;

use super::Opener;
use crate::Metaserver;
use crate::compound::{Context, Step, request};
use crate::errors::store_failed;
use crate::state::brief_opens::{BriefOpen, Found, Lasts, Opening};

/// Time for which a session counts as shared with other metaservers.
const SHARED: Duration = Duration::from_secs(30);

impl Opener<'_> {
    /// True if an OPEN of an existing small file may have no record.
    pub(super) fn may_be_brief(&self) -> bool {
        self.wants_none && self.access == Share::READ && self.deny == Share::NONE
    }

    /// Opens an existing file, without a record if that is possible; else after the brief open that the owner has of it.
    /// `prepare` checks the OPEN and makes its command.
    pub(super) async fn open_known(
        &self,
        context: &mut Context,
        file: Option<InodeId>,
        prepare: impl Fn(&dyn View) -> Result<Command, Status> + Send + Sync,
    ) -> Result<Reply, Status> {
        if let Some(reply) = self.open_briefly(context, &prepare)? {
            context.state.observed = None;
            return Ok(reply);
        }
        let _opening = begins(self.server, self.client, &self.owner, file).await;
        self.server.change(context, prepare).await
    }

    /// Opens a file in memory. None: the OPEN needs a record.
    fn open_briefly(
        &self,
        context: &Context,
        prepare: impl Fn(&dyn View) -> Result<Command, Status>,
    ) -> Result<Option<Reply>, Status> {
        if !self.may_be_brief() || !self.server.machine.replica.orders() {
            return Ok(None);
        }
        let opens = &self.server.state.brief_opens;
        let (Some(quiet), Some(position), Some(session)) =
            (opens.quiet(), context.position, &context.session)
        else {
            return Ok(None);
        };
        // Of a client that uses other metaservers, too, they would have to ask here.
        if context.may_be_elsewhere || session.is_shared_within(SHARED) {
            return Ok(None);
        }
        let view = self.server.machine.view()?;
        if let Some(request) = request(Some(position), Step::Change)
            && read::recorded(&*view, &request).map_err(store_failed)?.is_some()
        {
            return Ok(None); // a retry of an OPEN with a record
        }
        let (Command::Open(open) | Command::OpenOrDelegate(open)) = prepare(&*view)? else { return Ok(None) };
        let Some((inode, dir)) = self.target(&*view, &open)? else { return Ok(None) };
        let now = self.server.machine.clock.monotonic();
        let opened = |stateid| {
            let inode = inode.clone();
            Reply::Opened { stateid, inode, created: false, dir, deferred: None, delegation: None }
        };
        let connection: Arc<dyn Lasts> = Arc::<Connection>::clone(&context.connection);
        let came = (Arc::downgrade(&connection), position);
        match opens.open_again(self.client, &self.owner, inode.id, came.clone()) {
            Found::Here(stateid) => return Ok(Some(opened(stateid))),
            Found::BeingWritten(_) => return Ok(None),
            Found::Elsewhere => {}
        }
        let wants_delegation = open.delegate && opens.was_opened_lately(self.client, inode.id, now);
        if wants_delegation || needs_record(&*view, &open, &inode)? {
            return Ok(None);
        }
        let stateid = Stateid::brief(self.server.machine.entropy.u64());
        let state = OpenState {
            stateid,
            client: self.client,
            inode: inode.id,
            owner: open.owner,
            access: open.access,
            deny: open.deny,
            opened: 0, // the command for it has its own
        };
        let brief = BriefOpen {
            open: state,
            export: open.export,
            since: now,
            came,
            is_used: false,
            is_being_written: false,
        };
        Ok(opens.add(quiet, brief).then(|| opened(stateid)))
    }

    /// The file, and the change of the directory in which it was found. None: there is no such file.
    fn target(&self, view: &dyn View, open: &Open) -> Result<Option<(Inode, Option<Change>)>, Status> {
        let (inode, dir) = match &open.target {
            OpenTarget::Inode(inode) => (Some(*inode), None),
            OpenTarget::Name { dir, name } => {
                let change = self.server.machine.inode(view, *dir)?.change;
                let unchanged = Change { before: change, after: change };
                (read::lookup(view, *dir, name).map_err(store_failed)?, Some(unchanged))
            }
            OpenTarget::Create { .. } => (None, None),
        };
        let Some(inode) = inode else { return Ok(None) };
        Ok(Some((self.server.machine.inode(view, inode)?, dir)))
    }
}

/// An OPEN with a record begins: the brief open that the owner has of the file is written first, since an owner has one
/// stateid for it.
pub(super) async fn begins<'a>(
    server: &'a Metaserver,
    client: ClientId,
    owner: &[u8],
    file: Option<InodeId>,
) -> Option<Opening<'a>> {
    let (opens, file) = (&server.state.brief_opens, file?);
    let opening = opens.opens_with_record(client, file);
    // After that: no other comes meanwhile.
    if let Some(own) = opens.of_owner(client, owner, file) {
        server.state.write_opens(vec![own]).await;
    }
    Some(opening)
}

/// True if an OPEN for reading needs a record: others have the file open in a way that may conflict, the owner has a record of
/// it, a layout may be asked for, or the open keeps a snapshot.
fn needs_record(view: &dyn View, open: &Open, file: &Inode) -> Result<bool, Status> {
    if file.data() != Some(DataPlace::Inline) || file.id.is_read_only() || file.links == 0 {
        return Ok(true);
    }
    if !is_active(view, open.client)? || !read::has_room(view, open.client).map_err(store_failed)? {
        return Ok(true);
    }
    if !read::in_use(view, file.id).map_err(store_failed)? {
        return Ok(false); // the usual case
    }
    if read::write_delegation(view, file.id).map_err(store_failed)?.is_some() {
        return Ok(true);
    }
    let denied = read::share_conflict(view, file.id, open.access, None).map_err(store_failed)?;
    let own = read::opens_of(view, file.id, open.client).map_err(store_failed)?;
    Ok(denied || own.iter().any(|known| known.owner == open.owner))
}

fn is_active(view: &dyn View, client: ClientId) -> Result<bool, Status> {
    let record = read::client(view, client).map_err(store_failed)?;
    Ok(record.is_some_and(|client| client.confirmed && client.lapsed.is_none()))
}
