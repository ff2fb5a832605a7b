//! How a connection of a private program begins: both ends prove that they hold the cluster's secret.
//!
//! ```text
//! caller                                  server
//!   HELLO cluster, client nonce  ─────▶
//!                                ◀─────  server nonce, server proof      caller: is it one of ours?
//!   PROVE client proof           ─────▶                                  server: is it one of ours?
//!                                ◀─────  ()
//!   any other procedure          ─────▶  until then answered NotProven
//! ```
//!
//! The procedures 0 to 2 of [`crate::cluster`], [`crate::data`] and [`crate::consensus`]; those of the
//! programs themselves begin at 3. The results of all of them but NULL begin with a [`Status`].

pub mod hello;
pub mod null;
pub mod prove;
pub mod status;
#[cfg(test)]
mod tests;

pub use hello::{Nonce, Proof, client_proof, proof_matches, server_proof};
pub use status::Status;

crate::rpc::program! {
    /// Does nothing: to see whether the server lives.
    0 Null null "NULL";
    /// First half of the handshake.
    1 Hello hello "HELLO";
    /// Second half of the handshake.
    2 Prove prove "PROVE";
}
