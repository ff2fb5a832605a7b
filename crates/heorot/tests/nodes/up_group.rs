//! `heorot up --metaservers 3`: each server is a process, any of them can be killed, and they end with their
//! parent.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::process::{ADMIN_PORT, PORT, Server, own_ip, refusal, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const METASERVERS: u16 = 3;
/// Directories made between kills, by the client of each metaserver.
const BETWEEN_KILLS: u32 = 20;

fn args(dir: &Path, ip: Ipv4Addr, more: &str) -> Vec<String> {
    let text = format!("up --data {} --listen {ip}:{PORT} --admin {ip}:{ADMIN_PORT} {more}", dir.display());
    text.split_whitespace().map(str::to_owned).collect()
}

fn up(dir: &Path, ip: Ipv4Addr, more: &str) -> Server {
    Server::start(&args(dir, ip, more).iter().map(String::as_str).collect::<Vec<_>>())
}

/// Processes in the output: "processes: mds0 17, ds0 18".
fn processes_of(said: &str) -> Vec<(String, Pid)> {
    let line = said.lines().find_map(|line| line.strip_prefix("processes: ")).unwrap();
    let one = |text: &str| {
        let (name, pid) = text.split_once(' ').unwrap();
        (name.to_owned(), Pid::from_raw(pid.parse().unwrap()).unwrap())
    };
    line.split(", ").map(one).collect()
}

/// Client of metaserver `n` that makes directories until `stop`, and counts them in `made`.
async fn makes(ip: Ipv4Addr, n: u16, made: Arc<AtomicU32>, stop: Arc<AtomicBool>) {
    let url = format!("nfs://{ip}:{}/?version=4.2&noresvport=true", PORT + 100 * n);
    let mut client = None;
    let mut tried_before = false;
    while !stop.load(Ordering::Relaxed) {
        let Some(mount) = &client else {
            client = nfs_rs::parse_url_and_mount(&url).await.ok();
            if client.is_none() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            continue;
        };
        let name = format!("m{n}-{}", made.load(Ordering::Relaxed));
        match mount.mkdir_path(&name, 0o755).await {
            Ok(_) => tried_before = false,
            // An earlier call that nfs-rs gave up at its broken connection may have been executed.
            Err(error) if tried_before && error.to_string().to_uppercase().contains("EXIST") => {
                tried_before = false
            }
            Err(_) => {
                (client, tried_before) = (None, true);
                continue;
            }
        }
        made.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn each_metaserver_is_killed_in_turn_while_all_of_them_make_directories() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    // Begin with one metaserver, then grow.
    let mut server = up(dir.path(), ip, "--data-servers 1");
    server.ready();
    assert_eq!(server.signal(Signal::TERM), Some(0));
    let mut server = up(dir.path(), ip, "--metaservers 3");
    let said = server.ready();
    for n in 0..METASERVERS {
        assert!(said.contains(&format!("port={} {ip}:/ /mnt\n", PORT + 100 * n)), "{said}");
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let made: Vec<Arc<AtomicU32>> = (0..METASERVERS).map(|_| Arc::default()).collect();
    let makers: Vec<_> = (0..METASERVERS)
        .map(|n| runtime.spawn(makes(ip, n, Arc::clone(&made[usize::from(n)]), Arc::clone(&stop))))
        .collect();
    let counts = || made.iter().map(|made| made.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let processes = processes_of(&said);
    assert_eq!(processes.len(), usize::from(METASERVERS) + 1);
    for (name, pid) in &processes {
        let before = counts();
        kill_process(*pid, Signal::KILL).unwrap();
        // The clients of the others continue; the killed server's own client does so after its restart.
        wait_until(&format!("all make more after {name} was killed"), &mut [&mut server], || {
            counts().iter().zip(&before).all(|(now, before)| *now >= before + BETWEEN_KILLS)
        });
    }
    stop.store(true, Ordering::Relaxed);
    makers.into_iter().for_each(|maker| runtime.block_on(maker).unwrap());
    // All metaservers show the directories of all clients.
    for n in 0..METASERVERS {
        let url = format!("nfs://{ip}:{}/?version=4.2&noresvport=true", PORT + 100 * n);
        let client = runtime.block_on(nfs_rs::parse_url_and_mount(&url)).unwrap();
        for (of, count) in counts().iter().enumerate() {
            for name in (0..*count).map(|i| format!("m{of}-{i}")) {
                runtime.block_on(client.lookup_path(&name)).unwrap_or_else(|e| panic!("{name} at {n}: {e}"));
            }
        }
    }
    assert_eq!(server.signal(Signal::TERM), Some(0));

    let fewer = refusal(&args(dir.path(), ip, "--metaservers 2"));
    assert!(fewer.contains("has 3 metaservers") && fewer.contains("--metaservers 3 or more"), "{fewer}");
    // The same number as before; and no child survives a kill of the parent.
    let mut server = up(dir.path(), ip, "");
    let children = processes_of(&server.ready());
    assert_eq!(children.len(), 4);
    server.signal(Signal::KILL);
    wait_until("the children end with their parent", &mut [], || {
        // A zombie has an empty command line.
        let runs = |pid: &Pid| {
            std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
                .is_ok_and(|line| !line.is_empty())
        };
        children.iter().all(|(_, pid)| !runs(pid))
    });
}
