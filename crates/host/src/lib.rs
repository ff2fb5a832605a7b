//! The machine: time, randomness, buffers, files, addresses on its interfaces. Real ones, and ones that a
//! test drives. And how people write sizes, times and networks. Everything above takes these as arguments, so
//! that a whole cluster can run from one seed.

mod buffer;
mod clock;
mod entropy;
mod files;
pub mod interface;
mod locked;
mod network;
mod patience;
pub mod private;
mod replace;
pub mod size;
pub mod time;

pub use buffer::{Buffer, BufferPool};
pub use clock::{Clock, ManualClock, SystemClock, WallTime};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use files::{File, Files, Opened, SystemFiles};
pub use locked::{Locked, RwLocked};
pub use network::Network;
pub use patience::{patiently, with_room};
pub use replace::{put_in_place, replace, temporary};
