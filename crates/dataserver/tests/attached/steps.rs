//! Random steps with a base, an object that is attached to it, and what both should be.

use dataserver::{FillStep, Place, Run};
use host::{Entropy, SeededEntropy};
use wire::data::Piece;

use super::*;

const STORIES: u64 = 24;
const STEPS: u64 = 60;
/// Length of the base at most: some regions.
const LEN_MAX: u64 = 5 * MIB;

struct Story {
    dir: tempfile::TempDir,
    target: Option<Arc<Target>>,
    entropy: SeededEntropy,
    /// Bytes of objects 1 (the base) and 2.
    bytes: [Vec<u8>; 2],
    epochs: [u32; 2],
}

fn write(bytes: &mut Vec<u8>, offset: u64, new: &[u8]) {
    let end = offset as usize + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset as usize..end].copy_from_slice(new);
}

fn clear(bytes: &mut [u8], offset: u64, len: u64) {
    let end = bytes.len().min((offset + len) as usize);
    bytes[(offset as usize).min(end)..end].fill(0);
}

impl Story {
    fn begin(seed: u64) -> Self {
        let (dir, entropy) = (tempfile::tempdir().unwrap(), SeededEntropy::new(seed));
        let target = open(dir.path());
        let base = text(1 + entropy.u64() % LEN_MAX, seed);
        put(target.objects(), 1, &base);
        if seed.is_multiple_of(3) {
            target.objects().punch(at(1), MIB / 2, MIB).unwrap();
        }
        let base = get(target.objects(), 1).unwrap();
        target.objects().make(&[name(2)]).unwrap();
        target.objects().attach(at(2), name(1)).unwrap();
        Self { dir, target: Some(target), entropy, bytes: [base.clone(), base], epochs: [0; 2] }
    }

    fn objects(&self) -> &Objects {
        self.target.as_ref().unwrap().objects()
    }

    fn below(&self, bound: u64) -> u64 {
        self.entropy.u64() % bound
    }

    /// An offset: at the border of a region, or of a block, or anywhere.
    fn offset(&self) -> u64 {
        let any = self.below(LEN_MAX + MIB);
        match self.below(3) {
            0 => any / MIB * MIB,
            1 => any / 65_536 * 65_536,
            _ => any,
        }
    }

    fn step(&mut self) {
        let (which, offset) = (self.below(5).min(1), self.offset());
        // Mostly the one that is attached.
        let (place, len) = (if which == 0 { 0 } else { 1 }, 1 + self.below(3 * MIB));
        let object = self.object(place);
        match self.below(9) {
            0 | 1 => {
                let new = text(len, offset);
                self.objects().write(object, offset, &data(&new)).unwrap();
                write(&mut self.bytes[place], offset, &new);
            }
            2 => {
                let new = text(1 + len % 5000, offset);
                self.objects().write(object, offset, &data(&new)).unwrap();
                write(&mut self.bytes[place], offset, &new);
            }
            3 => {
                self.objects().punch(object, offset, len).unwrap();
                clear(&mut self.bytes[place], offset, len);
            }
            4 => {
                self.objects().clear(object, offset, len).unwrap();
                clear(&mut self.bytes[place], offset, len);
            }
            5 => {
                // Once for each epoch.
                self.epochs[place] += 1;
                self.objects().truncate(self.object(place), offset).unwrap();
                self.bytes[place].truncate(offset as usize);
            }
            6 => {
                // Within the object, or from one to the other; a hole at its end would not lengthen it.
                let (from, to) = (offset.min(2 * MIB), 3 * MIB + offset % MIB);
                let room = (self.bytes[place].len() as u64).saturating_sub(to);
                let piece = Piece { from, to, len: len.min(MIB / 2).min(room) };
                let source = self.below(2) as usize;
                self.objects().copy(object, self.objects(), self.object(source), &[piece]).unwrap();
                let bytes = &self.bytes[source];
                let end = (from + piece.len).min(bytes.len() as u64);
                let copied = bytes[(from.min(end)) as usize..end as usize].to_vec();
                if !copied.is_empty() {
                    write(&mut self.bytes[place], to, &copied);
                }
                clear(&mut self.bytes[place], to + copied.len() as u64, piece.len - copied.len() as u64);
            }
            7 => match self.objects().fill_step(None) {
                FillStep::Failed(name, error) => panic!("{name}: {error}"),
                FillStep::Filled(..) | FillStep::Ended => {}
            },
            _ => self.restart(),
        }
    }

    fn object(&self, place: usize) -> ObjectRef {
        in_epoch(at(place as u64 + 1), self.epochs[place])
    }

    /// The process ends, mostly after it has committed what it wrote.
    fn restart(&mut self) {
        for place in [0, 1] {
            self.objects().commit(self.object(place)).unwrap();
        }
        self.target = None;
        self.target = Some(open(self.dir.path()));
    }

    fn check(&self, what: &str) {
        for (place, inode) in [(0, 1), (1, 2)] {
            let (bytes, object) = (&self.bytes[place], self.object(place));
            let found = get_in(self.objects(), object).unwrap();
            assert!(found == *bytes, "{what}: object {inode}: {} {}", found.len(), bytes.len());
            let (offset, len) = (self.offset(), self.below(2 * MIB) as usize);
            let read = self.objects().read(object, offset, len).unwrap();
            let end = bytes.len().min(offset as usize + len);
            let wanted = bytes.get(offset as usize..end).unwrap_or_default();
            assert!(read.data == wanted, "{what}: {inode} {offset} {len}");
            assert_eq!(read.at_end, offset as usize + len >= bytes.len(), "{what}: {inode} {offset} {len}");
            let runs = self.objects().read_runs(object, offset, len).unwrap();
            let flat = runs.into_iter().flat_map(|run| match run {
                Run::Data(data) => data.to_vec(),
                Run::Hole(len) => vec![0; len as usize],
            });
            assert!(flat.eq(wanted.iter().copied()), "{what}: runs of {inode} {offset} {len}");
            // All before the next data are zeros.
            let next = self.objects().seek(object, Place::Data, offset).unwrap().unwrap_or(u64::MAX);
            let zeros = bytes.get(offset as usize..(next as usize).min(bytes.len())).unwrap_or_default();
            assert!(zeros.iter().all(|byte| *byte == 0), "{what}: data of {inode} before {next}");
        }
        assert_eq!(self.objects().checksum_counts().damaged, 0, "{what}");
    }
}

#[test]
fn two_objects_are_as_if_the_one_had_been_copied_whatever_is_done_to_them() {
    for seed in 0..STORIES {
        let mut story = Story::begin(seed);
        story.check(&format!("seed {seed}"));
        for step in 0..STEPS {
            story.step();
            story.check(&format!("seed {seed} step {step}"));
        }
        fill(story.objects());
        assert_eq!(other_files(story.dir.path(), 2), [""; 0]);
        story.check(&format!("seed {seed} filled"));
        story.restart();
        story.check(&format!("seed {seed} filled, opened again"));
    }
}
