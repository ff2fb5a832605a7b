//! Records that NFS clients have written to files of their own, and what each may read back.
//!
//! A file has a few records, far apart; each is one number, repeated. One worker of one client writes a file, one
//! request after the other, by itself.

use std::collections::BTreeMap;

/// Records of a file.
pub const RECORDS: u64 = 10;
/// Distance of records, in bytes: two in each stripe unit.
pub const RECORD_DISTANCE: u64 = 32 << 10;
/// Place of a record within its part of the file: not at the beginning of a block, and within one page.
const RECORD_START: u64 = 520;
/// Length of a record in bytes.
pub const RECORD_BYTES: u64 = 1000;

/// Offset of a record in its file.
#[must_use]
pub fn offset(record: u64) -> u64 {
    record * RECORD_DISTANCE + RECORD_START
}

/// Bytes of a record with this number.
#[must_use]
pub fn bytes(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(RECORD_BYTES as usize / 8)
}

/// The number in the bytes of a record; what the file does not have is zeros. None: they are no record.
#[must_use]
pub fn number(bytes: &[u8]) -> Option<u64> {
    let mut whole = bytes.to_vec();
    whole.resize(RECORD_BYTES as usize, 0);
    let (words, _) = whole.as_chunks::<8>();
    let first = words.first()?;
    words.iter().all(|word| word == first).then(|| u64::from_be_bytes(*first))
}

/// What is known of one record.
#[derive(Debug, Clone, Default)]
struct Record {
    /// The last number that is durable; 0: none.
    durable: u64,
    /// Numbers that were written since, and are in memory of the servers, or may be.
    later: Vec<u64>,
    /// Numbers of requests without an answer: they may be carried out late.
    stragglers: Vec<u64>,
}

/// File of a worker.
#[derive(Debug, Clone)]
struct RecordFile {
    name: String,
    records: Vec<Record>,
    /// False once it was removed, or may have been.
    is_there: bool,
}

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is durable.
    Durably,
    /// It is in the servers' memory.
    InMemory,
    /// It may be carried out at any time.
    Perhaps,
}

/// All files, and what was found wrong.
#[derive(Debug, Default)]
pub struct Records {
    files: BTreeMap<u64, RecordFile>,
    last: u64,
    /// Reads that were compared.
    pub reads: u64,
    /// Findings.
    pub wrong: Vec<String>,
}

impl Record {
    /// True if these are parts of writes without an answer over one that the record may have: their data server, and then
    /// their client, may have died in the middle of them.
    fn may_be_torn(&self, read: &[u8]) -> bool {
        let is_below = |below: &u64| {
            let mut bytes = read.iter().enumerate();
            bytes.all(|(at, byte)| {
                let has = |number: &u64| number.to_be_bytes()[at % 8] == *byte;
                has(below) || self.stragglers.iter().any(has)
            })
        };
        [self.durable].iter().chain(&self.later).any(is_below)
    }
}

impl Records {
    /// A new file with this name; returns its number.
    pub fn begin(&mut self, name: String) -> u64 {
        self.last += 1;
        let records = vec![Record::default(); RECORDS as usize];
        self.files.insert(self.last, RecordFile { name, records, is_there: true });
        self.last
    }

    /// A number that was not used before.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The file is about to be removed.
    pub fn removing(&mut self, file: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.is_there = false;
        }
    }

    fn record(&mut self, file: u64, record: u64) -> Option<&mut Record> {
        self.files.get_mut(&file)?.records.get_mut(record as usize)
    }

    /// A write of `number` was answered; or it is about to be sent, and may be carried out from now on.
    pub fn written(&mut self, file: u64, record: u64, number: u64, how: Written) {
        let Some(record) = self.record(file, record) else { return };
        record.stragglers.retain(|straggler| *straggler != number);
        match how {
            Written::Durably => {
                record.durable = number;
                record.later.clear();
            }
            Written::InMemory => record.later.push(number),
            Written::Perhaps => record.stragglers.push(number),
        }
    }

    /// What was written in memory to these records, each with its last number then, is durable.
    pub fn committed(&mut self, file: u64, numbers: &[(u64, u64)]) {
        for (at, number) in numbers {
            let Some(record) = self.record(file, *at) else { continue };
            if let Some(known) = record.later.iter().position(|later| later == number) {
                record.durable = *number;
                record.later.drain(..=known);
            }
        }
    }

    /// The file was cut before this record; perhaps, if it is not `done`.
    pub fn truncated(&mut self, file: u64, from: u64, done: bool) {
        let Some(file) = self.files.get_mut(&file) else { return };
        for record in file.records.iter_mut().skip(from as usize) {
            if done {
                (record.durable, record.later) = (0, vec![]);
                // The one of the request.
                if let Some(zero) = record.stragglers.iter().position(|straggler| *straggler == 0) {
                    record.stragglers.remove(zero);
                }
            } else {
                record.stragglers.push(0);
            }
        }
    }

    /// Compares bytes that were read.
    pub fn read(&mut self, file: u64, at: u64, read: &[u8], by: &str) {
        self.reads += 1;
        let Some(known) = self.files.get(&file) else { return };
        let Some(record) = known.records.get(at as usize) else { return };
        let Some(number) = number(read) else {
            if record.may_be_torn(read) {
                return;
            }
            let head: Vec<u8> = read.iter().take(32).copied().collect();
            self.wrong.push(format!("{by}: record {at} of {} is torn: {head:02x?}…", known.name));
            return;
        };
        let may_be =
            record.durable == number || record.later.contains(&number) || record.stragglers.contains(&number);
        if !may_be {
            self.wrong
                .push(format!("{by}: record {at} of {} is {number}, not one of {record:?}", known.name));
        }
    }

    /// Numbers and names of the files that are there.
    #[must_use]
    pub fn there(&self) -> Vec<(u64, String)> {
        let there = self.files.iter().filter(|(_, file)| file.is_there);
        there.map(|(number, file)| (*number, file.name.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_what_was_durable_or_anything_after_it() {
        let mut records = Records::default();
        let file = records.begin("d".into());
        let sees = |records: &mut Records, value: u64| {
            let before = records.wrong.len();
            records.read(file, 1, &bytes(value), "a client");
            records.wrong.len() == before
        };
        assert!(sees(&mut records, 0) && !sees(&mut records, 5));
        records.written(file, 1, 5, Written::InMemory);
        records.written(file, 1, 6, Written::InMemory);
        assert!(sees(&mut records, 0) && sees(&mut records, 5) && sees(&mut records, 6));
        records.committed(file, &[(1, 5)]);
        assert!(!sees(&mut records, 0) && sees(&mut records, 5) && sees(&mut records, 6));
        records.written(file, 1, 7, Written::Perhaps);
        records.written(file, 1, 8, Written::Durably);
        assert!(!sees(&mut records, 6) && sees(&mut records, 7) && sees(&mut records, 8));
        records.truncated(file, 1, false);
        assert!(sees(&mut records, 0) && sees(&mut records, 8));
        records.truncated(file, 1, true);
        assert!(sees(&mut records, 0) && !sees(&mut records, 8));
        records.written(file, 1, 9, Written::Durably);
        assert!(!sees(&mut records, 0));
        records.read(file, 1, &[bytes(9)[..500].to_vec(), vec![1; 500]].concat(), "a client");
        assert!(records.wrong.last().unwrap().contains("torn"));
        assert_eq!(number(&[]), Some(0), "beyond the end of the file");
    }
}
