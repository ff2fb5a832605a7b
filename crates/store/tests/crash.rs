//! Crash: afterwards the store has the state of one whole batch, the last immediate one or a later one.
//!
//! At a crash this disk loses the writes since the last sync, except a random few, whole or torn in two: as a
//! disk with a write cache does at a power failure.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use proptest::prelude::*;
use redb::StorageBackend;
use store::{Durability, RedbStore, Store};

const CACHE_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
struct Image {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Changes since the last sync, in order.
    pending: Vec<Pending>,
}

#[derive(Debug, Clone)]
enum Pending {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Pending {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Pending::Length(len) => image.resize(*len, 0),
            Pending::Write(offset, data) => {
                let end = offset + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(data);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<Image>>);

impl Disk {
    fn image(&self) -> MutexGuard<'_, Image> {
        self.0.lock()
    }

    fn change(&self, change: Pending) {
        let mut image = self.image();
        change.apply(&mut image.now);
        image.pending.push(change);
    }

    /// Disk after a crash now; `kept` chooses the fate of each write since the last sync.
    fn after_crash(&self, kept: &mut impl FnMut() -> u8) -> Disk {
        let image = self.image();
        let mut survived = image.synced.clone();
        for pending in &image.pending {
            match (kept() % 4, pending) {
                (0, pending) => pending.apply(&mut survived),
                (1, Pending::Write(offset, data)) => {
                    // Torn at a sector: the first half is on disk.
                    let half = (data.len() / 2).next_multiple_of(512).min(data.len());
                    Pending::Write(*offset, data[..half].to_vec()).apply(&mut survived);
                }
                _ => {}
            }
        }
        Disk(Arc::new(Mutex::new(Image { now: survived.clone(), synced: survived, pending: Vec::new() })))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.image().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let image = self.image();
        let offset = offset as usize;
        let data = image.now.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Pending::Length(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut image = self.image();
        image.synced = image.now.clone();
        image.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Pending::Write(offset as usize, data.to_vec()));
        Ok(())
    }
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(store: &RedbStore) -> Map {
    let mut map = Map::new();
    let view = store.snapshot().expect("a snapshot");
    view.scan(b"", b"\xff\xff", &mut |key, value| {
        map.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })
    .expect("scans");
    map
}

#[derive(Debug, Clone)]
struct Batch {
    immediate: bool,
    changes: Vec<(u8, Option<u16>)>,
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let change = (any::<u8>(), proptest::option::weighted(0.8, 0..2000u16));
    let batch = (proptest::bool::weighted(0.3), proptest::collection::vec(change, 1..20));
    let batch = batch.prop_map(|(immediate, changes)| Batch { immediate, changes });
    proptest::collection::vec(batch, 1..15)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_a_crash_the_store_is_at_one_batch_whole(batches in batches(), seed in any::<u64>()) {
        let disk = Disk::default();
        let store = RedbStore::open_backend(disk.clone(), CACHE_BYTES).expect("opens");
        let mut states = vec![Map::new()];
        let mut durable = 0;
        let mut random = seed | 1;
        let mut kept = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 32) as u8
        };
        for batch in &batches {
            let mut state = states.last().cloned().unwrap_or_default();
            let durability = if batch.immediate { Durability::Immediate } else { Durability::Deferred };
            store.batch(durability, &mut |edit| {
                for (key, value) in &batch.changes {
                    match value {
                        Some(len) => edit.put(&[*key], &vec![*key; usize::from(*len)])?,
                        None => edit.delete(&[*key])?,
                    }
                }
                Ok(())
            }).expect("commits");
            for (key, value) in &batch.changes {
                match value {
                    Some(len) => state.insert(vec![*key], vec![*key; usize::from(*len)]),
                    None => state.remove(&vec![*key]),
                };
            }
            states.push(state);
            if batch.immediate {
                durable = states.len() - 1;
            }
            let crashed = RedbStore::open_backend(disk.after_crash(&mut kept), CACHE_BYTES).expect("opens after a crash");
            prop_assert!(states[durable..].contains(&contents(&crashed)));
        }
    }
}
