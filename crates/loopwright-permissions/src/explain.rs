//! Explanations of decisions.

use std::fmt;

use serde::Serialize;

use crate::call::Call;
use crate::decision::Decision;
use crate::judge::Judge;
use crate::policy::Policy;
use crate::verdict::{Reason, Verdict};

/// The reason for a decision, with each simple command of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The decision, the deciding rule with its location, and the other matching rules.
    pub verdict: Verdict,
    /// The simple commands of the command, in the order of the text. Empty for other tools.
    pub commands: Vec<CommandExplanation>,
}

/// The reason for the decision about a simple command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CommandExplanation {
    /// The text of the command.
    pub command: String,
    /// The decision.
    pub decision: Decision,
    /// The reason. `None` means that the command does nothing that needs a rule.
    pub reason: Option<Reason>,
    /// The reason why no rule with a wildcard can allow the command, if there is one.
    pub note: Option<&'static str>,
    /// `true` if the command is part of an argument of another command. Only deny and ask rules see
    /// it.
    pub is_nested: bool,
}

impl Policy {
    /// Explains a decision. Shadow rules do not count it.
    ///
    /// ```
    /// use loopwright_permissions::{Call, Decision, Policy, Source, SourceKind};
    /// use serde_json::json;
    ///
    /// let source = Source::new(SourceKind::Flags, "--allow", "/").allow("Bash(ls *)", 0);
    /// let policy = Policy::builder("/project").source(source).build();
    /// let arguments = json!({ "command": "ls src | wc -l" });
    /// let explanation = policy.explain(&Call::new("bash", &arguments));
    /// let decisions: Vec<_> =
    ///     explanation.commands.iter().map(|part| (part.command.as_str(), part.decision)).collect();
    /// assert_eq!(decisions, [("ls src", Decision::Allow), ("wc -l", Decision::Ask)]);
    /// ```
    pub fn explain(&self, call: &Call<'_>) -> Explanation {
        let (verdict, commands) = Judge::new(self.inner(), self.mode(), call).explaining().run();
        Explanation { verdict, commands }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict)?;
        for command in &self.commands {
            let indent = if command.is_nested { "    " } else { "  " };
            write!(
                f,
                "\n{indent}{:<5}  {}",
                command.decision,
                command.command.replace('\n', "\n         ")
            )?;
            if let Some(reason) = &command.reason {
                write!(f, "\n{indent}       {reason}")?;
            }
            if let Some(note) = command.note {
                write!(f, "\n{indent}       {note}")?;
            }
        }
        for rule in &self.verdict.others {
            write!(f, "\n  also matches: {rule}")?;
        }
        Ok(())
    }
}
