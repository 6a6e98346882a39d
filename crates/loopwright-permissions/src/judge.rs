//! Decisions about calls.

mod parts;

use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;

use crate::call::{Access, Call, Last};
use crate::command::{Analysis, Cwd, analyse};
use crate::decision::Decision;
use crate::explain::CommandExplanation;
use crate::matcher::{Compiled, Matcher};
use crate::mode::Mode;
use crate::path::{self, Names};
use crate::policy::Inner;
use crate::rule::Rule;
use crate::tools::ToolKind;
use crate::verdict::{Reason, Verdict};

/// One decision in progress.
pub(crate) struct Judge<'a, 'c> {
    pub(super) inner: &'a Inner,
    pub(super) mode: Mode,
    pub(super) call: &'a Call<'c>,
    extra: Option<&'a Compiled>,
    /// The command is looked at even if no rule is about commands.
    is_explaining: bool,
    /// The call stands for a part of another one: a host that a command requests, a path with everything below it, an
    /// agent that a tool starts, or a skill that this agent has.
    is_part: bool,
    paths: SmallVec<[(Access, Names<'a>); 2]>,
    /// The rules that matched, the deciding one included.
    pub(super) matched: Vec<Arc<Rule>>,
    /// The strongest decision so far.
    strongest: Option<(Decision, Reason)>,
}

impl<'a, 'c: 'a> Judge<'a, 'c> {
    pub(crate) fn new(inner: &'a Inner, mode: Mode, call: &'a Call<'c>) -> Self {
        let folder = call.workdir.unwrap_or(&inner.workdir);
        let reads = call.reads.iter().map(|path| (Access::Read, *path));
        let writes = call.writes.iter().map(|path| (Access::Write, *path));
        let resolve = |path: &'a str| match (path.strip_prefix("~/"), &inner.home) {
            (Some(rest), Some(home)) => inner.names(home, rest),
            _ => inner.names(folder, path),
        };
        let paths = reads.chain(writes).map(|(access, path)| (access, resolve(path))).collect();
        Self {
            inner,
            mode,
            call,
            extra: None,
            is_explaining: false,
            is_part: false,
            paths,
            matched: Vec::new(),
            strongest: None,
        }
    }

    /// Adds a rule to those of the policy.
    pub(crate) fn with_rule(mut self, rule: &'a Compiled) -> Self {
        self.extra = Some(rule);
        self
    }

    /// Looks at each simple command of a command.
    pub(crate) fn explaining(mut self) -> Self {
        self.is_explaining = true;
        self
    }

    pub(crate) fn verdict(self) -> Verdict {
        self.run().0
    }

    /// Decides, and returns what was decided about each simple command.
    pub(crate) fn run(mut self) -> (Verdict, Vec<CommandExplanation>) {
        let mut commands = Vec::new();
        for compiled in self.rules() {
            if compiled.rule.decision != Decision::Allow {
                self.hold(compiled);
            }
        }
        if self.mode == Mode::Plan && self.writes_files() {
            self.raise(Decision::Deny, Reason::Mode(self.mode));
        }
        self.limits();
        match self.call.command {
            Some(command) => self.command(command, &mut commands),
            None => self.allow(),
        }
        self.needs();
        self.started();
        let (mut decision, reason) =
            self.strongest.unwrap_or((Decision::Allow, Reason::Mode(self.mode)));
        if self.mode == Mode::Deny && decision == Decision::Ask {
            decision = Decision::Deny;
        }
        let decider = reason.rule().map(Arc::clone);
        self.matched
            .retain(|rule| decider.as_ref().is_none_or(|decider| !Arc::ptr_eq(decider, rule)));
        (Verdict { decision, reason, others: self.matched }, commands)
    }

    /// Decides about what the command asks for beyond the sandbox.
    fn needs(&mut self) {
        for need in &self.call.needs {
            self.also(&need.call(self.call), need.to_string(), |_| true);
        }
    }

    /// Decides about the agent that the call starts, and the skills that it has: as rules decide about calls of the tools for
    /// agents and skills. The mode decides about the call as a whole.
    fn started(&mut self) {
        let call = self.call;
        let is_not_mode = |reason: &Reason| !matches!(reason, Reason::Mode(_));
        let of = |tool: &'static str| {
            let call = Call { workdir: call.workdir, ..Call::new(tool, &Value::Null) };
            call.read_only()
        };
        if let Some(agent) = call.agent.filter(|_| call.tool.kind != ToolKind::Agent) {
            let start = Call { agent: Some(agent), ..of("spawn_subagent") };
            self.also(&start, format!("the agent `{agent}`"), is_not_mode);
        }
        for skill in &call.preloaded {
            let load = Call { skill: Some(skill), ..of("load_skill") };
            self.also(&load, format!("the skill `{skill}`"), is_not_mode);
        }
    }

    /// Decides about a part of the call as about a call of its own, and keeps the decision if it `counts`.
    fn also(&mut self, call: &Call<'_>, what: String, counts: impl Fn(&Reason) -> bool) {
        let mut judge = Judge::new(self.inner, self.mode, call);
        judge.extra = self.extra;
        judge.is_part = true;
        let (Verdict { decision, reason, others }, _) = judge.run();
        for rule in reason.rule().into_iter().chain(&others) {
            self.note(rule);
        }
        // What is allowed changes nothing, and what the call itself needs is told first.
        if decision != Decision::Allow && counts(&reason) {
            self.raise(decision, Reason::Need { need: what, reason: Box::new(reason) });
        }
    }

    /// The rules, in their order.
    pub(super) fn rules(&self) -> impl Iterator<Item = &'a Compiled> + use<'a, 'c> {
        self.inner.rules.iter().chain(self.extra)
    }

    pub(super) fn allow_rules(&self) -> impl Iterator<Item = &'a Compiled> + use<'a, 'c> {
        self.rules().filter(|compiled| compiled.rule.decision == Decision::Allow)
    }

    /// Keeps a decision if it is stricter than the one so far.
    pub(super) fn raise(&mut self, decision: Decision, reason: Reason) {
        if self.strongest.as_ref().is_none_or(|(strongest, _)| decision > *strongest) {
            self.strongest = Some((decision, reason));
        }
    }

    pub(super) fn note(&mut self, rule: &Arc<Rule>) {
        if !self.matched.iter().any(|matched| Arc::ptr_eq(matched, rule)) {
            self.matched.push(Arc::clone(rule));
        }
    }

    /// Holds a deny or ask rule against the call itself.
    fn hold(&mut self, compiled: &Compiled) {
        let rule = &compiled.rule;
        match self.matches(compiled) {
            Some(true) => {
                self.note(rule);
                self.raise(rule.decision, Reason::Rule(Arc::clone(rule)));
            }
            Some(false) => {}
            None => self.raise(Decision::Ask, Reason::Possible(Arc::clone(rule))),
        }
    }

    /// Returns whether a rule matches the call itself, or `None` if that is not clear.
    fn matches(&self, compiled: &Compiled) -> Option<bool> {
        let call = self.call;
        if compiled.matcher.covers_tool(call.tool, call.called) {
            return Some(true);
        }
        match &compiled.matcher {
            Matcher::Path { access, only, pattern } => {
                let is_tool = only.as_ref().is_none_or(|only| *only == call.tool.name);
                let is_path =
                    |(of, names): &(Access, Names<'_>)| of == access && pattern.matches(names);
                let is_in = |(of, names): &(Access, Names<'_>)| {
                    of == access && pattern.may_match_below(names)
                };
                if is_tool && self.paths.iter().any(is_path) {
                    return Some(true);
                }
                // A folder may hold what the rule is about.
                if is_tool && self.is_part && self.paths.iter().any(is_in) {
                    None
                } else {
                    Some(false)
                }
            }
            Matcher::Domain { is_network, pattern } => match call.host() {
                // A rule for the network covers every call with a host; one for tools that fetch covers those.
                _ if !is_network && call.tool.kind == ToolKind::Network => Some(false),
                Ok(host) => Some(host.is_some_and(|host| pattern.matches(&host))),
                Err(()) => None,
            },
            // An agent that another tool starts is decided about as a part of the call.
            Matcher::Agent(_) if call.tool.kind != ToolKind::Agent => Some(false),
            Matcher::Agent(name) => Some(call.agent.is_some_and(|agent| name.matches(agent))),
            Matcher::Skill(name) => Some(call.skill.is_some_and(|skill| name.matches(skill))),
            _ => Some(false),
        }
    }

    fn writes_files(&self) -> bool {
        self.call.tool.kind == ToolKind::Write || !self.call.writes.is_empty()
    }

    /// Decides about a call that runs no command, if no deny or ask rule did.
    fn allow(&mut self) {
        let call = self.call;
        let mut allowing: Option<Arc<Rule>> = None;
        for compiled in self.allow_rules() {
            let is_whole = compiled.matcher.covers_tool(call.tool, call.called);
            let is_named = match &compiled.matcher {
                Matcher::Domain { is_network, .. } => {
                    let kind = if *is_network { ToolKind::Network } else { ToolKind::Web };
                    call.tool.kind == kind && self.matches(compiled) == Some(true)
                }
                Matcher::Agent(_) => {
                    call.tool.kind == ToolKind::Agent && self.matches(compiled) == Some(true)
                }
                Matcher::Skill(_) => {
                    call.tool.kind == ToolKind::Skill && self.matches(compiled) == Some(true)
                }
                _ => false,
            };
            if is_whole || is_named {
                self.note(&compiled.rule);
                allowing.get_or_insert_with(|| Arc::clone(&compiled.rule));
            }
        }
        if let Some(rule) = allowing {
            self.raise(Decision::Allow, Reason::Rule(rule));
            return;
        }
        if matches!(call.tool.kind, ToolKind::Read | ToolKind::Write) && !self.paths.is_empty() {
            for index in 0..self.paths.len() {
                let (access, names) = self.paths[index].clone();
                match self.path_allowed(access, &names) {
                    Some(rule) => self.raise(Decision::Allow, Reason::Rule(rule)),
                    None => self.raise(self.path_default(access, &names), Reason::Mode(self.mode)),
                }
            }
            return;
        }
        self.raise(self.default(), Reason::Mode(self.mode));
    }

    /// Returns the rule that allows to use a file.
    pub(super) fn path_allowed(&mut self, access: Access, names: &[&str]) -> Option<Arc<Rule>> {
        let mut allowing = None;
        for compiled in self.allow_rules() {
            if let Matcher::Path { access: of, only, pattern } = &compiled.matcher
                && *of == access
                && only.as_ref().is_none_or(|only| *only == self.call.tool.name)
                && pattern.matches(names)
            {
                self.note(&compiled.rule);
                allowing.get_or_insert_with(|| Arc::clone(&compiled.rule));
            }
        }
        allowing
    }

    /// What the mode decides about a file.
    pub(super) fn path_default(&self, access: Access, names: &[&str]) -> Decision {
        let is_inside = self.is_inside(names);
        match (self.mode, access) {
            (Mode::Unconfined, _) => Decision::Allow,
            (Mode::Deny, _) | (Mode::Plan, Access::Write) => Decision::Deny,
            (Mode::Auto, _) if is_inside || self.call.is_confined => Decision::Allow,
            (Mode::AcceptEdits, _) | (_, Access::Read) if is_inside => Decision::Allow,
            _ => Decision::Ask,
        }
    }

    pub(super) fn is_inside(&self, names: &[&str]) -> bool {
        let inner = self.inner;
        inner.folders.iter().any(|folder| path::is_below(names, folder, inner.case))
    }

    /// What the mode decides about the call.
    pub(crate) fn default(&self) -> Decision {
        let call = self.call;
        let kind = call.tool.kind;
        match self.mode {
            Mode::Unconfined => return Decision::Allow,
            _ if kind == ToolKind::Harmless => return Decision::Allow,
            Mode::Deny => return Decision::Deny,
            Mode::Auto if call.is_confined => return Decision::Allow,
            Mode::Plan if kind == ToolKind::Write => return Decision::Deny,
            Mode::Plan if call.command.is_some() && call.is_confined => return Decision::Allow,
            _ => {}
        }
        // A skill that runs no commands only instructs the agent.
        let is_harmless = matches!(kind, ToolKind::Other | ToolKind::Skill);
        let is_reading = is_harmless && call.is_read_only && call.command.is_none();
        let reads_inside = self.paths.iter().all(|(_, names)| self.is_inside(names));
        match kind {
            // What an agent does is decided call by call.
            ToolKind::Agent => Decision::Allow,
            _ if is_reading && reads_inside => Decision::Allow,
            _ => Decision::Ask,
        }
    }

    /// Returns the folders in which the command may start.
    pub(crate) fn start(&self) -> Cwd {
        let folder = Cwd::new(self.call.workdir.unwrap_or(&self.inner.workdir));
        match self.call.last {
            Last::None => folder,
            Last::Folder(last) => Cwd::new(last).or(&folder),
            Last::Unknown => Cwd::UNKNOWN,
        }
    }

    /// Denies what the definition of the agent does not list. A list says nothing about parts of calls, except about agents
    /// if it names some: a tool that it lists starts no others.
    fn limits(&mut self) {
        let call = self.call;
        let is_agent = call.tool.kind == ToolKind::Agent;
        for limit in &self.inner.limits {
            if self.is_part && !(is_agent && limit.names_agents()) {
                continue;
            }
            let is_listed = limit.entries.iter().any(|entry| {
                entry.matcher.covers_tool(call.tool, call.called)
                    || match &entry.matcher {
                        // The parts of the command are looked at below.
                        Matcher::Command(_) => call.tool.name.starts_with("bash"),
                        Matcher::Path { access, only, .. } => {
                            let kind = if *access == Access::Read {
                                ToolKind::Read
                            } else {
                                ToolKind::Write
                            };
                            call.tool.kind == kind
                                && only.as_ref().is_none_or(|only| *only == call.tool.name)
                                && !self.paths.is_empty()
                                && self.paths.iter().all(|path| is_listed(&limit.entries, path))
                        }
                        Matcher::Agent(_) | Matcher::Skill(_) | Matcher::Domain { .. } => {
                            self.matches(entry) == Some(true)
                        }
                        _ => false,
                    }
            });
            if !is_listed {
                self.raise(Decision::Deny, Reason::NotListed { place: limit.place.clone() });
            }
        }
    }

    fn command(&mut self, command: &str, commands: &mut Vec<CommandExplanation>) {
        let call = self.call;
        let is_whole = |compiled: &&Compiled| compiled.matcher.covers_tool(call.tool, call.called);
        let whole = self.allow_rules().find(is_whole).map(|compiled| Arc::clone(&compiled.rule));
        if let Some(rule) = &whole {
            self.note(rule);
        }
        let default = self.default();
        let is_about_parts = |compiled: &Compiled| {
            matches!(
                compiled.matcher,
                Matcher::Command(_)
                    | Matcher::Path { .. }
                    | Matcher::Domain { is_network: true, .. }
            )
        };
        let limits = self.inner.limits.iter().flat_map(|limit| &limit.entries);
        if !self.is_explaining && !self.rules().chain(limits).any(is_about_parts) {
            let reason = whole.clone().map_or(Reason::Mode(self.mode), Reason::Rule);
            self.raise(if whole.is_some() { Decision::Allow } else { default }, reason);
            return;
        }
        let analysis =
            analyse(command, &self.start(), self.inner.home.as_deref(), self.inner.shell);
        self.analysis(&analysis, whole.as_ref(), default, commands);
    }

    fn analysis(
        &mut self,
        analysis: &Analysis,
        whole: Option<&Arc<Rule>>,
        default: Decision,
        commands: &mut Vec<CommandExplanation>,
    ) {
        let has_checks = self.rules().any(|compiled| {
            compiled.rule.decision != Decision::Allow
                && matches!(compiled.matcher, Matcher::Command(_) | Matcher::Path { .. })
        });
        if let Some(reason) = analysis.unreadable {
            let is_allowed = whole.is_some() || default == Decision::Allow;
            if !is_allowed || has_checks {
                self.raise(default.max(Decision::Ask), Reason::Unreadable(reason));
            }
            if !self.inner.limits.is_empty() {
                self.raise(Decision::Deny, Reason::Unreadable(reason));
            }
        }
        let mut has_decided = false;
        for part in &analysis.parts {
            let judged = self.part(part, whole, default);
            has_decided |= judged.is_decision;
            if !judged.is_decision && judged.decision == Decision::Allow {
                commands.push(judged.explain(part));
                continue;
            }
            self.raise(judged.decision, judged.reason.clone());
            commands.push(judged.explain(part));
        }
        if !has_decided {
            // Nothing in the text needs a rule, so nothing allowed it.
            let reason = whole.cloned().map_or(Reason::Mode(self.mode), Reason::Rule);
            self.raise(if whole.is_some() { Decision::Allow } else { default }, reason);
        }
    }
}

fn is_listed(entries: &[Compiled], (access, names): &(Access, Names<'_>)) -> bool {
    entries.iter().any(|entry| match &entry.matcher {
        Matcher::Path { access: of, pattern, .. } => of == access && pattern.matches(names),
        _ => false,
    })
}
