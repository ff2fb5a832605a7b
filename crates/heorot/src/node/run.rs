//! `heorot run`: runs the servers of a node's directory, each as a process of its own, so that a metaserver
//! whose disk fails does not end the data server.

use crate::admin::socket;
use crate::cli::RunArgs;
use crate::config;
use crate::config::ds::DsConfig;
use crate::config::mds::MdsConfig;
use crate::node::data_dir::DataDir;
use crate::node::dir::{DS_FILE, KIND, MDS_FILE};
use crate::node::supervisor::{Part, Supervisor};
use crate::node::up::mount_commands;
use crate::process::notify;
use command_line::Failure;
use command_line::signals::{Hangups, Signals};

/// `heorot run`.
pub(crate) async fn run(args: RunArgs) -> Result<(), Failure> {
    let (signals, hangups) = (Signals::catch()?, Hangups::catch()?);
    if DataDir::look(&args.dir)?.is_none() {
        return Err(Failure::new(format!(
            "{}: is no node's directory; make a cluster there with heorot init, or join one with heorot join",
            args.dir.display()
        )));
    }
    let dir = DataDir::open(&args.dir, KIND)?;
    let (mds, ds) = (dir.path().join(MDS_FILE), dir.path().join(DS_FILE));
    let (mut mount, mut group) = (None, None);
    let mut parts = Vec::new();
    // Start the metaserver first; it is also stopped first.
    if mds.exists() {
        let config = MdsConfig::parse(&mds, &config::read(&mds)?)?;
        group = config.admin.group;
        mount = Some(match config.group.as_ref() {
            Some(group) if config.listen.ip().is_unspecified() => {
                (group.consensus.ip(), config.listen.port()).into()
            }
            _ => config.listen,
        });
        parts.push(Part { name: "mds".into(), role: "mds", config: mds, held: None });
    }
    if ds.exists() {
        let config = DsConfig::parse(&ds, &config::read(&ds)?)?;
        group = group.or(config.admin.group);
        let held = Some(config.listen);
        parts.push(Part { name: "ds".into(), role: "ds", config: ds, held });
    }
    if parts.is_empty() {
        return Err(Failure::new(format!(
            "{}: has neither {MDS_FILE} nor {DS_FILE}; bring them back from a copy",
            dir.path().display()
        )));
    }
    socket::let_pass(dir.path(), socket::group(group.as_deref())?)?;
    let mut supervisor = Supervisor::default();
    for part in parts {
        supervisor.start(part)?;
    }
    let serve = async {
        supervisor.all_ready().await?;
        if let Some(mount) = mount.filter(|_| supervisor.runs("mds")) {
            mount_commands(mount).iter().for_each(|command| println!("{command}"));
        }
        println!("ready");
        notify::ready();
        supervisor.watch(Some(hangups)).await
    };
    let outcome = tokio::select! {
        () = signals.stop() => Ok(()),
        outcome = serve => outcome,
    };
    notify::stopping();
    supervisor.stop().await;
    outcome
}
