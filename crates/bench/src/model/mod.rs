//! Model of the hardware: an upper bound of the throughput, and the resource that binds.
//!
//! In: [`Hardware`] and [`Load`]. Out: a [`Solution`]: S, T, the term that binds, and ([`advice`]) what would
//! double S. Pure arithmetic; it measures nothing and reads nothing. `heorot model` (`command`, `text`,
//! `draw`) shows it.
//!
//! D bytes are read or written by N clients over M data servers with P disks in all. A file is striped over W
//! of the servers, and each byte is kept on k of them. Each resource alone would take
//!
//! ```text
//!   client CPU      D·c / N               c: CPU-seconds for each byte at a client
//!   client links    D / (N·I_client)
//!   server links    D·r / (m·I_server)    r: 1 for reads, k for writes
//!   disks           D·r / (d·R)
//!   uplink          D / U                 between the clients and the servers
//!   switch          D·r / X               everything crosses it, copies too
//! ```
//!
//! and since all of them work at the same time, T is the greatest of these, and S = D/T.
//!
//! **m and d: how many servers and disks can work.** All of them (m = M, d = P) only if there are files
//! enough. A client that reads a file takes each column from one server, so it keeps W servers busy. Several
//! readers of one file may read different copies, but never more than there are: f files and N clients keep
//! `W·min(f·k, max(f, N))` servers busy. A written file goes to all its copies: `W·k·f`. Never more than M.
//! Disks sit in servers: those of the servers that do not work do not work either.
//!
//! **What makes it a bound and not a forecast.** Work is spread evenly, as if it were a fluid: with W = 1,
//! three files on two servers count as 1.5 on each. Links are full duplex, so a server that passes a copy on
//! down the chain does so while it receives: for each byte that it sends it has received one, and the
//! receiving side binds. No seek, no round trip, no header: give as link speed what a plain TCP stream
//! measures (94.11 Mbit/s on 100 Mbit/s Ethernet), and as disk speed what a large sequential transfer does.
//! Caches of servers are left out: a file that a server still has in memory can be read faster than its disk;
//! leave the disk out then.

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
