//! Permission rules of the user and of a project.

use std::path::PathBuf;

use loopwright_permissions::{Decision, Mode, Rule};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::value::{Mismatch, SettingValue};
use super::{Origin, Setting, Strings};

/// The keys of the table `permissions`. Rules of all files apply, so that no file hides those of another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PermissionSettings {
    /// `permissions.mode`
    pub mode: Option<Setting<Mode>>,
    /// `permissions.allow`
    pub allow: Option<Setting<RuleList>>,
    /// `permissions.ask`
    pub ask: Option<Setting<RuleList>>,
    /// `permissions.deny`
    pub deny: Option<Setting<RuleList>>,
    /// `permissions.folders`, besides the working directory
    pub folders: Option<Setting<Strings>>,
    /// `permissions.claude`: whether the Claude Code settings for all projects may allow calls and run hooks
    pub claude: Option<Setting<bool>>,
}

/// Rules with their lines in the file; 0 for a rule that stands in none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleList(pub Vec<(String, u32)>);

/// A file of rules that decide nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowFile {
    /// The path, as it was typed.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

impl ShadowFile {
    /// Reads the file that a flag names.
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        serde_json::from_str::<serde_json::Value>(&text)
            .map_err(|error| format!("not valid JSON: {error}"))?;
        Ok(Self { path: path.into(), text })
    }
}

/// The layers, from the strongest to the weakest. Rules of all of them apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PermissionLayers {
    /// Rules that decide nothing, and are reported.
    pub shadow: Option<ShadowFile>,
    /// The command line's and the environment's.
    pub typed: PermissionSettings,
    /// The project's.
    pub project: PermissionSettings,
    /// The user's.
    pub user: PermissionSettings,
}

impl PermissionSettings {
    /// Returns the lists.
    pub fn lists(&self) -> [(Decision, Option<&Setting<RuleList>>); 3] {
        [
            (Decision::Deny, self.deny.as_ref()),
            (Decision::Ask, self.ask.as_ref()),
            (Decision::Allow, self.allow.as_ref()),
        ]
    }

    /// Returns the file, or `None` if it has no permissions.
    pub fn origin(&self) -> Option<&Origin> {
        let lists = self.lists().into_iter().find_map(|(_, list)| list.map(|it| &it.origin));
        let folders = self.folders.as_ref().map(|it| &it.origin);
        self.mode.as_ref().map(|it| &it.origin).or(lists).or(folders)
    }

    /// Adds the lines at which the rules stand in the text of the file.
    pub(super) fn locate(&mut self, text: &str) {
        let found: Located = toml::from_str(text).unwrap_or_default();
        let Some(found) = found.permissions else { return };
        let line = |rule: &Spanned<String>| {
            let before = text.get(..rule.span().start).unwrap_or_default();
            u32::try_from(before.matches('\n').count() + 1).unwrap_or(0)
        };
        let lists = [
            (&mut self.allow, found.allow),
            (&mut self.ask, found.ask),
            (&mut self.deny, found.deny),
        ];
        for (list, found) in lists {
            let rules = list.iter_mut().flat_map(|it| &mut it.value.0);
            for ((_, number), rule) in rules.zip(&found) {
                *number = line(rule);
            }
        }
    }
}

impl PermissionLayers {
    /// Returns the mode of the strongest layer that sets one. Whether a project's mode counts depends on trust.
    pub fn mode(&self) -> Option<&Setting<Mode>> {
        self.layers().into_iter().find_map(|layer| layer.mode.as_ref())
    }

    /// Returns the rules of all layers, under the origin of the strongest one.
    pub fn rules(&self, decision: Decision) -> Option<Setting<RuleList>> {
        let lists = self.layers().into_iter().flat_map(PermissionSettings::lists);
        let lists = lists.filter_map(|(of, list)| list.filter(|_| of == decision));
        lists.cloned().reduce(|mut strong, weak| {
            strong.value.0.extend(weak.value.0);
            strong
        })
    }

    /// Returns the folders of all layers, under the origin of the strongest one.
    pub fn folders(&self) -> Option<Setting<Strings>> {
        let folders = self.layers().into_iter().filter_map(|layer| layer.folders.clone());
        folders.reduce(|mut strong, weak| {
            strong.value.0.extend(weak.value.0);
            strong
        })
    }

    fn layers(&self) -> [&PermissionSettings; 3] {
        [&self.typed, &self.project, &self.user]
    }
}

/// The table, with the places of its rules.
#[derive(Default, Deserialize)]
struct Located {
    permissions: Option<LocatedRules>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LocatedRules {
    allow: Vec<Spanned<String>>,
    ask: Vec<Spanned<String>>,
    deny: Vec<Spanned<String>>,
}

impl SettingValue for Mode {
    const EXPECTED: &'static str = "`plan`, `ask`, `accept-edits`, `auto`, `deny` or `unconfined`";
    const EXAMPLE: &'static str = "\"ask\"";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl SettingValue for RuleList {
    const EXPECTED: &'static str = "an array of rules, such as `\"Bash(git push *)\"`";
    const EXAMPLE: &'static str = "[\"Bash(git push *)\"]";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self(Rule::list(text).into_iter().map(|rule| (rule.to_owned(), 0)).collect()))
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let Strings(rules) = Strings::from_toml(value)?;
        Ok(Self(rules.into_iter().map(|rule| (rule, 0)).collect()))
    }
}

impl std::fmt::Display for RuleList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rules: Vec<&str> = self.0.iter().map(|(rule, _)| rule.as_str()).collect();
        f.write_str(&rules.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_knows_its_line() {
        let text = "model = \"a/b\"\n\n[permissions]\ndeny = [\n  \"Bash(rm *)\", # no\n  \"Read(.env)\",\n]\n";
        let list = RuleList(vec![("Bash(rm *)".to_owned(), 0), ("Read(.env)".to_owned(), 0)]);
        let deny = Some(Setting::new(list, Origin::Default));
        let mut settings = PermissionSettings { deny, ..PermissionSettings::default() };
        settings.locate(text);
        let lines: Vec<u32> =
            settings.deny.unwrap().value.0.iter().map(|(_, line)| *line).collect();
        assert_eq!(lines, [5, 6]);
    }
}
