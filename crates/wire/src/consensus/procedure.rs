//! Procedure of the program, besides those of the handshake.

use super::call;

crate::rpc::program! {
    /// One message, and its answer.
    3 Call call "CALL";
}
