//! Loss of power at each step: what was committed is there, and the rest is as it was before or after, byte by byte; never
//! the bytes of another object, nor zeros that were never written.

use super::volatile_disk::{Fault, VolatileDisk};
use super::*;

/// Losses of power at each step.
const SEEDS: u64 = 2;
const LEN: u64 = 10 * BLOCK + 30_000;

/// What each byte of the attached object may be: values since the last commit. None of one that is not attached yet.
struct May(Option<Vec<Vec<u8>>>);

impl May {
    fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let all = self.0.as_mut().unwrap();
        let mut new = all.last().unwrap().clone();
        change(&mut new);
        all.push(new);
    }

    fn committed(&mut self) {
        let all = self.0.as_mut().unwrap();
        all.drain(..all.len() - 1);
    }

    fn check(&self, found: &[u8], place: &str) {
        let all = self.0.as_ref().unwrap();
        // A write may have been cut short.
        let lengths = || all.iter().map(Vec::len);
        let possible = lengths().min().unwrap()..=lengths().max().unwrap();
        assert!(possible.contains(&found.len()), "{place}: length {}", found.len());
        for (from, page) in found.chunks(4096).enumerate().map(|(page, bytes)| (page * 4096, bytes)) {
            if all.iter().any(|bytes| bytes.get(from..from + page.len()) == Some(page)) {
                continue;
            }
            for (at, byte) in (from..).zip(page) {
                // What is behind its end then is zeros, if it is longer now.
                let fits = |bytes: &Vec<u8>| bytes.get(at).copied().unwrap_or(0) == *byte;
                assert!(all.iter().any(fits), "{place}: byte {at}");
            }
        }
    }
}

/// The base changes at the end, as that of a promoted clone does.
fn story(objects: &Objects, base: &mut May, own: &mut May) -> Result<(), ObjectError> {
    objects.make(&[name(2)])?;
    objects.attach(at(2), name(1))?;
    own.0 = Some(vec![text(LEN, 1)]);
    own.change(|bytes| bytes[100_000..100_300].copy_from_slice(&text(300, 2)));
    objects.write(at(2), 100_000, &data(&text(300, 2)))?;
    objects.commit(at(2))?;
    own.committed();
    own.change(|bytes| {
        bytes[(4 * BLOCK) as usize..(8 * BLOCK) as usize].copy_from_slice(&text(4 * BLOCK, 3))
    });
    objects.write(at(2), 4 * BLOCK, &data(&text(4 * BLOCK, 3)))?;
    objects.commit(at(2))?;
    own.committed();
    own.change(|bytes| bytes.truncate(10 * BLOCK as usize + 8192));
    let at2 = in_epoch(at(2), 1);
    objects.truncate(at2, 10 * BLOCK + 8192)?;
    own.committed();
    own.change(|bytes| {
        bytes.resize(10 * BLOCK as usize + 20_000, 0);
        bytes.extend(text(5000, 4));
    });
    objects.write(at2, 10 * BLOCK + 20_000, &data(&text(5000, 4)))?;
    objects.commit(at2)?;
    own.committed();
    base.change(|bytes| bytes[5000..9000].copy_from_slice(&text(4000, 5)));
    objects.write(at(1), 5000, &data(&text(4000, 5)))?;
    objects.commit(at(1))?;
    base.committed();
    // A snapshot of it.
    objects.make(&[name(3)])?;
    objects.attach(at(3), name(2))?;
    base.0 = None; // it may be gone
    objects.set_trash_time(std::time::Duration::ZERO);
    objects.remove(&[name(1)])?;
    while let FillStep::Filled(_, _) = objects.fill_step(None) {}
    Ok(())
}

/// The files, after the power was lost at this step.
fn run(fault: Fault, seed: u64) -> (tempfile::TempDir, u64, May, May, Result<(), ObjectError>) {
    let dir = quick_dir();
    let target = open(dir.path());
    put(target.objects(), 1, &text(LEN, 1));
    target.objects().settle_all(&dataserver::Settling::default());
    drop(target);
    let disk = Arc::new(VolatileDisk::new(dir.path(), fault));
    let target = open_on(dir.path(), disk.clone());
    let (mut base, mut own) = (May(Some(vec![text(LEN, 1)])), May(None));
    let done = story(target.objects(), &mut base, &mut own);
    drop(target);
    disk.crash(seed);
    (dir, disk.operations(), base, own, done)
}

#[test]
fn a_loss_of_power_at_any_step_mixes_nothing_and_loses_nothing_committed() {
    let (_, steps, base, own, done) = run(Fault::Never, 1);
    assert_eq!((done, base.0.is_none(), own.0.is_some()), (Ok(()), true, true));
    assert!(steps > 60, "{steps}");
    for (step, seed) in (3..=steps).flat_map(|step| (0..SEEDS).map(move |seed| (step, step * 10 + seed))) {
        let (dir, _, base, own, _) = run(Fault::PowerFrom(step), seed);
        let target = open(dir.path());
        for filled in [false, true] {
            let place = format!("step {step} seed {seed} filled {filled}");
            if base.0.is_some() {
                base.check(&get(target.objects(), 1).unwrap(), &place);
            }
            if own.0.is_some() {
                own.check(
                    &get_in(target.objects(), in_epoch(at(2), 1)).unwrap_or_else(|e| panic!("{place}: {e}")),
                    &place,
                );
            }
            fill(target.objects());
            target.objects().settle_all(&dataserver::Settling::default());
        }
        assert_eq!(target.objects().checksum_counts().damaged, 0, "step {step} seed {seed}");
        if base.0.is_some() {
            target.objects().set_trash_time(std::time::Duration::ZERO);
            target.objects().remove(&[name(1), name(3)]).unwrap();
            fill(target.objects());
            assert_eq!(other_files(dir.path(), 2), [""; 0], "step {step} seed {seed}");
        }
    }
}
