//! READDIR (RFC 8881, section 18.23). The cost depends on the entries listed, not on the directory's size.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use namespace::{Entry, Inode, InodeId, read};
use store::View;
use wire::nfs4::readdir::{Args, OVERHEAD_BYTES, Page, ResOk};
use wire::nfs4::{Fattr, Status, attr};

use crate::Metaserver;
use crate::attributes::nfs4::check_readable;
use crate::compound::Context;
use crate::data::hold::unheld;
use crate::data::unsettled::depend_on_data;
use crate::errors::{FileError, store_failed};
use crate::exports::admission::Via;
use crate::state::write_delegations::{asker, is_written_elsewhere};
use crate::user::Permission;

/// Cookie verifier: constant, since cookies never become invalid.
const COOKIE_VERIFIER: [u8; 8] = [0; 8];
/// Cookies of NFSv3's `.` and `..`, which NFSv4 does not list.
const RESERVED_COOKIES: [u64; 2] = [1, 2];
/// Bytes of a cookie and a name without padding, counted for `dircount`.
const NAME_OVERHEAD_BYTES: usize = 12;

pub(crate) async fn readdir(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    if RESERVED_COOKIES.contains(&args.cookie) {
        return Err(Status::BadCookie);
    }
    check_readable(&args.attr_request)?;
    // The first pass finds the unsettled files. The second has the answers of their data servers.
    let mut unsettled = Unsettled::Found(Vec::new());
    let page = look(server, context, &args, &mut unsettled);
    let Unsettled::Found(files) = unsettled else { return page };
    if files.is_empty() {
        return page;
    }
    let asks = asker(context);
    let late = server.state.recall_writers(files.iter().copied(), asks).await;
    let files: Vec<InodeId> = files.into_iter().filter(|file| !late.contains(file)).collect();
    // Not held: the other entries need no data server.
    let failed = unheld(server.data.observe(&files, false)).await?;
    let is_known = |file: &InodeId| failed.get(file).is_none_or(|why| *why == FileError::Io);
    let asked = files.into_iter().filter(is_known).collect();
    look(server, context, &args, &mut Unsettled::Asked(asked))
}

/// Unsettled files of a page: the data servers may have newer attributes than their inodes.
enum Unsettled {
    /// First pass: files whose data servers are to be asked.
    Found(Vec<InodeId>),
    /// Second pass: files whose data servers were asked and have answered.
    Asked(BTreeSet<InodeId>),
}

fn look(
    server: &Metaserver,
    context: &Context,
    args: &Args,
    unsettled: &mut Unsettled,
) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    let dir = server.current_dir(&*view, context)?;
    server.caller(context)?.check(&dir, Permission::READ)?;
    let room = (args.maxcount as usize).min(context.room_bytes.saturating_sub(8));
    let room = room.checked_sub(OVERHEAD_BYTES).ok_or(Status::TooSmall)?;
    let mut listing = Listing {
        server,
        context,
        view: &*view,
        args,
        page: Page::new(room),
        names_room: if args.dircount == 0 { usize::MAX } else { args.dircount as usize },
        eof: true,
        failed: None,
        unsettled,
    };
    let via = context.state.current()?.via;
    match via {
        Via::Export(_) => {
            let add = |entry: Entry| {
                let inode = server.machine.inode(&*view, entry.inode);
                listing.add(&entry, inode.map_err(Status::from), via)
            };
            read::list(&*view, dir.id, args.cookie, add).map_err(store_failed)?;
        }
        Via::Pseudo => {
            for (entry, inode, via) in server.pseudo_entries(&*view, context, dir.id, args.cookie)? {
                if listing.add(&entry, inode.map_err(Status::from), via).is_break() {
                    break;
                }
            }
        }
    }
    match listing {
        Listing { failed: Some(status), .. } => Err(status),
        Listing { page, eof: false, .. } if page.is_empty() => Err(Status::TooSmall),
        Listing { page, eof, .. } => Ok(ResOk { cookieverf: COOKIE_VERIFIER, entries: page.finish(), eof }),
    }
}

struct Listing<'a> {
    server: &'a Metaserver,
    context: &'a Context,
    view: &'a dyn View,
    args: &'a Args,
    page: Page,
    names_room: usize,
    eof: bool,
    failed: Option<Status>,
    unsettled: &'a mut Unsettled,
}

impl Listing<'_> {
    fn add(&mut self, entry: &Entry, inode: Result<Inode, Status>, via: Via) -> ControlFlow<()> {
        // `dircount` is a hint; the first entry is always included.
        let name_bytes = entry.name.len() + NAME_OVERHEAD_BYTES;
        if name_bytes > self.names_room && !self.page.is_empty() {
            self.eof = false;
            return ControlFlow::Break(());
        }
        let asked = &self.args.attr_request;
        let attrs = match inode.and_then(|inode| self.attributes(&inode, via)) {
            Ok(attrs) => attrs,
            // A client that asks for rdattr_error wants the other entries all the same (RFC 8881, section
            // 5.8.1.12).
            Err(status) if asked.contains(attr::RDATTR_ERROR) => {
                Fattr { rdattr_error: Some(status), ..Fattr::default() }
            }
            Err(status) => {
                self.failed = Some(status);
                return ControlFlow::Break(());
            }
        };
        if !self.page.push(entry.cookie, &entry.name, asked, &attrs) {
            self.eof = false;
            return ControlFlow::Break(());
        }
        self.names_room = self.names_room.saturating_sub(name_bytes);
        ControlFlow::Continue(())
    }

    /// True if data servers, or another client, may know newer attributes.
    fn is_newer_elsewhere(&self, inode: &Inode) -> Result<bool, Status> {
        let asks = asker(self.context);
        Ok(self.server.data.is_unsettled(self.view, inode)?
            || is_written_elsewhere(self.view, inode.id, asks)?)
    }

    /// Returns an entry's attributes. In the second pass, `Delay` for an unsettled file without an answer.
    fn attributes(&mut self, inode: &Inode, via: Via) -> Result<Fattr, Status> {
        let asked = &self.args.attr_request;
        if depend_on_data(asked) && self.is_newer_elsewhere(inode)? {
            match &mut self.unsettled {
                Unsettled::Found(files) => files.push(inode.id),
                Unsettled::Asked(files) if files.contains(&inode.id) => {}
                Unsettled::Asked(_) => return Err(Status::Delay),
            }
        }
        self.server.attributes.attributes(self.context, self.view, inode, via, asked)
    }
}
