//! Checks of sizes before anything is written.

use host::size;

use crate::trouble::Trouble;

/// Maximal length of a record, which a worker has in memory; Linux offsets are signed.
const RECORD_BYTES_MAX: u64 = 1 << 30;
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Checks the sizes of records and of a file (or of a client's part of a file).
pub(super) fn records(file_bytes: u64, record_bytes: u64) -> Result<(), Trouble> {
    let shown = size::show;
    if file_bytes == 0 || file_bytes > FILE_BYTES_MAX - RECORD_BYTES_MAX {
        return Err(Trouble(format!("no file can be of {}: choose another --size", shown(file_bytes))));
    }
    if record_bytes == 0 || record_bytes > RECORD_BYTES_MAX {
        return Err(Trouble(format!("records of {} cannot be: choose 1B to 1GiB", shown(record_bytes))));
    }
    if record_bytes > file_bytes {
        return Err(Trouble(format!(
            "records of {} do not fit into {}: choose a larger --size, or smaller records",
            shown(record_bytes),
            shown(file_bytes)
        )));
    }
    Ok(())
}

/// Checks that each client has at least one transfer.
pub(super) fn enough_for_all(transfers: u64, clients: u64) -> Result<(), Trouble> {
    if transfers < clients {
        return Err(Trouble(format!(
            "{clients} clients cannot share {transfers} transfers: choose a larger --size, or fewer --clients"
        )));
    }
    Ok(())
}
