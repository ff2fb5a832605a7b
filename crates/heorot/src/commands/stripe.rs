//! `heorot stripe get` and `heorot stripe set`.

use crate::admin::api::{Stripe, StripeRequest};
use crate::admin::client::AdminClient;
use crate::cli::StripeCommand;
use command_line::Failure;
use host::size;

/// `heorot stripe …`.
pub(crate) fn stripe(command: &StripeCommand) -> Result<(), Failure> {
    let answer: Stripe = match command {
        StripeCommand::Get { path, admin } => AdminClient::find(admin)?.get("/stripe", &[("path", path)])?,
        StripeCommand::Set { path, unit, columns, copies, inherit, admin } => {
            let (path, unit_bytes, columns, copies) = (path.clone(), *unit, *columns, *copies);
            let request = StripeRequest { path, inherit: *inherit, unit_bytes, columns, copies };
            AdminClient::find(admin)?.put("/stripe", &request)?
        }
    };
    println!("{}", line(&answer));
    Ok(())
}

fn line(stripe: &Stripe) -> String {
    let columns = match stripe.columns {
        0 => "all targets".to_string(),
        1 => "1 target".to_string(),
        n => format!("{n} targets"),
    };
    let source = match &stripe.set_on {
        None => "the default".to_string(),
        Some(dir) if *dir == stripe.path => "set here".to_string(),
        Some(dir) => format!("inherited from {dir}"),
    };
    let copies = match stripe.copies {
        1 => "1 copy".to_string(),
        n => format!("{n} copies"),
    };
    let unit = size::show(stripe.unit_bytes.into());
    format!("{}: {unit} on each of {columns}, {copies} ({source})", stripe.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_says_where_the_policy_comes_from() {
        let stripe = |columns, copies, set_on: Option<&str>| {
            let set_on = set_on.map(String::from);
            line(&Stripe { path: "/a/b".into(), unit_bytes: 1 << 20, columns, copies, set_on })
        };
        assert_eq!(stripe(4, 1, None), "/a/b: 1 MiB on each of 4 targets, 1 copy (the default)");
        assert_eq!(stripe(1, 2, Some("/a/b")), "/a/b: 1 MiB on each of 1 target, 2 copies (set here)");
        assert_eq!(
            stripe(0, 3, Some("/")),
            "/a/b: 1 MiB on each of all targets, 3 copies (inherited from /)"
        );
    }
}
