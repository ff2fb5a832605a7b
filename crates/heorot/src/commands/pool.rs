//! `heorot pool …`: pools of storage targets.

use host::size;

use crate::admin::api::{NodeDone, Pool, PoolRequest};
use crate::admin::client::AdminClient;
use crate::cli::PoolCommand;
use crate::cli::table::aligned;
use command_line::Failure;

/// `heorot pool …`.
pub(crate) fn pool(command: &PoolCommand) -> Result<(), Failure> {
    let (name, action, targets, admin) = match command {
        PoolCommand::List { admin, json } => return list(&AdminClient::find(admin)?, *json),
        PoolCommand::Create { name, admin } => (name, "create", vec![], admin),
        PoolCommand::Add { name, targets, admin } => (name, "add", targets.clone(), admin),
        PoolCommand::Remove { name, admin } => (name, "remove", vec![], admin),
    };
    let request = PoolRequest { name: name.clone(), action: action.into(), targets };
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
    let mut rows = vec![["pool", "targets", "directories", "total", "free", ""].map(String::from).to_vec()];
    for pool in pools {
        let directories = pool.directories.map_or_else(|| "all others".into(), |count| count.to_string());
        rows.push(vec![
            pool.name.clone(),
            pool.targets.len().to_string(),
            directories,
            size::show(pool.total_bytes),
            size::show(pool.free_bytes),
            pool.targets.join(" "),
        ]);
    }
    aligned(&rows, 1..=4)
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
            total_bytes: 100 << 30,
            free_bytes: 60 << 30,
        };
        let expected = "\
pool     targets  directories    total    free
default        2   all others  100 GiB  60 GiB  ds0:/a ds1:/a
flash          0            3  100 GiB  60 GiB
";
        let shown = table(&[pool("default", &["ds0:/a", "ds1:/a"], None), pool("flash", &[], Some(3))]);
        assert_eq!(shown, expected);
    }
}
