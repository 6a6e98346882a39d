use super::*;

fn resolved(environment: &Environment, host: &[(&str, &str)]) -> Vec<String> {
    let host = host.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let resolved = environment.resolve(host, "/home".as_ref(), "/tmp".as_ref());
    let fixed = ["PATH", "SHELL", "USER", "LOGNAME", "GIT_CONFIG_NOSYSTEM", "LOOPWRIGHT_SANDBOX"];
    resolved
        .iter()
        .filter(|(name, _)| !fixed.contains(&name.to_str().unwrap()))
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect()
}

const HOST: &[(&str, &str)] = &[
    ("LANG", "C"),
    ("EDITOR", "vi"),
    ("OPENAI_API_KEY", "k"),
    ("GITHUB_TOKEN", "t"),
    ("DATABASE_URL", "postgres://h/d"),
    ("MIRROR", "https://user:word@host/x"),
    ("LD_PRELOAD", "x.so"),
    ("PYTHONPATH", "/x"),
    ("HTTP_AUTHORIZATION", "x"),
    ("HOME", "/root"),
];

#[test]
fn by_default_only_language_time_and_terminal_are_taken_over() {
    assert_eq!(resolved(&Environment::default(), HOST), ["HOME=/home", "LANG=C", "TMPDIR=/tmp"]);
}

#[test]
fn everything_is_everything_but_secrets_and_what_loads_code() {
    let environment = Environment::default().inherit(Inherit::AllButSecrets);
    assert_eq!(resolved(&environment, HOST), ["EDITOR=vi", "HOME=/home", "LANG=C", "TMPDIR=/tmp"]);
}

#[test]
fn path_of_the_agent_is_inherited_by_name_and_with_everything() {
    let path = |inherit: Inherit| {
        let host = [("PATH", "/opt/toolchain/bin:/usr/bin")];
        let host = host.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let environment = Environment::default().inherit(inherit);
        let resolved = environment.resolve(host, "/home".as_ref(), "/tmp".as_ref());
        resolved[OsStr::new("PATH")].to_str().unwrap().to_owned()
    };
    let own = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
    assert_eq!(path(Inherit::Locale), own);
    assert_eq!(path(Inherit::AllButSecrets), "/opt/toolchain/bin:/usr/bin");
    assert_eq!(path(Inherit::Allow(vec!["PATH".into()])), "/opt/toolchain/bin:/usr/bin");
}

#[test]
fn a_name_that_looks_like_a_secret_is_not_inherited_by_name_either() {
    let names = Inherit::Allow(vec!["EDITOR".into(), "OPENAI_API_KEY".into()]);
    let environment = Environment::default().inherit(names);
    assert_eq!(resolved(&environment, HOST), ["EDITOR=vi", "HOME=/home", "LANG=C", "TMPDIR=/tmp"]);
}

#[test]
fn explicit_values_win_whatever_their_names_are() {
    let environment = Environment::default().set("HOME", "/mine").set("API_KEY", "k");
    assert_eq!(resolved(&environment, HOST), ["API_KEY=k", "HOME=/mine", "LANG=C", "TMPDIR=/tmp"]);
}

#[test]
fn names_of_secrets_are_recognised_in_any_case() {
    for name in ["openai_api_key", "MyPassphrase", "SESSION_COOKIE", "aws_region", "X_SECRET_X"] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["PATH", "EDITOR", "COLUMNS", "CARGO_HOME", "JAVA_HOME"] {
        assert!(!is_secret_name(name), "{name}");
    }
}
