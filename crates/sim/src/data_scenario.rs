//! Data servers of a scenario: how many there are, what they keep, and what happens to them beside the faults of all.

use crate::scenario::Kind;

/// Copies of new files, by the seed.
const COPIES: [u8; 8] = [2, 2, 3, 2, 1, 2, 3, 2];
/// Data servers of a cluster of metaservers.
const PLAIN_SERVERS: u64 = 2;
/// Whole data servers of a cluster.
const WHOLE_SERVERS: u64 = 3;

/// Data servers of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataScenario {
    /// True if they are the real ones.
    pub is_whole: bool,
    /// Their number.
    pub servers: u64,
    /// Copies of new files.
    pub copies: u8,
    /// True if orphan scans follow each fault, and disks refuse new objects more often: columns are placed elsewhere.
    pub places_anew: bool,
    /// True if disks flip bits.
    pub flips_bits: bool,
    /// True if operators drain data servers, and disks fill unevenly: copies move.
    pub is_operated: bool,
    /// True if snapshots are made and removed.
    pub has_snapshots: bool,
}

impl DataScenario {
    /// Data servers of a seed.
    #[must_use]
    pub fn from_seed(seed: u64, kind: Kind) -> Self {
        if kind != Kind::Copies {
            return Self {
                is_whole: false,
                servers: PLAIN_SERVERS,
                copies: 1,
                places_anew: false,
                flips_bits: false,
                is_operated: false,
                has_snapshots: false,
            };
        }
        let is_operated = matches!(seed % 9, 3..=6);
        let places_anew = seed % 5 == 2;
        Self {
            is_whole: true,
            // One that drains leaves enough for three copies.
            servers: WHOLE_SERVERS + u64::from(is_operated),
            copies: if places_anew && seed.is_multiple_of(2) { 1 } else { COPIES[(seed % 8) as usize] },
            places_anew,
            flips_bits: matches!(seed % 9, 1..=4),
            is_operated,
            has_snapshots: seed % 6 == 4,
        }
    }
}
