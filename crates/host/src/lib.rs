//! The machine: time, randomness, buffers, files, and addresses on its interfaces, real ones and ones for
//! tests. Also parsers of sizes, times and networks, and a watched value. Other crates take these as arguments, so that a whole
//! cluster can run from one seed.

mod buffer;
mod clock;
mod entropy;
mod files;
pub mod interface;
mod memory;
mod network;
mod patience;
pub mod private;
mod repeated;
mod replace;
pub mod size;
pub mod time;
pub mod watch;

pub use buffer::{Buffer, BufferPool};
pub use clock::{Clock, ManualClock, SystemClock, WallTime};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use files::{File, Files, Opened, SystemFiles};
pub use memory::memory_bytes;
pub use network::Network;
pub use patience::{patiently, with_room};
pub use repeated::Repeated;
pub use replace::{put_in_place, replace, temporary};
