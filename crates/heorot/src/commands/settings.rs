//! `heorot set`, `heorot get` and `heorot service-address …`: settings of the whole cluster.

use crate::admin::api::{Done, ServiceAddress, ServiceAddressRequest, Setting, SettingRequest};
use crate::admin::client::AdminClient;
use crate::cli::{GetArgs, ServiceAddressCommand, SetArgs};
use command_line::Failure;

/// `heorot set`.
pub(crate) fn set(args: &SetArgs) -> Result<(), Failure> {
    let request = SettingRequest { key: args.key.clone(), value: args.value.clone() };
    let setting: Setting = AdminClient::find(&args.admin)?.put("/settings", &request)?;
    println!("{} = {}", setting.key, setting.value);
    Ok(())
}

/// `heorot get`.
pub(crate) fn get(args: &GetArgs) -> Result<(), Failure> {
    let mut settings: Vec<Setting> = AdminClient::find(&args.admin)?.get("/settings", &[])?;
    if let Some(key) = &args.key {
        let keys: Vec<_> = settings.iter().map(|setting| setting.key.clone()).collect();
        settings.retain(|setting| setting.key == *key);
        if settings.is_empty() {
            return Err(Failure::new(format!("there is no setting {key:?}; there are {}", keys.join(", "))));
        }
    }
    match (args.json, &args.key) {
        (true, _) => println!("{:#}", serde_json::to_value(&settings)?),
        (false, Some(_)) => settings.iter().for_each(|setting| println!("{}", setting.value)),
        (false, None) => print!("{}", table(&settings)),
    }
    Ok(())
}

fn table(settings: &[Setting]) -> String {
    let width = |of: fn(&Setting) -> &str| settings.iter().map(|s| of(s).chars().count()).max().unwrap_or(0);
    let (key, value) = (width(|s| &s.key), width(|s| shown(&s.value)));
    let row = |s: &Setting| format!("{:<key$}  {:<value$}  {}\n", s.key, shown(&s.value), s.about);
    settings.iter().map(row).collect()
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "-" } else { value }
}

/// `heorot service-address …`.
pub(crate) fn service_address(command: &ServiceAddressCommand) -> Result<(), Failure> {
    let (action, address, admin) = match command {
        ServiceAddressCommand::List { admin, json } => {
            let all: Vec<ServiceAddress> = AdminClient::find(admin)?.get("/service-addresses", &[])?;
            if *json {
                println!("{:#}", serde_json::to_value(&all)?);
            } else {
                let holder =
                    |service: &ServiceAddress| service.holder.clone().unwrap_or_else(|| "nobody".into());
                all.iter().for_each(|service| println!("{}  {}", service.address, holder(service)));
            }
            return Ok(());
        }
        ServiceAddressCommand::Add { address, admin } => ("add", address, admin),
        ServiceAddressCommand::Remove { address, admin } => ("remove", address, admin),
    };
    let request = ServiceAddressRequest { action: action.into(), address: address.to_string() };
    let done: Done = AdminClient::find(admin)?.put("/service-addresses", &request)?;
    println!("{}", done.done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_every_setting_with_what_it_does() {
        let setting = |key: &str, value: &str| Setting {
            key: key.into(),
            value: value.into(),
            default: String::new(),
            about: format!("About {key}."),
        };
        let expected = "lease         30s  About lease.\nowner_domain  -    About owner_domain.\n";
        assert_eq!(table(&[setting("lease", "30s"), setting("owner_domain", "")]), expected);
    }
}
