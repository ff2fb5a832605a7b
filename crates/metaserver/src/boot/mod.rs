//! Machines that boot from images: what they are told, the files that they load, and how images come in.
//!
//! ```text
//! tar ──▶ import ──▶ volume /boot/images/IMAGE, and its snapshot VERSION
//!                       ▲ nodes: groups and nodes, and what each boots (the state machine's tables)
//! iPXE ──▶ script ──────┤
//!                       └─ files: kernel and initramfs of the root, by path, inside it
//! ```
//!
//! The listeners are elsewhere; here are the answers.

mod cache;
mod claim;
mod entry;
mod files;
mod import;
mod importer;
mod nodes;
mod paths;
mod report;
mod script;
mod tree;

pub use cache::BootCache;
pub use entry::{Entry, EntryKind, Piece};
pub use files::{BootFile, BootPart};
pub use import::ImportOptions;
pub use nodes::{NewBootNode, NodeChange as BootNodeChange};
pub use report::{BootReport, GroupReport, ImageReport, NodeReport as BootNodeReport};
pub use script::{mac_text, parse_mac};
