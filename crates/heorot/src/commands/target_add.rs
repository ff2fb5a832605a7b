//! `heorot target add`: a running data server takes the directory in; for one that does not run, its file is changed.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use dataserver::{DataServer, check_addition, is_same_directory, plain_path};

use crate::admin::api::{Done, TargetAddition};
use crate::admin::client::AdminClient;
use crate::admin::place::AdminArgs;
use crate::admin::socket;
use crate::cli::NODE_DIR;
use crate::config;
use crate::config::ds::DsConfig;
use crate::node::dir::DS_FILE;
use crate::node::ds_file::DsFile;
use crate::node::secret::Secret;
use command_line::Failure;

/// Directory of a node's data server.
const NODE_DATA_DIR: &str = "ds";

/// The data server of this machine.
enum DataServerHere {
    Runs(AdminClient),
    /// It does not, and has this file.
    Stopped(PathBuf),
}

/// `heorot target add`.
pub(crate) fn add(dir: &Path, config: Option<&Path>, admin: &AdminArgs) -> Result<(), Failure> {
    let dir = plain_path(dir)?;
    let done = match find(config, admin)? {
        DataServerHere::Runs(client) => {
            let path = dir.to_str().unwrap_or_default().to_owned();
            client.put::<Done>("/targets", &TargetAddition { path })?.done
        }
        DataServerHere::Stopped(file) => note(&dir, &file)?,
    };
    println!("{done}");
    Ok(())
}

fn find(file: Option<&Path>, admin: &AdminArgs) -> Result<DataServerHere, Failure> {
    let at = |socket: PathBuf| {
        let token = admin.admin_token_file.clone();
        let client = AdminClient::find(&AdminArgs { admin: Some(socket), admin_token_file: token });
        client.map(DataServerHere::Runs)
    };
    let (file, data_dir) = match file {
        Some(file) => (file.to_owned(), None),
        None => {
            let node = admin.admin.clone().unwrap_or_else(|| NODE_DIR.into());
            let (file, data_dir) = (node.join(DS_FILE), node.join(NODE_DATA_DIR));
            if !file.exists() {
                return AdminClient::find_data_server(admin).map(DataServerHere::Runs);
            }
            (file, Some(data_dir))
        }
    };
    // Members of the group may use the socket, and cannot read the file.
    if let Some(socket) = data_dir.map(|dir| dir.join(socket::NAME))
        && is_listened_on(&socket)
    {
        return at(socket);
    }
    let config = DsConfig::parse(&file, &config::read(&file)?)?;
    let socket = config.data_dir.join(socket::NAME);
    if is_listened_on(&socket) {
        return at(socket);
    }
    Ok(DataServerHere::Stopped(file))
}

/// True unless the socket is not there, or its process has ended.
fn is_listened_on(socket: &Path) -> bool {
    match socket::short(socket, |path| UnixStream::connect(path)) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused),
    }
}

/// Puts the directory into the file of a data server that does not run.
fn note(dir: &Path, file: &Path) -> Result<String, Failure> {
    let file = DsFile::lock(file)?;
    let (shown, name) = (dir.display(), file.path().display());
    let DsConfig { data_dir, secret_file, targets, .. } = &file.config;
    let is_running = || DataServer::is_running(data_dir);
    if is_running()? {
        return Err(Failure::new(format!(
            "{shown}: the data server of {name} runs, and its admin socket does not answer: it starts or stops; nothing was \
             changed. Try again"
        )));
    }
    if targets.iter().any(|target| is_same_directory(target, dir)) {
        return Err(Failure::new(format!(
            "{shown}: is in `targets` of {name} already, and is used from the next start of the data server on"
        )));
    }
    let secret = Secret::read(secret_file)?.ok_or_else(|| {
        Failure::new(format!(
            "{}: there is no secret, which tells the cluster of a target; nothing was changed. Bring it back from a copy on \
             another server",
            secret_file.display()
        ))
    })?;
    if let Some(id) = check_addition(dir, secret.cluster(), data_dir, targets)? {
        return Err(Failure::new(format!(
            "{shown}: is the target {id:016x} already, and a data server that does not run cannot ask whether another one serves \
             that; nothing was changed. Start the data server of {name}, and run the command again"
        )));
    }
    file.add(dir)?;
    if is_running()? {
        return Err(Failure::new(format!(
            "{shown}: is in {name}, but the data server has been started meanwhile: run the command again, so that it serves \
             the target now"
        )));
    }
    Ok(format!(
        "{shown} is in {name}: the data server does not run, and uses the target from its next start on"
    ))
}
