//! The `permissions` of `.claude/settings.json` and `settings.local.json`.

use serde_json::value::RawValue;

use crate::decision::Decision;
use crate::mode::Mode;
use crate::settings_text::{SettingsEntries, SettingsText};
use crate::source::{NOT_SUPPORTED, Source, SourceKind, UNKNOWN_KEY};

/// Reads the `permissions` of a settings file of Claude Code: `allow`, `ask`, `deny`, `defaultMode`,
/// `additionalDirectories` and `disableBypassPermissionsMode`. `base` is the folder that patterns such as `/src/**`
/// start from: the root of the project, or the home directory for the settings of the user.
///
/// Never fails. Unsupported parts are listed in [`Source::warnings`] with their lines, and
/// interpreted strictly: if a deny or ask rule may be lost, every call needs approval, and lists such as `Deny`, or `deny` outside
/// of the `permissions`, count. In the settings of a user or an
/// administrator, keys without an effect are listed only if they restrict.
///
/// ```
/// use loopwright_permissions::{SourceKind, claude_settings};
///
/// let text = r#"{ "permissions": { "allow": ["Bash(npm run *)"],
///                                  "defaultMode": "acceptEdits" }, "outputStyle": "x" }"#;
/// let source = claude_settings(SourceKind::Project, ".claude/settings.json", "/project", text);
/// assert_eq!(source.len(), 1);
/// assert_eq!(
///     source.warnings()[0].to_string(),
///     ".claude/settings.json:2: `outputStyle` is ignored: not supported",
/// );
/// ```
pub fn claude_settings(kind: SourceKind, file: &str, base: &str, text: &str) -> Source {
    let source = Source::new(kind, file, base);
    let mut reader = Reader { text: SettingsText::new(text), source };
    reader.read();
    reader.source
}

/// Reads a file of settings that there is and that cannot be read, for this reason: every call needs approval.
///
/// ```
/// use loopwright_permissions::{SourceKind, unreadable_settings};
///
/// let source = unreadable_settings(SourceKind::Project, "settings.json", "/project", "it is a directory");
/// assert_eq!(
///     source.warnings()[0].to_string(),
///     "settings.json:1: the file cannot be read, so every call needs approval: it is a directory",
/// );
/// ```
pub fn unreadable_settings(kind: SourceKind, file: &str, base: &str, reason: &str) -> Source {
    let mut source = Source::new(kind, file, base);
    source.warn(1, unreadable(reason));
    source.ask("*", 1)
}

fn unreadable(reason: &str) -> String {
    format!("the file cannot be read, so every call needs approval: {reason}")
}

/// Returns the decision of rules under a key that only restrict. A key that differs in its case, or that stands outside of the
/// permissions, was meant: without it, calls would run.
fn restricting(key: &str) -> Option<Decision> {
    [Decision::Deny, Decision::Ask].into_iter().find(|it| key.eq_ignore_ascii_case(&it.to_string()))
}

struct Reader<'a> {
    text: SettingsText<'a>,
    source: Source,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        let entries = match self.text.entries() {
            Ok(entries) => entries,
            Err(error) => {
                let line = u32::try_from(error.line()).unwrap_or(0);
                self.source.warn(line, unreadable(&error.to_string()));
                self.ask_always(line);
                return;
            }
        };
        for (index, (key, value)) in entries.0.iter().enumerate() {
            let line = self.line(value);
            if let Some(decision) = restricting(key) {
                self.source.warn(
                    line,
                    format!("`{key}` is read as `permissions.{decision}`; move the key there"),
                );
                self.rules(decision, value);
                continue;
            }
            match key.as_str() {
                "permissions" => {
                    let is_last = !entries.0[index + 1..].iter().any(|(other, _)| other == key);
                    if !is_last {
                        self.source.warn(
                            line,
                            "`permissions` is repeated below, so only the \
                            deny and ask rules here apply",
                        );
                    }
                    self.permissions(value, is_last);
                }
                // Hooks, variables of commands, the model and the status line are no permissions: programs read them.
                "$schema" | "hooks" | "disableAllHooks" | "env" | "model" | "statusLine" => {}
                key if self.is_of_interest(key) => {
                    self.source.warn(line, format!("`{key}{NOT_SUPPORTED}"));
                }
                _ => {}
            }
        }
    }

    /// Returns `true` if the file should not have a key that has no effect here. The settings of a user and of an administrator
    /// are for another program: only what restricts it is of interest.
    fn is_of_interest(&self, key: &str) -> bool {
        let is_shared = matches!(self.source.kind, SourceKind::User | SourceKind::Managed);
        !is_shared || ["disable", "allowManaged"].iter().any(|it| key.starts_with(it))
    }

    fn permissions(&mut self, value: &'a RawValue, is_last: bool) {
        let line = self.line(value);
        let entries = match SettingsEntries::of(value) {
            Some(entries) => entries,
            None if value.get() == "null" => return,
            None => {
                self.source.warn(
                    line,
                    "`permissions` is not an object, so every call needs \
                    approval",
                );
                self.ask_always(line);
                return;
            }
        };
        for (index, (key, value)) in entries.0.iter().enumerate() {
            let line = self.line(value);
            let is_repeated = entries.0[index + 1..].iter().any(|(other, _)| other == key);
            let counts = is_last && !is_repeated;
            if is_repeated {
                self.source.warn(
                    line,
                    format!(
                        "`{key}` is repeated below, so its value here can only \
                    restrict"
                    ),
                );
            }
            if let Some(decision) = restricting(key) {
                let name = decision.to_string();
                if *key != name {
                    self.source.warn(line, format!("`permissions.{key}` is read as `{name}`"));
                }
                self.rules(decision, value);
                continue;
            }
            match key.as_str() {
                "allow" if counts => self.rules(Decision::Allow, value),
                "defaultMode" if counts => self.mode(value, line),
                "additionalDirectories" if counts => self.folders(value, line),
                "allow" | "defaultMode" | "additionalDirectories" => {}
                "disableBypassPermissionsMode" => self.forbid(Mode::Unconfined, value, line),
                "disableAutoMode" => self.forbid(Mode::Auto, value, line),
                key => {
                    self.source.warn(line, format!("`permissions.{key}{UNKNOWN_KEY}"));
                }
            }
        }
    }

    fn rules(&mut self, decision: Decision, value: &'a RawValue) {
        let line = self.line(value);
        let single: Option<String> = serde_json::from_str(value.get()).ok();
        let items: Vec<&'a RawValue> = match (serde_json::from_str(value.get()), single) {
            (Ok(items), _) => items,
            (Err(_), Some(_)) => {
                self.source
                    .warn(line, format!("`permissions.{decision}` is a string instead of a list"));
                if decision == Decision::Allow { Vec::new() } else { vec![value] }
            }
            (Err(_), None) if value.get() == "null" => Vec::new(),
            (Err(_), None) => {
                self.lost(decision, line, &format!("`permissions.{decision}` is not a list"));
                return;
            }
        };
        for item in items {
            let line = self.line(item);
            match serde_json::from_str::<String>(item.get()) {
                Ok(rule) => {
                    let source = self.take();
                    self.source = source.with_rule(decision, rule, line);
                }
                Err(_) => self.lost(
                    decision,
                    line,
                    &format!("an entry of `permissions.{decision}` is not a string"),
                ),
            }
        }
    }

    fn mode(&mut self, value: &RawValue, line: u32) {
        let name: Option<String> = serde_json::from_str(value.get()).ok();
        match name.as_deref().map(str::parse) {
            Some(Ok(mode)) => self.source.mode = Some((mode, line)),
            _ if value.get() == "null" => {}
            _ => {
                let text = value.get();
                self.source.warn(
                    line,
                    format!("unknown mode {text}; a mode at least as strict as `ask` applies"),
                );
                self.source.mode = Some((Mode::Ask, line));
                self.source.mode_only_tightens = true;
            }
        }
    }

    fn folders(&mut self, value: &'a RawValue, line: u32) {
        let Ok(items) = serde_json::from_str::<Vec<&'a RawValue>>(value.get()) else {
            self.source.warn(
                line,
                "`permissions.additionalDirectories` is not a list and is \
                ignored",
            );
            return;
        };
        for item in items {
            let line = self.line(item);
            match serde_json::from_str::<String>(item.get()) {
                Ok(folder) if !folder.is_empty() => self.source.folders.push((folder, line)),
                _ => self.source.warn(
                    line,
                    "an entry of `permissions.additionalDirectories` is not a path and is ignored",
                ),
            }
        }
    }

    fn forbid(&mut self, mode: Mode, value: &RawValue, line: u32) {
        if !matches!(value.get(), "\"disable\"" | "true") {
            self.source.warn(
                line,
                format!("the value is not `\"disable\"`; mode `{mode}` is disabled anyway"),
            );
        }
        self.source.forbidden_modes.push(mode);
    }

    /// A rule is lost. If it may have denied or asked, every call asks.
    fn lost(&mut self, decision: Decision, line: u32, message: &str) {
        if decision == Decision::Allow {
            self.source.warn(line, format!("{message}; it allows nothing"));
        } else {
            self.source.warn(line, format!("{message}, so every call needs approval"));
            self.ask_always(line);
        }
    }

    fn ask_always(&mut self, line: u32) {
        let source = self.take();
        self.source = source.ask("*", line);
    }

    fn take(&mut self) -> Source {
        let empty = Source::new(self.source.kind, "", "");
        std::mem::replace(&mut self.source, empty)
    }

    /// Returns the line of a value, which is a part of the text.
    fn line(&self, value: &RawValue) -> u32 {
        u32::try_from(self.text.line(value)).unwrap_or(0)
    }
}
