//! Parsing of `SKILL.md` files.

use loopwright_core::messages::ReasoningEffort;
use loopwright_permissions::ToolRule;
use serde_json::{Map, Value};

use crate::front_matter;
use crate::skills::policy::is_foreign_model;
use crate::skills::skill::{Skill, SkillContext, SkillInfo};
use crate::skills::substitute::numbered;
use crate::skills::warning::SkillProblem;

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;

/// The key of hooks, which only some programs run.
pub(super) const HOOKS: &str = "hooks";

/// Keys of other programs that are not supported.
const UNSUPPORTED: [&str; 2] = ["paths", "shell"];

impl Skill {
    /// Parses a `SKILL.md`: front matter between two lines `---`, followed by Markdown. A skill
    /// without a name is named after its directory. Harmless problems become warnings.
    ///
    /// # Errors
    ///
    /// Returns an error if the restrictions of the skill are unknown: its front matter is not YAML,
    /// or `allowed-tools`, `disable-model-invocation` or `hooks` is invalid.
    pub fn parse(directory: &str, text: &str) -> Result<(Self, Vec<SkillProblem>), SkillProblem> {
        let text = front_matter::plain(text);
        let mut problems = Vec::new();
        let Some((front, body)) = front_matter::split(&text) else {
            problems.push(SkillProblem::NoFrontMatter);
            let info = SkillInfo::new(directory, "");
            return Ok((Self::new(info, text.into_owned()), problems));
        };
        let map = read(front, &mut problems)?;
        let mut reader = Reader { map, problems: &mut problems };
        let arguments = reader.arguments();
        let info = reader.info(directory)?;
        check(&info, directory, &mut problems);
        Ok((Self::new(info, numbered(body.trim_start_matches('\n'), &arguments)), problems))
    }
}

fn read(front: &str, problems: &mut Vec<SkillProblem>) -> Result<Map<String, Value>, SkillProblem> {
    let read = front_matter::read(front)
        .map_err(|error| SkillProblem::BadFrontMatter(error.to_string()))?;
    if read.is_quoted {
        problems.push(SkillProblem::Quoted);
    }
    Ok(read.yaml.values)
}

struct Reader<'a> {
    map: Map<String, Value>,
    problems: &'a mut Vec<SkillProblem>,
}

impl Reader<'_> {
    fn info(&mut self, directory: &str) -> Result<SkillInfo, SkillProblem> {
        let allowed_tools = self.rules()?;
        let hooks = self.hooks()?;
        self.unsupported()?;
        let disabled = self.flag("disable-model-invocation").map_err(|expected| {
            SkillProblem::BadRestriction { key: "disable-model-invocation", expected }
        })?;
        let user_invocable = self.flag("user-invocable").unwrap_or_else(|expected| {
            self.problems.push(SkillProblem::WrongType { key: "user-invocable", expected });
            None
        });
        let is_fork = self.text("context").is_some_and(|it| it.eq_ignore_ascii_case("fork"));
        let description = self.description();
        let name = self.text("name").map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
        Ok(SkillInfo {
            license: self.text("license"),
            compatibility: self.text("compatibility"),
            metadata: self.metadata(),
            allowed_tools,
            model_invocable: !disabled.unwrap_or(false),
            user_invocable: user_invocable.unwrap_or(true),
            argument_hint: self.hint(),
            model: self.text("model").filter(|it| !it.trim().is_empty()),
            effort: self.effort(),
            context: if is_fork { SkillContext::Fork } else { SkillContext::Inline },
            agent: self.text("agent"),
            hooks,
            ..SkillInfo::new(name.unwrap_or_else(|| directory.to_owned()), description)
        })
    }

    /// Takes the hooks, which can be restrictions. The library knows whether the program runs them.
    fn hooks(&mut self) -> Result<Map<String, Value>, SkillProblem> {
        let key = HOOKS;
        let hooks = match self.map.remove(key) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(hooks)) => hooks,
            Some(_) => {
                return Err(SkillProblem::BadRestriction { key, expected: "a map of events" });
            }
        };
        if !hooks.is_empty() {
            self.problems.push(SkillProblem::Unsupported { key });
        }
        Ok(hooks)
    }

    /// Takes how much the model reasons. `xhigh` and `max` of other programs stand for the highest level.
    fn effort(&mut self) -> Option<ReasoningEffort> {
        let key = "effort";
        let value = self.map.remove(key).filter(|it| !it.is_null())?;
        let effort = match value.as_str() {
            Some("xhigh" | "max") => Some(ReasoningEffort::High),
            _ => serde_json::from_value(value).ok(),
        };
        if effort.is_none() {
            self.problems.push(SkillProblem::Unsupported { key });
        }
        effort
    }

    /// Takes the description, and when to use the skill.
    fn description(&mut self) -> String {
        let parts = [self.text("description"), self.text("when_to_use")];
        let parts = parts.iter().flatten().map(|it| it.trim()).filter(|it| !it.is_empty());
        parts.collect::<Vec<_>>().join(" ")
    }

    /// Reports keys of other programs that would change what a skill does.
    fn unsupported(&mut self) -> Result<(), SkillProblem> {
        let key = "disallowed-tools";
        let is_empty =
            |it: Value| it.is_null() || it == "" || it.as_array().is_some_and(Vec::is_empty);
        if !self.map.remove(key).is_none_or(is_empty) {
            return Err(SkillProblem::UnsupportedRestriction { key });
        }
        for key in UNSUPPORTED {
            if self.map.remove(key).is_some_and(|it| !it.is_null()) {
                self.problems.push(SkillProblem::Unsupported { key });
            }
        }
        Ok(())
    }

    /// Takes the names of the arguments: `$NAME` in the text stands for one.
    fn arguments(&mut self) -> Vec<String> {
        let key = "arguments";
        match self.map.remove(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
            Some(Value::Array(all)) if all.iter().all(Value::is_string) => {
                all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(_) => {
                self.problems.push(SkillProblem::WrongType { key, expected: "a list of names" });
                Vec::new()
            }
        }
    }

    /// Takes a text; numbers and switches are taken as they are written.
    fn text(&mut self, key: &'static str) -> Option<String> {
        match self.map.remove(key)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
            Value::Array(_) | Value::Object(_) => {
                self.problems.push(SkillProblem::WrongType { key, expected: "text" });
                None
            }
        }
    }

    /// Takes a hint, which is often written as `[number]` without quotes.
    fn hint(&mut self) -> Option<String> {
        match self.map.get("argument-hint") {
            Some(Value::Array(words)) => {
                let word = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
                let words: Vec<String> = words.iter().map(word).collect();
                Some(format!("[{}]", words.join(", ")))
            }
            _ => self.text("argument-hint"),
        }
    }

    fn flag(&mut self, key: &str) -> Result<Option<bool>, &'static str> {
        let Some(value) = self.map.remove(key) else { return Ok(None) };
        match &value {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            Value::String(word) => match word.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Ok(Some(true)),
                "false" | "no" | "off" => Ok(Some(false)),
                _ => Err("true or false"),
            },
            _ => Err("true or false"),
        }
    }

    fn rules(&mut self) -> Result<Vec<ToolRule>, SkillProblem> {
        let key = "allowed-tools";
        let wrong = || SkillProblem::BadRestriction { key, expected: "a list of tools" };
        match self.map.remove(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(ToolRule::list(&text)),
            Some(Value::Array(words)) => {
                words.iter().map(|it| it.as_str().map(ToolRule::new).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Takes the metadata. Tags and resources of the older format are kept with it.
    fn metadata(&mut self) -> Map<String, Value> {
        let mut metadata = match self.map.remove("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(_) => {
                let (key, expected) = ("metadata", "a list of `key: value`");
                self.problems.push(SkillProblem::WrongType { key, expected });
                Map::new()
            }
        };
        for key in ["tags", "resources"] {
            if let Some(value) = self.map.remove(key) {
                metadata.entry(key).or_insert(value);
            }
        }
        metadata
    }
}

fn check(info: &SkillInfo, directory: &str, problems: &mut Vec<SkillProblem>) {
    if !is_name(&info.name) {
        problems.push(SkillProblem::BadName(info.name.clone()));
    } else if info.name != directory {
        let (name, directory) = (info.name.clone(), directory.to_owned());
        problems.push(SkillProblem::NameMismatch { name, directory });
    }
    if info.description.is_empty() {
        problems.push(SkillProblem::NoDescription);
    }
    if let Some(model) = info.model.as_deref().filter(|it| is_foreign_model(it)) {
        problems.push(SkillProblem::ForeignModel(model.trim().to_owned()));
    }
    if info.agent.is_some() && info.context == SkillContext::Inline {
        problems.push(SkillProblem::AgentWithoutFork);
    }
    let compatibility = info.compatibility.as_deref().unwrap_or_default();
    let texts = [
        ("description", info.description.as_str(), MAX_DESCRIPTION),
        ("compatibility", compatibility, MAX_COMPATIBILITY),
    ];
    for (key, text, most) in texts {
        let length = text.chars().count();
        if length > most {
            problems.push(SkillProblem::TooLong { key, length, most });
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |it: &str| {
        !it.is_empty() && it.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
    };
    name.len() <= MAX_NAME && name.split('-').all(is_part)
}
