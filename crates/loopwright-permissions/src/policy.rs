//! Policies: the combined rules of all sources.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::call::{Access, Call};
use crate::decision::Decision;
use crate::judge::Judge;
use crate::matcher::{Compiled, Matcher, Trouble};
use crate::mode::Mode;
use crate::path::{self, Bases, Copies, Names, PathCase};
use crate::rule::Rule;
use crate::source::{Source, SourceKind, Warning};
use crate::tools;
use crate::verdict::Verdict;

/// The rules of all sources and a mode. Cheap to clone and to share between threads.
///
/// ```
/// use loopwright_permissions::{Call, Decision, Policy, Source, SourceKind};
/// use serde_json::json;
///
/// let source = Source::new(SourceKind::User, "config.toml", "/home/ann")
///     .allow("Bash(cargo test *)", 3)
///     .deny("Bash(git push *)", 4);
/// let policy = Policy::builder("/home/ann/project").home("/home/ann").source(source).build();
///
/// let arguments = json!({ "command": "cargo test --workspace && git push" });
/// let verdict = policy.decide(&Call::new("bash", &arguments));
/// assert_eq!(verdict.decision, Decision::Deny);
/// assert_eq!(verdict.rule().unwrap().place(), "config.toml:4");
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    inner: Arc<Inner>,
    mode: Mode,
}

/// What copies of a policy share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Deny rules, then ask rules, then allow rules; stronger sources first.
    pub(crate) rules: Vec<Compiled>,
    pub(crate) limits: Vec<Limit>,
    /// The names of the folders that files may be used in.
    pub(crate) folders: Vec<Vec<String>>,
    pub(crate) workdir: String,
    pub(crate) home: Option<String>,
    copies: Option<Copies>,
    pub(crate) case: PathCase,
    pub(crate) shell: Shell,
    pub(crate) known_tools: Vec<String>,
    shadows: Vec<Shadow>,
    forbidden_modes: Vec<Mode>,
    warnings: Vec<Warning>,
}

/// The tools that a definition has.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) place: String,
    pub(crate) entries: Vec<Compiled>,
}

impl Limit {
    /// Returns `true` if the definition lists agents of certain types.
    pub(crate) fn names_agents(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.matcher, Matcher::Agent(_)))
    }
}

#[derive(Debug)]
struct Shadow {
    compiled: Compiled,
    matched: AtomicU64,
    changed: AtomicU64,
}

/// The effect that a shadow rule would have had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShadowCount {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The number of calls that the rule matched, completely or in part.
    pub matched: u64,
    /// The number of calls whose decision the rule would have changed.
    pub changed: u64,
}

/// The shell that runs commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shell {
    /// bash.
    #[default]
    Bash,
    /// Another shell, such as dash. Syntax that only bash supports needs approval.
    Posix,
}

/// Builds a [`Policy`].
#[derive(Clone, Debug)]
pub struct PolicyBuilder {
    workdir: String,
    home: Option<String>,
    mode: Mode,
    case: PathCase,
    shell: Shell,
    folders: Vec<String>,
    copies: Option<(String, String)>,
    sources: Vec<Source>,
    known_tools: Vec<String>,
}

impl PolicyBuilder {
    /// Sets the home directory, for paths that start with `~/`.
    #[must_use]
    pub fn home(mut self, home: impl Into<String>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets the mode that applies if no source sets one; `ask` by default.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the comparison of letters in paths.
    #[must_use]
    pub fn path_case(mut self, case: PathCase) -> Self {
        self.case = case;
        self
    }

    /// Sets the shell that runs commands; bash by default.
    #[must_use]
    pub fn shell(mut self, shell: Shell) -> Self {
        self.shell = shell;
        self
    }

    /// Adds a folder for file access, in addition to the working directory.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<String>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// Makes each folder in `below` a copy of the folder `of`, such as a working tree of git: a path in a copy is decided about
    /// as the same path of the original. Both are absolute.
    #[must_use]
    pub fn copies(mut self, below: impl Into<String>, of: impl Into<String>) -> Self {
        self.copies = Some((below.into(), of.into()));
        self
    }

    /// Adds the rules of a source.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Adds names of tools that exist, so that [`Policy::lint`] does not report them as unknown.
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.known_tools.extend(names.into_iter().map(Into::into));
        self
    }

    /// Builds the policy. Invalid parts of a source are listed in [`Policy::warnings`] and
    /// interpreted strictly.
    pub fn build(self) -> Policy {
        let Self { workdir, home, mode, case, shell, folders, copies, mut sources, known_tools } =
            self;
        sources.sort_by_key(|source| source.kind);
        let names = |path: &str| -> Vec<String> {
            path::names(&workdir, path).iter().map(ToString::to_string).collect()
        };
        let mut inner = Inner {
            rules: Vec::new(),
            limits: Vec::new(),
            folders: std::iter::once(names(&workdir))
                .chain(folders.iter().map(|f| names(f)))
                .collect(),
            workdir: workdir.clone(),
            home,
            copies: copies.map(|(below, of)| Copies { below: names(&below), of: names(&of) }),
            case,
            shell,
            known_tools,
            shadows: Vec::new(),
            forbidden_modes: Vec::new(),
            warnings: Vec::new(),
        };
        // That of the strongest source counts.
        let mut trusted =
            sources.iter().filter(|source| source.is_trusted && !source.mode_only_tightens);
        let chosen = trusted.find_map(|source| source.mode);
        let mut mode = chosen.map_or(mode, |(mode, _)| mode);
        for source in &sources {
            inner.add(source);
            if let Some((wanted, line)) = source.mode
                && (!source.is_trusted || source.mode_only_tightens)
            {
                let tightened = mode.tightened_by(wanted);
                if tightened == mode && wanted != mode && !source.is_trusted {
                    let message = format!("the mode `{wanted}` is ignored: {}", source.distrust);
                    inner.warn(source, line, message);
                }
                mode = tightened;
            }
        }
        if inner.forbidden_modes.contains(&mode) {
            mode = Mode::Ask;
        }
        inner.rules.sort_by_key(|compiled| std::cmp::Reverse(compiled.rule.decision));
        Policy { inner: Arc::new(inner), mode }
    }
}

impl Inner {
    /// Copies what decides about calls, but for limits.
    fn with_rules_only(&self) -> Self {
        Self {
            rules: self.rules.clone(),
            limits: Vec::new(),
            folders: self.folders.clone(),
            workdir: self.workdir.clone(),
            home: self.home.clone(),
            copies: self.copies.clone(),
            case: self.case,
            shell: self.shell,
            known_tools: Vec::new(),
            shadows: Vec::new(),
            forbidden_modes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the names of a path that is relative to a folder unless it starts with `/`. A path in a copy has the names of
    /// the original.
    pub(crate) fn names<'a>(&'a self, folder: &'a str, path: &'a str) -> Names<'a> {
        let names = path::names(folder, path);
        match &self.copies {
            Some(copies) => copies.original(names, self.case),
            None => names,
        }
    }

    fn add(&mut self, source: &Source) {
        self.warnings.extend(source.warnings.iter().cloned());
        self.forbidden_modes.extend(&source.forbidden_modes);
        for (folder, line) in &source.folders {
            if source.is_trusted {
                let base = source.base.as_str();
                let folder = match (folder.strip_prefix('~'), &self.home) {
                    (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                        path::joined(&path::names("/", &format!("{home}{rest}")))
                    }
                    _ => path::joined(&path::names(base, folder)),
                };
                self.folders
                    .push(path::names("/", &folder).iter().map(ToString::to_string).collect());
            } else {
                let message = format!("the folder `{folder}` is ignored: {}", source.distrust);
                self.warn(source, *line, message);
            }
        }
        for line in &source.rules {
            let rule = Rule {
                decision: line.decision,
                text: line.text.trim().to_owned(),
                file: Arc::clone(&source.file),
                line: line.number,
                source: source.kind,
                is_shadow: line.is_shadow,
            };
            if !source.is_trusted && line.decision == Decision::Allow {
                let message =
                    format!("the allow rule `{}` is ignored: {}", rule.text, source.distrust);
                self.warn(source, line.number, message);
                continue;
            }
            for compiled in self.read(rule, source) {
                if line.is_shadow {
                    let (matched, changed) = (AtomicU64::new(0), AtomicU64::new(0));
                    self.shadows.push(Shadow { compiled, matched, changed });
                } else {
                    self.rules.push(compiled);
                }
            }
        }
        let Some(limit) = &source.limit else { return };
        let line = limit.first().map_or(0, |(_, line)| *line);
        let mut entries = Vec::new();
        for (text, line) in limit {
            let rule = Rule {
                decision: Decision::Allow,
                text: text.clone(),
                file: Arc::clone(&source.file),
                line: *line,
                source: source.kind,
                is_shadow: false,
            };
            let compiled = self.compile(rule, &source.base);
            self.report(source, *line, &compiled);
            entries.push(compiled);
        }
        self.limits.push(Limit { place: crate::rule::place(&source.file, line), entries });
    }

    /// Compiles the rule of an entry. An entry that is a list of rules allows nothing, and denies or asks as each of them
    /// does.
    fn read(&mut self, rule: Rule, source: &Source) -> Vec<Compiled> {
        let line = rule.line;
        let rules = Rule::list(&rule.text);
        if rules.len() == 1 {
            let compiled = self.compile(rule, &source.base);
            self.report(source, line, &compiled);
            return vec![compiled];
        }
        let named: Vec<String> = rules.iter().map(|it| format!("`{it}`")).collect();
        let problem =
            format!("an entry must be one rule; write {} as separate entries", named.join(", "));
        let is_strict = rule.decision != Decision::Allow;
        let effect = if is_strict { "each rule applies" } else { "the rule matches nothing" };
        self.warn(source, line, format!("rule `{}`: {problem}; {effect}", rule.text));
        let problem = Some(Trouble::Malformed(problem));
        if !is_strict {
            let (rule, matcher) = (Arc::new(rule), Matcher::Never);
            return vec![Compiled { rule, matcher, problem }];
        }
        let mut read = Vec::new();
        for text in rules {
            let part = Rule { text: text.to_owned(), ..rule.clone() };
            let compiled = self.compile(part, &source.base);
            self.report(source, line, &compiled);
            read.push(compiled);
        }
        // One finding is enough about one entry.
        if let Some(first) = read.first_mut() {
            first.problem = first.problem.take().or(problem);
        }
        read
    }

    fn compile(&self, rule: Rule, base: &str) -> Compiled {
        let bases = Bases {
            source: base,
            workdir: &self.workdir,
            home: self.home.as_deref(),
            case: self.case,
        };
        Compiled::new(Arc::new(rule), bases)
    }

    fn report(&mut self, source: &Source, line: u32, compiled: &Compiled) {
        let Some(problem) = &compiled.problem else { return };
        let rule = &compiled.rule;
        let effect = match (&compiled.matcher, rule.decision) {
            (Matcher::Never, _) => "the rule matches nothing".to_owned(),
            (Matcher::Every, decision) => format!("the rule applies `{decision}` to every call"),
            (_, decision) => format!("the rule applies `{decision}` to every call of the tool"),
        };
        let problem = match problem {
            Trouble::Malformed(message) | Trouble::Dead(message) => message.clone(),
            Trouble::Unsupported => "the tool takes no specifier".to_owned(),
        };
        self.warn(source, line, format!("rule `{}`: {problem}; {effect}", rule.text));
    }

    fn warn(&mut self, source: &Source, line: u32, message: String) {
        self.warnings.push(Warning { file: Arc::clone(&source.file), line, message });
    }
}

impl Policy {
    /// Creates a builder. `workdir` is the absolute path of the working directory, which relative paths start from.
    pub fn builder(workdir: impl Into<String>) -> PolicyBuilder {
        PolicyBuilder {
            workdir: workdir.into(),
            home: None,
            mode: Mode::Ask,
            case: PathCase::Sensitive,
            shell: Shell::Bash,
            folders: Vec::new(),
            copies: None,
            sources: Vec::new(),
            known_tools: Vec::new(),
        }
    }

    /// Decides a call. Shadow rules count it.
    pub fn decide(&self, call: &Call<'_>) -> Verdict {
        let verdict = Judge::new(&self.inner, self.mode, call).verdict();
        for shadow in &self.inner.shadows {
            let with =
                Judge::new(&self.inner, self.mode, call).with_rule(&shadow.compiled).verdict();
            let rule = &shadow.compiled.rule;
            if with.rule() == Some(rule) || with.others.contains(rule) {
                shadow.matched.fetch_add(1, Ordering::Relaxed);
            }
            if with.decision != verdict.decision {
                shadow.changed.fetch_add(1, Ordering::Relaxed);
            }
        }
        verdict
    }

    /// Returns the working directory.
    pub fn workdir(&self) -> &str {
        &self.inner.workdir
    }

    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the folders that files may be used in besides the working directory: absolute, and without those of
    /// sources that are not trusted.
    pub fn folders(&self) -> Vec<String> {
        let joined = |names: &Vec<String>| {
            path::joined(&names.iter().map(String::as_str).collect::<Vec<_>>())
        };
        self.inner.folders.iter().skip(1).map(joined).collect()
    }

    /// Returns the policy with another mode. Returns `None` if a source forbids the mode.
    pub fn with_mode(&self, mode: Mode) -> Option<Self> {
        let is_forbidden = self.inner.forbidden_modes.contains(&mode);
        (!is_forbidden).then(|| Self { inner: Arc::clone(&self.inner), mode })
    }

    /// Returns warnings about parts of the sources that are ignored or interpreted strictly.
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// Returns the rules that decide: deny rules, then ask rules, then allow rules.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.inner.rules.iter().map(|compiled| &compiled.rule)
    }

    /// Returns the effects that each shadow rule would have had since the policy was built.
    pub fn shadow_counts(&self) -> Vec<ShadowCount> {
        let count = |shadow: &Shadow| ShadowCount {
            rule: Arc::clone(&shadow.compiled.rule),
            matched: shadow.matched.load(Ordering::Relaxed),
            changed: shadow.changed.load(Ordering::Relaxed),
        };
        self.inner.shadows.iter().map(count).collect()
    }

    /// Returns the rule that denies every call of a tool, regardless of its arguments. Such a tool
    /// can be hidden from the model.
    pub fn removes(&self, tool: &str) -> Option<&Arc<Rule>> {
        let name = tools::find(tool);
        let is_removed = |compiled: &&Compiled| {
            compiled.rule.decision == Decision::Deny && compiled.matcher.covers_tool(name, tool)
        };
        self.inner.rules.iter().find(is_removed).map(|compiled| &compiled.rule)
    }

    /// Returns `true` if a rule that allows or asks names this tool, with a specifier or without.
    pub fn offers(&self, tool: &str) -> bool {
        let name = tools::find(tool);
        self.rules()
            .filter(|rule| rule.decision != Decision::Deny)
            .any(|rule| crate::rule::parse(&rule.text).is_ok_and(|it| tools::find(it.tool) == name))
    }

    /// Returns `true` if a rule denies every call of some tool.
    pub fn removes_tools(&self) -> bool {
        let is_whole = |compiled: &Compiled| {
            compiled.rule.decision == Decision::Deny && compiled.matcher.is_whole()
        };
        self.inner.rules.iter().any(is_whole)
    }

    /// Returns the rule that denies access to a file. Tools that find files themselves, such as a
    /// search, check each file before they show it; `tool` is the name of such a tool, whose own
    /// rules apply, too.
    pub fn denies_file(
        &self,
        access: Access,
        tool: Option<&str>,
        path: &str,
    ) -> Option<&Arc<Rule>> {
        // Names are only read if there is a rule to compare them with.
        let mut names = None;
        let is_denied = |compiled: &&Compiled| match &compiled.matcher {
            Matcher::Path { access: of, only, pattern }
                if compiled.rule.decision == Decision::Deny && *of == access =>
            {
                let is_tool = only.as_ref().is_none_or(|only| {
                    tool.is_some_and(|tool| tools::find(tool).name == only.as_str())
                });
                is_tool
                    && pattern.matches(
                        names.get_or_insert_with(|| self.inner.names(&self.inner.workdir, path)),
                    )
            }
            _ => false,
        };
        self.inner.rules.iter().find(is_denied).map(|compiled| &compiled.rule)
    }

    /// Returns the rule that denies to load a skill. Such a skill can be hidden from the model.
    pub fn denies_skill(&self, name: &str) -> Option<&Arc<Rule>> {
        let tool = tools::find("load_skill");
        let is_denied = |compiled: &&Compiled| {
            compiled.rule.decision == Decision::Deny
                && match &compiled.matcher {
                    Matcher::Skill(pattern) => pattern.matches(name),
                    matcher => matcher.covers_tool(tool, tool.name),
                }
        };
        self.inner.rules.iter().find(is_denied).map(|compiled| &compiled.rule)
    }

    /// Returns the absolute paths to which rules deny access for all tools: those of patterns without wildcards, or with `/**`
    /// at the end. A sandbox can keep commands from them, whatever they run.
    pub fn denied_paths(&self, access: Access) -> BTreeSet<String> {
        let denied = self.inner.rules.iter().filter(|it| it.rule.decision == Decision::Deny);
        let single = denied.filter_map(|compiled| match &compiled.matcher {
            Matcher::Path { access: of, only: None, pattern } if *of == access => pattern.single(),
            _ => None,
        });
        single.collect()
    }

    /// Returns a path as it is decided about: one in a copy as that of the [original](PolicyBuilder::copies).
    pub fn original_path(&self, path: &str) -> String {
        path::joined(&self.inner.names(&self.inner.workdir, path))
    }

    /// Returns `true` if the policies share their rules and have the same mode.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) && self.mode == other.mode
    }

    /// Returns the policy restricted by a source, such as the definition of a sub-agent: its deny
    /// and ask rules and its list of tools apply, too, and its mode applies if it is stricter.
    /// Shadow rules are not copied.
    #[must_use]
    pub fn restricted_by(&self, source: Source) -> Self {
        let source = source.untrusted();
        let mode = source.mode.map_or(self.mode, |(mode, _)| self.mode.tightened_by(mode));
        Self { mode, ..self.extended_by(&source) }
    }

    /// Returns the policy with the rules of a trusted source added. Everything else stays in force; shadow rules are not copied.
    #[must_use]
    pub fn extended_by(&self, source: &Source) -> Self {
        let mut inner = self.inner.with_rules_only();
        inner.limits.clone_from(&self.inner.limits);
        inner.forbidden_modes.clone_from(&self.inner.forbidden_modes);
        inner.add(source);
        inner.rules.sort_by_key(|compiled| std::cmp::Reverse(compiled.rule.decision));
        Self { inner: Arc::new(inner), mode: self.mode }
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Returns the policy with further allow rules.
    pub(crate) fn allowing(&self, rules: &[String]) -> Self {
        let inner = &*self.inner;
        let mut copy = inner.with_rules_only();
        let source = rules
            .iter()
            .fold(Source::new(SourceKind::Local, "suggested", &*inner.workdir), |source, rule| {
                source.allow(rule, 0)
            });
        copy.add(&source);
        Self { inner: Arc::new(copy), mode: self.mode }
    }
}
