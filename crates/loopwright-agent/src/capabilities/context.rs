//! The context and the instructions of the model.

use std::{fmt, sync::Arc};

use loopwright_core::{
    ContextCompiler,
    messages::{Message, ResponseFormat, Transcript},
};

use crate::{BuildError, Capability, Configurator, capabilities::capability};

/// Sets the context compiler.
#[derive(Clone)]
pub struct UseContextCompiler(Arc<dyn ContextCompiler>);

impl UseContextCompiler {
    /// Sets a compiler.
    pub fn new(compiler: impl ContextCompiler + 'static) -> Self {
        Self(Arc::new(compiler))
    }
}

capability!(UseContextCompiler, "use_context_compiler", |it, agent| {
    agent.compiler.set(Arc::clone(&it.0));
});

impl fmt::Debug for UseContextCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UseContextCompiler")
    }
}

/// Wraps the final compiler of the agent.
#[derive(Clone)]
pub struct UseContextCompilerDecorator(Arc<WrapCompiler>);

type WrapCompiler = dyn Fn(Arc<dyn ContextCompiler>) -> Arc<dyn ContextCompiler> + Send + Sync;

impl UseContextCompilerDecorator {
    /// Adds a wrapper. Later wrappers enclose this one.
    pub fn new(
        wrap: impl Fn(Arc<dyn ContextCompiler>) -> Arc<dyn ContextCompiler> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(wrap))
    }
}

capability!(UseContextCompilerDecorator, "use_context_compiler_decorator", |it, agent| {
    let wrap = Arc::clone(&it.0);
    agent.compiler.wrap(move |compiler| wrap(compiler));
});

impl fmt::Debug for UseContextCompilerDecorator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UseContextCompilerDecorator")
    }
}

/// The order of the agent's own instructions among the fragments: before those of capabilities.
const OWN: i16 = -100;

/// Sets the agent's system prompt and the response format. It overwrites nothing: a state's own
/// prompt comes first, fragments of other capabilities follow, and a state's own format wins.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseContextConfig {
    system_prompt: String,
    response_format: Option<ResponseFormat>,
}

impl UseContextConfig {
    /// Sets the system prompt; blank text counts as none.
    pub fn new(system_prompt: impl Into<String>) -> Self {
        let system_prompt: String = system_prompt.into();
        Self { system_prompt: system_prompt.trim().to_owned(), response_format: None }
    }

    /// Sets the response format.
    pub fn with_response_format(mut self, format: ResponseFormat) -> Self {
        self.response_format = Some(format);
        self
    }
}

capability!(UseContextConfig, "use_context_config", |it, agent| {
    if !it.system_prompt.is_empty() {
        agent.prompt.add(OWN, "context_config", it.system_prompt.as_str());
    }
    if let Some(format) = &it.response_format {
        agent.prompt.set_response_format(format.clone());
    }
});

/// Adds constant parts before the conversation in every request, so that providers can cache them.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseCachedContext {
    messages: Vec<Message>,
    response_format: Option<ResponseFormat>,
}

impl UseCachedContext {
    /// Creates the capability from messages. System messages become part of the system prompt, the
    /// others precede the conversation.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), response_format: None }
    }

    /// Sets the response format, for requests that set none.
    pub fn with_response_format(mut self, format: ResponseFormat) -> Self {
        self.response_format = Some(format);
        self
    }
}

impl Capability for UseCachedContext {
    fn name(&self) -> std::borrow::Cow<'static, str> {
        "use_cached_context".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let (system, others): (Vec<_>, Vec<_>) =
            self.messages.iter().cloned().partition(Message::is_system);
        let texts: Vec<String> = system.iter().map(Message::text).collect();
        if !texts.is_empty() {
            agent.prompt.append(OWN, "cached_context", texts.join("\n\n"));
        }
        let mut head = Transcript::new();
        for message in others {
            head.push_message(message).map_err(|error| {
                let reason = "only messages without tool calls can be cached";
                BuildError::Capability {
                    capability: self.name(),
                    reason: reason.to_owned(),
                    source: Some(error.into()),
                }
            })?;
        }
        agent.prompt.extend_head(&head);
        if let Some(format) = &self.response_format {
            agent.prompt.set_response_format(format.clone());
        }
        Ok(())
    }
}
