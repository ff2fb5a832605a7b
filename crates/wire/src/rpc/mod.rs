//! ONC RPC version 2 (RFC 5531): call and reply headers, credentials, and record marking over a byte stream.

mod auth;
mod call;
mod program;
mod record;
mod reply;

pub use auth::{AuthSys, Credential, SYS_GIDS_MAX};
pub use call::{CallError, CallHeader, RPC_VERSION};
pub use program::null;
pub(crate) use program::{program, status_union};
pub use record::{FRAGMENT_BYTES_MAX, FragmentHeader, MESSAGE_CALL, MESSAGE_REPLY, frame};
pub use reply::{AuthStat, Rejection, ReplyHeader, reply};
