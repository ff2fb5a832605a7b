//! The four procedures.

use super::{call, hello, null, prove};

crate::rpc::program! {
    /// Does nothing: to see whether the server lives.
    0 Null null "NULL";
    /// First half of the handshake.
    1 Hello hello "HELLO";
    /// Second half of the handshake.
    2 Prove prove "PROVE";
    /// One message, and its answer.
    3 Call call "CALL";
}
