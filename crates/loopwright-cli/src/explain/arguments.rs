//! What commands can do with the paths and hosts among their arguments, and why not more.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use loopwright_sandbox::{
    Backend, BackendChoice, Network, ResolvedPath, SandboxPolicy, Withheld, WorkdirAccess,
    is_system_path,
};

use crate::commands::Commands;
use crate::project::plain;

/// Folders in which a command has content of its own.
const OWN: [&str; 4] = ["/tmp", "/dev", "/proc", "/sys"];

/// Ports of addresses that name none.
const PORTS: [(&str, u16); 5] =
    [("https", 443), ("http", 80), ("ssh", 22), ("git", 9418), ("git+ssh", 22)];

/// An argument that names something that a command may not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Path(PathBuf),
    Host { name: String, port: u16 },
}

/// Describes each argument that names a path or a host.
pub(super) fn describe(
    arguments: &[OsString],
    commands: &Commands,
    policy: &SandboxPolicy,
) -> Vec<String> {
    if policy.backend == BackendChoice::Only(Backend::Host) {
        return Vec::new();
    }
    let policy = policy.clone().with_links_followed();
    let describe = |argument: &OsString| {
        let verdict = match named(argument, &policy, commands.home.as_deref())? {
            Named::Path(path) => path_verdict(&path, commands, &policy),
            Named::Host { name, port } => host_verdict(&name, port, &policy.network),
        };
        Some(format!("{}: {verdict}", plain(Path::new(argument))))
    };
    arguments.iter().filter_map(describe).collect()
}

/// Reads an argument. `None` means that it names neither a path nor a host, as far as can be seen.
fn named(argument: &OsStr, policy: &SandboxPolicy, home: Option<&Path>) -> Option<Named> {
    let text = argument.to_str()?;
    // The value of an option, such as `--file=PATH`.
    let text = match text.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => text,
    };
    let host = host(text);
    if host.is_some() || text.contains("://") || text.is_empty() || text.starts_with('-') {
        return host;
    }
    let path = match (text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => policy.workdir.join(text),
    };
    (text.contains('/') || path.symlink_metadata().is_ok()).then_some(Named::Path(path))
}

/// Reads a URL, or an address as git and ssh write it: `USER@HOST:PATH`.
fn host(text: &str) -> Option<Named> {
    let Some((scheme, rest)) = text.split_once("://") else {
        let (user, rest) = text.split_once('@')?;
        let (name, _) = rest.split_once(':')?;
        let is_host = !user.contains('/') && name.contains('.') && !name.contains('/');
        return is_host.then(|| Named::Host { name: name.to_ascii_lowercase(), port: 22 });
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let place = authority.rsplit('@').next()?;
    let usual = PORTS.iter().find(|(name, _)| *name == scheme).map(|(_, port)| *port);
    let (name, port) = match place.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (place, usual),
    };
    let name = name.trim_matches(['[', ']']).to_ascii_lowercase();
    (!name.is_empty()).then_some(Named::Host { name, port: port? })
}

fn host_verdict(name: &str, port: u16, network: &Network) -> String {
    let is_own = matches!(name, "localhost" | "127.0.0.1" | "::1");
    match network {
        Network::Host => "reachable".to_owned(),
        Network::Off => "not reachable: commands have no network".to_owned(),
        _ if is_own => "reaches only servers that the same command starts".to_owned(),
        Network::Domains(granted) if granted.iter().any(|it| it.matches(name, port)) => {
            "reachable through the proxy".to_owned()
        }
        Network::Domains(granted) if granted.iter().any(|it| it.names(name)) => {
            format!("not reachable: `sandbox.network` grants the host, but not port {port}")
        }
        _ => "not reachable: `sandbox.network` does not grant the host".to_owned(),
    }
}

fn path_verdict(path: &Path, commands: &Commands, policy: &SandboxPolicy) -> String {
    let real = ResolvedPath::of(path).real;
    match policy.withheld(&real) {
        Some(Withheld::Hidden) => return format!("hidden: {}", commands.hidden_by(&real)),
        Some(Withheld::Protected) => {
            return "read-only: a permission rule or a Loopwright setting protects it".to_owned();
        }
        None => {}
    }
    let shown = policy.read_paths.iter().map(|it| (it, false));
    let workdir = (&policy.workdir, policy.workdir_access == WorkdirAccess::Writable);
    let shown = shown.chain(policy.write_paths.iter().map(|it| (it, true))).chain([workdir]);
    let around = shown.filter(|(it, _)| real.starts_with(it));
    let innermost = around.max_by_key(|(it, is_written)| (it.components().count(), *is_written));
    let is_in_home = commands.home.as_ref().is_some_and(|home| path.starts_with(home));
    let missing = if real.symlink_metadata().is_ok() { "" } else { "; it does not exist" };
    match innermost {
        Some((folder, true)) if is_protected(&real, folder, policy) => {
            format!(
                "read-only: changes to it are refused, unless `sandbox.allow` lists it{missing}"
            )
        }
        Some((_, true)) => format!("readable and writable{missing}"),
        Some(_) => format!("read-only{missing}"),
        None if real.starts_with("/etc") => {
            "not visible, unless programs need it: commands see about 40 files of `/etc`".to_owned()
        }
        None if is_system_path(&real) => format!("read-only{missing}"),
        None if policy.cache.as_ref().is_some_and(|it| real.starts_with(it)) => {
            format!("readable and writable{missing}")
        }
        None if OWN.iter().any(|it| real.starts_with(it)) && !is_in_home => {
            "not visible: each command has its own folder there".to_owned()
        }
        None => "not visible: no setting shows it; add it to `sandbox.read`".to_owned(),
    }
}

/// Returns `true` if a path is one of the relative paths that commands cannot change.
fn is_protected(path: &Path, folder: &Path, policy: &SandboxPolicy) -> bool {
    let relative = policy.protected.iter().filter(|it| it.is_relative());
    relative.into_iter().any(|it| path.starts_with(folder.join(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<Named> {
        let policy = SandboxPolicy::in_dir("/srv/web");
        named(OsStr::new(text), &policy, Some(Path::new("/home/me")))
    }

    #[test]
    fn urls_addresses_of_git_and_paths_are_recognized_in_arguments_and_in_options() {
        let host = |name: &str, port| Some(Named::Host { name: name.to_owned(), port });
        let path = |path: &str| Some(Named::Path(path.into()));
        let cases = [
            ("https://Crates.io/a?b#c", host("crates.io", 443)),
            ("http://me:x@example.com:8080", host("example.com", 8080)),
            ("--url=https://example.com", host("example.com", 443)),
            ("http://[::1]/", host("::1", 80)),
            ("git@github.com:me/repo.git", host("github.com", 22)),
            ("/etc/passwd", path("/etc/passwd")),
            ("~/.ssh/id_rsa", path("/home/me/.ssh/id_rsa")),
            ("src/main.rs", path("/srv/web/src/main.rs")),
            ("--manifest-path=../a/Cargo.toml", path("/srv/web/../a/Cargo.toml")),
            ("build", None),
            ("-v", None),
            ("--release", None),
            ("ftp://example.com", None),
            ("", None),
        ];
        for (text, expect) in cases {
            assert_eq!(found(text), expect, "{text}");
        }
    }

    #[test]
    fn a_host_is_judged_by_what_the_network_grants() {
        let granted = Network::Off.with_domains(["crates.io".parse().unwrap()]);
        let cases = [
            (&Network::Host, "example.com", 443, "reachable"),
            (&Network::Off, "localhost", 80, "not reachable: commands have no network"),
            (
                &Network::Loopback,
                "localhost",
                80,
                "reaches only servers that the same command starts",
            ),
            (
                &Network::Loopback,
                "example.com",
                443,
                "not reachable: `sandbox.network` does not grant the host",
            ),
            (&granted, "crates.io", 443, "reachable through the proxy"),
            (
                &granted,
                "crates.io",
                22,
                "not reachable: `sandbox.network` grants the host, but not port 22",
            ),
        ];
        for (network, name, port, expect) in cases {
            assert_eq!(host_verdict(name, port, network), expect, "{name}");
        }
    }
}
