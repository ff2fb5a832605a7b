//! `heorot up`: a whole cluster on one machine. A metaserver and some data servers run in one process, each
//! on its own port, and use TCP between each other as separate ones do. With several metaservers, each server
//! is a process: `group`.
//!
//! ```text
//! DIR/secret  identity.toml  mds/  ds0/  ds1/  …
//! ```

mod group;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use cluster::{Begin, Squash};
use dataserver::{Checks, REFILL_RATE, SharedTrash};
use host::SystemEntropy;
use metaserver::ExportChange;

use crate::admin::http::Admin;
use crate::admin::server::{AdminPlace, AdminServer};
use crate::cli::UpArgs;
use crate::config::admin::AdminConfig;
use crate::config::mds::{RESERVE_DEFAULT_BYTES, default_rules};
use crate::node::data_dir::DataDir;
use crate::node::founding_marker;
use crate::node::secret::Secret;
use crate::node::up::group::Counts;
use crate::servers::ds::{DsSettings, RunningDs};
use crate::servers::mds::{self, MdsSettings, RunningMds};
use command_line::Failure;
use command_line::signals::Signals;

const KIND: &str = "heorot up";
const DATA_SERVERS_DEFAULT: u16 = 4;
const LISTEN: &str = "--listen";
/// Rule of exports for --no-root-squash.
const NO_ROOT_SQUASH: &str = "squash=none";
/// Time limit of the registration of data servers on the same machine.
const READY_TIME_MAX: Duration = Duration::from_secs(20);

/// `heorot up`.
pub(crate) async fn up(args: UpArgs) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    let listen = args.listen.0;
    let mut dir = DataDir::open(&args.data, KIND)?;
    let count = data_servers(&dir, args.data_servers)?;
    let metaservers = metaservers(&dir, args.metaservers)?;
    if u32::from(listen.port()) + u32::from(count) > u32::from(u16::MAX) {
        return Err(Failure::new(format!(
            "{count} data servers need as many ports after {}; choose a lower one with {LISTEN}",
            listen.port()
        )));
    }
    let lost = dir.cluster().map(|cluster| format!("{} belongs to cluster {cluster}", dir.path().display()));
    let (secret, _) = Secret::read_or_create(&dir.path().join("secret"), lost, &SystemEntropy)?;
    dir.check(&secret.cluster())?;
    if let Some(metaservers) = metaservers {
        return group::up(&args, signals, dir, &secret, Counts { metaservers, data_servers: count }).await;
    }

    let running_mds = start_mds(listen, args.no_root_squash, dir.path(), &secret).await?;
    let note = squash_note(&args);
    let (mut running, trash) = (Vec::new(), SharedTrash::default());
    for index in 0..count {
        running.push(start_ds(index, listen, dir.path(), &secret, &trash).await?);
    }
    dir.claim(&secret.cluster(), Some(count))?;
    founding_marker::note(&dir.path().join("secret"), &secret);
    let servers: Vec<_> = running.iter().collect();
    let place = AdminPlace {
        dir: dir.path().join("mds"),
        above: Some(dir.path().to_owned()),
        config: AdminConfig {
            address: Some(args.admin),
            group: args.admin_group,
            token_file: args.admin_token_file,
        },
        setting: "--admin",
    };
    let admin = AdminServer::start(place, Admin::new(Some(&running_mds), &servers)).await?;

    let serve = async {
        all_registered(&running_mds, &running).await?;
        announce(running_mds.address(), &note);
        Err(running_mds.failed().await)
    };
    let outcome = tokio::select! {
        () = signals.stop() => Ok(()),
        outcome = serve => outcome,
    };
    drop(admin);
    // The metaserver first: it must not find the data servers dead while clients still send requests.
    running_mds.stop().await;
    let stops: Vec<_> = running.into_iter().map(RunningDs::stop).collect();
    futures_util::future::join_all(stops).await;
    outcome
}

/// Number of data servers to run: at least as many as before.
fn data_servers(dir: &DataDir, asked: Option<u16>) -> Result<u16, Failure> {
    let path = dir.path();
    let Some(before) = dir.data_servers() else {
        return Ok(asked.unwrap_or(DATA_SERVERS_DEFAULT));
    };
    let count = asked.unwrap_or(before);
    if count < before {
        return Err(Failure::new(format!(
            "{} has {before} data servers, and the data on those left out would be missing; start with --data-servers \
             {before} or more",
            path.display()
        )));
    }
    // Never make a missing target anew: its disk may not be mounted.
    match (0..before).find(|index| !path.join(format!("ds{index}/target.toml")).exists()) {
        Some(index) => Err(Failure::new(format!(
            "{}: the storage target is gone, and its data would be missing; bring it back (is its disk mounted?)",
            path.join(format!("ds{index}")).display()
        ))),
        None => Ok(count),
    }
}

/// Number of metaservers to run as processes; none: one, in this process.
fn metaservers(dir: &DataDir, asked: Option<u16>) -> Result<Option<u16>, Failure> {
    match (dir.metaservers(), asked) {
        (Some(before), asked) if asked.unwrap_or(before) < before => Err(Failure::new(format!(
            "{} has {before} metaservers, and those left out would be missed by the others when they vote; start with \
             --metaservers {before} or more",
            dir.path().display()
        ))),
        (Some(before), asked) => Ok(Some(asked.unwrap_or(before))),
        (None, asked) => Ok(asked.filter(|count| *count > 1)),
    }
}

async fn start_mds(
    listen: SocketAddr,
    no_root_squash: bool,
    dir: &Path,
    secret: &Secret,
) -> Result<RunningMds, Failure> {
    let mut rules = default_rules(listen);
    if no_root_squash {
        rules.squash = Squash::None;
    }
    let settings = MdsSettings {
        listen,
        listen_setting: LISTEN,
        begin: Begin::for_everybody(rules),
        reserve_bytes: RESERVE_DEFAULT_BYTES,
        metadata_memory_bytes: crate::process::memory::store_bytes_default(),
        group: None,
    };
    let (secret_file, mds) = (dir.join("secret"), DataDir::open(&dir.join("mds"), mds::KIND)?);
    founding_marker::check(&secret_file, secret, &mds, false)?;
    let running = RunningMds::start(settings, mds, secret).await?;
    if no_root_squash {
        // Also for a cluster that began without the option.
        let set =
            running.metaserver.admission().change_exports(ExportChange::Set, "/", &[], NO_ROOT_SQUASH).await;
        set.map_err(|why| Failure::new(format!("--no-root-squash: {why}")))?;
    }
    Ok(running)
}

async fn start_ds(
    index: u16,
    mds: SocketAddr,
    dir: &Path,
    secret: &Secret,
    shared_trash: &SharedTrash,
) -> Result<RunningDs, Failure> {
    let name = format!("ds{index}");
    let data_dir = dir.join(&name);
    let address = SocketAddr::new(mds.ip(), mds.port() + 1 + index);
    let settings = DsSettings {
        name,
        listen: address,
        socket: None,
        listen_setting: LISTEN,
        advertise: address,
        service_address: None,
        zone: String::new(),
        metaservers: vec![mds],
        targets: vec![data_dir.clone()],
        data_dir,
        config: None,
        checks: Checks::default(),
        refill_rate: REFILL_RATE,
        shared_trash: shared_trash.clone(),
    };
    RunningDs::start(settings, secret).await
}

/// Waits until all data servers have registered. They adopt their metaserver's incarnation: it is of the same
/// directory, so a restore there was final.
async fn all_registered(mds: &RunningMds, servers: &[RunningDs]) -> Result<(), Failure> {
    let registered = async {
        loop {
            for ds in servers {
                let ds = std::sync::Arc::clone(&ds.data_server);
                tokio::task::spawn_blocking(move || ds.adopt()).await??;
            }
            let status = mds.metaserver.status().await?;
            // Each data server has one target.
            let targets = status.data_servers.iter().flat_map(|server| &server.targets);
            if targets.filter(|target| target.state == "ok").count() >= servers.len() {
                return Ok::<_, Failure>(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(READY_TIME_MAX, registered)
        .await
        .unwrap_or_else(|_| Err(Failure::new("not all data servers registered; the log says which, and why")))
}

/// Prints the mount commands and `ready`.
fn announce(address: SocketAddr, note: &str) {
    mount_commands(address).iter().for_each(|command| println!("{command}"));
    print!("{note}");
    println!("ready");
    tracing::info!(%address, "ready");
}

/// Note that root is squashed; empty if it is not.
fn squash_note(args: &UpArgs) -> String {
    if args.no_root_squash || args.listen.0.ip().is_loopback() {
        return String::new();
    }
    "Clients' root is squashed, unless heorot export set / --squash none was run; heorot export list shows the rules.\n".into()
}

/// Commands that mount `address` on a client.
pub(crate) fn mount_commands(address: SocketAddr) -> [String; 2] {
    let (port, host) = (
        address.port(),
        match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        },
    );
    [
        format!("mount -t nfs -o vers=4.2,port={port} {host}:/ /mnt"),
        format!(
            "mount -t nfs -o vers=3,nolock,tcp,port={port},mountport={port},mountproto=tcp {host}:/ /mnt"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn note(args: &[&str]) -> String {
        let parsed = Cli::try_parse_from([&["heorot", "up"], args].concat()).expect("arguments");
        let Command::Up(args) = parsed.command else { panic!("not up") };
        squash_note(&args)
    }

    #[test]
    fn root_is_said_to_be_squashed_on_addresses_that_others_reach() {
        assert_eq!(note(&[]), "");
        assert_eq!(note(&["--listen", "[::1]:2049"]), "");
        assert!(note(&["--listen", "10.0.0.5"]).starts_with("Clients' root is squashed"));
        assert_eq!(note(&["--listen", "10.0.0.5", "--no-root-squash"]), "");
    }
}
