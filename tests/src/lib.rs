//! End to end: real Linux kernels as clients, real `heorot` processes as servers.
//!
//! ```text
//!   client "ash"   client "elm"      processes: each a Linux kernel with its own NFS client
//!        │ tap          │ tap
//!   ═════╧══════════════╧═════════   a bridge, 10.77.X.0/24
//!        │ 10.77.X.1
//!   heorot mds, heorot ds ...        processes of this machine
//! ```
//!
//! A [`Lab`] is the network and a folder; [`Client`]s and the cluster use it, and drop removes all, also
//! after a panic. They are those of the crate `lab`, with links without a limit. Failures panic with all
//! known facts.

mod client;
mod cluster;
pub mod copies;
mod cpu;
mod dice;
pub mod documents;
mod ganesha;
pub mod image;
pub mod kills;
mod lab;
mod load;
mod machines;
mod metaservers;
mod metrics;
mod ports;
pub mod postgres;
pub mod scripts;
mod small_disk;
pub mod stalls;
pub mod stat_cost;
mod up;

pub use ::lab::Kernel;
pub use client::{Client, Output, Running};
pub use cluster::{Cluster, MOUNT_POINT, Server, binary};
pub use cpu::cpu_seconds;
pub use dice::Dice;
pub use ganesha::Ganesha;
pub use lab::Lab;
pub use load::Load;
pub use machines::{Machine, Verdict};
pub use metaservers::Metaservers;
pub use metrics::{FileBytes, Metrics, Traffic};
pub use ports::free_ports;
pub use small_disk::SmallDisk;
pub use up::Up;

/// Panics with the error of a lab.
#[track_caller]
fn must<T>(result: ::lab::Result<T>) -> T {
    result.unwrap_or_else(|e| panic!("{e}"))
}
