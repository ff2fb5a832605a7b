//! Losses of power, and operations that fail, at each step of a story.

use dataserver::Settling;
use host::Entropy;
use wire::data::Piece;

use super::volatile_disk::{Fault, VolatileDisk};
use super::*;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
/// Images of the disk after each loss of power. 4 were run once.
const SEEDS: u64 = 1;

/// What must be on the disk: the bytes that were acknowledged as durable and did not change since. None: the
/// byte is changing.
#[derive(Default)]
struct Promise(Vec<Option<u8>>);

impl Promise {
    fn unsure(&mut self, from: usize, to: usize) {
        let end = to.min(self.0.len());
        if from < end {
            self.0[from..end].fill(None);
        }
    }

    fn check(&self, found: &[u8], place: &str) {
        assert!(found.len() >= self.0.iter().rposition(Option::is_some).map_or(0, |n| n + 1), "{place}");
        for (at, byte) in self.0.iter().enumerate() {
            assert!(byte.is_none_or(|byte| found[at] == byte), "{place}: byte {at}");
        }
    }
}

/// Writes, overwrites, appends, holes, truncations and copies, with and without commits and settling. Stops
/// at the first error.
fn story(objects: &Objects, promises: &mut [Promise; 2]) -> Result<(), ObjectError> {
    let mut memory = [Vec::new(), Vec::new()];
    objects.make(&[name(0), name(1)])?;
    let write =
        |promises: &mut [Promise; 2], memory: &mut [Vec<u8>; 2], inode: usize, offset: usize, len: u64| {
            promises[inode].unsure(offset, offset + len as usize);
            let bytes = text(len, offset as u64 + len);
            objects.write(at(inode as u64), offset as u64, &data(&bytes))?;
            let old = memory[inode].len();
            memory[inode].resize(old.max(offset + bytes.len()), 0);
            memory[inode][offset..offset + bytes.len()].copy_from_slice(&bytes);
            Ok(())
        };
    let commit = |promises: &mut [Promise; 2], memory: &[Vec<u8>; 2], inode: usize| {
        let before = objects.verifier();
        objects.commit(at(inode as u64))?;
        if objects.verifier() == before {
            promises[inode].0 = memory[inode].iter().copied().map(Some).collect();
        }
        Ok(())
    };
    let block = BLOCK_BYTES;
    write(promises, &mut memory, 0, 0, 150_000)?;
    commit(promises, &memory, 0)?;
    write(promises, &mut memory, 0, 70_000, 10_000)?;
    write(promises, &mut memory, 1, 3 * block, 5000)?;
    write(promises, &mut memory, 0, 150_000, 70_000)?;
    commit(promises, &memory, 0)?;
    objects.settle_all(&Settling::default());
    // Syncs the change log, with the record that object 0 is settled.
    objects.make(&[name(2)])?;
    write(promises, &mut memory, 0, 100, 50)?;
    commit(promises, &memory, 0)?;
    write(promises, &mut memory, 0, 2 * block, 4096)?;
    promises[0].unsure(block - 10, block + 30_000);
    objects.punch(at(0), block as u64 - 10, 30_010)?;
    memory[0][block - 10..block + 30_000].fill(0);
    commit(promises, &memory, 0)?;
    promises[0].unsure(180_000, usize::MAX);
    promises[0].0.truncate(180_000);
    objects.truncate(at(0), 180_000)?;
    memory[0].truncate(180_000);
    write(promises, &mut memory, 0, 190_000, 100)?;
    objects.settle_all(&Settling::default());
    objects.make(&[name(3)])?;
    promises[1].unsure(block, 3 * block);
    objects.copy(at(1), objects, at(0), &[Piece { from: 0, to: block as u64, len: 2 * BLOCK }])?;
    let part = memory[0][..2 * block].to_vec();
    memory[1][block..3 * block].copy_from_slice(&part);
    commit(promises, &memory, 1)?;
    write(promises, &mut memory, 1, 0, 2 * BLOCK)?;
    objects.settle_all(&Settling::default());
    write(promises, &mut memory, 1, 5, 10)?;
    Ok(())
}

/// After a fault: no read fails, all that was promised is there, and from the settling on each flipped bit is
/// found.
fn check_all(dir: &Path, promises: &[Promise; 2], entropy: &SeededEntropy, place: &str) {
    let target = open(dir);
    for settled in [false, true] {
        for (inode, promise) in promises.iter().enumerate() {
            match get(target.objects(), inode as u64) {
                Ok(found) => promise.check(&found, place),
                Err(ObjectError::Lost) if promise.0.is_empty() => {}
                Err(error) => panic!("{place}: settled {settled}: {error}"),
            }
        }
        target.objects().settle_all(&Settling::default());
    }
    drop(target);
    let target = open(dir);
    for inode in 0..2 {
        let Ok(bytes) = std::fs::read(file(dir, inode)) else { continue };
        if bytes.is_empty() {
            continue;
        }
        let bit = entropy.u64() % (bytes.len() as u64 * 8);
        flip(&file(dir, inode), bit);
        let found = get(target.objects(), inode).map(|bytes| bytes.len());
        assert_eq!(found, Err(ObjectError::Damaged), "{place}: bit {bit} of {inode}");
        assert_eq!(target.objects().checksum_counts().summed_anew, 0);
    }
}

fn steps_of_the_story() -> u64 {
    let dir = quick_dir();
    let disk = Arc::new(VolatileDisk::new(dir.path(), Fault::Never));
    let target = open_on(dir.path(), disk.clone(), 512);
    story(target.objects(), &mut <[Promise; 2]>::default()).unwrap();
    disk.operations()
}

#[test]
fn a_loss_of_power_at_any_step_raises_no_alarm_and_leaves_nothing_without_a_sum() {
    let steps = steps_of_the_story();
    assert!(steps > 60, "{steps}");
    // The first ones are of the opening.
    for step in 3..=steps {
        for seed in 0..SEEDS {
            let dir = quick_dir();
            let disk = Arc::new(VolatileDisk::new(dir.path(), Fault::PowerFrom(step)));
            let target = open_on(dir.path(), disk.clone(), 512);
            let mut promises = <[Promise; 2]>::default();
            let _ = story(target.objects(), &mut promises);
            drop(target);
            disk.crash(step * 10 + seed);
            let entropy = SeededEntropy::new(step * 10 + seed);
            check_all(dir.path(), &promises, &entropy, &format!("step {step} seed {seed}"));
        }
    }
}

#[test]
fn an_operation_that_fails_once_leaves_right_sums() {
    let steps = steps_of_the_story();
    for step in 3..=steps {
        for errno in [if step % 2 == 0 { EIO } else { ENOSPC }] {
            let dir = quick_dir();
            let disk = Arc::new(VolatileDisk::new(dir.path(), Fault::Once(step, errno)));
            let target = open_on(dir.path(), disk.clone(), 512);
            let mut promises = <[Promise; 2]>::default();
            let _ = story(target.objects(), &mut promises);
            let place = format!("step {step} error {errno}");
            if !target.objects().failed() {
                for (inode, promise) in promises.iter().enumerate() {
                    match get(target.objects(), inode as u64) {
                        Ok(found) => promise.check(&found, &place),
                        Err(ObjectError::Lost) if promise.0.is_empty() => {}
                        // The fault came this late.
                        Err(ObjectError::Io | ObjectError::NoSpace) => {}
                        Err(error) => panic!("{place}: {error}"),
                    }
                }
            }
            drop(target);
            // The process ends, and the kernel goes on.
            check_all(dir.path(), &promises, &SeededEntropy::new(step), &place);
        }
    }
}

/// What may be read of the block that is known to be damaged.
#[derive(Debug, Clone, PartialEq)]
enum Damage {
    /// An error only.
    Stays,
    /// An error, or these bytes: they are being written.
    Or(Vec<u8>),
    /// These bytes: they are committed.
    Gone(Vec<u8>),
}

/// An object of three blocks whose second one is known to be damaged.
fn with_damage(dir: &Path) {
    let target = open(dir);
    put(target.objects(), 1, 0, &text(3 * BLOCK, 1));
    target.objects().settle_all(&Settling::default());
    drop(target);
    flip(&file(dir, 1), 8 * (BLOCK + 9));
}

/// The second block is cut in the middle; something is written beside it; then it is replaced in one way of four.
fn replace_damage(objects: &Objects, way: u64, damage: &mut Damage) -> Result<(), ObjectError> {
    objects.truncate(at(1), 2 * BLOCK - 100)?;
    objects.write(at(1), 0, &data(&text(BLOCK, 2)))?;
    objects.commit(at(1))?;
    let (new, zeros) = (text(BLOCK, 3), vec![0; BLOCK_BYTES]);
    let replaced = if way == 0 || way == 3 { new.clone() } else { zeros };
    *damage = Damage::Or(replaced.clone());
    match way {
        0 => objects.write(at(1), BLOCK, &data(&new)).map(drop)?,
        1 => {
            objects.punch(at(1), BLOCK, BLOCK)?;
            objects.write(at(1), 2 * BLOCK, &data(b"longer"))?;
        }
        2 => {
            objects.truncate(at(1), BLOCK)?;
            objects.write(at(1), 2 * BLOCK, &data(b"longer"))?;
        }
        _ => {
            objects.make(&[name(2)])?;
            objects.write(at(2), 0, &data(&new))?;
            objects.copy(at(1), objects, at(2), &[Piece { from: 0, to: BLOCK, len: BLOCK }])?;
        }
    }
    let before = objects.verifier();
    objects.commit(at(1))?;
    if objects.verifier() == before {
        *damage = Damage::Gone(replaced);
    }
    Ok(())
}

#[test]
fn no_loss_of_power_makes_a_damaged_block_sound_or_a_rewritten_one_damaged() {
    let run = |way, fault, seed| {
        let dir = quick_dir();
        with_damage(dir.path());
        let disk = Arc::new(VolatileDisk::new(dir.path(), fault));
        let target = open_on(dir.path(), disk.clone(), 512);
        let mut damage = Damage::Stays;
        let done = replace_damage(target.objects(), way, &mut damage);
        drop(target);
        disk.crash(seed);
        (dir, disk.operations(), damage, done)
    };
    for way in 0..4 {
        let (_, steps, damage, done) = run(way, Fault::Never, 1);
        assert_eq!((done, matches!(damage, Damage::Gone(_))), (Ok(()), true), "way {way}");
        for (step, seed) in (3..=steps).flat_map(|step| (0..4).map(move |seed| (step, 100 * step + seed))) {
            let (dir, _, damage, _) = run(way, Fault::PowerFrom(step), seed);
            let place = format!("way {way} step {step} seed {seed}: {damage:?}");
            let target = open(dir.path());
            for settled in [false, true] {
                let found = target.objects().read(at(1), BLOCK, BLOCK_BYTES);
                let found = found.map(|read| read.data.to_vec());
                // What was cut off, and has not grown again, is not there.
                let is = |bytes: &Vec<u8>| found.as_ref().is_ok_and(|found| bytes.starts_with(found));
                match &damage {
                    Damage::Stays => {
                        assert_eq!(found, Err(ObjectError::Damaged), "{place} settled {settled}")
                    }
                    Damage::Or(bytes) => {
                        let may_be = found == Err(ObjectError::Damaged) || is(bytes);
                        assert!(may_be, "{place} settled {settled}");
                    }
                    Damage::Gone(bytes) => assert_eq!(found.as_ref(), Ok(bytes), "{place} settled {settled}"),
                }
                target.objects().settle_all(&Settling::default());
            }
        }
    }
}

/// Object 0 as a server's call of this epoch names it, on a chain.
fn of_epoch(number: u32, chain: u64) -> ObjectRef {
    let ObjectRef { name, epoch } = at(0);
    ObjectRef { name, epoch: Epoch { chain, call: CallEpoch::Server(number, 0), ..epoch } }
}

/// Checks that `work` on an object of 140,000 bytes cuts off those from `len` on for good if it is done again after a
/// loss of power in the midst of it.
fn check_cut_short(len: u64, call: ObjectRef, work: impl Fn(&Objects) -> Result<(), ObjectError>) {
    const LEN: u64 = 140_000;
    let dir_with_object = || {
        let dir = quick_dir();
        let target = open(dir.path());
        target.objects().make_of_calls(&[of_epoch(1, 5)]).unwrap();
        target.objects().write(of_epoch(1, 5), 0, &data(&text(LEN, 1))).unwrap();
        dir
    };
    let opening = {
        let dir = dir_with_object();
        let disk = Arc::new(VolatileDisk::new(dir.path(), Fault::Never));
        open_on(dir.path(), disk.clone(), 512);
        disk.operations()
    };
    for seed in 0..4 {
        for step in opening.. {
            let dir = dir_with_object();
            let disk = Arc::new(VolatileDisk::new(dir.path(), Fault::PowerFrom(step)));
            let target = open_on(dir.path(), disk.clone(), 512);
            let outcome = work(target.objects());
            drop(target);
            disk.crash(seed);

            let target = open(dir.path());
            work(target.objects()).unwrap();
            target.objects().write(call, LEN, &data(b"end")).unwrap();
            let found = target.objects().read(call, len, (LEN - len) as usize).unwrap().data.to_vec();
            assert!(found.iter().all(|byte| *byte == 0), "power lost after {step} operations, seed {seed}");
            if outcome.is_ok() {
                break;
            }
        }
    }
}

/// What is done once for an epoch is not noted as done before it is durable: seed 62 of copies.
#[test]
fn a_truncation_that_a_loss_of_power_cut_short_is_done_when_it_comes_again() {
    let call = of_epoch(2, 5);
    check_cut_short(70_000, call, |objects| objects.truncate(call, 70_000));
}

#[test]
fn data_of_an_earlier_placement_do_not_come_back_with_a_loss_of_power() {
    let call = of_epoch(2, 6);
    check_cut_short(0, call, |objects| objects.make_of_calls(&[call]));
}
