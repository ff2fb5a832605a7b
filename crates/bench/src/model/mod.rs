//! Model of the hardware: an upper bound of the throughput, and the resource that binds.
//!
//! In: [`Hardware`] and [`Load`]. Out: a [`Solution`]: S, T, the binding term, and the changes that double S
//! ([`advice`]). Pure arithmetic without measurement and I/O. `heorot model` (`command`, `text`, `draw`)
//! shows it.
//!
//! N clients read or write D bytes on M data servers with P disks in all. A file is striped over W servers,
//! and each byte has k copies. Each resource alone would take
//!
//! ```text
//!   client CPU      D·c / N               c: CPU-seconds for each byte at a client
//!   client links    D / (N·I_client)
//!   server links    D·r / (m·I_server)    r: 1 for reads, k for writes
//!   disks           D·r / (d·R)
//!   uplink          D / U                 between the clients and the servers
//!   switch          D·r / X               all traffic crosses it, copies too
//! ```
//!
//! All resources work at the same time, so T is the maximum of these times, and S = D/T.
//!
//! **m and d: busy servers and disks.** All are busy (m = M, d = P) only with enough files. A client that
//! reads a file takes each column from one server, so it keeps W servers busy. Several readers of one file
//! may read different copies, but not more than exist: f files and N clients keep `W·min(f·k, max(f, N))`
//! servers busy. A written file goes to all its copies: `W·k·f`. Never more than M. The disks of idle servers
//! are idle.
//!
//! **Why it is a bound and not a forecast.** Load is spread evenly, like a fluid: with W = 1, three files on
//! two servers count as 1.5 on each. Links are full duplex, so a server that forwards a copy down the chain
//! does so while it receives: for each byte sent it has received one, and the receiving side binds. No seek,
//! no round trip, no header: use the speed of a plain TCP stream as link speed (94.11 Mbit/s on 100 Mbit/s
//! Ethernet), and that of a large sequential transfer as disk speed. Server caches are not modelled: a file
//! in a server's memory can be read faster than from its disk; then omit the disk.

pub mod advice;
mod args;
mod command;
mod draw;
mod load;
pub mod parameter;
pub mod quantity;
pub mod setup;
pub mod solve;
pub mod sweep;
mod text;

pub use args::{HardwareArgs, LoadArgs};
pub use command::{ModelArgs, model};
pub use load::bound;
pub use parameter::Parameter;
pub use quantity::{CpuCost, Rate};
pub use setup::{Disks, Files, Hardware, Load, Refused, Setup};
pub use solve::{Resource, Solution, Term};

#[cfg(test)]
mod tests;
