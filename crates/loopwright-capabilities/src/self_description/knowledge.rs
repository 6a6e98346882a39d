//! Documentation about the agent.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::AgentLoop;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Tells the model where the documentation of its software is, by topic, so that it reads before it
/// answers. Adds no tool.
///
/// The model receives no such instructions if the documentation is incomplete or the agent has no
/// tool that reads files, including copies of the agent that lost the tool.
///
/// ```
/// use loopwright_capabilities::self_description::UseSelfKnowledge;
///
/// let knowledge = UseSelfKnowledge::in_dir("/srv/project/docs")
///     .with_topic("tools", ["tools.md"])
///     .with_topic("sandbox", ["sandbox.md", "limits.md"]);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UseSelfKnowledge {
    docs: PathBuf,
    readme: PathBuf,
    examples: Option<PathBuf>,
    topics: Vec<(String, Vec<PathBuf>)>,
    read_tool: ReadToolRequirement,
}

/// Whether a tool that reads files is required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadToolRequirement {
    /// Required: `read_file` or `read`.
    #[default]
    Required,
    /// Not required: the model can read files in another way.
    Optional,
}

/// The tools that count.
const READERS: [&str; 2] = ["read_file", "read"];
/// After everything else.
const ORDER: i16 = 200;

impl UseSelfKnowledge {
    /// Creates the capability for the documentation in a directory. Its overview is `README.md`.
    pub fn in_dir(docs: impl Into<PathBuf>) -> Self {
        let docs: PathBuf = docs.into();
        let readme = docs.join("README.md");
        Self {
            docs,
            readme,
            examples: None,
            topics: Vec::new(),
            read_tool: ReadToolRequirement::default(),
        }
    }

    /// Sets another file as the overview.
    pub fn with_readme(mut self, path: impl Into<PathBuf>) -> Self {
        self.readme = path.into();
        self
    }

    /// Names a directory of examples.
    pub fn with_examples(mut self, path: impl Into<PathBuf>) -> Self {
        self.examples = Some(path.into());
        self
    }

    /// Sets the files of the directory about a topic.
    pub fn with_topic<P: Into<PathBuf>>(
        mut self,
        topic: impl Into<String>,
        files: impl IntoIterator<Item = P>,
    ) -> Self {
        self.topics.push((topic.into(), files.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets whether a tool that reads files is required.
    pub fn with_read_tool(mut self, read_tool: ReadToolRequirement) -> Self {
        self.read_tool = read_tool;
        self
    }

    /// Returns `true` if everything is there.
    fn is_complete(&self) -> bool {
        let mut files = self.topics.iter().flat_map(|(_, files)| files);
        let examples = self.examples.iter().all(|it| it.is_dir());
        let docs = self.docs.is_dir() && self.readme.is_file();
        docs && examples && files.all(|file| self.docs.join(file).is_file())
    }

    fn can_read(&self, agent: &AgentLoop) -> bool {
        let has_tool = READERS.iter().any(|name| agent.tools().get(name).is_some());
        has_tool || self.read_tool == ReadToolRequirement::Optional
    }

    fn prompt(&self) -> String {
        let shown = |path: &Path| path.display().to_string();
        let mut lines = vec![
            "About this software: before you answer questions about it or change its setup, read \
                the files of the topic in full."
                .to_owned(),
            format!("- overview: {}", shown(&self.readme)),
        ];
        lines.extend(self.examples.iter().map(|it| format!("- examples: {}", shown(it))));
        for (topic, files) in &self.topics {
            let files: Vec<String> = files.iter().map(|it| shown(&self.docs.join(it))).collect();
            lines.push(format!("- {topic}: {}", files.join(", ")));
        }
        lines.join("\n")
    }

    fn note(&self) -> Value {
        let topics = self.topics.iter();
        let topics = topics.map(|(topic, files)| json!({ "topic": topic, "files": files }));
        json!({
            "readmePath": self.readme,
            "docsPath": self.docs,
            "examplesPath": self.examples,
            "topics": topics.collect::<Vec<_>>(),
        })
    }
}

impl Capability for UseSelfKnowledge {
    fn name(&self) -> Cow<'static, str> {
        "use_self_knowledge".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        if !self.is_complete() {
            return Ok(());
        }
        let (knowledge, prompt) = (Arc::new(self.clone()), Arc::<str>::from(self.prompt()));
        let (noted, note) = (Arc::clone(&knowledge), self.note());
        agent.prompt.derive(ORDER, "self_knowledge", move |agent| {
            knowledge.can_read(agent).then(|| Arc::clone(&prompt))
        });
        agent
            .profile
            .annotate("selfKnowledge", move |agent| noted.can_read(agent).then(|| note.clone()));
        Ok(())
    }
}
