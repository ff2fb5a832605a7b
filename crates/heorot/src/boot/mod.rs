//! Answers to machines that boot from images: HTTP for iPXE and its files, TFTP for what firmware loads first.
//!
//! ```text
//! settings boot_http_port, boot_tftp_port ┐
//! the metaserver's own address ───────────┼─▶ listeners ─▶ http ─┐
//! all service addresses ──────────────────┘       └──────▶ tftp ─┴─▶ metaserver::boot
//! ```
//!
//! Each metaserver listens at each service address, also while another one holds it: once an address moves, it is
//! answered.

mod addresses;
mod http;
mod listeners;
mod tftp;

pub(crate) use listeners::BootServers;
