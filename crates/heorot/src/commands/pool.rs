//! `heorot pool …`: pools of storage targets.

use host::size;

use crate::admin::api::{NodeDone, Pool, PoolRequest};
use crate::admin::client::AdminClient;
use crate::cli::PoolCommand;
use crate::cli::table::aligned;
use command_line::Failure;

/// `heorot pool …`.
pub(crate) fn pool(command: &PoolCommand) -> Result<(), Failure> {
    let request = |name: &String, action: &str| PoolRequest {
        name: name.clone(),
        action: action.into(),
        targets: vec![],
        copies: None,
        verify: None,
    };
    let (request, admin) = match command {
        PoolCommand::List { admin, json } => return list(&AdminClient::find(admin)?, *json),
        PoolCommand::Create { name, admin } => (request(name, "create"), admin),
        PoolCommand::Set { name, copies, verify, admin } => {
            (PoolRequest { copies: *copies, verify: verify.clone(), ..request(name, "set") }, admin)
        }
        PoolCommand::Add { name, targets, admin } => {
            (PoolRequest { targets: targets.clone(), ..request(name, "add") }, admin)
        }
        PoolCommand::Remove { name, admin } => (request(name, "remove"), admin),
    };
    let done: NodeDone = AdminClient::find(admin)?.put("/pool", &request)?;
    println!("{}", done.done);
    Ok(())
}

fn list(client: &AdminClient, json: bool) -> Result<(), Failure> {
    let pools: serde_json::Value = client.get("/pools", &[])?;
    if json {
        println!("{pools:#}");
    } else {
        print!("{}", table(&serde_json::from_value::<Vec<Pool>>(pools)?));
    }
    Ok(())
}

fn table(pools: &[Pool]) -> String {
    let mut rows = vec![
        ["pool", "targets", "directories", "copies", "verify", "total", "free", ""]
            .map(String::from)
            .to_vec(),
    ];
    for pool in pools {
        let directories = pool.directories.map_or_else(|| "all others".into(), |count| count.to_string());
        rows.push(vec![
            pool.name.clone(),
            pool.targets.len().to_string(),
            directories,
            pool.copies.to_string(),
            pool.verify.clone(),
            size::show(pool.total_bytes),
            size::show(pool.free_bytes),
            pool.targets.join(" "),
        ]);
    }
    aligned(&rows, 1..=6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_counts_what_uses_a_pool() {
        let pool = |name: &str, targets: &[&str], directories| Pool {
            name: name.into(),
            targets: targets.iter().map(ToString::to_string).collect(),
            directories,
            copies: 2,
            sets_copies: false,
            verify: "read".into(),
            sets_verify: false,
            total_bytes: 100 << 30,
            free_bytes: 60 << 30,
        };
        let expected = "\
pool     targets  directories  copies  verify    total    free
default        2   all others       2    read  100 GiB  60 GiB  ds0:/a ds1:/a
flash          0            3       2    read  100 GiB  60 GiB
";
        let shown = table(&[pool("default", &["ds0:/a", "ds1:/a"], None), pool("flash", &[], Some(3))]);
        assert_eq!(shown, expected);
    }
}
