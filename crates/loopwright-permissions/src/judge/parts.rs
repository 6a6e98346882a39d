//! Decisions about simple commands.

use std::sync::Arc;

use super::Judge;
use crate::call::Access;
use crate::command::{Cwd, Match, Part, PathUse, PatternKind, Risk, Scope};
use crate::decision::Decision;
use crate::explain::CommandExplanation;
use crate::matcher::{Compiled, Matcher};
use crate::mode::Mode;
use crate::path::{self, Names, PathPattern};
use crate::policy::Limit;
use crate::rule::Rule;
use crate::shell::{UNKNOWN_END, UNKNOWN_START};
use crate::tools::{self, ToolKind};
use crate::verdict::Reason;

/// What was decided about a simple command.
pub(crate) struct Judged {
    pub(crate) decision: Decision,
    pub(crate) reason: Reason,
    /// A rule or the mode decided. It is not set for a command that does nothing a rule would have to allow.
    pub(crate) is_decision: bool,
}

impl Judged {
    fn new(decision: Decision, reason: Reason) -> Self {
        Self { decision, reason, is_decision: true }
    }

    fn raise(&mut self, decision: Decision, reason: impl FnOnce() -> Reason) {
        if decision > self.decision {
            *self = Self::new(decision, reason());
        }
    }

    pub(super) fn explain(self, part: &Part) -> CommandExplanation {
        CommandExplanation {
            command: part.source.clone(),
            decision: self.decision,
            reason: self.is_decision.then_some(self.reason),
            note: part.opaque,
            is_nested: part.is_nested,
        }
    }
}

impl<'a, 'c: 'a> Judge<'a, 'c> {
    pub(crate) fn part(
        &mut self,
        part: &Part,
        whole: Option<&Arc<Rule>>,
        default: Decision,
    ) -> Judged {
        let mut judged = self.restricted(part);
        if let Some(place) = self.not_listed(part) {
            judged.raise(Decision::Deny, || Reason::NotListed { place });
        }
        if judged.decision == Decision::Deny || part.is_nested {
            return judged;
        }
        let mut allowed = self.allowed(part, whole, default);
        if judged.is_decision && judged.decision >= allowed.decision {
            return judged;
        }
        if default != Decision::Allow && (whole.is_none() || self.mode == Mode::Plan) {
            self.redirects(part, &mut allowed);
        }
        judged.is_decision |= allowed.is_decision;
        if allowed.decision >= judged.decision { allowed } else { judged }
    }

    /// Holds deny and ask rules against a command.
    fn restricted(&mut self, part: &Part) -> Judged {
        let reason = Reason::Mode(self.mode);
        let mut judged = Judged { decision: Decision::Allow, reason, is_decision: false };
        for compiled in self.rules() {
            let rule = &compiled.rule;
            if rule.decision == Decision::Allow {
                continue;
            }
            match self.restricts(compiled, part) {
                Match::No => {}
                Match::Yes => {
                    self.note(rule);
                    judged.raise(rule.decision, || Reason::Rule(Arc::clone(rule)));
                }
                Match::Maybe => judged.raise(Decision::Ask, || Reason::Possible(Arc::clone(rule))),
            }
        }
        judged
    }

    fn restricts(&self, compiled: &Compiled, part: &Part) -> Match {
        match &compiled.matcher {
            Matcher::Command(pattern) => {
                let programs = part.program.as_ref().and_then(|path| self.programs(part, path));
                let located = programs.into_iter().flatten().flatten();
                let located = located.map(|name| pattern.matches(&part.text_of(&name)));
                let texts = part.views.iter().chain([&part.whole]);
                let texts = texts.map(|text| pattern.matches(text));
                texts.chain(located).max().unwrap_or(Match::No)
            }
            Matcher::Path { access, only: None, .. } => {
                let redirects = part.redirects.iter().map(|file| (file, true));
                let files = part.files.iter().map(|file| (file, false));
                let used = redirects.chain(files).filter(|(file, _)| file.access == *access);
                used.map(|(file, is_redirect)| self.uses(compiled, part, file, is_redirect))
                    .max()
                    .unwrap_or(Match::No)
            }
            Matcher::Domain { is_network: true, pattern } => {
                let is_host = part.hosts.iter().any(|host| pattern.matches(host));
                if is_host { Match::Yes } else { Match::No }
            }
            _ => Match::No,
        }
    }

    /// Holds a rule for paths against a file that a command uses. An argument that is unknown is no file. A
    /// redirection that is unknown, and a path that starts in an unknown folder, could be any.
    fn uses(&self, compiled: &Compiled, part: &Part, file: &PathUse, is_redirect: bool) -> Match {
        let Matcher::Path { pattern, .. } = &compiled.matcher else { return Match::No };
        let Some(paths) = self.resolved(part, file) else {
            let is_glob = file.glob.as_ref().is_some_and(|glob| pattern.may_match(glob));
            let is_named = is_redirect || file.path.is_some() || is_glob;
            return if is_named { Match::Maybe } else { Match::No };
        };
        let names = paths.iter().map(|path| self.inner.names("/", path));
        names.map(|names| holds(pattern, names, file.scope)).max().unwrap_or(Match::No)
    }

    /// Returns the paths that a file may have, or `None` if they are unknown.
    fn resolved(&self, part: &Part, file: &PathUse) -> Option<Vec<String>> {
        self.paths(part, file.path.as_deref()?)
    }

    /// Returns the paths that a path of a command may stand for, or `None` if they are unknown.
    fn paths(&self, part: &Part, path: &str) -> Option<Vec<String>> {
        if let Some(rest) = path.strip_prefix('~') {
            let home = self.inner.home.as_deref()?;
            return (rest.is_empty() || rest.starts_with('/'))
                .then(|| vec![format!("{home}{rest}")]);
        }
        if path.starts_with('/') {
            return Some(vec![path.to_owned()]);
        }
        let folders = part.cwd.0.as_ref()?;
        Some(folders.iter().map(|folder| format!("{folder}/{path}")).collect())
    }

    /// Returns the names of a program that a command gives by its path, as rules may write them: one list for each folder
    /// that the command may run in. Returns `None` if that is unknown.
    pub(crate) fn programs(&self, part: &Part, path: &str) -> Option<Vec<Vec<String>>> {
        let paths = self.paths(part, path)?;
        Some(paths.iter().map(|path| self.names_of_program(path)).collect())
    }

    fn names_of_program(&self, path: &str) -> Vec<String> {
        let names = self.inner.names("/", path);
        let workdir = path::names("/", &self.inner.workdir);
        let common = names.iter().zip(&workdir).take_while(|(one, other)| one == other).count();
        let up = "../".repeat(workdir.len() - common);
        let relative = format!("{up}{}", names[common..].join("/"));
        let absolute = path::joined(&names);
        let home = self.inner.home.as_deref().map(|home| path::joined(&path::names("/", home)));
        let below =
            home.and_then(|home| absolute.strip_prefix(&home).map(|rest| format!("~{rest}")));
        let in_home = below.filter(|below| below.starts_with("~/"));
        let here = up.is_empty().then(|| format!("./{relative}"));
        // `~/x` is a path of the home directory.
        let is_path = relative.contains('/') && !relative.starts_with('~');
        let relative = is_path.then_some(relative);
        here.into_iter().chain(in_home).chain([absolute]).chain(relative).collect()
    }

    /// Returns the place of a definition that does not list a command, or a file that it is redirected to or from.
    fn not_listed(&self, part: &Part) -> Option<String> {
        let is_free =
            part.is_nested || part.is_neutral || part.calls_function || self.stays_inside(part);
        let call = self.call;
        let mut limits = self.inner.limits.iter().filter(|limit| {
            let is_whole = |entry: &Compiled| entry.matcher.covers_tool(call.tool, call.called);
            if limit.entries.iter().any(is_whole) {
                return false;
            }
            let is_listed = is_free || limit.entries.iter().any(|entry| self.permits(entry, part));
            !is_listed || !part.redirects.iter().all(|file| self.lists(limit, part, file))
        });
        limits.next().map(|limit| limit.place.clone())
    }

    /// Returns `true` if a definition lists the use of a file.
    fn lists(&self, limit: &Limit, part: &Part, file: &PathUse) -> bool {
        let tool = match file.access {
            Access::Read => "read_file",
            Access::Write => "edit_file",
        };
        if limit.entries.iter().any(|entry| entry.matcher.covers_tool(tools::find(tool), tool)) {
            return true;
        }
        let is_listed = |path: &String| {
            let names = self.inner.names("/", path);
            limit.entries.iter().any(|entry| {
                matches!(&entry.matcher, Matcher::Path { access, only: None, pattern }
                    if *access == file.access && pattern.matches(&names))
            })
        };
        self.resolved(part, file).is_some_and(|paths| paths.iter().all(is_listed))
    }

    /// Decides about a command that no deny or ask rule matches.
    pub(crate) fn allowed(
        &mut self,
        part: &Part,
        whole: Option<&Arc<Rule>>,
        default: Decision,
    ) -> Judged {
        if let Some(rule) = whole {
            return Judged::new(Decision::Allow, Reason::Rule(Arc::clone(rule)));
        }
        let mut allowing: Option<Arc<Rule>> = None;
        let mut is_named = false;
        for compiled in self.allow_rules() {
            // Another tool that runs a command can do more than that.
            if self.call.tool.kind == ToolKind::Command && self.permits(compiled, part) {
                self.note(&compiled.rule);
                allowing.get_or_insert_with(|| Arc::clone(&compiled.rule));
            }
            is_named |= part.calls_function && is_pattern_of(compiled, &part.text);
        }
        if part.calls_function {
            // What the function does is decided where it is defined.
            return if is_named {
                Judged::new(
                    default.max(Decision::Ask),
                    Reason::Unreadable("a function has the name of a command that a rule allows"),
                )
            } else {
                Judged {
                    is_decision: false,
                    ..Judged::new(Decision::Allow, Reason::Mode(self.mode))
                }
            };
        }
        if let Some(rule) = allowing {
            return Judged::new(Decision::Allow, Reason::Rule(rule));
        }
        if default == Decision::Allow {
            return Judged::new(Decision::Allow, Reason::Mode(self.mode));
        }
        if part.is_neutral || self.stays_inside(part) {
            return Judged {
                is_decision: false,
                ..Judged::new(Decision::Allow, Reason::Mode(self.mode))
            };
        }
        let reason = match (part.opaque, self.outside(part).next()) {
            (Some(reason), _) => Reason::Unreadable(reason),
            _ if part.needs_whole => Reason::Unreadable(
                "an assignment changes what the command does, and no rule names the assignment",
            ),
            (None, Some(risk)) => {
                Reason::Unnamed { argument: shown(&risk.word), reason: risk.reason }
            }
            (None, None) => Reason::Mode(self.mode),
        };
        Judged::new(default, reason)
    }

    /// Returns `true` if a command changes the directory, and stays in the folders.
    fn stays_inside(&self, part: &Part) -> bool {
        part.opaque.is_none()
            && !part.needs_whole
            && part.target.as_ref().is_some_and(|target| self.is_folder(target))
    }

    /// Returns `true` if all folders are known, and among the agent's.
    fn is_folder(&self, cwd: &Cwd) -> bool {
        cwd.0.as_ref().is_some_and(|folders| {
            folders.iter().all(|folder| self.is_inside(&self.inner.names("/", folder)))
        })
    }

    /// Returns the arguments that an allow rule with a wildcard has to name.
    fn outside<'p>(&'p self, part: &'p Part) -> impl Iterator<Item = &'p Risk> {
        let folders = part.folders.iter().filter(|(_, cwd)| !self.is_folder(cwd));
        part.risks.iter().chain(folders.map(|(risk, _)| risk))
    }

    /// Returns `true` if an allow rule allows a command. What cannot be read is only allowed word by word.
    fn permits(&self, compiled: &Compiled, part: &Part) -> bool {
        let Matcher::Command(pattern) = &compiled.matcher else { return false };
        let is_exact = pattern.kind() == PatternKind::Exact;
        if part.opaque.is_some() && !is_exact {
            return false;
        }
        let is_whole = is_exact || pattern.has_assignment || part.text == part.whole;
        let is_assigned = !part.needs_whole || is_exact || pattern.has_assignment;
        let matches = |whole: &str, text: &str| {
            is_whole && is_assigned && pattern.matches(whole) == Match::Yes
                || !part.needs_whole && part.opaque.is_none() && pattern.matches(text) == Match::Yes
        };
        let is_match = match &part.program {
            None => matches(&part.whole, &part.text),
            Some(program) => self.programs(part, program).is_some_and(|programs| {
                programs.iter().all(|names| {
                    names.iter().any(|name| matches(&part.whole_of(name), &part.text_of(name)))
                })
            }),
        };
        is_match && (is_exact || pattern.names(self.outside(part)))
    }

    /// Decides about the files that a command is redirected to.
    fn redirects(&mut self, part: &Part, judged: &mut Judged) {
        for file in &part.redirects {
            let Some(paths) = self.resolved(part, file) else {
                let reason = "the text does not show the target of a redirection";
                let decision = self.unknown_file(file.access);
                judged.raise(decision, || Reason::Unreadable(reason));
                continue;
            };
            for path in paths {
                let names = self.inner.names("/", &path);
                let decision = match self.path_allowed(file.access, &names) {
                    Some(_) if self.mode != Mode::Plan || file.access == Access::Read => continue,
                    _ => self.path_default(file.access, &names),
                };
                judged.is_decision |= file.access == Access::Write;
                judged.raise(decision, || Reason::Mode(self.mode));
            }
        }
    }

    /// Returns the files of redirections that ask, or `None` if one of them is unknown.
    pub(crate) fn asked_files(&mut self, part: &Part) -> Option<Vec<(Access, String)>> {
        let mut asked = Vec::new();
        for file in &part.redirects {
            for path in self.resolved(part, file)? {
                let names = self.inner.names("/", &path);
                let is_allowed = self.path_allowed(file.access, &names).is_some();
                if !is_allowed && self.path_default(file.access, &names) == Decision::Ask {
                    asked.push((file.access, path.clone()));
                }
            }
        }
        Some(asked)
    }

    fn unknown_file(&self, access: Access) -> Decision {
        match (self.mode, access) {
            (Mode::Unconfined, _) => Decision::Allow,
            (Mode::Deny, _) | (Mode::Plan, Access::Write) => Decision::Deny,
            _ => Decision::Ask,
        }
    }
}

/// Holds a pattern against a path of which more than the path itself may be used.
fn holds(pattern: &PathPattern, mut names: Names<'_>, scope: Scope) -> Match {
    if pattern.matches(&names) {
        return Match::Yes;
    }
    if scope == Scope::File {
        return Match::No;
    }
    let is_around = scope == Scope::All && pattern.starts_below(&names);
    let may_match = matches!(scope, Scope::Some | Scope::All) && pattern.may_match_below(&names);
    // Any file in the folder.
    names.push("\u{1}");
    match pattern.matches(&names) || is_around {
        true => Match::Yes,
        false if may_match => Match::Maybe,
        false => Match::No,
    }
}

/// Returns an argument as it is written.
fn shown(word: &str) -> String {
    word.replace([UNKNOWN_START, UNKNOWN_END], "")
}

fn is_pattern_of(compiled: &Compiled, text: &str) -> bool {
    matches!(&compiled.matcher, Matcher::Command(pattern) if pattern.matches(text) == Match::Yes)
}
