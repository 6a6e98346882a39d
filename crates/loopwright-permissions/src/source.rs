//! Sources of rules.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::mode::Mode;
use crate::rule::place;

/// The kinds of sources, from the strongest to the weakest. Rules of all sources apply; the order decides which rule is
/// named if several match, and which mode applies if several are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Settings of the administrator.
    Managed,
    /// Arguments of the command line.
    Flags,
    /// Settings of the user for one project, such as `.claude/settings.local.json`.
    Local,
    /// Settings of a project.
    Project,
    /// Settings of the user.
    User,
    /// The definition of an agent.
    Definition,
}

const UNTRUSTED: &str = "the project is not trusted";

/// Rules from one place, with the base folder of their paths.
///
/// ```
/// use loopwright_permissions::{Mode, Source, SourceKind};
///
/// let source = Source::new(SourceKind::User, "config.toml", "/home/ann")
///     .with_mode(Mode::AcceptEdits)
///     .allow("Bash(cargo test *)", 3)
///     .deny("Read(~/.ssh/**)", 4);
/// assert_eq!(source.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) file: Arc<str>,
    pub(crate) base: String,
    pub(crate) is_trusted: bool,
    /// Why the source can only restrict, if it is not trusted.
    pub(crate) distrust: &'static str,
    pub(crate) mode: Option<(Mode, u32)>,
    /// The mode only counts if it is stricter than that of the other sources.
    pub(crate) mode_only_tightens: bool,
    pub(crate) forbidden_modes: Vec<Mode>,
    pub(crate) folders: Vec<(String, u32)>,
    pub(crate) rules: Vec<Line>,
    /// The tools that a definition has, if it restricts them.
    pub(crate) limit: Option<Vec<(String, u32)>>,
    pub(crate) warnings: Vec<Warning>,
}

/// A rule of a source.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) decision: Decision,
    pub(crate) text: String,
    pub(crate) number: u32,
    pub(crate) is_shadow: bool,
}

/// A warning about a part of a source that has no effect, or an unexpected one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Warning {
    /// The file.
    pub file: Arc<str>,
    /// The line, starting with 1; 0 if there is none.
    pub line: u32,
    /// The ignored part, or its interpretation.
    pub message: String,
}

/// How warnings end about a key of a settings file that has no meaning here.
pub(crate) const NOT_SUPPORTED: &str = "` is ignored: not supported";

/// How warnings end about a key of the permissions that is unknown.
pub(crate) const UNKNOWN_KEY: &str = "` is unknown and ignored";

impl Warning {
    /// Returns the key that is ignored, if the warning is about a key of a settings file that has no meaning here.
    #[must_use]
    pub fn ignored_key(&self) -> Option<&str> {
        let message = self.message.strip_prefix('`')?;
        message.strip_suffix(NOT_SUPPORTED).or_else(|| message.strip_suffix(UNKNOWN_KEY))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", place(&self.file, self.line), self.message)
    }
}

impl Source {
    /// Creates a source without rules. `base` is the absolute path of the folder that patterns such as `/src/**` start
    /// from: the root of the project for settings of a project, the home directory for those of the user.
    pub fn new(kind: SourceKind, file: impl Into<Arc<str>>, base: impl Into<String>) -> Self {
        Self {
            kind,
            file: file.into(),
            base: base.into(),
            is_trusted: true,
            distrust: UNTRUSTED,
            mode: None,
            mode_only_tightens: false,
            forbidden_modes: Vec::new(),
            folders: Vec::new(),
            rules: Vec::new(),
            limit: None,
            warnings: Vec::new(),
        }
    }

    /// Marks the source as part of a repository that the user does not trust. It can only restrict:
    /// its allow rules and folders are ignored with a warning, and its mode applies if it is
    /// stricter.
    #[must_use]
    pub fn untrusted(self) -> Self {
        self.with_restrictions_only(UNTRUSTED)
    }

    /// Lets the source only restrict, as [`untrusted`](Self::untrusted) does. `reason` ends its warnings.
    #[must_use]
    pub fn with_restrictions_only(mut self, reason: &'static str) -> Self {
        self.is_trusted = false;
        self.distrust = reason;
        self
    }

    /// Ignores the mode `unconfined` of the source, with a warning: a source that the user does not write cannot choose it,
    /// trusted or not.
    #[must_use]
    pub fn confined(mut self) -> Self {
        if let Some((Mode::Unconfined, line)) = self.mode {
            self.mode = None;
            self.warn(
                line,
                "the mode `unconfined` is ignored in this file; pass `--permission-mode unconfined`",
            );
        }
        self
    }

    /// Returns the mode that the source sets, with its line; `None` means that it sets none.
    #[must_use]
    pub fn mode(&self) -> Option<(Mode, u32)> {
        self.mode
    }

    /// Returns the file that the source was read from.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Adds a rule that allows calls. `line` is its line in the file, 0 if there is none.
    #[must_use]
    pub fn allow(self, rule: impl Into<String>, line: u32) -> Self {
        self.with_rule(Decision::Allow, rule, line)
    }

    /// Adds a rule that requires approval for calls.
    #[must_use]
    pub fn ask(self, rule: impl Into<String>, line: u32) -> Self {
        self.with_rule(Decision::Ask, rule, line)
    }

    /// Adds a rule that denies calls.
    #[must_use]
    pub fn deny(self, rule: impl Into<String>, line: u32) -> Self {
        self.with_rule(Decision::Deny, rule, line)
    }

    /// Adds a rule.
    #[must_use]
    pub fn with_rule(mut self, decision: Decision, rule: impl Into<String>, line: u32) -> Self {
        self.rules.push(Line { decision, text: rule.into(), number: line, is_shadow: false });
        self
    }

    /// Adds a shadow rule, which decides nothing. The policy counts its matches.
    #[must_use]
    pub fn with_shadow_rule(
        mut self,
        decision: Decision,
        rule: impl Into<String>,
        line: u32,
    ) -> Self {
        self.rules.push(Line { decision, text: rule.into(), number: line, is_shadow: true });
        self
    }

    /// Returns the source with only its rules, as shadow rules, which decide nothing. The policy
    /// counts their matches.
    #[must_use]
    pub fn into_shadow(mut self) -> Self {
        self.rules.iter_mut().for_each(|line| line.is_shadow = true);
        self.mode = None;
        self.folders.clear();
        self.forbidden_modes.clear();
        self
    }

    /// Sets the mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = Some((mode, 0));
        self
    }

    /// Removes the mode.
    #[must_use]
    pub fn without_mode(mut self) -> Self {
        self.mode = None;
        self.mode_only_tightens = false;
        self
    }

    /// Adds a folder in which files can be read, and written if the mode accepts edits. A relative
    /// path starts at the base of the source.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<String>) -> Self {
        self.folders.push((folder.into(), 0));
        self
    }

    /// Restricts the tools to a list, as the `tools` of a definition does: entries are rules, separated by commas or
    /// blanks. A call that no entry matches is denied. The entries allow nothing by themselves.
    #[must_use]
    pub fn with_tools(mut self, tools: &str, line: u32) -> Self {
        let entries = crate::rule::split(tools).map(|rule| (rule.to_owned(), line));
        self.limit.get_or_insert_default().extend(entries);
        self
    }

    /// Denies tools, as the `disallowedTools` of a definition does: entries are rules, separated by commas or blanks.
    #[must_use]
    pub fn without_tools(mut self, tools: &str, line: u32) -> Self {
        for rule in crate::rule::split(tools) {
            self = self.deny(rule, line);
        }
        self
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns `true` if the source has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the warnings about the source.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub(crate) fn warn(&mut self, line: u32, message: impl Into<String>) {
        let file = Arc::clone(&self.file);
        self.warnings.push(Warning { file, line, message: message.into() });
    }
}
