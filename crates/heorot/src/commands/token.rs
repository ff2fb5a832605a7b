//! `heorot token`: makes, lists and revokes join tokens. Also reads the token for `heorot join`, never from
//! the command line, which every user of a machine can see.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use host::{private, time};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use wire::join::Token;

use crate::admin::api::{JoinToken, JoinTokenRequest, NewJoinToken, NodeDone};
use crate::admin::client::AdminClient;
use crate::admin::place::AdminArgs;
use command_line::Failure;

/// Maximal length of a token file; a token has 104 bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;
/// Value of `--token-file` for standard input.
const STANDARD_INPUT: &str = "-";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: Option<TokenCommand>,
    #[command(flatten)]
    new: TokenNewArgs,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token, which lets one machine in, once
    New(TokenNewArgs),
    /// Show the tokens that have not ended: ids, ends, and the machines that were let in
    List {
        #[command(flatten)]
        admin: AdminArgs,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// End a token
    Revoke {
        /// Its id, as heorot token list shows it
        id: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Debug, Args)]
struct TokenNewArgs {
    /// For how long it is good, such as 30m, 24h or 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = time::parse)]
    valid: Duration,
    /// Write it to a file that only its owner can read, not to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// `heorot token`.
pub(crate) fn token(args: &TokenArgs) -> Result<(), Failure> {
    match &args.command {
        None => new(&args.new),
        Some(TokenCommand::New(args)) => new(args),
        Some(TokenCommand::List { admin, json }) => list(admin, *json),
        Some(TokenCommand::Revoke { id, admin }) => {
            let done: NodeDone = AdminClient::find(admin)?.delete("/tokens", &[("id", id)])?;
            println!("{}", done.done);
            Ok(())
        }
    }
}

fn new(args: &TokenNewArgs) -> Result<(), Failure> {
    let request = JoinTokenRequest { valid_seconds: args.valid.as_secs() };
    let made: NewJoinToken = AdminClient::find(&args.admin)?.put("/tokens", &request)?;
    let Some(file) = &args.out else {
        println!("{}", made.token);
        return Ok(());
    };
    let shown = file.display();
    let written = private::create(file).and_then(|mut out| writeln!(out, "{}", made.token));
    written.map_err(|e| {
        Failure::new(format!("{shown}: cannot be written: {e}; heorot token revoke {} ends it", made.id))
    })?;
    println!("{shown}: join token {}, for one machine, within {}", made.id, left(made.expires, now_s()));
    Ok(())
}

fn list(admin: &AdminArgs, json: bool) -> Result<(), Failure> {
    let tokens: serde_json::Value = AdminClient::find(admin)?.get("/tokens", &[])?;
    if json {
        println!("{tokens:#}");
    } else {
        print!("{}", table(&serde_json::from_value::<Vec<JoinToken>>(tokens)?, now_s()));
    }
    Ok(())
}

fn table(tokens: &[JoinToken], now: u64) -> String {
    let row = |token: &JoinToken| {
        let used = token.used_by.as_ref().map_or_else(|| "unused".into(), |name| format!("let {name} in"));
        format!("{}  {:>10}  {used}\n", token.id, left(token.expires, now))
    };
    format!("{:<16}  {:>10}  state\n{}", "id", "ends in", tokens.iter().map(row).collect::<String>())
}

fn left(expires: u64, now: u64) -> String {
    time::show_rounded(Duration::from_secs(expires.saturating_sub(now)))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Reads a join token from a file, from standard input, or from the terminal.
pub(crate) fn read(file: &Path) -> Result<Token, Failure> {
    let text = if file == Path::new(STANDARD_INPUT) { of_standard_input() } else { of_file(file) };
    let text = text.map_err(|e| {
        Failure::new(format!(
            "{}: the join token cannot be read: {e}; name a file with the token that heorot token printed",
            file.display()
        ))
    })?;
    Ok(text.parse::<Token>()?)
}

fn of_file(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(file)?.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn of_standard_input() -> io::Result<String> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return prompted(&stdin);
    }
    let mut text = String::new();
    stdin.lock().take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads a line from the terminal without echo.
fn prompted(stdin: &io::Stdin) -> io::Result<String> {
    eprint!("join token (heorot token on a node prints it): ");
    let shown = tcgetattr(stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(stdin, OptionalActions::Flush, &hidden)?;
    let mut text = String::new();
    let read = stdin.lock().read_line(&mut text);
    tcsetattr(stdin, OptionalActions::Now, &shown)?;
    eprintln!();
    read.map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_what_lives_and_who_came_in() {
        let token = |used_by: Option<&str>, expires| JoinToken {
            id: "00000000000000ab".into(),
            made: 0,
            expires,
            used_by: used_by.map(String::from),
        };
        let expected = "\
id                   ends in  state
00000000000000ab  23 h 1 min  unused
00000000000000ab        59 s  let elm in
";
        let tokens = [token(None, 1000 + 23 * 3600 + 60), token(Some("elm"), 1059)];
        assert_eq!(table(&tokens, 1000), expected);
    }
}
