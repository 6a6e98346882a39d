//! One skill.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::skills::shell::{commands, expanded};
use crate::skills::substitute::{Values, substitute};
use loopwright_core::messages::ReasoningEffort;
use loopwright_permissions::ToolRule;

/// Instructions for one kind of work, which a model loads when needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    /// The front matter.
    pub info: SkillInfo,
    /// The instructions.
    pub body: String,
    /// The files that belong to it, as `folder/name`.
    pub resources: Vec<String>,
    /// The directory of its files. `None` means that a program created it.
    pub directory: Option<PathBuf>,
}

/// The front matter of a skill.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillInfo {
    /// The name, unique in a library.
    pub name: String,
    /// The description: what the skill does and when to use it.
    pub description: String,
    /// The license.
    pub license: Option<String>,
    /// The requirements on the environment.
    pub compatibility: Option<String>,
    /// Other data, such as `tags`.
    pub metadata: Map<String, Value>,
    /// The calls that run without approval while it is active, if a program grants them: [`SkillGrants`](super::SkillGrants). They
    /// forbid no other calls.
    pub allowed_tools: Vec<ToolRule>,
    /// Whether models see it.
    pub model_invocable: bool,
    /// Whether people see it.
    pub user_invocable: bool,
    /// The hint for its arguments.
    pub argument_hint: Option<String>,
    /// The model that is used while it is active.
    pub model: Option<String>,
    /// How much the model reasons while it is active.
    pub effort: Option<ReasoningEffort>,
    /// Where it runs.
    pub context: SkillContext,
    /// The agent that runs it, if it runs in its own conversation.
    pub agent: Option<String>,
    /// Commands that run on events while it is active, by the names of the events. A program that runs them says so with
    /// [`SkillLibrary::with_hooks`](super::SkillLibrary::with_hooks).
    pub hooks: Map<String, Value>,
}

/// The place where a skill runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SkillContext {
    /// In the conversation that loads it.
    #[default]
    Inline,
    /// In its own conversation; only the answer is returned.
    Fork,
}

impl SkillInfo {
    /// Creates metadata of a skill that every model sees.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            license: None,
            compatibility: None,
            metadata: Map::new(),
            allowed_tools: Vec::new(),
            model_invocable: true,
            user_invocable: true,
            argument_hint: None,
            model: None,
            effort: None,
            context: SkillContext::Inline,
            agent: None,
            hooks: Map::new(),
        }
    }

    /// Returns the skill as a line of a list: `- [name hint]: description`.
    pub fn to_line(&self) -> String {
        let hint = self.argument_hint.iter().map(|hint| format!(" {}", one_line(hint)));
        let hint: String = hint.collect();
        format!("- [{}{hint}]: {}", one_line(&self.name), one_line(&self.description))
    }
}

impl Skill {
    /// Creates a skill without files.
    pub fn new(info: SkillInfo, body: impl Into<String>) -> Self {
        Self { info, body: body.into(), resources: Vec::new(), directory: None }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Returns the instructions, without anything filled in.
    pub fn content(&self) -> &str {
        &self.body
    }

    /// Returns the text for the model: the body with its arguments, and the list of files.
    pub fn render(&self, arguments: Option<&str>) -> String {
        self.wrap(&self.filled(arguments))
    }

    /// Returns the body with its arguments.
    pub(super) fn filled(&self, arguments: Option<&str>) -> String {
        self.with_values(arguments, |values| substitute(&self.body, values))
    }

    /// Returns the text for the model like [`render`](Self::render), with the outputs of the
    /// [commands](Self::commands) in their place. Neither arguments nor outputs are searched for commands and placeholders.
    pub fn render_with(
        &self,
        arguments: Option<&str>,
        outputs: impl IntoIterator<Item = String>,
    ) -> String {
        self.with_values(arguments, |values| self.wrap(&expanded(&self.body, values, outputs)))
    }

    /// Returns the commands of the text as they run, in order. They are those of the file: no directory and no argument
    /// adds one.
    pub fn commands(&self) -> Vec<String> {
        self.with_values(None, |values| commands(&self.body, values))
    }

    /// Returns the directory of its files, as its text has it.
    pub(super) fn place(&self) -> Option<String> {
        self.directory.as_ref().map(|it| it.display().to_string())
    }

    fn with_values<T>(&self, arguments: Option<&str>, f: impl FnOnce(Values<'_>) -> T) -> T {
        f(Values { arguments, directory: self.place().as_deref() })
    }

    /// Puts a body that is filled in between its tags, with the list of files.
    pub(super) fn wrap(&self, body: &str) -> String {
        let name = self.name().replace('"', "&quot;");
        let body = body.trim_end();
        let files = self.files();
        format!("<skill_content name=\"{}\">\n{body}\n{files}</skill_content>", one_line(&name))
    }

    /// Lists the files, if there are any.
    fn files(&self) -> String {
        if self.resources.is_empty() {
            return String::new();
        }
        let place = self.directory.as_ref();
        let place = place.map(|it| format!("Paths are relative to {}", it.display()));
        let files = self.resources.iter().map(|it| format!("- {it}"));
        let lines: Vec<String> = place.into_iter().chain(files).collect();
        format!("\n<skill_resources>\n{}\n</skill_resources>\n", lines.join("\n"))
    }
}

/// Writes a text on one line.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split(|it: char| it.is_whitespace() || it.is_control()).collect();
    let words = words.into_iter().filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join(" ")
}
