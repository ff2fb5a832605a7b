//! `heorot up --metaservers 3`: several metaservers, with each server as a process of its own, so that any of
//! them can be killed.
//!
//! ```text
//! DIR/secret  identity.toml  mds.toml  mds/  mds1.toml  mds1/  …  ds0.toml  ds0/  …
//!             metaserver i: clients at --listen + 100 i, consensus 90 after that, admin at --admin + i
//!             data server i: at --listen + 1 + i, admin at --admin + 10 + i
//! ```
//!
//! Each server's directory has its admin socket; the admin addresses above serve the metrics pages.
//!
//! `mds` is also the directory of a cluster of one metaserver, which can grow. Each start writes the files
//! anew.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;

use super::{KIND, LISTEN, READY_TIME_MAX, mount_commands};
use crate::admin::api::{Done, ExportRequest, Status};
use crate::admin::client::AdminClient;
use crate::admin::place::AdminArgs;
use crate::admin::socket;
use crate::cli::UpArgs;
use crate::node::data_dir::DataDir;
use crate::node::dir as node;
use crate::node::ds_file::WRITTEN_BY_UP;
use crate::node::secret::Secret;
use crate::node::supervisor::{Part, Supervisor};
use command_line::Failure;
use command_line::signals::Signals;

/// Distance of the metaservers' ports; the data servers have the 64 ports after the first metaserver's.
const METASERVER_PORTS: u16 = 100;
const CONSENSUS_AFTER: u16 = 90;
/// Distance of the data servers' admin ports from the first metaserver's.
const DS_ADMIN_AFTER: u16 = 10;
const POLL: Duration = Duration::from_millis(100);

/// Numbers of servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub metaservers: u16,
    pub data_servers: u16,
}

/// Addresses and directory.
struct Places {
    listen: SocketAddr,
    admin: SocketAddr,
}

impl Places {
    fn serves(&self, metaserver: u16) -> SocketAddr {
        after(self.listen, METASERVER_PORTS * metaserver)
    }

    fn consensus(&self, metaserver: u16) -> SocketAddr {
        after(self.serves(metaserver), CONSENSUS_AFTER)
    }
}

fn after(address: SocketAddr, ports: u16) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port() + ports)
}

/// Runs the servers.
pub(super) async fn up(
    args: &UpArgs,
    signals: Signals,
    mut dir: DataDir,
    secret: &Secret,
    counts: Counts,
) -> Result<(), Failure> {
    let places = Places { listen: args.listen.0, admin: args.admin };
    let fits = |first: SocketAddr, ports: u16| first.port().checked_add(ports).is_some();
    let ports = METASERVER_PORTS * (counts.metaservers - 1) + CONSENSUS_AFTER;
    if !fits(places.listen, ports.max(counts.data_servers))
        || !fits(places.admin, DS_ADMIN_AFTER + counts.data_servers)
    {
        return Err(Failure::new(format!(
            "{KIND} with {} metaservers needs the {ports} ports after {LISTEN}, and some after --admin; choose lower ones",
            counts.metaservers
        )));
    }
    socket::let_pass(dir.path(), socket::group(args.admin_group.as_deref())?)?;
    let mut supervisor = Supervisor::default();
    let running = serve(args, &places, &mut dir, secret, counts, &mut supervisor);
    let outcome = tokio::select! {
        () = signals.stop() => Ok(()),
        outcome = running => outcome,
    };
    supervisor.stop().await;
    outcome
}

async fn serve(
    args: &UpArgs,
    places: &Places,
    dir: &mut DataDir,
    secret: &Secret,
    counts: Counts,
    supervisor: &mut Supervisor,
) -> Result<(), Failure> {
    let path = dir.path().to_owned();
    // Existing members wait for each other; a new one joins after they have a quorum.
    let known = |n: u16| path.join(directory(n)).join("identity.toml").exists();
    for n in 0..counts.metaservers {
        if !known(n) || n > 0 && !known(n - 1) {
            supervisor.all_ready().await?;
        }
        let file = path.join(format!("{}.toml", directory(n)));
        node::write(&file, &mds_toml(args, places, &path, n)?)?;
        supervisor.start(Part { name: format!("mds{n}"), role: "mds", config: file, held: None })?;
    }
    supervisor.all_ready().await?;
    for n in 0..counts.data_servers {
        let file = path.join(format!("ds{n}.toml"));
        node::write(&file, &ds_toml(places, &path, n, counts.metaservers)?)?;
        let held = Some(after(places.listen, 1 + n));
        supervisor.start(Part { name: format!("ds{n}"), role: "ds", config: file, held })?;
    }
    supervisor.all_ready().await?;
    for n in 0..counts.metaservers {
        all_registered(path.join(directory(n)), counts.data_servers.into()).await?;
    }
    if args.no_root_squash {
        end_root_squash(path.join(directory(0))).await?;
    }
    dir.claim_group(&secret.cluster(), counts.data_servers, counts.metaservers)?;
    for n in 0..counts.metaservers {
        println!("{}", mount_commands(places.serves(n))[0]);
    }
    let pids = supervisor.pids();
    let pids =
        pids.iter().map(|(name, pid)| format!("{name} {}", pid.map_or("-".into(), |pid| pid.to_string())));
    println!("processes: {}", pids.collect::<Vec<_>>().join(", "));
    print!("{}", super::squash_note(args));
    println!("Kill any of them (kill -9): clients of the others go on; it is started again after a moment.");
    println!("ready");
    supervisor.watch(None).await
}

fn directory(metaserver: u16) -> String {
    if metaserver == 0 { "mds".into() } else { format!("mds{metaserver}") }
}

fn mds_toml(args: &UpArgs, places: &Places, dir: &Path, n: u16) -> Result<String, Failure> {
    let mut table = toml::Table::new();
    let mut set = |key: &str, value: Value| table.insert(key.to_owned(), value);
    set("listen", places.serves(n).to_string().into());
    set("consensus", places.consensus(n).to_string().into());
    set("admin", after(places.admin, n).to_string().into());
    if let Some(group) = &args.admin_group {
        set("admin_group", group.clone().into());
    }
    if let Some(file) = &args.admin_token_file {
        set("admin_token_file", node::text(&std::path::absolute(file)?)?);
    }
    set("name", format!("mds{n}").into());
    set("data_dir", node::text(&dir.join(directory(n)))?);
    set("secret_file", node::text(&dir.join(node::SECRET_FILE))?);
    if n > 0 {
        set("join", places.consensus(0).to_string().into());
    }
    Ok(format!("{WRITTEN_BY_UP}{}", toml::to_string(&table)?))
}

fn ds_toml(places: &Places, dir: &Path, n: u16, metaservers: u16) -> Result<String, Failure> {
    let mut table = toml::Table::new();
    let mut set = |key: &str, value: Value| table.insert(key.to_owned(), value);
    let data_dir = node::text(&dir.join(format!("ds{n}")))?;
    set("listen", after(places.listen, 1 + n).to_string().into());
    set("admin", after(places.admin, DS_ADMIN_AFTER + n).to_string().into());
    set("name", format!("ds{n}").into());
    set(
        "metaserver",
        (0..metaservers).map(|n| places.serves(n).to_string().into()).collect::<Vec<Value>>().into(),
    );
    set("targets", vec![data_dir.clone()].into());
    set("data_dir", data_dir);
    set("secret_file", node::text(&dir.join(node::SECRET_FILE))?);
    Ok(format!("{WRITTEN_BY_UP}{}", toml::to_string(&table)?))
}

/// Applies --no-root-squash for all metaservers.
async fn end_root_squash(dir: PathBuf) -> Result<(), Failure> {
    let request = ExportRequest {
        action: "set".into(),
        path: "/".into(),
        networks: vec![],
        rules: super::NO_ROOT_SQUASH.into(),
    };
    let admin = AdminArgs { admin: Some(dir), admin_token_file: None };
    let set = move || AdminClient::find(&admin)?.put::<Done>("/exports", &request);
    tokio::task::spawn_blocking(set).await?.map(drop)
}

/// Waits until a metaserver knows all data servers. Each has one target.
async fn all_registered(dir: PathBuf, servers: usize) -> Result<(), Failure> {
    let registered = async {
        loop {
            let admin = AdminArgs { admin: Some(dir.clone()), admin_token_file: None };
            let asked =
                tokio::task::spawn_blocking(move || AdminClient::find(&admin)?.get::<Status>("/status", &[]));
            let status = asked.await??;
            let targets = status.data_servers.iter().flat_map(|server| &server.targets);
            if targets.filter(|target| target.state == "ok").count() >= servers {
                return Ok::<_, Failure>(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(READY_TIME_MAX, registered)
        .await
        .unwrap_or_else(|_| Err(Failure::new("not all data servers registered; the log says which, and why")))
}
