//! Lab: a cluster on one machine, with real Linux kernels as clients, real servers, and links of a configured
//! speed between them.
//!
//! ```text
//!   client "ash"   client "elm"          processes: each a Linux kernel with its own NFS client
//!        │ tap          │ tap
//!   ═════╧══════╤═══════╧═════╤═════     a bridge, 10.77.X.0/24
//!               │ veth        │ veth
//!             mds           ds0          heorot processes, each in a network namespace
//! ```
//!
//! A [`Lab`] is the network and a folder; [`Client`]s, [`Server`]s and [`Machine`]s use it. Drop removes
//! them; the next lab that opens removes the remains of a killed process ([`remove_those_of_the_dead`]).
//!
//! The end-to-end tests use the same machines, with links without a limit.

mod boot;
mod client;
mod command;
pub mod config;
mod cpu;
pub mod disk;
mod error;
pub mod experiment;
mod ganesha;
pub mod heorot;
pub mod interrupt;
mod kernel;
mod lab;
mod link;
mod machine;
mod processor;
mod remains;
mod server;
pub mod stream;
pub mod table;
mod xstate;

pub use boot::{DISKLESS_INIT, Diskless};
pub use client::{Client, INIT, Output, Running};
pub use cpu::cpu_seconds;
pub use error::{Error, Result};
pub use ganesha::Ganesha;
pub use heorot::Heorot;
pub use kernel::Kernel;
pub use lab::{Lab, Namespace};
pub use link::Link;
pub use machine::Machine;
pub use remains::remove_those_of_the_dead;
pub use server::{Ready, Server};
