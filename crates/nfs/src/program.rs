//! RPC programs of a server, and look-up of the program of a call.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use wire::rpc::{CallHeader, Rejection};
use wire::xdr::{Decoder, Message};

use crate::{Connection, ReplyRoom};

/// Call, ready to be executed.
#[derive(Debug)]
pub struct Call {
    /// Program, procedure and credential.
    pub header: CallHeader,
    /// Decoder at the arguments.
    pub arguments: Decoder,
    /// Connection of the call, also for callbacks.
    pub connection: Arc<Connection>,
    /// Reply budget: take it before reading a payload.
    pub room: ReplyRoom,
    /// True if the arguments are cut: the caller was not trusted with a long call ([`Program::trusts`]).
    pub cut: bool,
}

/// Future results of a call.
pub type Answer = Pin<Box<dyn Future<Output = Result<Message, Rejection>> + Send>>;

/// RPC program in a range of versions.
pub trait Program: Send + Sync + 'static {
    /// Program number.
    fn number(&self) -> u32;
    /// Versions of the program.
    fn versions(&self) -> RangeInclusive<u32>;
    /// True if a call of more than 16 KiB is read whole. Memory for long calls is for callers known by a
    /// session, an export or a proof. `arguments`: the bytes that have arrived. A call without trust is cut
    /// and still goes to [`Program::call`], so that it is refused as a short one would be.
    fn trusts(&self, header: &CallHeader, arguments: Decoder, connection: &Connection) -> bool;
    /// Executes a call of one of these versions.
    fn call(self: Arc<Self>, call: Call) -> Answer;
    /// True if the server has become unreliable: it sends no reply and closes the connection, so that the
    /// client tries another server.
    fn is_out_of_service(&self) -> bool {
        false
    }
}

/// Programs of one server. A number may occur several times, with different versions.
#[derive(Clone, Default)]
pub struct Programs(Arc<Vec<Arc<dyn Program>>>);

impl Programs {
    /// List of programs.
    #[must_use]
    pub fn new(programs: Vec<Arc<dyn Program>>) -> Self {
        Self(Arc::new(programs))
    }

    /// Finds the program of a call, or the rejection of RFC 5531.
    pub(crate) fn find(&self, header: &CallHeader) -> Result<Arc<dyn Program>, Rejection> {
        let mut range: Option<(u32, u32)> = None;
        for program in self.0.iter().filter(|p| p.number() == header.program) {
            let versions = program.versions();
            if versions.contains(&header.version) {
                return Ok(Arc::clone(program));
            }
            let (low, high) = range.unwrap_or((u32::MAX, 0));
            range = Some((low.min(*versions.start()), high.max(*versions.end())));
        }
        Err(range
            .map_or(Rejection::ProgramUnavailable, |(low, high)| Rejection::ProgramMismatch { low, high }))
    }
}
