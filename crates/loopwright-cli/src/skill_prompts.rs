//! Skills as prompts for clients of the Model Context Protocol.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_capabilities::skills::{Skill, SkillAudience, SkillLibrary};
use loopwright_core::{BoxError, messages::Message};
use loopwright_mcp::{PromptCall, PromptReply, ServedArgument, ServedContent, ServedPrompt};

/// The name of the only argument.
const ARGUMENTS: &str = "arguments";

/// The skills that users may invoke.
pub(crate) struct SkillPrompts(pub(crate) SkillLibrary);

#[async_trait]
impl ServedContent for SkillPrompts {
    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        let skills = self.0.list(SkillAudience::All).into_iter();
        let prompt = |it: Arc<Skill>| ServedPrompt {
            name: it.name().to_owned(),
            description: it.info.description.clone(),
            arguments: vec![ServedArgument {
                name: ARGUMENTS.to_owned(),
                description: "The arguments of the skill".to_owned(),
                is_required: false,
            }],
        };
        Ok(skills.filter(|it| it.info.user_invocable).map(prompt).collect())
    }

    async fn prompt(&self, call: &PromptCall) -> Result<Option<PromptReply>, BoxError> {
        let skill = self.0.get(&call.name).filter(|it| it.info.user_invocable);
        let text = skill.map(|it| it.render(Some(call.argument(ARGUMENTS))));
        Ok(text.map(|it| PromptReply::Messages(vec![Message::user(it)])))
    }
}
