//! CPU time of objects with and without verification, for docs/benchmarks.md. Not run with the other tests:
//! `cargo test --release -p dataserver --test cost -- --ignored --nocapture`.

use std::time::Instant;

use bytes::Bytes;
use dataserver::{CallEpoch, Epoch, ObjectName, ObjectRef, Objects, Target, Verify};
use host::SeededEntropy;
use wire::xdr::Payload;

const PIECE: usize = 1 << 20;
const GIB: u64 = 1 << 30;
/// Bytes of the object; it stays in the kernel's cache.
const BYTES: u64 = GIB / 2;
/// CPU time is counted in hundredths of a second.
const ROUNDS: u64 = 4;

fn at(inode: u64) -> ObjectRef {
    let name = ObjectName { inode, column: 0, volume: 1, generation: 7 };
    ObjectRef { name, epoch: Epoch { incarnation: 3, chain: 0, call: CallEpoch::Server(0, 0) } }
}

/// CPU time of this process so far, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// Prints the CPU time for a GiB, or for each of so many calls.
fn measure(what: &str, count: f64, unit: &str, work: impl FnOnce()) {
    let (cpu_before, begin) = (cpu(), Instant::now());
    work();
    let (cpu_s, wall_s) = (cpu() - cpu_before, begin.elapsed().as_secs_f64());
    println!("{what}: {:.3} CPU-s, {:.3} s for {unit}", cpu_s / count, wall_s / count);
}

fn write_all(objects: &Objects, inode: u64, piece: &Payload) {
    for n in 0..BYTES / PIECE as u64 {
        objects.write(at(inode), n * PIECE as u64, piece).unwrap();
    }
}

fn read_all(objects: &Objects, inode: u64, shift: u64) {
    for n in 0..BYTES / PIECE as u64 - 1 {
        let read = objects.read(at(inode), n * PIECE as u64 + shift, PIECE).unwrap();
        assert_eq!(read.data.len(), PIECE);
    }
}

#[test]
#[ignore = "it measures"]
fn cost_of_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::open_or_create(dir.path(), [1; 16], &SeededEntropy::new(1)).unwrap();
    let objects = target.objects();
    let piece = Payload::from(Bytes::from((0..PIECE).map(|n| (n % 251) as u8).collect::<Vec<u8>>()));
    let gib = (ROUNDS * BYTES) as f64 / GIB as f64;
    let mut made = 0;
    measure("write, new objects, 1 MiB pieces", gib, "1 GiB", || {
        for _ in 0..ROUNDS {
            made += 1;
            objects.make(&[at(made).name]).unwrap();
            write_all(objects, made, &piece);
            if made > 1 {
                objects.remove(&[at(made - 1).name]).unwrap();
            }
        }
    });
    measure("write, over existing data, 1 MiB pieces", gib, "1 GiB", || {
        (0..ROUNDS).for_each(|_| write_all(objects, made, &piece));
    });
    for verify in [Verify::Scrub, Verify::Read, Verify::Scrub, Verify::Read] {
        objects.set_verify(verify);
        measure(&format!("read, 1 MiB pieces, verify {verify:?}"), gib, "1 GiB", || {
            (0..ROUNDS).for_each(|_| read_all(objects, made, 0));
        });
    }
    measure("read, 1 MiB pieces at odd offsets, verified", gib, "1 GiB", || {
        (0..ROUNDS).for_each(|_| read_all(objects, made, 4096));
    });
    let small = Payload::from(Bytes::from(vec![5; 4096]));
    let calls = 20_000u64;
    let places = |n: u64| n.wrapping_mul(7919 * 4096) % (BYTES - 4096) / 4096 * 4096;
    measure("4 KiB writes over existing data", 10.0, "2,000 of them", || {
        (0..calls).for_each(|n| {
            objects.write(at(made), places(n), &small).unwrap();
        });
    });
    for verify in [Verify::Scrub, Verify::Read] {
        objects.set_verify(verify);
        measure(&format!("4 KiB reads, verify {verify:?}"), 10.0, "2,000 of them", || {
            (0..calls).for_each(|n| drop(objects.read(at(made), places(n), 4096).unwrap()));
        });
    }
    let appends = 2000u64;
    measure("4 KiB appends, each with a commit", 1.0, "2,000 of them", || {
        objects.make(&[at(1000).name]).unwrap();
        for n in 0..appends {
            objects.write_through(at(1000), n * 4096, &small).unwrap();
        }
    });
    measure("makes of an object, 100 KiB written, committed", 1.0, "500 of them", || {
        let data = Payload::from(Bytes::from(vec![5; 100 << 10]));
        for inode in 2000..2500 {
            objects.make(&[at(inode).name]).unwrap();
            objects.write_through(at(inode), 0, &data).unwrap();
        }
    });
}
