//! `research_subagent`.

use std::{fmt::Write as _, sync::Arc};

use loopwright_core::{BoxError, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    child::{ChildAgent, ChildError},
    subagents::{SpawnError, policy::SubagentPolicy, queue::Queue},
};

const NAME: &str = "research";

/// Lets a sub-agent that can only read investigate a question.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ResearchSubagent {
    policy: SubagentPolicy,
    queue: Arc<Queue>,
}

/// The arguments of the tool `research_subagent`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResearchArgs {
    /// The question to investigate.
    pub task: String,
    /// Files to start with.
    #[serde(default)]
    pub files: Option<Vec<String>>,
}

impl ResearchSubagent {
    /// Creates the tool with a policy.
    pub fn from_policy(policy: SubagentPolicy) -> Self {
        Self { policy, queue: Arc::default() }
    }

    pub(super) fn waiting_in(mut self, queue: &Arc<Queue>) -> Self {
        self.queue = Arc::clone(queue);
        self
    }
}

impl Tool for ResearchSubagent {
    type Args = ResearchArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "research_subagent"
    }

    fn description(&self) -> &'static str {
        "Lets a sub-agent that can only read files investigate a question, and returns a summary \
            of its findings. Use it for work that requires a lot of reading, so that the \
            text stays out of this conversation."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::Resumable,
            namespace: Some("subagents".into()),
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: ResearchArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        if args.task.trim().is_empty() {
            return Err("`task` is empty; describe what to find out".into());
        }
        let tools = self.policy.research_tools.clone();
        let is_for_reading = tools.clone();
        let child = ChildAgent::of(cx, NAME)
            .keep_tools(move |name| is_for_reading.contains(name))
            .with_max_depth(self.policy.max_depth);
        if child.tools().is_empty() {
            let wanted: Vec<&str> = tools.iter().collect();
            return Err(
                format!("files cannot be read here: missing tool {}", wanted.join(", ")).into()
            );
        }
        let Some(_place) = self.queue.place(self.policy.max_concurrent, cx).await else {
            return Err(SpawnError::Cancelled(NAME.to_owned()).into());
        };
        let question = ask(&args);
        let ended = child.run(&question, |state| state.with_user_message(question.as_str())).await;
        let ended = ended.map_err(ChildError::into_tool_error)?;
        let answer = ended.answer().map_err(ChildError::into_tool_error)?;
        Ok(ended.to_output(self.policy.show(NAME, &answer.to_text())))
    }
}

fn ask(args: &ResearchArgs) -> String {
    let mut text = format!(
        "You investigate questions by reading files; you change nothing.\n\nThe task: {}",
        args.task.trim()
    );
    let files = args.files.as_deref().unwrap_or_default();
    if !files.is_empty() {
        text.push_str("\n\nStart with these files:");
        for file in files {
            // Writing to a string does not fail.
            let _written = write!(text, "\n- {file}");
        }
    }
    text.push_str(
        "\n\nRespond with a concise summary of your findings and the paths of their sources.",
    );
    text
}
