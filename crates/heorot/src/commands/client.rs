//! `heorot client …`.

use std::time::Duration;

use host::time;

use crate::admin::api::Client;
use crate::admin::client::AdminClient;
use crate::cli::ClientCommand;
use crate::cli::table::aligned;
use command_line::Failure;

/// `heorot client …`.
pub(crate) fn client(command: &ClientCommand) -> Result<(), Failure> {
    let ClientCommand::List { admin, json } = command;
    let clients: serde_json::Value = AdminClient::find(admin)?.get("/clients", &[])?;
    if *json {
        println!("{clients:#}");
    } else {
        print!("{}", table(&serde_json::from_value::<Vec<Client>>(clients)?));
    }
    Ok(())
}

fn table(clients: &[Client]) -> String {
    let head = ["address", "sessions", "opens", "locks", "layouts", "read del.", "write del.", "name", ""];
    let mut rows = vec![head.map(String::from).to_vec()];
    for client in clients {
        let more = match client.addresses.len() {
            0 | 1 => String::new(),
            all => format!(" +{}", all - 1),
        };
        let address = client.addresses.first().map_or("-", |first| first);
        let silent = client.silent_seconds.map(|seconds| time::show_rounded(Duration::from_secs(seconds)));
        rows.push(vec![
            format!("{address}{more}"),
            client.sessions.to_string(),
            client.opens.to_string(),
            client.locks.to_string(),
            client.layouts.to_string(),
            client.read_delegations.to_string(),
            client.write_delegations.to_string(),
            client.owner.clone(),
            silent.map_or(String::new(), |silent| {
                format!("lease ran out {silent} ago: has this until others want it")
            }),
        ]);
    }
    aligned(&rows, 1..=6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_each_client_has() {
        let of = |addresses: &[&str]| addresses.iter().map(ToString::to_string).collect();
        let ash = Client {
            owner: "Linux NFSv4.2 ash".into(),
            addresses: of(&["10.0.0.7", "10.0.1.7"]),
            sessions: 1,
            opens: 12,
            write_delegations: 300,
            ..Client::default()
        };
        let elm = Client {
            owner: "Linux NFSv4.1 elm".into(),
            addresses: of(&["10.0.0.8"]),
            silent_seconds: Some(180),
            locks: 2,
            ..Client::default()
        };
        let expected = "\
address      sessions  opens  locks  layouts  read del.  write del.  name
10.0.0.7 +1         1     12      0        0          0         300  Linux NFSv4.2 ash
10.0.0.8            0      0      2        0          0           0  Linux NFSv4.1 elm  lease ran out 3 min ago: has this until others want it
";
        let squeezed = |text: &str| {
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&table(&[ash, elm])), squeezed(expected));
    }
}
