use std::fs;

use loopwright_sandbox::{
    ExitOutcome, Network, NetworkAccess, NetworkOutcome, Output, SandboxPolicy,
};

use super::{Needs, notes};
use crate::bash::{BashArgs, BashError};

fn decided() -> Needs {
    Needs::Decided { home: None }
}

fn args(network: &[&str], read: &[String]) -> BashArgs {
    let network = network.iter().map(ToString::to_string).collect();
    BashArgs { command: "true".to_owned(), network, read: read.to_vec(), ..BashArgs::default() }
}

#[test]
fn needs_are_refused_without_an_approval_policy() {
    let policy = || SandboxPolicy::in_dir("/srv");
    let granted = Needs::Refused.grant(&args(&["crates.io"], &[]), policy());
    assert!(matches!(granted, Err(BashError::NoNeeds)));
    assert_eq!(Needs::Refused.grant(&args(&[], &[]), policy()).unwrap(), policy());
}

#[test]
fn hosts_are_added_to_those_that_are_granted_anyway() {
    let names = |network, hosts: &[&str]| {
        let policy = SandboxPolicy::in_dir("/srv").with_network(network);
        match decided().grant(&args(hosts, &[]), policy).unwrap().network {
            Network::Domains(domains) => domains.iter().map(ToString::to_string).collect(),
            other => vec![format!("{other:?}")],
        }
    };
    let given = Network::Domains(vec!["*.internal.example".parse().unwrap()]);
    assert_eq!(names(Network::Loopback, &["Crates.io"]), ["crates.io"]);
    assert_eq!(names(given, &["crates.io:8443"]), ["crates.io:8443", "*.internal.example"]);
    assert_eq!(names(Network::Host, &["crates.io"]), ["Host"]);
}

#[test]
fn only_plain_names_can_be_asked_for() {
    for host in ["*.crates.io", "crates.io@127.0.0.1", "127.0.0.1", "https://crates.io", ""] {
        let granted = decided().grant(&args(&[host], &[]), SandboxPolicy::in_dir("/srv"));
        assert!(matches!(granted, Err(BashError::Need(_))), "{host}");
    }
}

#[test]
fn a_path_is_the_one_that_was_asked_for_and_no_link_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["project", "data", "home"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    fs::create_dir(root.join("home/cache")).unwrap();
    std::os::unix::fs::symlink(root.join("home"), root.join("project/link")).unwrap();
    std::os::unix::fs::symlink(root.join("home"), root.join("link")).unwrap();
    let policy = SandboxPolicy::in_dir(root.join("project"));
    let needs = Needs::Decided { home: Some(root.join("home")) };
    let read =
        |text: String| needs.grant(&args(&[], &[text]), policy.clone()).map(|it| it.read_paths);
    let at = |name: &str| root.join(name).display().to_string();
    assert_eq!(read(at("data")).unwrap(), [root.join("data")]);
    assert_eq!(read("~/cache".to_owned()).unwrap(), [root.join("home/cache")]);
    // The command has its own folder anyway, and what is hidden in it stays hidden.
    assert!(read(at("project")).unwrap().is_empty());
    for text in [
        at("project/link"),
        at("link"),
        at("link/cache"),
        at("data/../home"),
        at("missing"),
        "data".into(),
    ] {
        assert!(matches!(read(text.clone()), Err(BashError::Need(_))), "{text}");
    }
}

#[test]
fn refused_hosts_and_a_missing_network_are_told() {
    let policy = SandboxPolicy::in_dir("/srv");
    let failed = Output::exited(6, "", "curl: (6) Could not resolve host: crates.io");
    assert_eq!(notes(&failed, &policy, &Needs::Refused), ["the sandbox has no network"]);
    let told = notes(&failed, &policy, &decided());
    assert!(told[0].contains("name them in `network`"), "{told:?}");
    let done = Output { outcome: ExitOutcome::Exited(0), ..failed };
    assert_eq!(notes(&done, &policy, &decided()), Vec::<String>::new());
    let outcome = NetworkOutcome::Refused { reason: "`a.example` is not granted".to_owned() };
    let access = NetworkAccess { host: "a.example".to_owned(), port: 443, connections: 1, outcome };
    let refused = Output { network: vec![access], ..Output::exited(0, "", "") };
    assert_eq!(notes(&refused, &policy, &decided()), ["network: `a.example` is not granted"]);
}

/// The notes on a command that failed under a policy without network.
fn notes_on(stderr: &str, needs: &Needs, network: Network) -> Vec<String> {
    let policy = SandboxPolicy::in_dir("/srv").with_network(network);
    notes(&Output::exited(1, "", stderr.to_owned()), &policy, needs)
}

#[test]
fn a_command_that_cannot_request_hosts_is_told_that_there_is_no_network() {
    let stderr = "curl: (6) Could not resolve host: example.com";
    let told = notes_on(stderr, &Needs::Refused, Network::Loopback);
    assert_eq!(told, ["the sandbox has no network"]);
    assert_eq!(notes_on(stderr, &Needs::Refused, Network::Host), Vec::<String>::new());
}

#[test]
fn a_host_that_was_not_found_is_noted_wherever_the_command_printed_it() {
    let said = "npm error code ENOTFOUND";
    let policy = SandboxPolicy::in_dir("/srv");
    let on = |output: Output| notes(&output, &policy, &Needs::Refused);
    let note = vec!["the sandbox has no network".to_owned()];
    assert_eq!(on(Output::exited(1, said, "")), note);
    assert_eq!(on(Output::exited(1, "", said)), note);
}

#[test]
fn a_refused_connection_to_this_machine_names_the_loopback_of_the_command() {
    let note = "each command has its own loopback interface: it can reach servers that it starts itself, but no servers of \
        other commands or of this machine";
    for stderr in [
        "curl: (7) Failed to connect to 127.0.0.1 port 8123 after 0 ms: Couldn't connect to server",
        "bash: connect: Connection refused\nbash: line 1: /dev/tcp/localhost/8123: Connection refused",
        "Error: connect ECONNREFUSED ::1:8123",
    ] {
        assert_eq!(notes_on(stderr, &decided(), Network::Loopback), [note], "{stderr}");
        assert_eq!(notes_on(stderr, &decided(), Network::Host), Vec::<String>::new());
    }
    let other = "connect to host example.com port 443: Connection refused";
    assert_eq!(notes_on(other, &decided(), Network::Loopback), Vec::<String>::new());
}
