//! Handshake at the start of a connection of a private program: both ends prove that they hold the cluster's
//! secret.
//!
//! ```text
//! caller                                  server
//!   HELLO cluster, client nonce  ─────▶
//!                                ◀─────  server nonce, server proof  caller: does it hold the secret?
//!   PROVE client proof           ─────▶                              server: does it hold the secret?
//!                                ◀─────  ()
//!   any other procedure          ─────▶  NotProven before the proof
//! ```
//!
//! Procedures 0 to 2 of [`crate::cluster`], [`crate::data`] and [`crate::consensus`]; their own procedures
//! begin at 3. The results of all procedures except NULL begin with a [`Status`].

pub mod hello;
pub mod prove;
pub mod status;
#[cfg(test)]
mod tests;

pub use hello::{Nonce, Proof, client_proof, proof_matches, server_proof};
pub use status::Status;

pub use crate::rpc::null;

crate::rpc::program! {
    /// Does nothing: a ping. Besides the handshake, the only procedure that needs no proof.
    0 Null null "NULL";
    /// First half of the handshake.
    1 Hello hello "HELLO";
    /// Second half of the handshake.
    2 Prove prove "PROVE";
}
