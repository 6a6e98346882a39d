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
    /// The number of the checkpoint to return to, such as 2 for [CHECKPOINT 2].
    checkpoint_id: i64,
    /// What you learned and what to do instead. Only this text remains of everything after the
    /// checkpoint.
    guidance: String,
}

/// An error of a rewind, for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RewindError {
    /// The guidance is empty.
    #[error("guidance is empty; write what you learned and what to do instead")]
    NoGuidance,
    /// The number is negative.
    #[error("checkpoint_id is negative; pass a number from 0 to {newest}")]
    Negative {
        /// The newest checkpoint.
        newest: u32,
    },
    /// The checkpoint does not exist.
    #[error("unknown checkpoint {asked}; available: 0 to {newest}")]
    Unknown {
        /// The requested value.
        asked: i64,
        /// The newest checkpoint.
        newest: u32,
    },
    /// Turns after the checkpoint were summarized or moved.
    #[error(
        "cannot return to checkpoint {0}: the conversation was compacted after it; choose a later one"
    )]
    Compacted(u32),
    /// The limit of rewinds is reached.
    #[error(
        "cannot return again: the limit of {0} returns has been reached; continue from the current state"
    )]
    UsedUp(u32),
    /// An earlier call of the step already rewinds.
    #[error("cannot return: another call in this step already returns to a checkpoint")]
    Twice,
    /// The agent has no checkpoints.
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
        "Returns to a checkpoint of this conversation, with guidance about what to do \
            differently. What you said and did since is removed from the conversation; changes \
            to files and other effects remain."
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
        let text = format!("Returning to checkpoint {}.", rewind.checkpoint);
        let value: Value = json!(rewind);
        Ok(ToolOutput { value: Some(value.into()), ..ToolOutput::text(text) })
    }
}
