//! `heorot man` and `heorot completions`: manual pages and shell completions from the command line itself,
//! for packages.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use crate::cli::bench_program::whole_command_line;
use command_line::Failure;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where the pages are written, one for each command; made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// `heorot man`.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::new(format!("{}: {e}; name a directory", args.dir.display()));
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(whole_command_line()?, &args.dir).map_err(failed)?;
    println!("{}: manual pages of heorot and its commands", args.dir.display());
    Ok(())
}

/// `heorot completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut whole_command_line()?, "heorot", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_command_has_a_page_and_each_shell_a_script() {
        let dir = tempfile::tempdir().unwrap();
        man(&ManArgs { dir: dir.path().join("man1") }).unwrap();
        let page = |name: &str| std::fs::read_to_string(dir.path().join("man1").join(name)).unwrap();
        assert!(page("heorot.1").contains("heorot\\-backup(1)"), "{}", page("heorot.1"));
        assert!(page("heorot-node-drain.1").contains("\\-\\-admin"), "{}", page("heorot-node-drain.1"));
        assert!(page("heorot-token.1").contains("heorot\\-token\\-revoke(1)"), "{}", page("heorot-token.1"));
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "heorot", &mut script);
            assert!(String::from_utf8(script).unwrap().contains("service-address"), "{shell}");
        }
    }
}
