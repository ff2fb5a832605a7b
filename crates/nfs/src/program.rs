//! The programs that a server serves, and finding the one that a call is for.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use wire::rpc::{CallHeader, Rejection};
use wire::xdr::{Decoder, Message};

use crate::{Connection, ReplyRoom};

/// One call, ready to be carried out.
#[derive(Debug)]
pub struct Call {
    /// Program, procedure and credential.
    pub header: CallHeader,
    /// Stands at the arguments.
    pub arguments: Decoder,
    /// Where it came from, and where call-backs can go.
    pub connection: Arc<Connection>,
    /// Room for payloads in the reply: to be taken before they are read.
    pub room: ReplyRoom,
    /// The arguments are not all there: the caller was not trusted with so long a call ([`Program::trusts`]).
    pub cut: bool,
}

/// The results of a call, later.
pub type Answer = Pin<Box<dyn Future<Output = Result<Message, Rejection>> + Send>>;

/// One program in a range of versions.
pub trait Program: Send + Sync + 'static {
    /// Its number.
    fn number(&self) -> u32;
    /// The versions it speaks.
    fn versions(&self) -> RangeInclusive<u32>;
    /// Whether a call of more than 16 KiB is taken in whole: what it takes in memory is for callers that are
    /// known, by a session, an export or a proof. `arguments` has what came of them so far. Any other call is
    /// given to [`Program::call`] all the same, cut, so that it is refused as a short one would be.
    fn trusts(&self, header: &CallHeader, arguments: Decoder, connection: &Connection) -> bool;
    /// Carries out a call of one of these versions.
    fn call(self: Arc<Self>, call: Call) -> Answer;
    /// Whether the server turned out not to be relied upon: what was to be answered is not, and the
    /// connection ends, so that its client asks another server.
    fn is_out_of_service(&self) -> bool {
        false
    }
}

/// All programs of one server. The same number may stand several times, with other versions.
#[derive(Clone, Default)]
pub struct Programs(Arc<Vec<Arc<dyn Program>>>);

impl Programs {
    /// These.
    #[must_use]
    pub fn new(programs: Vec<Arc<dyn Program>>) -> Self {
        Self(Arc::new(programs))
    }

    /// The program for a call, or the answer that RFC 5531 has when there is none.
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
