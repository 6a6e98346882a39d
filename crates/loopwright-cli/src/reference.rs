//! The pages of reference: what can be typed, and what can be configured.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory as _};

use crate::args::Cli;
use crate::config::{Config, ConfigSources, Flags, KEYS, Key, Loaded};
use crate::settings::rows;

/// Writes the page of everything that can be typed.
pub fn cli() -> String {
    let mut program = Cli::command();
    program.build();
    let mut page = "# The command line\n\nThis page is generated from the program. `--help` \
        shows the same text for each command, and `loopwright man` writes manual pages.\n"
        .to_owned();
    command(&program, "loopwright", &mut page);
    page
}

fn command(command_: &Command, name: &str, page: &mut String) {
    let mut this = command_.clone();
    let about = this.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = this.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().replace("\n       ", "\n");
    // Writing into memory does not fail.
    write!(page, "\n## `{name}`\n\n{about}.\n\n```text\n{usage}\n```\n").ok();
    let subcommands: Vec<&Command> =
        command_.get_subcommands().filter(|it| it.get_name() != "help").collect();
    if !subcommands.is_empty() {
        page.push_str("\n| command | description |\n|---|---|\n");
        for it in &subcommands {
            let about = it.get_about().map(ToString::to_string).unwrap_or_default();
            let link = format!("{name} {}", it.get_name()).replace(' ', "-");
            writeln!(page, "| [`{}`](#{link}) | {} |", it.get_name(), cell(&about)).ok();
        }
    }
    arguments(command_, name, page);
    if let Some(after) = command_.get_after_help() {
        write!(page, "\n```text\n{after}\n```\n").ok();
    }
    for it in subcommands {
        command(it, &format!("{name} {}", it.get_name()), page);
    }
}

fn arguments(command: &Command, name: &str, page: &mut String) {
    let is_root = name == "loopwright";
    let is_shown = |it: &&Arg| {
        let is_standard = matches!(it.get_id().as_str(), "help" | "version");
        !it.is_hide_set() && !is_standard && (is_root || !it.is_global_set())
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(is_shown).collect();
    if arguments.is_empty() {
        return;
    }
    page.push_str("\n| argument | description |\n|---|---|\n");
    for it in arguments {
        writeln!(page, "| {} | {} |", cell(&typed(it)), cell(&meaning(it))).ok();
    }
}

/// Writes an argument as it is typed.
fn typed(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let value: Vec<String> = names.iter().map(|it| format!("<{it}>")).collect();
    let value = if takes_value { value.join(" ") } else { String::new() };
    let short = argument.get_short().map(|it| format!("-{it}"));
    let long = argument.get_long().map(|it| format!("--{it}"));
    let names = [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ");
    format!("`{}`", format!("{names} {value}").trim())
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let possible = argument.get_possible_values();
    if !possible.is_empty() && argument.get_action().takes_values() {
        let names: Vec<String> = possible.iter().map(|it| format!("`{}`", it.get_name())).collect();
        write!(text, ": {}", names.join(", ")).ok();
    }
    let default = argument.get_default_values();
    if !default.is_empty() && argument.get_action().takes_values() {
        let default = default.iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(", ");
        write!(text, " [default: {default}]").ok();
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Writes the page of everything that can be configured.
pub fn config() -> String {
    let mut page = "# The configuration\n\n\
        This page is generated from the program. For each key, the source with the highest precedence applies: options, \
        variables, `loopwright.toml` of the project (the nearest one above the working directory, within the \
        repository), `~/.config/loopwright/config.toml`, the default. `loopwright config show` shows each value in effect and \
        its source.\n\n\
        Files never contain API keys or other secrets: `env:NAME` refers to an environment variable that contains the secret. A project file \
        cannot set keys marked \"user only\", because a repository must not control them.\n"
        .to_owned();
    let defaults = defaults();
    let mut table = None;
    for key in KEYS {
        if table != Some(key.table()) {
            table = Some(key.table());
            let title = match key.table() {
                "" => "Top level".to_owned(),
                table => format!("`[{table}]`"),
            };
            write!(
                page,
                "\n## {title}\n\n| key | description | value | default | option | variable \
                    |\n|---|---|---|---|---|---|\n"
            )
            .ok();
        }
        setting(key, defaults.get(key.name).map(String::as_str), &mut page);
    }
    page
}

fn setting(key: &Key, default: Option<&str>, page: &mut String) {
    let only = if key.is_users() { " (user only)" } else { "" };
    let code = |text: Option<&str>| text.map_or("–".to_owned(), |it| format!("`{it}`"));
    let example = format!("{}: `{}`", key.expected, key.example);
    writeln!(
        page,
        "| `{}` | {}{only} | {} | {} | {} | {} |",
        key.last(),
        cell(key.means),
        cell(&example),
        default.map_or("–".to_owned(), cell),
        code(key.option),
        code(key.variable),
    )
    .ok();
}

/// What holds by default, as it reads in anybody's home.
fn defaults() -> BTreeMap<String, String> {
    let sources = ConfigSources {
        cwd: "/".into(),
        home: Some(PathBuf::from("~")),
        ..ConfigSources::default()
    };
    let flags = Flags { workdir: "/".into(), ..Flags::default() };
    let Ok(Loaded { config, .. }) = Config::load(flags, &sources) else { return BTreeMap::new() };
    let set = rows(&config, &sources).into_iter();
    set.filter_map(|row| Some((row.key, row.value?))).collect()
}
