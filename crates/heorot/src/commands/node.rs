//! `heorot node …` and `heorot leader`: the servers of the cluster.

use crate::admin::api::{Node, NodeDone, NodeRequest};
use crate::admin::client::AdminClient;
use crate::cli::table::aligned;
use crate::cli::{LeaderArgs, NodeCommand, NodeListArgs, Role};
use crate::commands::status::seen;
use cluster::Liveness;
use command_line::Failure;

/// Error of a server that knows no leader.
pub(crate) const NO_LEADER: &str = "no leader: too few metaservers with a vote can be reached";

/// `heorot node …`.
pub(crate) fn node(command: &NodeCommand) -> Result<(), Failure> {
    let (action, args, force) = match command {
        NodeCommand::List(args) => return list(args),
        NodeCommand::Remove { node, force, role } => {
            let role = match role {
                None => "",
                Some(Role::Mds) => "mds",
                Some(Role::Ds) => "ds",
            };
            let (name, force) = (node.name.clone(), *force);
            let request = NodeRequest { name, action: "remove".into(), force, role: role.into() };
            return put(&AdminClient::find(&node.admin)?, &request);
        }
        NodeCommand::Drain(node) => ("drain", node, false),
        NodeCommand::Undrain(node) => ("undrain", node, false),
        NodeCommand::Promote(node) => ("promote", node, false),
        NodeCommand::Demote { node, force } => ("demote", node, *force),
    };
    change(&AdminClient::find(&args.admin)?, &args.name, action, force)
}

/// `heorot leader`.
pub(crate) fn leader(args: &LeaderArgs) -> Result<(), Failure> {
    let client = AdminClient::find(&args.admin)?;
    if let Some(name) = &args.name {
        return change(&client, name, "lead", false);
    }
    let nodes: Vec<Node> = client.get("/nodes", &[])?;
    let leader = nodes.iter().find(|node| node.role == "leader");
    match leader {
        Some(leader) => println!("{}", leader.name),
        None => return Err(Failure::new(NO_LEADER)),
    }
    Ok(())
}

fn change(client: &AdminClient, name: &str, action: &str, force: bool) -> Result<(), Failure> {
    let (name, action, role) = (name.into(), action.into(), String::new());
    put(client, &NodeRequest { name, action, force, role })
}

fn put(client: &AdminClient, request: &NodeRequest) -> Result<(), Failure> {
    let done: NodeDone = client.put("/node", request)?;
    println!("{}", done.done);
    Ok(())
}

fn list(args: &NodeListArgs) -> Result<(), Failure> {
    let nodes: serde_json::Value = AdminClient::find(&args.admin)?.get("/nodes", &[])?;
    if args.json {
        println!("{nodes:#}");
    } else {
        print!("{}", table(&serde_json::from_value::<Vec<Node>>(nodes)?));
    }
    Ok(())
}

/// Table of servers, without removed ones, which only `--json` shows.
fn table(nodes: &[Node]) -> String {
    let headings =
        ["name", "role", "address", "state", "version", "seen", "applied", "lag", "service addresses"];
    let mut rows = vec![headings.map(String::from).to_vec()];
    rows.extend(nodes.iter().filter(|node| node.state != "removed").map(row));
    aligned(&rows, 5..=7)
}

fn row(node: &Node) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or_else(|| "-".into(), |n| n.to_string());
    let said = |text: &str| if text.is_empty() { "-".into() } else { text.to_owned() };
    let state = match (node.liveness, node.state.as_str()) {
        (Liveness::Silent, "serving") => "silent".into(),
        (Liveness::Silent, state) => format!("{state}, silent"),
        (Liveness::Unknown, "serving") => "unknown".into(),
        (_, state) => state.to_owned(),
    };
    vec![
        said(&node.name),
        node.role.clone(),
        said(&node.address),
        state,
        said(&node.version),
        seen(node.seen_ms),
        number(node.applied),
        number(node.lag),
        node.service_addresses.join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_who_is_there_and_not_who_was() {
        let node = |name: &str, role: &str, state: &str, addresses: &[&str]| Node {
            id: "0000000000000001".into(),
            name: name.into(),
            role: role.into(),
            address: "10.0.0.1:2049".into(),
            state: state.into(),
            version: "0.1.0".into(),
            liveness: Liveness::Alive,
            seen_ms: Some(40),
            applied: (role != "data server").then_some(1234),
            lag: (role != "data server").then_some(0),
            service_addresses: addresses.iter().map(ToString::to_string).collect(),
            objects: None,
        };
        let nodes = [
            node("mds1", "leader", "serving", &["10.0.0.100", "10.0.0.101"]),
            node("mds2", "voter", "removed", &[]),
            Node {
                seen_ms: Some(61_000),
                liveness: Liveness::Silent,
                ..node("ds1", "data server", "serving", &[])
            },
        ];
        let expected = "\
name  role         address        state    version   seen  applied  lag  service addresses
mds1  leader       10.0.0.1:2049  serving  0.1.0    0.0 s     1234    0  10.0.0.100 10.0.0.101
ds1   data server  10.0.0.1:2049  silent   0.1.0     61 s        -    -
";
        assert_eq!(table(&nodes), expected);
    }
}
