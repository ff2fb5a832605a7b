//! The three procedures.

use super::{enter, hello, null};

crate::rpc::program! {
    /// Does nothing: to see whether the server lives.
    0 Null null "NULL";
    /// Which cluster is meant.
    1 Hello hello "HELLO";
    /// To become one of its machines.
    2 Enter enter "ENTER";
}
