//! `heorot stripe get`, `heorot stripe set` and `heorot stripe apply`.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::admin::api::{Stripe, StripeApplied, StripeApplyRequest, StripeRequest};
use crate::admin::client::AdminClient;
use crate::cli::StripeCommand;
use command_line::Failure;
use host::size;

/// Interval between two questions of how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// `heorot stripe …`.
pub(crate) fn stripe(command: &StripeCommand) -> Result<(), Failure> {
    let answer: Stripe = match command {
        StripeCommand::Get { path, admin } => AdminClient::find(admin)?.get("/stripe", &[("path", path)])?,
        StripeCommand::Set { path, unit, columns, copies, pool, inherit, admin } => {
            let (path, unit_bytes, columns, copies) = (path.clone(), *unit, *columns, *copies);
            let (inherit, pool) = (*inherit, pool.clone());
            let request = StripeRequest { path, inherit, unit_bytes, columns, copies, pool };
            AdminClient::find(admin)?.put("/stripe", &request)?
        }
        StripeCommand::Apply { path, admin } => return apply(&AdminClient::find(admin)?, path),
    };
    println!("{}", line(&answer));
    Ok(())
}

/// Begins, and waits for the end. Ctrl-C ends the wait only: the metaserver goes on.
fn apply(client: &AdminClient, path: &str) -> Result<(), Failure> {
    let copies = client.get::<Stripe>("/stripe", &[("path", path)])?.copies;
    let mut now: StripeApplied =
        client.put("/stripe/apply", &StripeApplyRequest { path: path.to_string() })?;
    let mut out = std::io::stdout();
    let shows = out.is_terminal();
    while now.is_running {
        if shows {
            write!(out, "\r{}", progress(&now))?;
            out.flush()?;
        }
        std::thread::sleep(LOOK_EVERY);
        let ended = || Failure::new("the metaserver has started again meanwhile; run this again");
        now = client.get::<Option<StripeApplied>>("/stripe/apply", &[])?.ok_or_else(ended)?;
    }
    println!("{}{}", if shows { "\r" } else { "" }, progress(&now));
    conclusion(&now, copies).map_err(Failure::new).map(|said| said.iter().for_each(|line| println!("{line}")))
}

fn progress(now: &StripeApplied) -> String {
    let (path, files, changed) = (&now.path, now.files, now.changed);
    format!("{path}: {files} files looked at, {changed} get copies")
}

/// What there is to say at the end; an error if some files are left.
fn conclusion(now: &StripeApplied, copies: u8) -> Result<Vec<String>, String> {
    if let Some(error) = &now.error {
        return Err(format!("it ended early: {error}. Run it again: it goes on with what is left"));
    }
    if now.left > 0 {
        return Err(format!(
            "{} files stay with fewer copies: they are in use, a data server of theirs is away, or their pool has too few. Run this \
             again",
            now.left
        ));
    }
    let mut said = Vec::new();
    if now.changed > 0 {
        said.push("the copies are being made; heorot status shows how many are still missing".to_string());
    } else if copies == 1 {
        let path = &now.path;
        said.push(format!(
            "new files in {path} have one copy: heorot stripe set {path} --copies 2 comes first"
        ));
    }
    if now.more_copies > 0 {
        said.push(format!(
            "{} files keep more copies than new files have; copy them to change that",
            now.more_copies
        ));
    }
    Ok(said)
}

pub(crate) fn line(stripe: &Stripe) -> String {
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
    let pool = match stripe.pool.as_str() {
        "" | "default" => String::new(),
        pool => format!(" of the pool {pool}"),
    };
    format!("{}: {unit} on each of {columns}{pool}, {copies} ({source})", stripe.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_is_left_to_do() {
        let ended = |changed, left, more_copies, error: Option<&str>| StripeApplied {
            path: "/a".into(),
            is_running: false,
            files: 9,
            changed,
            left,
            more_copies,
            error: error.map(String::from),
        };
        assert_eq!(progress(&ended(2, 0, 0, None)), "/a: 9 files looked at, 2 get copies");
        assert_eq!(conclusion(&ended(0, 0, 0, None), 2), Ok(vec![]));
        let said = |ended: &StripeApplied, copies| conclusion(ended, copies).unwrap().join("\n");
        assert!(said(&ended(2, 0, 0, None), 2).contains("heorot status"));
        assert!(said(&ended(0, 0, 0, None), 1).contains("stripe set /a --copies 2 comes first"));
        assert!(said(&ended(0, 0, 4, None), 2).starts_with("4 files keep more"));
        assert!(conclusion(&ended(2, 3, 0, None), 2).unwrap_err().starts_with("3 files stay"));
        assert!(conclusion(&ended(2, 0, 0, Some("no leader")), 2).unwrap_err().contains("no leader"));
    }

    #[test]
    fn the_answer_says_where_the_policy_comes_from() {
        let stripe = |columns, copies, set_on: Option<&str>| {
            let set_on = set_on.map(String::from);
            let pool = if copies == 3 { "flash" } else { "default" };
            line(&Stripe {
                path: "/a/b".into(),
                unit_bytes: 1 << 20,
                columns,
                copies,
                sets_copies: copies == 3,
                pool: pool.into(),
                set_on,
            })
        };
        assert_eq!(stripe(4, 1, None), "/a/b: 1 MiB on each of 4 targets, 1 copy (the default)");
        assert_eq!(stripe(1, 2, Some("/a/b")), "/a/b: 1 MiB on each of 1 target, 2 copies (set here)");
        assert_eq!(
            stripe(0, 3, Some("/")),
            "/a/b: 1 MiB on each of all targets of the pool flash, 3 copies (inherited from /)"
        );
    }
}
