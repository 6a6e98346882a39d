//! The command `sandbox explain`, which lists what commands can access in a folder.

mod arguments;

use std::env::split_paths;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use loopwright_capabilities::bash::BashPolicy;
use loopwright_sandbox::Author;
use loopwright_sandbox::transaction::staging_for;
use loopwright_sandbox::{
    Backend, BackendChoice, Network, ResolvedPath, SandboxPolicy, Withheld, is_system_path,
};

use crate::commands::Commands;
use crate::config::{Bytes, Config, ConfigSources};
use crate::permissions::RunPermissions;
use crate::project::{plain, shown};
use crate::render::sanitize_terminal;

/// Says it in lines of a name and what it stands for.
pub(crate) fn explain(config: &Config, sources: &ConfigSources, command: &[OsString]) -> String {
    let mut commands = Commands::of(config, sources);
    if let Ok(permissions) = RunPermissions::of(config, sources) {
        commands = commands.under(&permissions.policy());
        commands = commands.with_hook_files(permissions.hook_files());
    }
    let policy = commands.extend(SandboxPolicy::in_dir(&config.workdir));
    let home = sources.home.as_deref();
    let short = |path: &PathBuf| plain(Path::new(&shown(path, Path::new("/dev/null"), home)));
    let list = |paths: &[PathBuf]| paths.iter().map(short).collect::<Vec<_>>();
    let mut text = String::new();
    let mut row = |name: &str, lines: Vec<String>| {
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            writeln!(text, "{name:<13} {line}").ok();
        }
    };
    row("folder", vec![short(&policy.workdir)]);
    row("changes", vec![changes(&policy)]);
    row("confined by", vec![confined(policy.backend).to_owned()]);
    row(
        "reads",
        [vec!["the system's programs and libraries".to_owned()], list(&policy.read_paths)].concat(),
    );
    row("writes", list(&policy.write_paths));
    let needs = policy.hidden_needs();
    let hidden = |path: &PathBuf| {
        let note = if needs.contains(path) { ": programs cannot start without it" } else { "" };
        format!("{}{note}", short(path))
    };
    // What is not shown needs no word.
    let would_be_shown = |it: &&PathBuf| policy.shows(it) || is_system_path(it);
    row("hidden", policy.hidden.iter().filter(would_be_shown).map(hidden).collect());
    // What is protected in each folder is in the documentation; here are the paths of this one.
    let protected = policy.protected.iter().filter(|it| it.is_absolute() && policy.shows(it));
    row("protected", protected.map(short).collect());
    row("immediate", list(&policy.direct));
    row("may change", commands.allowed().to_vec());
    row("cache", policy.cache.iter().map(short).collect());
    let copied = policy.copied_caches.iter();
    let copied = copied.map(|it| format!("{}: changes in {}", short(&it.folder), short(&it.layer)));
    row("copied caches", copied.collect());
    let found = commands.toolchains.found.iter();
    row("toolchains", found.map(|(name, root)| format!("{name}: {}", short(root))).collect());
    let path = policy.environment.values.get("PATH").map_or("", String::as_str);
    row("PATH", path.split(':').map(|it| short(&it.into())).collect());
    row("commits as", vec![author(&commands.author)]);
    row("network", network(&policy.network));
    row("limits", vec![limits(&policy, &commands)]);
    if let Some((command, rest)) = command.split_first() {
        let found = program(command, &policy, sources.environment.get("PATH"), &short);
        row("program", vec![format!("{}: {found}", plain(Path::new(command)))]);
        row("arguments", arguments::describe(rest, &commands, &policy));
    }
    text
}

fn network(network: &Network) -> Vec<String> {
    match network {
        Network::Off => vec!["none".to_owned()],
        Network::Loopback => vec!["only a private loopback interface".to_owned()],
        Network::Domains(hosts) => hosts.iter().map(ToString::to_string).collect(),
        Network::Host => vec!["the network of this machine".to_owned()],
    }
}

fn changes(policy: &SandboxPolicy) -> String {
    if policy.backend == BackendChoice::Only(Backend::Host) {
        return "applied immediately".to_owned();
    }
    let is_discarded = policy.discards_changes();
    match staging_for(&policy.workdir) {
        Ok(_) if is_discarded => "discarded when a command exits".to_owned(),
        Err(reason) if is_discarded => {
            format!(
                "none: commands can only read, because {}",
                sanitize_terminal(&reason.to_string())
            )
        }
        Ok(place) => format!("staged in {}, applied when a command exits", plain(&place)),
        Err(reason) => {
            format!("applied immediately, because {}", sanitize_terminal(&reason.to_string()))
        }
    }
}

fn confined(driver: BackendChoice) -> &'static str {
    match driver {
        BackendChoice::Auto => "the strongest sandbox backend that works",
        BackendChoice::Only(Backend::Host) => "no sandbox: commands have your permissions",
        BackendChoice::Only(backend) => backend.name(),
    }
}

fn author(author: &Author) -> String {
    match (&author.name, &author.email) {
        (Some(name), Some(email)) => plain(Path::new(&format!("{name} <{email}>"))),
        _ => "unset: git has no user name or email address".to_owned(),
    }
}

fn limits(policy: &SandboxPolicy, commands: &Commands) -> String {
    let (limits, longest) = (&policy.limits, commands.longest());
    let usual = BashPolicy::default().timeout.min(longest);
    format!(
        "{} MiB of memory, {} processes, {} per file, {} MiB in /tmp, {} s by default, at most {} s",
        limits.memory >> 20,
        limits.processes,
        Bytes(limits.file_size),
        limits.scratch >> 20,
        usual.as_secs_f64(),
        longest.as_secs_f64(),
    )
}

/// Says where a command finds a program. `user_path` is the `PATH` outside of the sandbox.
fn program(
    command: &OsStr,
    policy: &SandboxPolicy,
    user_path: Option<&OsString>,
    short: &dyn Fn(&PathBuf) -> String,
) -> String {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let mut places: Vec<PathBuf> = if command.to_string_lossy().contains('/') {
        vec![policy.workdir.clone()]
    } else {
        let path = policy.environment.values.get("PATH").map_or("", String::as_str);
        split_paths(path).chain(user_path.into_iter().flat_map(split_paths)).collect()
    };
    for place in &mut places {
        place.push(command);
    }
    let followed = policy.clone().with_links_followed();
    let mut found = places.into_iter().filter(is_program).peekable();
    let outside = found.peek().cloned();
    match (found.find(|it| is_seen(it, &followed)), outside) {
        (Some(path), _) => short(&path),
        (None, Some(path)) => format!("not visible to commands: {}", short(&path)),
        (None, None) => "not found".to_owned(),
    }
}

/// Returns `true` if commands see a path, the links on the way, and what they lead to.
fn is_seen(path: &Path, policy: &SandboxPolicy) -> bool {
    let is_shown = |it: &PathBuf| is_system_path(it) || policy.shows(it);
    let resolved = ResolvedPath::of(path);
    let is_hidden = |it: &Path| policy.withheld(it) == Some(Withheld::Hidden);
    resolved.into_all().all(|it| is_shown(&it) && !is_hidden(&it))
}
