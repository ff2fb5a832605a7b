//! `make demo`: a real Linux kernel mounts Heorot, and a short report shows the path of its data.
//!
//! The same with vers=4.2, where the client uses the data servers directly, and with vers=3, where the
//! metaserver does so for it. Then all servers are killed and restarted, and the files are still there.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tests::{Client, Cluster, FileBytes, Lab, MOUNT_POINT, Traffic, scripts};

const DATA_SERVERS: usize = 4;

/// Time limit for 256 MiB, which take seconds on a quiet machine.
const SLOW: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    // Failures panic with all known facts; show them without the format of a panic.
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or("the demo failed");
        eprintln!("\nThe demo failed.\n{text}");
    }));
    match std::panic::catch_unwind(demo) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn demo() {
    let begun = Instant::now();
    let lab = Lab::open();
    let mut cluster = Cluster::up(&lab, DATA_SERVERS);
    println!("heorot up: a metaserver and {DATA_SERVERS} data servers on {}", lab.address());
    let client = lab.client("ash");
    println!("a client machine: Linux {} at {}, with nothing installed", client.kernel(), client.address());

    let pnfs = session(&cluster, &client, "vers=4.2", "striped");
    assert!(
        pnfs.metaserver == FileBytes::default(),
        "file bytes went through the metaserver, although the client has pNFS"
    );
    let idle = pnfs.data_servers.iter().position(|moved| moved.written == 0 || moved.read == 0);
    assert!(idle.is_none(), "data server {} had nothing to do", idle.unwrap_or_default());
    let v3 = session(&cluster, &client, "vers=3", "plain");
    assert!(v3.straight() == FileBytes::default(), "a v3 client cannot know of data servers");

    println!("\nkill -9 of everything, and start again; the client stays mounted");
    cluster.kill_all();
    cluster.start_all();
    let back = Instant::now();
    for folder in ["striped", "plain"] {
        client.run_within(SLOW, &scripts::read_by_four(&format!("{MOUNT_POINT}/{folder}")));
    }
    println!(
        "  256 MiB in {MOUNT_POINT}/striped and 256 MiB in {MOUNT_POINT}/plain: checksums equal, after {:.1?}",
        back.elapsed()
    );
    println!("\nAll of it took {:.0?}.", begun.elapsed());
}

/// Mounts, writes 256 MiB with four processes, reads them back from the servers, and reports.
fn session(cluster: &Cluster, client: &Client, options: &str, folder: &str) -> Traffic {
    println!("\nmount -t nfs -o {options}");
    client.run(&format!("! mountpoint -q {MOUNT_POINT} || umount {MOUNT_POINT}"));
    cluster.mount(client, options);
    let before = cluster.traffic();
    let path = format!("{MOUNT_POINT}/{folder}");

    let begun = Instant::now();
    client.run_within(SLOW, &scripts::write_by_four(&path));
    let wrote = begun.elapsed();
    let begun = Instant::now();
    client.run_within(SLOW, &scripts::read_by_four(&path));
    let moved = cluster.traffic().since(&before);
    let mib = scripts::FOUR_FILES_BYTES >> 20;
    println!(
        "  {mib} MiB written and synced by 4 processes in {wrote:.1?}, read again in {:.1?}",
        begun.elapsed()
    );
    println!("  checksums equal");
    println!("  bytes at the servers         from the client        to the client");
    let row = |server: &str, bytes: &FileBytes| {
        println!("  {server:<22} {:>21} {:>20}", bytes.written, bytes.read);
    };
    for (number, bytes) in moved.data_servers.iter().enumerate() {
        row(&format!("data server {number}"), bytes);
    }
    row("through the metaserver", &moved.metaserver);
    println!("  ls -l {path}");
    for line in client.run(&format!("ls -l --time-style=long-iso {path}")).lines() {
        println!("    {line}");
    }
    moved
}
