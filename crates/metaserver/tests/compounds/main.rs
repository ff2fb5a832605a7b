//! Compounds made by hand, over a real socket to a metaserver in this process whose clock stands still until
//! a story moves it: what RFC 8881 says of clients, sessions, leases and states, where no real client would
//! go.

mod attributes;
mod brief_opens;
mod consistency;
mod courtesy;
mod drc;
mod elsewhere;
mod epochs;
mod exports;
mod fake_data;
mod files;
mod grants;
mod held;
mod lock_waiters;
mod procedures3;
mod ranges;
mod raw;
mod returns;
mod sessions;
mod set_id;
mod snapshot;
mod states;
mod three;
mod truncations;
mod unsettled;
mod world;
mod write_delegations;
