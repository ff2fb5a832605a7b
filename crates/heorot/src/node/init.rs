//! `heorot init` and `heorot join`: make this machine the first or a further node of a cluster.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use host::{Entropy, SystemEntropy};
use wire::join::Token;

use crate::cli::{InitArgs, NodeJoinArgs, Role};
use crate::commands::token;
use crate::config::begin;
use crate::node::data_dir::DataDir;
use crate::node::dir::{self as node, CONSENSUS_PORT, DS_FILE, KIND, MDS_FILE, Plan, SECRET_FILE};
use crate::node::join_client::{self, JoinAnswer, JoinError, JoinRequest};
use crate::node::secret::Secret;
use command_line::Failure;

/// Maximal number of ENTER calls without an answer.
const TRIES: u32 = 3;
/// Time limit of a connect: a live machine in the same network answers at once.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// `heorot init`.
pub(crate) fn init(args: &InitArgs) -> Result<(), Failure> {
    if !args.node.roles.contains(&Role::Mds) {
        return Err(Failure::new("the first node of a cluster is a metaserver; add mds to --role"));
    }
    let plan = Plan::new(&args.node, node::own_address)?;
    refuse_a_node(&plan.dir)?;
    plan.check_addresses()?;
    let notes = plan.check_targets()?;
    if let Some(address) = args.service_addresses.iter().find(|address| plan.is_own(**address)) {
        return Err(Failure::new(format!(
            "--service-address {address} is this machine's own address; a service address belongs to no machine, so that it \
             can move to one that lives: choose one of the same network that is free"
        )));
    }
    plan.check_data_service_address(&args.service_addresses)?;
    let exports = if args.no_root_squash { vec!["* squash=none".to_owned()] } else { vec![] };
    let begin = begin::text(&exports, &args.service_addresses);
    let mds = plan.mds_toml(None, !args.service_addresses.is_empty())?;
    let ds = plan.data_server.then(|| plan.ds_toml(&[plan.serves().to_string()])).transpose()?;

    let mut dir = DataDir::open(&plan.dir, KIND)?;
    let secret = Secret::create(&plan.dir.join(SECRET_FILE), &SystemEntropy)?;
    let begin_file = begin::path(&plan.dir.join(MDS_FILE));
    match begin {
        Some(begin) => node::write(&begin_file, &begin)?,
        // The file may be left from an earlier attempt with other options.
        None => drop(std::fs::remove_file(begin_file)),
    }
    write(&plan, Some(&mds), ds.as_deref())?;
    dir.claim(&secret.cluster(), None)?;

    let dir = plan.dir.display();
    println!(
        "cluster {} begins in {dir}: {:?} at {}, {}",
        hex::encode(secret.cluster()),
        plan.name,
        plan.address,
        plan.roles()
    );
    println!("\nrun it, here:\n\n    heorot run {dir}\n");
    println!("and, for each other machine, make a token here while that runs, bring it there, and join:\n");
    println!("    heorot token --out FILE --admin {dir}");
    println!("    heorot join --token-file FILE {}\n", plan.consensus());
    println!(
        "A token lets one machine in, within a day, which can then read and change every file: keep it as you keep a password."
    );
    print!("{notes}");
    if !args.no_root_squash && !plan.address.is_loopback() {
        println!(
            "Clients' root is squashed, and a new volume is root's: heorot export set / --squash none, on this machine \
             once it runs, changes that."
        );
    }
    Ok(())
}

/// `heorot join`.
pub(crate) async fn join(args: &NodeJoinArgs) -> Result<(), Failure> {
    // Find all local errors before the first call.
    let token = token::read(&args.token_file)?;
    let member = resolve(&args.member)?;
    let dir = std::path::absolute(&args.node.dir)?;
    if let Some(cluster) = DataDir::look(&dir)? {
        return Err(if cluster == hex::encode(token.cluster) {
            Failure::new(format!(
                "{0}: is a node of this cluster already; run it: heorot run {0}",
                dir.display()
            ))
        } else {
            a_node_already(&dir, &cluster)
        });
    }
    let plan = Plan::new(&args.node, || way_to(member))?;
    plan.check_addresses()?;
    let notes = plan.check_targets()?;
    plan.check_data_service_address(&[])?;

    let refused = |why: JoinError| Failure::new(format!("not joined by {member}: {why}"));
    let told = enter(member, &token, &plan).await.map_err(refused)?;
    let mds = plan.metaserver.then(|| plan.mds_toml(Some(member), false)).transpose()?;
    let mut metaservers = told.metaservers;
    if plan.metaserver {
        metaservers.push(plan.serves().to_string());
    }
    let ds = plan.data_server.then(|| plan.ds_toml(&metaservers)).transpose()?;

    let mut dir = DataDir::open(&plan.dir, KIND)?;
    let secret = Secret::receive(told.secret, &plan.dir.join(SECRET_FILE))?;
    write(&plan, mds.as_deref(), ds.as_deref())?;
    dir.claim(&secret.cluster(), None)?;

    let dir = plan.dir.display();
    println!(
        "joined cluster {} in {dir}: {:?} at {}, {}",
        hex::encode(secret.cluster()),
        plan.name,
        plan.address,
        plan.roles()
    );
    println!("\nrun it, here:\n\n    heorot run {dir}");
    print!("{notes}");
    Ok(())
}

/// Sends ENTER, with retries. If the token was used and the answer lost, the same ticket gets the answer
/// again.
async fn enter(member: SocketAddr, token: &Token, plan: &Plan) -> Result<JoinAnswer, JoinError> {
    let ticket = SystemEntropy.bytes();
    let (consensus, data) =
        (plan.metaserver.then(|| plan.consensus()), plan.data_server.then(|| plan.data()));
    let mut client = join_client::hello(member, token, JoinRequest::now()).await?;
    for _ in 1..TRIES {
        match client.enter(ticket, &plan.name, consensus, data).await {
            Err(JoinError::NoAnswer(_)) => {
                client = join_client::hello(member, token, JoinRequest::now()).await?
            }
            answered => return answered,
        }
    }
    client.enter(ticket, &plan.name, consensus, data).await
}

fn refuse_a_node(dir: &Path) -> Result<(), Failure> {
    match DataDir::look(dir)? {
        Some(cluster) => Err(a_node_already(dir, &cluster)),
        None => Ok(()),
    }
}

fn a_node_already(dir: &Path, cluster: &str) -> Failure {
    Failure::new(format!(
        "{0}: belongs to cluster {cluster} already; run that node (heorot run {0}), or name another directory with --dir",
        dir.display()
    ))
}

/// Writes the configuration files, after the secret.
fn write(plan: &Plan, mds: Option<&str>, ds: Option<&str>) -> Result<(), Failure> {
    for (name, text) in [(MDS_FILE, mds), (DS_FILE, ds)] {
        let path = plan.dir.join(name);
        match text {
            Some(text) => node::write(&path, text)?,
            // The file may be left from an earlier attempt with other roles.
            None => drop(std::fs::remove_file(path)),
        }
    }
    Ok(())
}

/// Resolves a member: an address or a host name, with or without a port.
fn resolve(text: &str) -> Result<SocketAddr, Failure> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, CONSENSUS_PORT));
    }
    let with_port = if text.contains(':') { text.to_owned() } else { format!("{text}:{CONSENSUS_PORT}") };
    let wrong = |why: String| {
        Failure::new(format!(
            "{text}: {why}; name a metaserver of the cluster, such as 10.0.0.1 or 10.0.0.1:{CONSENSUS_PORT}"
        ))
    };
    let mut found = with_port.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    found.next().ok_or_else(|| wrong("has no address".into()))
}

/// Local address of a connection to a member; an error without a connection.
fn way_to(member: SocketAddr) -> Result<IpAddr, Failure> {
    let stream = TcpStream::connect_timeout(&member, CONNECT_TIME_MAX).and_then(|stream| stream.local_addr());
    let address = stream.map_err(|e| {
        Failure::new(format!(
            "not joined by {member}: no connection: {e}; does heorot run there, is that a metaserver's address, and does \
             no firewall stand before it?"
        ))
    })?;
    Ok(address.ip())
}
