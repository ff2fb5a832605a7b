//! CPU time of writes and reads, by the number of members. Client and data servers are in one process:
//! `cargo test --release -p dataserver --test chains cost -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wire::data::{Procedure, make, read, write};
use wire::handle::ObjectHandle;

use crate::{World, call, key};

const MIB: u64 = 1 << 20;
/// Bytes of one run: an eighth of them in each of eight objects.
const BYTES: u64 = 1 << 30;
/// Calls under way at a time.
const STREAMS: u64 = 8;

/// CPU time of this process, in seconds; the kernel counts hundredths.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn cpu_seconds_for_each_gib() {
    for members in [1, 2, 3] {
        let world = Arc::new(World::of(members).await);
        let handle = |inode| match members {
            1 => ObjectHandle { chain: world.nodes[0].target, ..world.object(0, inode) }.seal(&key()),
            _ => world.at(0, inode),
        };
        let handles: Vec<Bytes> = (1..=STREAMS).map(handle).collect();
        let made = make::Args { handles: handles.clone() };
        let res: make::Res = call(&world.peer(0), Procedure::Make, &made).await.unwrap();
        res.unwrap();
        let data = Bytes::from(vec![7; MIB as usize]);
        for what in ["write", "write again", "read"] {
            let (cpu, began) = (cpu_seconds(), Instant::now());
            let streams: Vec<_> = handles
                .iter()
                .map(|handle| {
                    let (handle, data, peer) = (handle.clone(), data.clone(), world.peer(0));
                    tokio::spawn(async move {
                        for offset in (0..BYTES / STREAMS).step_by(MIB as usize) {
                            let (handle, data) = (handle.clone(), data.clone().into());
                            if what == "read" {
                                let args = read::Args { handle, offset, count: MIB as u32 };
                                let res: read::Res = call(&peer, Procedure::Read, &args).await.unwrap();
                                res.unwrap();
                            } else {
                                let args = write::Args { handle, offset, stable: false, sums: vec![], data };
                                let res: write::Res = call(&peer, Procedure::Write, &args).await.unwrap();
                                res.unwrap();
                            }
                        }
                    })
                })
                .collect();
            for stream in streams {
                stream.await.unwrap();
            }
            println!(
                "{members} members, {what}: {:.2} CPU-seconds for a GiB, {:.2} s",
                cpu_seconds() - cpu,
                began.elapsed().as_secs_f64()
            );
        }
    }
}
