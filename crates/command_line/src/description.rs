//! Description of a command line as data, so that one program can make manual pages and completions of
//! another program's commands: `heorot` reads the description of `heorot bench` and `heorot model` from
//! `heorot-bench`.

use std::collections::BTreeMap;

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command, ValueHint};
use serde::{Deserialize, Serialize};

/// Description of one command and its subcommands.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    name: String,
    about: Option<String>,
    long_about: Option<String>,
    is_hidden: bool,
    needs_command: bool,
    needs_argument: bool,
    arguments: Vec<Argument>,
    commands: Vec<Description>,
}

/// Description of one option or positional argument.
#[derive(Debug, Serialize, Deserialize)]
struct Argument {
    id: String,
    short: Option<char>,
    long: Option<String>,
    help: Option<String>,
    long_help: Option<String>,
    heading: Option<String>,
    value_names: Vec<String>,
    takes_value: bool,
    takes_many: bool,
    is_path: bool,
    is_required: bool,
    is_hidden: bool,
    /// Minimal and maximal number of values.
    value_count: Option<(usize, usize)>,
    /// Ids of the arguments that it excludes.
    conflicts: Vec<String>,
    defaults: Vec<String>,
    /// Each value with its help.
    values: Vec<(String, Option<String>)>,
}

impl Description {
    /// Describes `command`, whose subcommands may not have been built yet.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        let text = |styled: Option<&clap::builder::StyledStr>| styled.map(ToString::to_string);
        Self {
            name: command.get_name().to_owned(),
            about: text(command.get_about()),
            long_about: text(command.get_long_about()),
            is_hidden: command.is_hide_set(),
            needs_command: command.is_subcommand_required_set(),
            needs_argument: command.is_arg_required_else_help_set(),
            arguments: command.get_arguments().map(|arg| Argument::of(arg, command)).collect(),
            commands: command.get_subcommands().map(Self::of).collect(),
        }
    }

    /// Returns the descriptions of the commands directly below this one, by name.
    #[must_use]
    pub fn into_commands(self) -> BTreeMap<String, Self> {
        self.commands.into_iter().map(|command| (command.name.clone(), command)).collect()
    }

    /// Makes a command with the same help; it checks no values.
    #[must_use]
    pub fn into_command(self) -> Command {
        let mut command = Command::new(self.name)
            .hide(self.is_hidden)
            .subcommand_required(self.needs_command)
            .arg_required_else_help(self.needs_argument);
        if let Some(about) = self.about {
            command = command.about(about);
        }
        if let Some(about) = self.long_about {
            command = command.long_about(about);
        }
        command
            .args(self.arguments.into_iter().map(Argument::into_arg))
            .subcommands(self.commands.into_iter().map(Self::into_command))
    }
}

impl Argument {
    fn of(arg: &Arg, command: &Command) -> Self {
        let text = |styled: Option<&clap::builder::StyledStr>| styled.map(ToString::to_string);
        let takes_value = arg.get_action().takes_values();
        let values = if takes_value { arg.get_possible_values() } else { vec![] };
        Self {
            id: arg.get_id().to_string(),
            short: arg.get_short(),
            long: arg.get_long().map(str::to_owned),
            help: text(arg.get_help()),
            long_help: text(arg.get_long_help()),
            heading: arg.get_help_heading().map(str::to_owned),
            value_names: arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect(),
            takes_value,
            takes_many: matches!(arg.get_action(), ArgAction::Append | ArgAction::Count),
            is_path: arg.get_value_hint() == ValueHint::AnyPath,
            is_required: arg.is_required_set(),
            is_hidden: arg.is_hide_set(),
            value_count: arg.get_num_args().map(|count| (count.min_values(), count.max_values())),
            conflicts: command
                .get_arg_conflicts_with(arg)
                .iter()
                .map(|other| other.get_id().to_string())
                .collect(),
            defaults: arg.get_default_values().iter().map(|d| d.to_string_lossy().into_owned()).collect(),
            values: values
                .iter()
                .map(|v| (v.get_name().to_owned(), v.get_help().map(ToString::to_string)))
                .collect(),
        }
    }

    fn into_arg(self) -> Arg {
        let action = match (self.takes_value, self.takes_many) {
            (true, false) => ArgAction::Set,
            (true, true) => ArgAction::Append,
            (false, false) => ArgAction::SetTrue,
            (false, true) => ArgAction::Count,
        };
        let mut arg = Arg::new(self.id)
            .action(action)
            .required(self.is_required)
            .hide(self.is_hidden)
            .conflicts_with_all(self.conflicts);
        if let Some(short) = self.short {
            arg = arg.short(short);
        }
        if let Some(long) = self.long {
            arg = arg.long(long);
        }
        if let Some(help) = self.help {
            arg = arg.help(help);
        }
        if let Some(help) = self.long_help {
            arg = arg.long_help(help);
        }
        if let Some(heading) = self.heading {
            arg = arg.help_heading(heading);
        }
        if self.takes_value {
            arg = arg.value_names(self.value_names).default_values(self.defaults);
            if let Some((least, greatest)) = self.value_count {
                arg = arg.num_args(least..=greatest);
            }
            if self.is_path {
                arg = arg.value_hint(ValueHint::AnyPath);
            }
            if !self.values.is_empty() {
                let value = |(name, help): (String, Option<String>)| match help {
                    Some(help) => PossibleValue::new(name).help(help),
                    None => PossibleValue::new(name),
                };
                arg = arg.value_parser(self.values.into_iter().map(value).collect::<Vec<_>>());
            }
        }
        arg
    }
}
