//! Random steps: an object that is written to, snapshots that it leaves its bytes to, and what each should show.

use dataserver::{FillStep, Place, Run, shown_bytes};
use host::{Entropy, SeededEntropy};
use std::time::Duration;
use wire::data::Piece;

use super::*;

const STORIES: u64 = 12;
const STEPS: u64 = 60;
/// Length of the first object at most: some regions.
const LEN_MAX: u64 = 20 * BLOCK;

/// An object, and what it shows.
struct Shown {
    inode: u64,
    epoch: u32,
    bytes: Vec<u8>,
}

impl Shown {
    fn object(&self) -> ObjectRef {
        in_epoch(at(self.inode), self.epoch)
    }
}

struct Story {
    dir: tempfile::TempDir,
    target: Option<Arc<Target>>,
    entropy: SeededEntropy,
    /// Snapshots, the oldest first; last what is written to.
    all: Vec<Shown>,
    next: u64,
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
        let (dir, entropy) = (quick_dir(), SeededEntropy::new(seed));
        let target = open(dir.path());
        target.objects().set_trash_time(Duration::ZERO);
        put(target.objects(), 1, &text(BLOCK + 1 + entropy.u64() % LEN_MAX, seed));
        if seed.is_multiple_of(3) {
            target.objects().punch(at(1), BLOCK / 2, 2 * BLOCK).unwrap();
        }
        let bytes = get(target.objects(), 1).unwrap();
        let all = vec![Shown { inode: 1, epoch: 0, bytes }];
        Self { dir, target: Some(target), entropy, all, next: 2 }
    }

    fn objects(&self) -> &Objects {
        self.target.as_ref().unwrap().objects()
    }

    fn below(&self, bound: u64) -> u64 {
        self.entropy.u64() % bound
    }

    /// An offset: at the border of a region, or anywhere.
    fn offset(&self) -> u64 {
        let any = self.below(LEN_MAX + 3 * BLOCK);
        if self.below(2) == 0 { any / BLOCK * BLOCK } else { any }
    }

    /// A snapshot: what is written to goes on as another object.
    fn snapshot(&mut self) {
        let last = self.all.last().unwrap();
        let (base, bytes) = (name(last.inode), last.bytes.clone());
        let shown = Shown { inode: self.next, epoch: 0, bytes };
        self.next += 1;
        self.objects().make(&[name(shown.inode)]).unwrap();
        match self.objects().attach(shown.object(), base) {
            Ok(()) => {}
            Err(ObjectError::NotSupported) => {
                let pieces = [Piece { from: 0, to: 0, len: shown.bytes.len() as u64 }];
                let (objects, from) = (self.objects(), last.object());
                objects.copy(shown.object(), objects, from, &pieces).unwrap();
                // Holes at the end do not lengthen it.
                objects.allocate(shown.object(), 0, shown.bytes.len() as u64).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        self.all.push(shown);
    }

    fn remove_snapshot(&mut self) {
        if self.all.len() > 1 {
            let at = self.below(self.all.len() as u64 - 1) as usize;
            let removed = self.all.remove(at);
            self.objects().remove(&[name(removed.inode)]).unwrap();
        }
    }

    fn step(&mut self) {
        let (offset, len) = (self.offset(), 1 + self.below(4 * BLOCK));
        // A snapshot's object is written to when it has become that of a file again.
        let which = match self.below(12) {
            0 => self.below(self.all.len() as u64) as usize,
            _ => self.all.len() - 1,
        };
        let object = self.all[which].object();
        match self.below(12) {
            0..=2 => {
                let len = if self.below(2) == 0 { len } else { 1 + len % 5000 };
                let new = text(len, offset);
                self.objects().write(object, offset, &data(&new)).unwrap();
                write(&mut self.all[which].bytes, offset, &new);
            }
            3 => {
                self.objects().punch(object, offset, len).unwrap();
                clear(&mut self.all[which].bytes, offset, len);
            }
            4 => {
                self.objects().clear(object, offset, len).unwrap();
                clear(&mut self.all[which].bytes, offset, len);
            }
            5 => {
                // Once for each epoch.
                self.all[which].epoch += 1;
                self.objects().truncate(self.all[which].object(), offset).unwrap();
                self.all[which].bytes.truncate(offset as usize);
            }
            6 => {
                // Within the object, or from one to another; a hole at its end would not lengthen it.
                let (from, to) = (offset.min(8 * BLOCK), 9 * BLOCK + offset % BLOCK);
                let room = (self.all[which].bytes.len() as u64).saturating_sub(to);
                let piece = Piece { from, to, len: len.min(BLOCK).min(room) };
                let source = &self.all[self.below(self.all.len() as u64) as usize];
                self.objects().copy(object, self.objects(), source.object(), &[piece]).unwrap();
                let end = (from + piece.len).min(source.bytes.len() as u64);
                let copied = source.bytes[from.min(end) as usize..end as usize].to_vec();
                let rest = piece.len - copied.len() as u64;
                let bytes = &mut self.all[which].bytes;
                if !copied.is_empty() {
                    write(bytes, to, &copied);
                }
                clear(bytes, to + copied.len() as u64, rest);
            }
            7 => match self.objects().fill_step(None) {
                FillStep::Failed(name, error) => panic!("{name}: {error}"),
                FillStep::Filled(..) | FillStep::Rests(_) | FillStep::Ended => {}
            },
            8 => drop(fill(self.objects())),
            9 => self.snapshot(),
            10 => self.remove_snapshot(),
            _ => self.restart(),
        }
    }

    /// The process ends, after it has committed what it wrote.
    fn restart(&mut self) {
        for shown in &self.all {
            self.objects().commit(shown.object()).unwrap();
        }
        self.target = None;
        for Shown { inode, bytes, .. } in &self.all {
            let by_files = shown_bytes(&file(self.dir.path(), *inode, "")).unwrap();
            assert!(by_files == *bytes, "object {inode}, by its files");
        }
        self.target = Some(open(self.dir.path()));
        self.objects().set_trash_time(Duration::ZERO);
        self.objects().settle_all(&dataserver::Settling::default());
    }

    fn check(&self, what: &str) {
        for shown in &self.all {
            let (bytes, object, what) =
                (&shown.bytes, shown.object(), format!("{what}: object {}", shown.inode));
            let found = get_in(self.objects(), object).unwrap();
            assert!(found == *bytes, "{what}: {} {}", found.len(), bytes.len());
            let (offset, len) = (self.offset(), self.below(8 * BLOCK) as usize);
            let what = format!("{what} {offset} {len}");
            let read = self.objects().read(object, offset, len).unwrap();
            let end = bytes.len().min(offset as usize + len);
            let wanted = bytes.get(offset as usize..end).unwrap_or_default();
            assert!(read.data == wanted, "{what}");
            assert_eq!(read.at_end, offset as usize + len >= bytes.len(), "{what}");
            let runs = self.objects().read_runs(object, offset, len).unwrap();
            let flat = runs.into_iter().flat_map(|run| match run {
                Run::Data(data) => data.to_vec(),
                Run::Hole(len) => vec![0; len as usize],
            });
            assert!(flat.eq(wanted.iter().copied()), "{what}: runs");
            // All before the next data are zeros.
            let next = self.objects().seek(object, Place::Data, offset).unwrap().unwrap_or(u64::MAX);
            let zeros = bytes.get(offset as usize..(next as usize).min(bytes.len())).unwrap_or_default();
            assert!(zeros.iter().all(|byte| *byte == 0), "{what}: data before {next}");
        }
        assert_eq!(self.objects().checksum_counts().damaged, 0, "{what}");
    }
}

#[test]
fn each_object_is_as_if_it_had_been_copied_whatever_is_done_to_it_and_others() {
    for seed in 0..STORIES {
        let mut story = Story::begin(seed);
        for step in 0..STEPS {
            story.step();
            story.check(&format!("seed {seed} step {step}"));
        }
        while story.all.len() > 1 {
            story.remove_snapshot();
        }
        fill(story.objects());
        let last = story.all[0].inode;
        assert_eq!(other_files(story.dir.path(), last), [""; 0], "seed {seed}");
        story.check(&format!("seed {seed} alone"));
        story.restart();
        story.check(&format!("seed {seed} alone, opened again"));
    }
}
