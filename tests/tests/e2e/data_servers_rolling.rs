//! A rolling restart of all data servers, each with its whole node, below a service manager that keeps their
//! listening sockets: a real client stays with its layouts, and no data go through the metaserver.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tests::stalls::{self, Work};
use tests::{FileBytes, Lab, Machine, Metrics};

/// Rounds over all data servers.
const ROUNDS: usize = 2;
/// Limit of an operation, for a busy machine: 2 s is meant. Without the kept sockets Linux leaves the device
/// alone for two minutes.
const STALL_MAX: Duration = Duration::from_secs(10);
const ADMIN_PORT: u16 = 9100;

#[test]
fn a_client_keeps_its_layouts_over_restarts_of_all_data_servers() {
    restarts(1);
}

#[test]
fn a_client_keeps_its_layouts_of_files_with_copies() {
    restarts(2);
}

/// Restarts all data servers in turn under a client's work. Each member of a chain that comes back is refilled; meanwhile
/// clients reach the chain through it.
fn restarts(copies: u32) {
    let lab = Lab::open();
    let manager = Path::new(env!("CARGO_BIN_EXE_service_manager"));
    let mut ash = Machine::new(&lab, "ash");
    let admin = SocketAddr::from((ash.address(), ADMIN_PORT));
    ash.sh(&format!("heorot init --role mds --no-root-squash --admin {admin}"));
    ash.start();
    let mut data_servers = ["fir", "yew"].map(|name| Machine::with_service_manager(&lab, name, manager));
    for machine in &mut data_servers {
        let token = ash.sh("heorot token");
        std::fs::write(machine.file("/root/token"), token).expect("a file");
        machine.sh(&format!("heorot join --role ds --token-file token {}", ash.address()));
        machine.start();
    }
    ash.says("healthy", "yew");
    ash.sh(&format!("heorot set stripe_copies {copies}"));
    let pine = lab.client("pine");
    pine.run(&lab::heorot::mount_script((ash.address(), 2049).into(), "vers=4.2", "/mnt/h"));
    let mut work = Work::begin(&pine, "data", stalls::DATA, &["/mnt/h/data", "16"]);
    work.does_more(1);
    let through = || -> FileBytes {
        Metrics::read(admin).with("role", "metaserver").with("caller", "client").file_bytes()
    };
    let before = through();
    for _ in 0..ROUNDS {
        for machine in &data_servers {
            machine.restart_service();
            work.does_more(2);
            // Two at a time would be a loss of both copies.
            ash.says("healthy", "yew");
        }
    }
    assert_eq!(through(), before, "all data went straight to the data servers");
    let (said, stalls) = work.end();
    let longest = stalls.iter().max_by_key(|stall| stall.took);
    println!(
        "{copies} copies, {} restarts, {} rounds; the longest operation: {}",
        ROUNDS * data_servers.len(),
        said.trim(),
        longest.map_or("-".into(), ToString::to_string)
    );
    assert!(longest.is_none_or(|stall| stall.took < STALL_MAX), "{longest:?}");
    drop(pine);
    data_servers.iter_mut().for_each(Machine::stop);
}
