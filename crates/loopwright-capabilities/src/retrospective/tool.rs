//! `execution_retrospective`.

use loopwright_core::{Reach, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    earlier_calls,
    retrospective::{
        checkpoint::{RewindRequest, Ways, is_reachable},
        hook,
    },
};

pub(super) const NAME: &str = "execution_retrospective";

/// Asks for going back; the hook does it when the step has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retrospective {
    pub(super) max_rewinds: u32,
}

/// What the model passes to `execution_retrospective`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetrospectiveArgs {
    /// The number of the checkpoint to go back to, such as 2 for [CHECKPOINT 2].
    checkpoint_id: i64,
    /// What you learned and what to do instead. It is all that stays of what came after the checkpoint.
    guidance: String,
}

/// Why the conversation does not go back; the model is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RewindError {
    /// There is no guidance.
    #[error("guidance is empty; write what you learned and what to do instead")]
    NoGuidance,
    /// Checkpoints are counted from zero.
    #[error("checkpoint_id is negative; pass 0 to {newest}")]
    Negative {
        /// The newest one.
        newest: u32,
    },
    /// There is no such checkpoint.
    #[error("unknown checkpoint {asked}; available: 0 to {newest}")]
    Unknown {
        /// What was asked for.
        asked: i64,
        /// The newest one.
        newest: u32,
    },
    /// What came after it was summarised or moved.
    #[error(
        "cannot return to checkpoint {0}: the conversation was compacted since; choose a later one"
    )]
    Compacted(u32),
    /// The limit is reached.
    #[error(
        "cannot go back again: the limit of {0} returns is reached; continue from the current state"
    )]
    UsedUp(u32),
    /// A call before this one goes back already.
    #[error("cannot go back: another call of this step already does")]
    Twice,
    /// The agent does not keep checkpoints.
    #[error("there are no checkpoints; continue from the current state")]
    NoCheckpoints,
}

impl Retrospective {
    fn check(self, args: RetrospectiveArgs, cx: &ToolCx<'_>) -> Result<RewindRequest, RewindError> {
        let ways = Ways::of(cx.state);
        if ways.rewinds >= self.max_rewinds {
            return Err(RewindError::UsedUp(ways.rewinds));
        }
        if args.guidance.trim().is_empty() {
            return Err(RewindError::NoGuidance);
        }
        let (asked, newest) = (args.checkpoint_id, ways.checkpoint_before(cx.key.step));
        if asked < 0 {
            return Err(RewindError::Negative { newest });
        }
        let checkpoint = u32::try_from(asked).ok().filter(|it| *it <= newest);
        let checkpoint = checkpoint.ok_or(RewindError::Unknown { asked, newest })?;
        if !is_reachable(cx.state, ways.step_after(checkpoint)) {
            return Err(RewindError::Compacted(checkpoint));
        }
        Ok(RewindRequest { checkpoint, guidance: args.guidance })
    }
}

impl Tool for Retrospective {
    type Args = RetrospectiveArgs;
    type Output = ToolOutput;
    type Error = RewindError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Goes back to a checkpoint of this conversation, with guidance about what to do differently. What \
         you said and did since leaves the conversation; what was done to files and elsewhere stays."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::ReadOnly,
            reach: Reach::Agent,
            ..ToolOptions::default()
        }
    }

    async fn call(
        &self,
        args: RetrospectiveArgs,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, RewindError> {
        // A sub-agent may have been given the tool without the rest.
        if !hook::is_in(cx.agent) {
            return Err(RewindError::NoCheckpoints);
        }
        let rewind = self.check(args, cx)?;
        let earlier = earlier_calls::earlier::<RetrospectiveArgs>(cx);
        if earlier.into_iter().any(|it| self.check(it, cx).is_ok()) {
            return Err(RewindError::Twice);
        }
        let text = format!("Going back to checkpoint {}.", rewind.checkpoint);
        let value: Value = json!(rewind);
        Ok(ToolOutput { value: Some(value.into()), ..ToolOutput::text(text) })
    }
}
