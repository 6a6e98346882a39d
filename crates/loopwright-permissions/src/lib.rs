#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod call;
mod command;
mod command_text;
mod decision;
mod domain;
mod explain;
mod judge;
mod matcher;
mod mode;
mod path;
mod policy;
mod rule;
mod rule_list;
mod settings;
mod settings_text;
mod shell;
mod source;
mod suggest;
mod lint;
mod table;
mod tool_rule;
mod tools;
mod variables;
mod verdict;

pub use call::{Access, Call, Need};
pub use command_text::{CommandText, CommandWord, SimpleCommand};
pub use decision::Decision;
pub use explain::{CommandExplanation, Explanation};
pub use lint::{LintFinding, LintKind};
pub use mode::{Mode, UnknownMode};
pub use path::PathCase;
pub use policy::{Policy, PolicyBuilder, ShadowCount, Shell};
pub use rule::Rule;
pub use settings::{claude_settings, unreadable_settings};
pub use settings_text::{SettingsEntries, SettingsText};
pub use source::{Source, SourceKind, Warning};
pub use suggest::SuggestedRule;
pub use table::{Table, TableError, TableFailure};
pub use tool_rule::ToolRule;
pub use tools::{ToolKind, foreign_name};
pub use verdict::{Reason, Verdict};
