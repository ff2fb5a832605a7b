//! `heorot restore`: makes a metaserver's directory from a backup.
//!
//! The directory is a group of one member, with a new member id and a new incarnation (docs/decisions/0008),
//! so that metaservers of the old cluster are not members of it. Its log begins after the store, which a
//! joining metaserver receives as a snapshot. The state machine closes the clients' opens, client by client:
//! files without a name are removed then, with their objects.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use host::{Clock, Entropy, SystemClock, SystemEntropy};
use namespace::{CHAINS_OF_COMMAND_MAX, ChainChange, ChainStep, Command, Proposal, Stamp, Time, read};
use replica::{BackupHead, BackupReader, Environment, Member, Replica, ReplicaConfig};
use store::{RedbStore, Store};

use crate::cli::RestoreArgs;
use crate::node::data_dir::DataDir;
use crate::node::secret::{Secret, SecretError};
use crate::servers::mds::KIND;
use command_line::Failure;

/// Marker of a restore in progress: a directory of an interrupted restore is not a metaserver's directory.
const UNDER_WAY: &str = "restoring";

/// `heorot restore`.
pub(crate) fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    let file = args.file.display();
    let unusable = |why: &dyn std::fmt::Display| Failure::new(format!("{file}: {why}"));
    let open = || -> Result<_, Failure> {
        let from = File::open(&args.file).map_err(|e| unusable(&e))?;
        BackupReader::open(BufReader::new(from)).map_err(|e| unusable(&e))
    };
    let (reader, head) = open()?;
    let secret = secret(args, &head)?;
    // Check the whole backup before anything is written.
    let pairs = reader.check().map_err(|e| unusable(&e))?;
    if args.dir.join(UNDER_WAY).exists() {
        return Err(Failure::new(format!(
            "{}: a restore into it was cut short: empty it, and restore again",
            args.dir.display()
        )));
    }
    let mut dir = DataDir::open(&args.dir, KIND)?;
    if let Some(cluster) = dir.cluster() {
        let dir = dir.path().display();
        return Err(Failure::new(format!(
            "{dir}: belongs to cluster {cluster} already; name an empty directory"
        )));
    }
    let marker = dir.path().join(UNDER_WAY);
    host::private::create(&marker)?.sync_all()?;
    let store = RedbStore::open(
        dir.path().join("namespace.redb"),
        crate::process::memory::store_bytes_default() as usize,
    )?;
    let store = Arc::new(store);
    let (reader, _) = open()?;
    store.replace(&mut reader.pairs())?;
    let id = (SystemEntropy.u64() >> 1).max(2);
    let clients = begin(dir.path(), store, id, head.applied)?;
    std::fs::remove_file(&marker)?;
    dir.claim_member(&secret.cluster(), id)?;
    println!(
        "{}: {pairs} records of cluster {}; {clients} clients have nothing open or locked any more, and must mount again",
        dir.path().display(),
        hex::encode(head.cluster)
    );
    Ok(())
}

/// Secret of the new metaserver.
fn secret(args: &RestoreArgs, head: &BackupHead) -> Result<Secret, Failure> {
    let path = &args.secret_file;
    let lost = || SecretError::Lost(path.clone(), "without it no data are found".into());
    let secret = Secret::read(path)?.ok_or_else(lost)?;
    let (found, wanted) = (secret.cluster(), head.cluster);
    if found != wanted && !args.other_secret {
        return Err(Failure::new(format!(
            "{}: is the secret of cluster {}, and the backup is of cluster {}: the data of files above 64 KiB would not be \
             found; name that cluster's secret, or add --other-secret to do without these data",
            path.display(),
            hex::encode(found),
            hex::encode(wanted)
        )));
    }
    Ok(secret)
}

/// Makes a group of one member from the restored store, and expires all clients; returns their number.
fn begin(dir: &Path, store: Arc<dyn Store>, id: u64, applied: u64) -> Result<usize, Failure> {
    let founder = (id, Member::default());
    let incarnation = replica::begin_restored(&Environment::default(), dir, &*store, founder, applied)?;
    tracing::info!(
        id = hex::encode(incarnation.id),
        epoch = incarnation.epoch,
        "a new incarnation of the group"
    );
    let config = ReplicaConfig { id, ..ReplicaConfig::alone(dir.to_owned(), 0) };
    let replica = Replica::open(config, store, stamp(), Arc::new(()), Arc::new(()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        doubt_chains(&replica).await?;
        end_clients(&replica).await
    });
    replica.stop();
    ended
}

/// Members of chains may have changed since the backup: data servers know which ones have the data.
async fn doubt_chains(replica: &Replica) -> Result<(), Failure> {
    let chains = read::chains(&*replica.view()?)?;
    let doubt = |chain: &namespace::Chain| {
        let (chain, version) = (chain.id, chain.version);
        ChainChange { chain, version, step: ChainStep::Doubt }
    };
    let changes: Vec<ChainChange> = chains.iter().map(doubt).collect();
    for changes in changes.chunks(CHAINS_OF_COMMAND_MAX) {
        let command = Command::ChangeChains { changes: changes.to_vec() };
        replica.propose(Proposal::new(stamp(), None, command)).await?;
    }
    Ok(())
}

async fn end_clients(replica: &Replica) -> Result<usize, Failure> {
    let clients = read::clients(&*replica.view()?)?;
    for client in clients.iter().copied() {
        // LapseLease already forgets a client without state.
        for command in [Command::LapseLease { client, sequence: None }, Command::ExpireClient { client }] {
            let reply = replica.propose(Proposal::new(stamp(), None, command)).await?;
            tracing::debug!(?client, ?reply, "a client of the time of the backup");
        }
    }
    match read::clients(&*replica.view()?)?.len() {
        0 => Ok(clients.len()),
        left => Err(Failure::new(format!("{left} clients are left over: the backup cannot be used"))),
    }
}

fn stamp() -> Stamp {
    let wall = SystemClock::default().wall();
    let time = Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds };
    Stamp { time, random: SystemEntropy.u64() }
}
