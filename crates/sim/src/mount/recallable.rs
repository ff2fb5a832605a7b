//! Layouts and delegations of a mount: taken, used, and given back.

use std::sync::Arc;

use bytes::Bytes;
use nfs::Connection;
use wire::data;
use wire::handle::ObjectHandle;
use wire::nfs4::layout_files::{FileLayout, from_body};
use wire::nfs4::open::Delegation;
use wire::nfs4::{ArgOp, LayoutIoMode, LayoutType, ResOp, StableHow, Stateid};
use wire::nfs4::{delegreturn, layoutcommit, layoutget, layoutreturn, write};
use wire::rpc::Credential;

use super::calls::putfh;
use super::{Gone, Mount, RETURNER, Recallable, Session};
use crate::objects::CLIENT_PROGRAM;
use crate::service::handle_key;
use crate::stream_network::{SimNetwork, socket_address};

/// Longest time of a write to a data server.
const WRITE_TIME_MAX: std::time::Duration = std::time::Duration::from_millis(1000);

impl Mount {
    /// Notes the delegation that came with an OPEN of a file.
    pub(super) fn takes_delegation(&self, file: &Bytes, delegation: &Delegation) {
        let (stateid, is_recalled) = match delegation {
            Delegation::Read(delegation) => (delegation.stateid, delegation.recall),
            Delegation::Write(delegation) => (delegation.stateid, delegation.recall),
            Delegation::None | Delegation::NoneExt(_) => return,
        };
        self.known().delegations.insert(file.clone(), Recallable { stateid, is_recalled, is_kept: false });
        self.recalled.notify_one();
    }

    /// Gives back what was recalled, for ever.
    pub(super) async fn give_back_recalled(self: Arc<Self>) {
        loop {
            let recalled = self.recalled.notified();
            while let Some((session, file, is_layout)) = self.next_recalled() {
                // Told twice what it no longer has is no harm.
                let _ = self.give_back(session, &file, is_layout).await;
            }
            recalled.await;
        }
    }

    fn next_recalled(&self) -> Option<(Session, Bytes, bool)> {
        let known = self.known();
        let session = known.session?;
        let due =
            |(file, held): (&Bytes, &Recallable)| (held.is_recalled && !held.is_kept).then(|| file.clone());
        let layout = known.layouts.iter().find_map(due).map(|file| (session, file, true));
        layout.or_else(|| known.delegations.iter().find_map(due).map(|file| (session, file, false)))
    }

    async fn give_back(
        self: &Arc<Self>,
        session: Session,
        file: &Bytes,
        is_layout: bool,
    ) -> Result<(), Gone> {
        let _not_while_it_is_used = self.layouting.lock().await;
        let held = {
            let mut known = self.known();
            if is_layout { known.layouts.remove(file) } else { known.delegations.remove(file) }
        };
        let Some(Recallable { stateid, .. }) = held else { return Ok(()) };
        let op = match is_layout {
            true => return_layout(stateid),
            false => ArgOp::DelegReturn(delegreturn::Args { stateid }),
        };
        self.compound(session, RETURNER, vec![putfh(file), op]).await.map(drop)
    }

    /// Gives back a layout before its time.
    pub(super) async fn give_back_layout(
        self: &Arc<Self>,
        session: Session,
        slot: u32,
        file: &Bytes,
    ) -> Result<(), Gone> {
        let _not_while_it_is_used = self.layouting.lock().await;
        let Some(held) = self.known().layouts.remove(file).filter(|held| !held.is_kept) else {
            return Ok(());
        };
        self.compound(session, slot, vec![putfh(file), return_layout(held.stateid)]).await.map(drop)
    }

    /// LAYOUTGET, perhaps with a write to a data server and LAYOUTCOMMIT.
    pub(super) async fn lay_out(
        self: &Arc<Self>,
        session: Session,
        slot: u32,
        file: &Bytes,
        open: Stateid,
        writes: bool,
    ) -> Result<(), Gone> {
        let _one_at_a_time = self.layouting.lock().await;
        if self.known().layouts.contains_key(file) {
            return Ok(());
        }
        let iomode = if writes { LayoutIoMode::ReadWrite } else { LayoutIoMode::Read };
        let get = ArgOp::LayoutGet(layoutget::Args {
            signal_layout_avail: false,
            layout_type: LayoutType::FILES,
            iomode,
            offset: 0,
            length: u64::MAX,
            minlength: 0,
            stateid: open,
            maxcount: 4096,
        });
        self.known().asking.insert(file.clone());
        let results = self.compound(session, slot, vec![putfh(file), get]).await;
        self.known().asking.remove(file);
        let results = results?;
        let Some(ResOp::LayoutGet(Ok(got))) = results.last() else { return Ok(()) };
        let held = Recallable { stateid: got.stateid, is_recalled: false, is_kept: false };
        self.known().layouts.insert(file.clone(), held);
        let layout = got.layouts.first().and_then(|layout| from_body(layout.body.clone()).ok());
        let Some(layout) = layout.filter(|_| writes) else { return Ok(()) };
        let len = self.within(1..=4000);
        if self.write_first_column(session, slot, &layout, len as usize).await? && self.below(3) > 0 {
            let commit = ArgOp::LayoutCommit(layoutcommit::Args {
                offset: 0,
                length: len,
                reclaim: false,
                stateid: got.stateid,
                last_write_offset: Some(len - 1),
                time_modify: None,
                layout_type: LayoutType::FILES,
                body: Bytes::new(),
            });
            self.compound(session, slot, vec![putfh(file), commit]).await?;
        }
        Ok(())
    }

    /// Writes to the first column; returns whether it was done.
    async fn write_first_column(
        self: &Arc<Self>,
        session: Session,
        slot: u32,
        layout: &FileLayout,
        len: usize,
    ) -> Result<bool, Gone> {
        if !self.shared.data.is_whole {
            let Some(handle) = layout.fh_list.first() else { return Ok(false) };
            return Ok(self.write_object(handle.0.clone(), len).await);
        }
        let Some(columns) = self.columns(session, slot, layout).await? else { return Ok(false) };
        let Some((at, handle)) = columns.at(0) else { return Ok(false) };
        let op = ArgOp::Write(write::Args {
            stateid: Stateid::default(),
            offset: 0,
            stable: StableHow::FileSync,
            data: Bytes::from(vec![7; len]).into(),
        });
        let results = self.at_data_server(at, vec![putfh(&handle), op]).await;
        Ok(matches!(results.as_ref().map(|results| results.last()), Ok(Some(ResOp::Write(Ok(_))))))
    }

    /// Writes to an object at its plain data server; returns whether it was done.
    async fn write_object(&self, handle: Bytes, len: usize) -> bool {
        let Some(object) = ObjectHandle::open(&handle, &handle_key()) else { return false };
        let network = SimNetwork::new(self.address, &self.shared);
        let args = data::write::Args {
            handle,
            offset: 0,
            stable: true,
            sums: vec![],
            data: Bytes::from(vec![7; len]).into(),
        };
        let write = async {
            let to = socket_address(object.target);
            let connection = Connection::dial(&network, to, nfs::Programs::default()).await.ok()?;
            let procedure = (CLIENT_PROGRAM, data::VERSION, data::Procedure::Write as u32);
            let done = connection.call(procedure, Credential::None, &args, WRITE_TIME_MAX).await;
            connection.close();
            done.ok()
        };
        matches!(tokio::time::timeout(WRITE_TIME_MAX, write).await, Ok(Some(_)))
    }
}

pub(super) fn return_layout(stateid: Stateid) -> ArgOp {
    let file = layoutreturn::ReturnFile { offset: 0, length: u64::MAX, stateid, body: Bytes::new() };
    ArgOp::LayoutReturn(layoutreturn::Args {
        reclaim: false,
        layout_type: LayoutType::FILES,
        iomode: LayoutIoMode::Any,
        what: layoutreturn::Return::File(file),
    })
}
