//! Pages of a store that the disk has altered while no process had it open: an error that says so, and never
//! a panic, since a panic ends the process, and its next start meets the same page.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use store::{Durability, Edit, OpenError, RedbStore, Store, StoreError};

const MEMORY_BYTES: usize = 4 << 20;
const PAGE_BYTES: u64 = 4096;
const KEYS: u32 = 3000;

fn value(n: u32) -> Vec<u8> {
    n.to_be_bytes().repeat(30)
}

fn fill(path: &Path) -> Result<(), StoreError> {
    let store = RedbStore::open(path, MEMORY_BYTES).expect("opens");
    for n in 0..KEYS {
        let put = &mut |edit: &mut dyn Edit| edit.put(&n.to_be_bytes(), &value(n));
        store.batch(Durability::Deferred, put)?;
    }
    store.batch(Durability::Immediate, &mut |_| Ok(()))
}

/// All that a process does with a store: open, read, scan, change, flush.
fn use_all(path: &Path) -> Result<bool, StoreError> {
    let store = RedbStore::open(path, MEMORY_BYTES).map_err(|error| match error {
        OpenError::Damaged(error) => error,
        OpenError::Failed(error) => panic!("not taken for damage: {error}"),
    })?;
    let view = store.snapshot()?;
    let mut right = true;
    for n in 0..KEYS {
        right &= view.get(&n.to_be_bytes())? == Some(value(n));
    }
    let mut count = 0;
    view.scan(&[], &[0xff], &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    for n in 0..KEYS {
        store.batch(Durability::Deferred, &mut |edit| edit.put(&n.to_be_bytes(), b"new"))?;
    }
    store.batch(Durability::Immediate, &mut |_| Ok(()))?;
    Ok(right && count == KEYS)
}

/// ```text
/// each page after the header is overwritten: with zeros, with ones, with other bytes, or in one bit
/// ```
#[test]
fn a_damaged_page_is_an_error_that_says_so_and_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, path) = (dir.path().join("sound"), dir.path().join("store"));
    fill(&sound).unwrap();
    let pages = sound.metadata().unwrap().len() / PAGE_BYTES;
    let mut outcomes = std::collections::BTreeMap::<String, u32>::new();
    for page in 1..pages {
        for how in 0..4 {
            std::fs::copy(&sound, &path).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let mut bytes = vec![0; PAGE_BYTES as usize];
            file.read_exact_at(&mut bytes, page * PAGE_BYTES).unwrap();
            if bytes.iter().all(|byte| *byte == 0) {
                continue; // not in use
            }
            match how {
                0 => bytes.fill(0),
                1 => bytes.fill(0xff),
                2 => {
                    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at as u64 * 37 + page) as u8)
                }
                _ => bytes[2] ^= 1, // number of the page's entries
            }
            file.write_all_at(&bytes, page * PAGE_BYTES).unwrap();
            drop(file);
            let outcome = match std::panic::catch_unwind(|| use_all(&path)) {
                Ok(Ok(true)) => "unnoticed, and no harm".to_owned(),
                Ok(Ok(false)) => "unnoticed, and wrong".to_owned(),
                Ok(Err(error)) => format!("{error}").chars().take(70).collect(),
                Err(_) => "a panic".to_owned(),
            };
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    eprintln!("{outcomes:#?}");
    assert_eq!(outcomes.get("a panic"), None, "{outcomes:#?}");
}
