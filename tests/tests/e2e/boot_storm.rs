//! Many machines without a disk are switched on at once, as after a power cut: `make boot-storm` prints how long the last
//! one takes, and what each server has sent. One server that sends everything is what such clusters are known to wait for.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use tests::image::{KernelFiles, make_image, make_initramfs};
use tests::{Lab, Metaservers};

use crate::nodes::{Nodes, get, put_kernel};

/// Machines that load kernel and initramfs at once, and those that go on to a login.
const LOADING: [usize; 4] = [1, 4, 16, 64];
const BOOTING: [usize; 4] = [1, 2, 4, 8];
/// Sizes of a usual kernel and initramfs.
const KERNEL_BYTES: usize = 12 << 20;
const INITRAMFS_BYTES: usize = 60 << 20;
const METASERVERS: usize = 3;
const DATA_SERVERS: usize = 2;
const MIB: f64 = (1 << 20) as f64;

/// What the servers have done.
struct Totals {
    cpu_seconds: f64,
    boot_sent: [f64; METASERVERS],
    boot_read: f64,
    nfs_read: Vec<f64>,
}

impl Totals {
    fn of(cluster: &Metaservers) -> Self {
        let metaservers = [0, 1, 2].map(|n| cluster.metrics(n));
        let data_servers = (0..DATA_SERVERS as u16).map(|n| cluster.data_metrics(n));
        let all = metaservers.iter().cloned().chain(data_servers);
        Self {
            cpu_seconds: cluster.cpu_seconds(),
            nfs_read: all
                .map(|one| one.sum("heorot_file_read_bytes_total", &[("caller", "client")]))
                .collect(),
            boot_read: metaservers.iter().map(|one| one.sum("heorot_boot_read_bytes_total", &[])).sum(),
            boot_sent: metaservers.map(|one| one.sum("heorot_boot_sent_bytes_total", &[])),
        }
    }

    fn since(&self, before: &Self) -> (f64, String, f64, String) {
        let mib = |now: &[f64], before: &[f64]| {
            let each = now.iter().zip(before).map(|(now, before)| format!("{:.0}", (now - before) / MIB));
            each.collect::<Vec<_>>().join(" + ")
        };
        (
            self.cpu_seconds - before.cpu_seconds,
            mib(&self.boot_sent, &before.boot_sent),
            (self.boot_read - before.boot_read) / MIB,
            mib(&self.nfs_read, &before.nfs_read),
        )
    }
}

fn noise(path: &Path, bytes: usize, seed: usize) {
    let mut state = seed as u64 | 1;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    });
    std::fs::write(path, words.take(bytes / 8).flatten().collect::<Vec<u8>>()).expect("a file");
}

#[test]
#[ignore = "minutes, and a benchmark: make boot-storm"]
fn machines_that_are_switched_on_at_once() {
    let lab = Lab::open();
    let cluster = Metaservers::start(&lab, METASERVERS, DATA_SERVERS, METASERVERS as u8);
    let addresses: Vec<IpAddr> = (0..METASERVERS).map(|n| cluster.service(n)).collect();
    let all = Nodes::of(&lab, &cluster);
    let folder = lab.folder().join("large");
    std::fs::create_dir_all(folder.join("boot")).expect("a folder");

    println!(
        "| machines | last kernel and initramfs (s) | MiB/s | CPU of all servers (s/GiB) | sent by each metaserver (MiB) | read from data servers (MiB) |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (version, machines) in LOADING.into_iter().enumerate() {
        noise(&folder.join("boot/vmlinuz-1"), KERNEL_BYTES, version);
        noise(&folder.join("boot/initrd.img-1"), INITRAMFS_BYTES, version + LOADING.len());
        let image = format!("large@{version}");
        cluster.heorot(0, &["boot", "image", "import", "--whole", &folder.display().to_string(), &image]);
        if version == 0 {
            cluster.heorot(0, &["boot", "group", "set", "large"]);
            all.add(&cluster, "first", "large");
        }
        cluster.heorot(0, &["boot", "assign", "large", &image]);
        let paths = all.paths("first");
        let (before, began) = (Totals::of(&cluster), Instant::now());
        std::thread::scope(|scope| {
            for n in 0..machines {
                let (paths, address) = (&paths, addresses[n % addresses.len()]);
                scope.spawn(move || {
                    let [kernel, initramfs] = paths.each_ref().map(|path| get(address, path).len());
                    assert_eq!((kernel, initramfs), (KERNEL_BYTES, INITRAMFS_BYTES));
                });
            }
        });
        let took = began.elapsed().as_secs_f64();
        let (cpu, sent, read, _) = Totals::of(&cluster).since(&before);
        let mib = (machines * (KERNEL_BYTES + INITRAMFS_BYTES)) as f64 / MIB;
        println!(
            "| {machines} | {took:.2} | {:.0} | {:.2} | {sent} | {read:.0} |",
            mib / took,
            cpu * 1024.0 / mib
        );
    }

    let image = lab.folder().join("image");
    make_image(&image);
    put_kernel(&image, &make_initramfs(lab.folder(), &KernelFiles::uml()));
    cluster.heorot(0, &["boot", "image", "import", &image.display().to_string(), "tiny@1"]);
    cluster.heorot(0, &["boot", "group", "set", "tiny", "--shared", "128MiB"]);
    cluster.heorot(0, &["boot", "assign", "tiny", "tiny@1"]);
    println!(
        "\n| machines | first login (s) | last login (s) | CPU of all servers (s for each) | kernels and initramfs: sent, read (MiB) | roots: read from each metaserver and data server (MiB) |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let names: Vec<String> = (0..*BOOTING.last().expect("some")).map(|n| format!("n{n}")).collect();
    for name in &names {
        all.add(&cluster, name, "tiny");
    }
    for machines in BOOTING {
        let (before, began) = (Totals::of(&cluster), Instant::now());
        // A machine ends with the thread that has started it.
        let all_up = Barrier::new(machines);
        let mut logins: Vec<f64> = std::thread::scope(|scope| {
            let booting: Vec<_> = names[..machines]
                .iter()
                .map(|name| {
                    let (all, all_up) = (&all, &all_up);
                    scope.spawn(move || {
                        let node = all.boot(name);
                        node.run("cat /etc/version; tcc -v");
                        let took = began.elapsed().as_secs_f64();
                        all_up.wait();
                        took
                    })
                })
                .collect();
            booting.into_iter().map(|machine| machine.join().expect("it boots")).collect()
        });
        logins.sort_by(f64::total_cmp);
        let (cpu, sent, read, roots) = Totals::of(&cluster).since(&before);
        println!(
            "| {machines} | {:.1} | {:.1} | {:.2} | {sent}, {read:.0} | {roots} |",
            logins[0],
            logins[machines - 1],
            cpu / machines as f64
        );
    }
}
