//! Memory of the metadata store.

/// Share of the memory for the metadata store: one in `STORE_SHARE`. The rest is for connections, for the
/// page cache of a data server on the same machine, and for other programs.
const STORE_SHARE: u64 = 4;
/// Minimum: with less, the upper levels of the store's tree for a few million files would not stay in memory.
const STORE_BYTES_MIN: u64 = 64 << 20;
/// Upper limit of the default: the upper levels for a billion files, and the leaves in use. Larger sites set
/// `metadata_memory`.
const STORE_BYTES_MAX: u64 = 4 << 30;

/// Default of `metadata_memory`.
pub(crate) fn store_bytes_default() -> u64 {
    share(host::memory_bytes())
}

fn share(memory_bytes: u64) -> u64 {
    (memory_bytes / STORE_SHARE).clamp(STORE_BYTES_MIN, STORE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_gets_a_quarter_within_reason() {
        assert_eq!(share(512 << 20), 128 << 20);
        assert_eq!(share(64 << 20), STORE_BYTES_MIN);
        assert_eq!(share(1 << 40), STORE_BYTES_MAX);
    }
}
