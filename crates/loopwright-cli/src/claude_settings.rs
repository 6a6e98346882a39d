//! Settings of Claude Code that hold in every project: those of the user and of the administrator.

use std::fs;
use std::path::{Path, PathBuf};

use loopwright_permissions::{Source, SourceKind, claude_settings, unreadable_settings};

use crate::config::{Config, ConfigSources, Discovery};
use crate::project_settings::{settings_file, why_unreadable};

/// Why allow rules, folders and hooks of these files are ignored.
pub(crate) const UNSET: &str = "`permissions.claude` is not set";

/// The same if the user has decided it, which is no surprise.
pub(crate) const UNWANTED: &str = "`permissions.claude` is `false`";

/// A file of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedSettings {
    kind: SourceKind,
    pub(crate) path: PathBuf,
    /// Where patterns such as `/src/**` start.
    base: PathBuf,
    pub(crate) text: String,
}

/// Returns the places of the files, each with the folder where its patterns start.
pub(crate) fn shared_files(sources: &ConfigSources) -> Vec<(SourceKind, PathBuf, PathBuf)> {
    if sources.discovery == Discovery::Nothing {
        return Vec::new();
    }
    let mut files = Vec::new();
    if let Some(folder) = &sources.managed {
        files.push((SourceKind::Managed, folder.join("managed-settings.json"), "/".into()));
        let parts = fs::read_dir(folder.join("managed-settings.d")).into_iter().flatten();
        let parts = parts.flatten().map(|it| it.path());
        let mut parts: Vec<PathBuf> =
            parts.filter(|it| it.extension().is_some_and(|it| it == "json")).collect();
        parts.sort();
        files.extend(parts.into_iter().map(|path| (SourceKind::Managed, path, "/".into())));
    }
    if let Some(home) = &sources.home {
        files.push((SourceKind::User, home.join(".claude/settings.json"), home.clone()));
    }
    files
}

/// Reads the files that there are. The text of a file that cannot be read is empty, which is no valid file of settings.
pub(crate) fn shared_settings(sources: &ConfigSources) -> Vec<SharedSettings> {
    let read = |(kind, path, base): (SourceKind, PathBuf, PathBuf)| {
        let (path, text) = settings_file(path)?;
        Some(SharedSettings { kind, path, base, text })
    };
    shared_files(sources).into_iter().filter_map(read).collect()
}

/// Returns the user's decision whether these files may allow calls and run hooks.
pub(crate) fn are_used(config: &Config) -> Option<bool> {
    config.permissions.user.claude.as_ref().map(|it| it.value)
}

/// Reads the rules of a file whose text was read before. The text of a file that cannot be read is empty, and the rules say why.
pub(crate) fn read_rules(kind: SourceKind, path: &Path, base: &str, text: &str) -> Source {
    let file = path.to_string_lossy();
    let reason = if text.is_empty() { why_unreadable(path) } else { None };
    match reason {
        Some(reason) => unreadable_settings(kind, &file, base, &reason),
        None => claude_settings(kind, &file, base, text),
    }
}

impl SharedSettings {
    /// Returns `true` if an administrator wrote the file.
    pub(crate) fn is_managed(&self) -> bool {
        self.kind == SourceKind::Managed
    }

    /// Returns the rules of the file. They only restrict unless the user has decided that they are used. The user's mode then
    /// applies only where the user `chose` none for this program. Mode `unconfined` never applies.
    pub(crate) fn rules(&self, are_used: Option<bool>, chose: bool) -> Source {
        let source = read_rules(self.kind, &self.path, &self.base.to_string_lossy(), &self.text);
        let reason = match are_used {
            // They were written for another program.
            Some(true) => return source.confined(),
            Some(false) => UNWANTED,
            None => UNSET,
        };
        let source = source.with_restrictions_only(reason);
        if chose && self.kind == SourceKind::User { source.without_mode() } else { source }
    }
}

#[cfg(test)]
mod tests {
    use loopwright_permissions::{Call, Decision, Mode, Policy};
    use serde_json::json;

    use super::*;
    use crate::config::Flags;
    use crate::permissions::RunPermissions;

    #[test]
    fn the_files_of_the_administrator_and_of_the_user_are_read_in_order() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let sources = ConfigSources {
            home: Some(home.path().into()),
            managed: Some(home.path().join("etc")),
            ..ConfigSources::default()
        };
        assert!(shared_settings(&sources).is_empty());
        write("etc/managed-settings.d/20.json", "2");
        write("etc/managed-settings.d/10.json", "1");
        write("etc/managed-settings.d/README", "no");
        write("etc/managed-settings.json", "0");
        fs::create_dir_all(home.path().join(".claude/settings.json")).unwrap();
        let found = |sources: &ConfigSources| {
            let found = shared_settings(sources).into_iter();
            let found = found.map(|it| {
                let path =
                    it.path.strip_prefix(home.path()).unwrap().to_string_lossy().into_owned();
                (it.kind, path, it.text)
            });
            found.collect::<Vec<_>>()
        };
        let managed = |name: &str, text: &str| {
            (SourceKind::Managed, format!("etc/managed-settings{name}"), text.to_owned())
        };
        let user = (SourceKind::User, ".claude/settings.json".to_owned(), String::new());
        assert_eq!(
            found(&sources),
            [managed(".json", "0"), managed(".d/10.json", "1"), managed(".d/20.json", "2"), user]
        );
        let bare = ConfigSources { discovery: Discovery::Nothing, ..sources };
        assert!(found(&bare).is_empty());
    }

    #[test]
    fn settings_that_change_during_a_run_count_for_the_next_one() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(root.join(".git")).unwrap();
        let (cwd, home) = (root, home.path().to_owned());
        let sources = ConfigSources { cwd, home: Some(home.clone()), ..ConfigSources::default() };
        let flags = Flags { workdir: ".".into(), ..Flags::default() };
        let config = Config::load(flags, &sources).unwrap().config;
        let run = || RunPermissions::of(&config, &sources).unwrap();
        let decided = |run: &RunPermissions| {
            let arguments = json!({ "command": "make" });
            run.policy().decide(&Call::new("bash", &arguments)).decision
        };
        let begun = run();
        fs::create_dir_all(home.join(".claude")).unwrap();
        let text = r#"{ "permissions": { "deny": ["Bash(make)"] } }"#;
        fs::write(home.join(".claude/settings.json"), text).unwrap();
        begun.set_mode(Mode::Ask).unwrap();
        assert_eq!([decided(&begun), decided(&run())], [Decision::Ask, Decision::Deny]);
    }

    #[test]
    fn settings_for_all_projects_do_not_choose_the_mode_unconfined() {
        let text = r#"{ "permissions": { "defaultMode": "bypassPermissions" } }"#;
        for kind in [SourceKind::User, SourceKind::Managed] {
            for are_used in [None, Some(false), Some(true)] {
                let (path, base) = (PathBuf::from("/s.json"), PathBuf::from("/base"));
                let file = SharedSettings { kind, path, base, text: text.to_owned() };
                let builder = Policy::builder("/work").mode(Mode::AcceptEdits);
                let policy = builder.source(file.rules(are_used, false)).build();
                assert_eq!(policy.mode(), Mode::AcceptEdits, "{kind:?} {are_used:?}");
            }
        }
    }

    #[test]
    fn settings_for_all_projects_restrict_and_allow_only_if_the_user_wants_it() {
        let text = r#"{ "permissions": { "allow": ["Bash(make)"], "deny": ["Read(/keys/**)"], "defaultMode": "plan",
            "disableAutoMode": "disable" } }"#;
        let decided = |kind, are_used, chose| {
            let (path, base) = (PathBuf::from("/s.json"), PathBuf::from("/base"));
            let file = SharedSettings { kind, path, base, text: text.to_owned() };
            let builder = Policy::builder("/work").mode(Mode::AcceptEdits);
            let policy = builder.source(file.rules(are_used, chose)).build();
            let decide =
                |tool: &str, arguments| policy.decide(&Call::new(tool, &arguments)).decision;
            let make = decide("bash", json!({ "command": "make" }));
            let keys = decide("read_file", json!({ "path": "/base/keys/a" }));
            (make, keys, policy.mode(), policy.with_mode(Mode::Auto).is_some())
        };
        let (allow, ask, deny) = (Decision::Allow, Decision::Ask, Decision::Deny);
        let (user, managed) = (SourceKind::User, SourceKind::Managed);
        for kind in [user, managed] {
            for are_used in [None, Some(false)] {
                assert_eq!(decided(kind, are_used, false), (ask, deny, Mode::Plan, false));
            }
            assert_eq!(decided(kind, Some(true), false), (allow, deny, Mode::Plan, false));
        }
        assert_eq!(decided(user, None, true), (ask, deny, Mode::AcceptEdits, false));
        assert_eq!(decided(managed, None, true), (ask, deny, Mode::Plan, false));
    }
}
