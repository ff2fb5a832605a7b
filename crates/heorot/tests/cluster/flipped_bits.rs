//! A thousand bits that disks flip, in data and in checksums: scrubs find and mend all of them, and no client reads a
//! wrong byte.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use crate::servers::{Client, Cluster, metric, mount, until};
use crate::targets::mount3;

const FILES: u64 = 20;
const FILE_BYTES: usize = 4 << 20;
const BLOCK: u64 = 64 << 10;
/// Header of a file of sums, in bytes.
const HEADER_BYTES: u64 = 64;
/// Flipped bits of data, and of sums, that scrubs are to find.
const OF_SCRUBS: [usize; 2] = [750, 250];
/// Flipped bits of data that clients read at once.
const OF_READS: usize = 200;

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

fn contents(file: u64) -> Bytes {
    let mut dice = Dice(file + 1);
    (0..FILE_BYTES).map(|_| dice.roll(256) as u8).collect()
}

/// A block of a column, and the objects that have it, one at each member.
type Block = (Vec<PathBuf>, u64);

/// All blocks of all columns, in an order of dice.
fn blocks(cluster: &Cluster, dice: &mut Dice) -> Vec<Block> {
    let mut copies: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for n in 0..3 {
        let dirs = std::fs::read_dir(cluster.file(&format!("target{n}/objects"))).unwrap();
        for file in dirs.flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap()) {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|last| last != "sums") {
                copies.entry(path.file_name().unwrap().to_string_lossy().into()).or_default().push(path);
            }
        }
    }
    let mut all = Vec::new();
    for paths in copies.into_values() {
        assert_eq!(paths.len(), 2, "{paths:?}");
        let count = paths[0].metadata().unwrap().len().div_ceil(BLOCK);
        all.extend((0..count).map(|block| (paths.clone(), block)));
    }
    for at in (1..all.len()).rev() {
        all.swap(at, dice.roll(at + 1));
    }
    all
}

fn flip(path: &Path, byte: u64, bit: usize) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut was = [0];
    file.read_exact_at(&mut was, byte).unwrap();
    file.write_all_at(&[was[0] ^ (1 << bit)], byte).unwrap();
}

/// Flips a bit of the block at one of its members.
fn flip_data((copies, block): &Block, dice: &mut Dice) {
    let path = &copies[dice.roll(2)];
    let left = path.metadata().unwrap().len() - block * BLOCK;
    flip(path, block * BLOCK + dice.roll(left.min(BLOCK) as usize) as u64, dice.roll(8));
}

/// Flips a bit of the block's sum at one of its members.
fn flip_sum((copies, block): &Block, dice: &mut Dice) {
    let path = &copies[dice.roll(2)];
    let blocks = path.metadata().unwrap().len().div_ceil(BLOCK);
    let sums = path.with_file_name(format!("{}.sums", path.file_name().unwrap().to_string_lossy()));
    let each = (sums.metadata().unwrap().len() - HEADER_BYTES) / blocks;
    flip(&sums, HEADER_BYTES + block * each + dice.roll(each as usize) as u64, dice.roll(8));
}

fn of_each(cluster: &Cluster, name: &str) -> Vec<usize> {
    let value = |ip: &Ipv4Addr| metric(*ip, &format!("heorot_{name}")) as usize;
    cluster.data_server_ips.iter().map(value).collect()
}

fn of_all(cluster: &Cluster, name: &str) -> usize {
    of_each(cluster, name).iter().sum()
}

/// Stops all data servers, does `work`, and starts them: each scrubs its target 20 seconds after the last time. Returns the
/// time of the start, in seconds since 1970.
fn restart(cluster: &mut Cluster, work: impl FnOnce()) -> u64 {
    cluster.data_servers.drain(..).for_each(|server| assert!(server.unwrap().stop().success()));
    work();
    cluster.data_servers.extend([None, None, None]);
    let began = UNIX_EPOCH.elapsed().unwrap().as_secs();
    for n in 0..3 {
        std::fs::remove_file(cluster.file(&format!("ds{n}.log"))).unwrap();
        cluster.start_data_server(n);
    }
    began
}

fn assert_equal(all: &[Block]) {
    for (copies, block) in all {
        let read = |path: &PathBuf| std::fs::read(path).unwrap();
        assert!(*block > 0 || read(&copies[0]) == read(&copies[1]), "{copies:?}");
    }
}

async fn check(client: &Client) {
    for file in 0..FILES {
        let handle = client.lookup_path(&format!("f{file}")).await.unwrap().fh;
        let expected = contents(file);
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            let read = client.read(handle.clone(), at as u64, 1 << 20).await.unwrap();
            assert!(read.as_ref() == &expected[at..at + (1 << 20)], "file {file} from {at} on");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_flipped_bits_are_found_and_mended_and_never_read() {
    let mut cluster = Cluster::start(1, 0);
    for n in 0..3 {
        cluster.add_data_server_with(n, "scrub_time = \"20s\"\nscrub_rate = \"1GiB\"\n");
    }
    until("all are there", || (0..3).all(|n| cluster.node(0, &format!("ds{n}"))["seen_ms"].is_u64()));
    until("all chains are whole", || cluster.is_whole() && cluster.chains_of("ds0") > 0);
    let (v3, v4) = (mount3(&cluster).await, mount(cluster.metaservers[0].0).await);
    for file in 0..FILES {
        let handle = v4.create_path(&format!("f{file}"), Some(0o644)).await.unwrap().fh;
        nfs_rs::write_all(&*v4, handle.clone(), 0, contents(file)).await.unwrap();
        v4.commit(handle, 0, 0).await.unwrap();
    }

    let mut dice = Dice(20);
    let all = blocks(&cluster, &mut dice);
    let (data, rest) = all.split_at(OF_SCRUBS[0]);
    let sums = &rest[..OF_SCRUBS[1]];
    restart(&mut cluster, || {
        data.iter().for_each(|block| flip_data(block, &mut dice));
        sums.iter().for_each(|block| flip_sum(block, &mut dice));
    });
    // A sum that does not fit its block is mended as the block is; but while no other member is up, it is computed anew.
    let flipped = OF_SCRUBS.iter().sum::<usize>();
    until("scrubs find all of them", || of_all(&cluster, "target_damaged_blocks_found") == flipped);
    let mended = || of_all(&cluster, "target_mended_blocks") + of_all(&cluster, "target_damaged_sums_found");
    until("all are mended", || mended() == flipped && of_all(&cluster, "target_damaged_blocks") == 0);
    assert_eq!(
        (of_all(&cluster, "target_summed_anew_blocks"), of_all(&cluster, "target_unsummed_objects")),
        (0, 0)
    );
    assert_equal(&all);

    // And where clients come before the scrubs.
    let all = blocks(&cluster, &mut dice);
    all[..OF_READS].iter().for_each(|block| flip_data(block, &mut dice));
    tokio::join!(check(&v3), check(&v4));
    assert!(of_all(&cluster, "target_damaged_blocks_found") > flipped, "clients met some of them");
    let began = restart(&mut cluster, || {});
    let has_ended = |at: &usize| *at as u64 >= began;
    until("scrubs find the rest", || of_each(&cluster, "target_scrub_ended_seconds").iter().all(has_ended));
    until("the rest is mended", || of_all(&cluster, "target_damaged_blocks") == 0);
    assert_equal(&all);
    tokio::join!(check(&v3), check(&v4));
}
