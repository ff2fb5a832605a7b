//! Node: its directory and secret, `init`, `join` and `run`.

pub(crate) mod data_dir;
pub(crate) mod dir;
pub(crate) mod ds_file;
pub(crate) mod founding_marker;
pub(crate) mod held_socket;
pub(crate) mod init;
pub(crate) mod join_client;
pub(crate) mod listen;
pub(crate) mod name;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod supervisor;
pub(crate) mod up;
