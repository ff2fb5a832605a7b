//! Guards of what a call leaves behind when its future is dropped.

use super::Connection;

/// Guard that closes the connection unless it is defused.
pub(super) struct CloseOnDrop<'a>(pub Option<&'a Connection>);

impl CloseOnDrop<'_> {
    pub(super) fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.0 {
            connection.close();
        }
    }
}

/// Guard that removes a call from the pending ones, also when its future is dropped.
pub(super) struct Waiting<'a> {
    pub connection: &'a Connection,
    pub xid: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.connection.pending.lock().calls.as_mut() {
            calls.remove(&self.xid);
        }
    }
}
