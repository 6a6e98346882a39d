use std::fs;

use loopwright_permissions::{Call, Decision, Mode};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::permissions::RunPermissions;
use crate::untrusted::REVIEW;

/// A home with a project, and the permissions of a run in it.
struct Opened {
    home: TempDir,
    sources: ConfigSources,
    run: RunPermissions,
}

const SETTINGS: &str = "project/.claude/settings.json";

impl Opened {
    /// Opens a run in which the user trusts the project if that is said.
    fn new(files: &[(&str, &str)], is_trusted: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("project/.git")).unwrap();
        for (name, text) in files {
            write(&home, name, text);
        }
        let sources = ConfigSources {
            cwd: root.join("project"),
            home: Some(root),
            ..ConfigSources::default()
        };
        let flags = Flags { workdir: ".".into(), ..Flags::default() };
        let config = Config::load(flags, &sources).unwrap().config;
        if is_trusted {
            let project = ProjectSettings::find(&config, &sources).unwrap();
            let fingerprint = project.fingerprint().unwrap().to_owned();
            folders::update(&sources, &project.root, |it| it.trusted = Some(fingerprint)).unwrap();
        }
        let run = RunPermissions::of(&config, &sources).unwrap();
        Self { home, sources, run }
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.home, name, text);
    }

    /// Returns what is told when the rules are read again, with the home directory left out.
    fn told(&self) -> (Vec<String>, Vec<String>) {
        let Reloaded { lines, warnings } = self.run.reload(REVIEW).unwrap();
        let home = format!("{}/", self.home.path().canonicalize().unwrap().display());
        let short = |lines: Vec<String>| -> Vec<String> {
            lines.into_iter().map(|it| it.replace(&home, "")).collect()
        };
        (short(lines), short(warnings))
    }

    fn decided(&self, command: &str) -> Decision {
        let arguments = json!({ "command": command });
        self.run.policy().decide(&Call::new("bash", &arguments)).decision
    }
}

fn write(home: &TempDir, name: &str, text: &str) {
    let path = home.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
    lines.map(str::to_owned).into()
}

#[test]
fn rules_of_a_project_that_is_not_trusted_tighten_and_do_not_loosen() {
    let opened = Opened::new(&[], false);
    assert_eq!(opened.told(), (lines([]), lines([])));
    let text = r#"{ "permissions": { "deny": ["Bash(make)"], "allow": ["Bash(ls)"] } }"#;
    opened.write(SETTINGS, text);
    let told = lines(["permissions reloaded: 1 rule from project/.claude/settings.json"]);
    let ignored = "this project is not trusted: 1 permission setting is ignored; review with `loopwright trust`";
    assert_eq!(opened.told(), (told, lines([ignored])));
    let decided = [opened.decided("make"), opened.decided("ls")];
    assert_eq!(decided, [Decision::Deny, Decision::Ask]);
    assert_eq!(opened.told(), (lines([]), lines([])));
}

#[test]
fn a_change_ends_the_trust_and_the_allow_rules_of_the_project() {
    let allow = r#"{ "permissions": { "allow": ["Bash(make)"] } }"#;
    let opened = Opened::new(&[(SETTINGS, allow)], true);
    assert_eq!(opened.decided("make"), Decision::Allow);
    let more = r#"{ "permissions": { "allow": ["Bash(make)", "Bash(ls)"] } }"#;
    opened.write(SETTINGS, more);
    let told = lines(["permissions reloaded: 0 rules from project/.claude/settings.json"]);
    let ignored = "settings of this project, or files that they run, have changed since they were trusted: \
                   2 permission settings are ignored; review with `loopwright trust`";
    assert_eq!(opened.told(), (told, lines([ignored])));
    assert_eq!([opened.decided("make"), opened.decided("ls")], [Decision::Ask, Decision::Ask]);
}

#[test]
fn trust_that_is_given_meanwhile_puts_the_rules_of_the_project_in_force() {
    let allow = r#"{ "permissions": { "allow": ["Bash(make)"] } }"#;
    let opened = Opened::new(&[(SETTINGS, allow)], false);
    assert_eq!(opened.decided("make"), Decision::Ask);
    let flags = Flags { workdir: ".".into(), ..Flags::default() };
    let config = Config::load(flags, &opened.sources).unwrap().config;
    let project = ProjectSettings::find(&config, &opened.sources).unwrap();
    let fingerprint = project.fingerprint().unwrap().to_owned();
    folders::update(&opened.sources, &project.root, |it| it.trusted = Some(fingerprint)).unwrap();
    let told = lines(["permissions reloaded: 1 rule from project/.claude/settings.json"]);
    assert_eq!(opened.told(), (told, lines([])));
    assert_eq!(opened.decided("make"), Decision::Allow);
}

#[test]
fn the_users_own_file_and_one_of_the_project_that_appears_are_read_again() {
    let opened = Opened::new(&[], false);
    opened.write(".config/loopwright/config.toml", "[permissions]\nallow = [\"Bash(make)\"]\n");
    opened.write(
        "project/loopwright.toml",
        "[permissions]\ndeny = [\"Bash(ls)\"]\nmode = \"plan\"\n",
    );
    let told = lines([
        "permissions reloaded: 1 rule from .config/loopwright/config.toml",
        "permissions reloaded: 1 rule from project/loopwright.toml",
        "permissions reloaded: mode `plan`",
    ]);
    assert_eq!(opened.told(), (told, lines([])));
    assert_eq!([opened.decided("make"), opened.decided("ls")], [Decision::Allow, Decision::Deny]);
    assert_eq!(opened.run.policy().mode(), Mode::Plan);
}

#[test]
fn a_file_that_cannot_be_read_makes_every_call_ask_or_is_an_error() {
    let opened = Opened::new(&[], false);
    opened.write(".config/loopwright/config.toml", "[permissions]\nallow = [\"Bash(make)\"]\n");
    opened.told();
    opened.write(SETTINGS, "{");
    let (told, warnings) = opened.told();
    assert_eq!(told, lines(["permissions reloaded: 1 rule from project/.claude/settings.json"]));
    assert!(warnings[0].starts_with("project/.claude/settings.json"), "{warnings:?}");
    assert_eq!(opened.decided("make"), Decision::Ask);
    opened.write(SETTINGS, "{}");
    opened.told();
    opened.write(".config/loopwright/config.toml", "[permissions\n");
    // Until it is corrected, and nothing is lost meanwhile.
    for _ in 0..2 {
        assert!(opened.run.reload(REVIEW).is_err());
        assert_eq!(opened.decided("make"), Decision::Allow);
    }
    opened.write(".config/loopwright/config.toml", "");
    let told = lines(["permissions reloaded: 0 rules from .config/loopwright/config.toml"]);
    assert_eq!(opened.told(), (told, lines([])));
}

#[test]
fn rules_and_a_mode_that_the_user_chose_in_the_run_stay_and_are_not_told_again() {
    let opened = Opened::new(&[], false);
    opened.run.set_mode(Mode::AcceptEdits).unwrap();
    opened.run.decide_always(Decision::Allow, &["Bash(make)".to_owned()]).unwrap();
    assert_eq!(opened.told(), (lines([]), lines([])));
    opened.write(SETTINGS, r#"{ "permissions": { "ask": ["Bash(ls)"] } }"#);
    let told = lines(["permissions reloaded: 1 rule from project/.claude/settings.json"]);
    assert_eq!(opened.told(), (told, lines([])));
    assert_eq!(opened.run.policy().mode(), Mode::AcceptEdits);
    assert_eq!([opened.decided("make"), opened.decided("ls")], [Decision::Allow, Decision::Ask]);
}

#[test]
fn rules_and_a_mode_that_change_at_the_same_time_are_both_in_force() {
    let opened = Opened::new(&[], false);
    for round in 0..100 {
        let (mode, command) = match round % 2 {
            0 => (Mode::Ask, "make"),
            _ => (Mode::Plan, "ls"),
        };
        let deny = json!({ "permissions": { "deny": [format!("Bash({command})")] } });
        opened.write(SETTINGS, &deny.to_string());
        std::thread::scope(|scope| {
            scope.spawn(|| opened.run.reload(REVIEW).unwrap());
            scope.spawn(|| opened.run.reload(REVIEW).unwrap());
            scope.spawn(|| opened.run.set_mode(mode).unwrap());
        });
        let in_force = (opened.run.policy().mode(), opened.decided(command));
        assert_eq!(in_force, (mode, Decision::Deny), "round {round}");
    }
}
