//! `heorot export …`: exported directories, their networks and rules.

use crate::admin::api::{Done, Export, ExportRequest};
use crate::admin::client::AdminClient;
use crate::admin::place::AdminArgs;
use crate::cli::ExportCommand;
use command_line::Failure;

/// `heorot export …`.
pub(crate) fn export(command: &ExportCommand) -> Result<(), Failure> {
    let (action, path, networks, rules, admin) = match command {
        ExportCommand::List { admin, json } => return list(admin, *json),
        ExportCommand::Add { path, networks, rules, admin } => ("add", path, networks, rules.words(), admin),
        ExportCommand::Set { path, networks, rules, admin } => ("set", path, networks, rules.words(), admin),
        ExportCommand::Remove { path, networks, admin } => ("remove", path, networks, String::new(), admin),
    };
    let request = ExportRequest {
        action: action.into(),
        path: path.clone(),
        networks: networks.iter().flatten().map(ToString::to_string).collect(),
        rules,
    };
    let done: Done = AdminClient::find(admin)?.put("/exports", &request)?;
    println!("{}", done.done);
    Ok(())
}

fn list(admin: &AdminArgs, json: bool) -> Result<(), Failure> {
    let exports: serde_json::Value = AdminClient::find(admin)?.get("/exports", &[])?;
    if json {
        println!("{exports:#}");
    } else {
        print!("{}", table(&serde_json::from_value::<Vec<Export>>(exports)?));
    }
    Ok(())
}

fn table(exports: &[Export]) -> String {
    if exports.is_empty() {
        return "nothing is exported: no client can mount; heorot export add exports a directory\n".into();
    }
    let mut rows = vec![["path".to_owned(), "network".to_owned(), "rules".to_owned()]];
    let row = |export: &Export| {
        let note = match &export.exported_as {
            _ if export.gone => " (the directory was removed: heorot export remove ends the export)".into(),
            Some(path) => format!(" (exported as {path}, renamed since)"),
            None => String::new(),
        };
        [format!("{}{note}", export.path), export.network.clone(), export.rules.clone()]
    };
    rows.extend(exports.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (path, network) = (width(0), width(1));
    rows.iter().map(|row| format!("{:<path$}  {:<network$}  {}\n", row[0], row[1], row[2])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_network_of_a_directory() {
        let export = |path: &str, exported_as: Option<&str>, gone| Export {
            path: path.into(),
            network: "10.0.0.0/8".into(),
            rules: "rw,squash=root".into(),
            exported_as: exported_as.map(Into::into),
            gone,
        };
        let exports = [export("/", None, false), export("/a", Some("/b"), false), export("/old", None, true)];
        let expected = "\
path                                                                    network     rules
/                                                                       10.0.0.0/8  rw,squash=root
/a (exported as /b, renamed since)                                      10.0.0.0/8  rw,squash=root
/old (the directory was removed: heorot export remove ends the export)  10.0.0.0/8  rw,squash=root
";
        assert_eq!(table(&exports), expected);
        assert!(table(&[]).starts_with("nothing is exported"));
    }
}
