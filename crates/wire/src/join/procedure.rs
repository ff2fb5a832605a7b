//! Procedures of the program.

use super::{enter, hello, null};

crate::rpc::program! {
    /// Does nothing: a ping.
    0 Null null "NULL";
    /// Checks that machine and cluster match.
    1 Hello hello "HELLO";
    /// Joins the cluster.
    2 Enter enter "ENTER";
}
