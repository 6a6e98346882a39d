//! A scripted model.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::{
    ChatModel, Clock, Delta, InferCx, ModelError, ModelErrorKind,
    messages::{
        Content, InferenceRequest, InferenceResponse, Message, Part, Role, ToolCall, Usage,
    },
};
use serde_json::Value;

/// What is said at one step.
#[derive(Clone, Debug)]
pub(super) struct Line {
    text: String,
    calls: Vec<(&'static str, Value)>,
}

/// How fast it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// So that people can follow.
    Reading,
    /// At once.
    Instant,
}

/// A model that says one line after the other, whatever it is asked.
#[derive(Debug)]
pub(super) struct Script {
    lines: Vec<Line>,
    pace: Pace,
    next: AtomicUsize,
}

impl Line {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new() }
    }

    pub(super) fn call(mut self, tool: &'static str, arguments: Value) -> Self {
        self.calls.push((tool, arguments));
        self
    }

    fn message(&self, number: usize) -> Message {
        let calls = self.calls.iter().enumerate().map(|(index, (tool, arguments))| {
            let id = format!("call_{number}_{index}");
            Part::new(Content::ToolCall(ToolCall::new(id, *tool, arguments.to_string())))
        });
        let text = Part::text(self.text.as_str());
        Message::new(Role::Assistant, std::iter::once(text).chain(calls))
    }
}

impl Script {
    pub(super) fn new(lines: Vec<Line>, pace: Pace) -> Self {
        Self { lines, pace, next: AtomicUsize::new(0) }
    }

    async fn pause(&self, clock: &dyn Clock, millis: u64) {
        if self.pace == Pace::Reading {
            clock.sleep(Duration::from_millis(millis)).await;
        }
    }
}

#[async_trait]
impl ChatModel for Script {
    async fn infer(
        &self,
        _request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let number = self.next.fetch_add(1, Relaxed);
        let Some(line) = self.lines.get(number) else {
            return Err(ModelError::new(
                ModelErrorKind::Protocol,
                "the demo script has no further response",
            ));
        };
        self.pause(cx.clock, 500).await;
        for word in line.text.split_inclusive([' ', '\n']) {
            cx.deltas.push(Delta::Text(word));
            self.pause(cx.clock, 30).await;
        }
        cx.deltas.push(Delta::End);
        Ok(InferenceResponse::new(line.message(number), Usage::default()))
    }
}
