//! Rules to save when the user says "always".

use serde::Serialize;

use crate::call::{Access, Call};
use crate::command::{Part, SEPARATOR, analyse};
use crate::decision::Decision;
use crate::judge::Judge;
use crate::lint::runs_anything;
use crate::path;
use crate::policy::Policy;
use crate::shell::{UNKNOWN_START, is_identifier};
use crate::tools::ToolKind;

/// A rule that allows a call that needed approval, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SuggestedRule {
    /// The text of the rule. It matches this call, and only other calls with the same effect.
    pub rule: String,
    /// The text of a rule that also matches calls with different arguments, for commands that only build, test or show.
    pub wider: Option<String>,
}

/// Commands with further words that may change without a surprise.
const WIDER: &[(&str, &[&str])] = &[
    (
        "cargo",
        &["bench", "build", "check", "clippy", "doc", "fmt", "metadata", "nextest", "test", "tree"],
    ),
    ("git", &["blame", "diff", "log", "show", "status"]),
    ("go", &["build", "list", "test", "vet"]),
    ("npm", &["ls", "test"]),
    ("pnpm", &["ls", "test"]),
    ("yarn", &["test"]),
];

impl Policy {
    /// Returns the rules to save so that a call that needs approval is allowed from now on: one for
    /// each simple command that no rule allows yet, and one for each file of a redirection. Returns
    /// none if the call needs no approval, if a rule requires the approval, or if a part of it
    /// cannot be parsed.
    ///
    /// ```
    /// use loopwright_permissions::{Call, Policy};
    /// use serde_json::json;
    ///
    /// let policy = Policy::builder("/project").build();
    /// let arguments = json!({ "command": "cargo test --lib && ./run 'a b'" });
    /// let rules = policy.suggest(&Call::new("bash", &arguments));
    /// assert_eq!(rules[0].rule, "Bash(cargo test --lib)");
    /// assert_eq!(rules[0].wider.as_deref(), Some("Bash(cargo test *)"));
    /// assert_eq!(rules[1].rule, "Bash(./run 'a b')");
    /// ```
    pub fn suggest(&self, call: &Call<'_>) -> Vec<SuggestedRule> {
        let verdict = Judge::new(self.inner(), self.mode(), call).verdict();
        if verdict.decision != Decision::Ask || verdict.reason.is_rule() {
            return Vec::new();
        }
        let mut rules = match call.command {
            Some(command) => self.of_command(call, command).unwrap_or_default(),
            None => self.of_call(call),
        };
        for need in &call.needs {
            for rule in self.suggest(&need.call(call)) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        let allows = |texts: Vec<String>| {
            let policy = self.allowing(&texts);
            Judge::new(policy.inner(), policy.mode(), call).verdict().decision == Decision::Allow
        };
        let exact = rules.iter().map(|rule| rule.rule.clone()).collect();
        let wider =
            rules.iter().map(|rule| rule.wider.as_ref().unwrap_or(&rule.rule).clone()).collect();
        if rules.is_empty() || !allows(exact) || !allows(wider) { Vec::new() } else { rules }
    }

    /// Returns `None` if a part of the command cannot be allowed by a rule.
    fn of_command(&self, call: &Call<'_>, command: &str) -> Option<Vec<SuggestedRule>> {
        let inner = self.inner();
        let start = Judge::new(inner, self.mode(), call).start();
        let analysis = analyse(command, &start, inner.home.as_deref(), inner.shell);
        if analysis.unreadable.is_some() {
            return None;
        }
        let mut rules: Vec<SuggestedRule> = Vec::new();
        let mut add = |rule: SuggestedRule| {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        };
        for part in &analysis.parts {
            let mut judge = Judge::new(inner, self.mode(), call);
            let default = judge.default();
            let judged = judge.part(part, None, default);
            if judged.decision == Decision::Allow {
                continue;
            }
            if judged.decision == Decision::Deny || part.is_nested {
                return None;
            }
            if judge.allowed(part, None, default).decision != Decision::Allow {
                add(of_part(&judge, part)?);
            }
            for (access, path) in judge.asked_files(part)? {
                add(self.of_file(access, &path));
            }
        }
        Some(rules)
    }

    fn of_call(&self, call: &Call<'_>) -> Vec<SuggestedRule> {
        let named = |name: &str, value: &str| {
            let is_plain = !value.is_empty() && !value.contains(['*', '(', ')', '\n']);
            is_plain.then(|| exactly(format!("{name}({value})")))
        };
        let host = || call.host().ok().flatten();
        let rule = match call.tool.kind {
            ToolKind::Read | ToolKind::Write => return self.of_files(call),
            ToolKind::Web => host().and_then(|host| named("WebFetch", &format!("domain:{host}"))),
            ToolKind::Network => {
                host().and_then(|host| named("Network", &format!("domain:{host}")))
            }
            ToolKind::Skill => call.skill.and_then(|skill| named("Skill", skill)),
            ToolKind::Agent => call.agent.and_then(|agent| named("Agent", agent)),
            ToolKind::Mcp | ToolKind::Other => {
                (!call.called.contains('*')).then(|| exactly(call.called.to_owned()))
            }
            ToolKind::Command | ToolKind::Harmless => None,
        };
        rule.into_iter().collect()
    }

    fn of_files(&self, call: &Call<'_>) -> Vec<SuggestedRule> {
        let folder = call.workdir.unwrap_or(&self.inner().workdir);
        let reads = call.reads.iter().map(|path| (Access::Read, *path));
        let files = reads.chain(call.writes.iter().map(|path| (Access::Write, *path)));
        let rule = |(access, path): (Access, &str)| {
            let path = path::joined(&self.inner().names(folder, path));
            self.of_file(access, &path)
        };
        files.map(rule).collect()
    }

    /// Returns the rule for one file, by its absolute path.
    fn of_file(&self, access: Access, path: &str) -> SuggestedRule {
        let names = self.inner().names("/", path);
        let path = path::joined(&names);
        let workdir = path::joined(&path::names("/", &self.inner().workdir));
        let inside = path.strip_prefix(&workdir).and_then(|rest| rest.strip_prefix('/'));
        let text = inside.map_or_else(|| format!("/{path}"), |rest| format!("./{rest}"));
        let mut escaped = String::new();
        for character in text.chars() {
            if matches!(character, '*' | '?' | '[' | '\\') {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        exactly(format!("{}({escaped})", if access == Access::Read { "Read" } else { "Edit" }))
    }
}

fn exactly(rule: String) -> SuggestedRule {
    SuggestedRule { rule, wider: None }
}

/// Returns the rule for one command, or `None` if it cannot be read.
fn of_part(judge: &Judge<'_, '_>, part: &Part) -> Option<SuggestedRule> {
    // A rule does not say what the input of the command is.
    let is_readable =
        part.opaque.is_none() && !part.needs_whole && !part.calls_function && !part.has_input;
    if !is_readable || part.whole.contains([UNKNOWN_START, '\n']) {
        return None;
    }
    let words: Vec<&str> = part.text.split(SEPARATOR).collect();
    if words.len() == 1 && runs_anything(words[0]) {
        return None;
    }
    // A path is written as one of the working directory, because the rule does not say where the command runs.
    let program = match &part.program {
        None => words[0].to_owned(),
        Some(path) => match &*judge.programs(part, path)? {
            [names] => names[0].clone(),
            _ => return None,
        },
    };
    // The rule of a command with variables names them.
    let text = if part.has_assignment { part.whole_of(&program) } else { part.text_of(&program) };
    let mut is_start = part.has_assignment;
    let text: Vec<String> = text
        .split(SEPARATOR)
        .map(|word| {
            is_start &= assigned(word).is_some();
            match assigned(word).filter(|_| is_start) {
                Some((name, value)) => format!("{name}={}", quoted(value)),
                None => quoted(word),
            }
        })
        .collect();
    Some(SuggestedRule { rule: format!("Bash({})", text.join(" ")), wider: wider(&words) })
}

/// Takes an assignment apart.
fn assigned(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    is_identifier(name.strip_suffix('+').unwrap_or(name)).then_some((name, value))
}

fn wider(words: &[&str]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    let subcommand = rest.first()?;
    if let ("npm" | "pnpm" | "yarn", "run", Some(script)) = (*program, *subcommand, rest.get(1)) {
        let is_name = !script.starts_with('-') && quoted(script) == *script;
        return is_name.then(|| format!("Bash({program} run {script} *)"));
    }
    let (_, subcommands) = WIDER.iter().find(|(name, _)| name == program)?;
    subcommands.contains(subcommand).then(|| format!("Bash({program} {subcommand} *)"))
}

/// Quotes a word of a command if it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('=') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
