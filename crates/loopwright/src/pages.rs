//! Compiles the programs in the README and in the pages below `docs`.

/// Compiles and runs the Rust blocks of each page as documentation examples.
macro_rules! pages {
    ($($name:ident = $path:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../", $path))]
            struct $name;
        )*
    };
}

pages! {
    Readme = "README.md",
    Introduction = "docs/introduction.md",
    Agents = "docs/agents.md",
    Broadcasting = "docs/broadcasting.md",
    Providers = "docs/providers.md",
    Loop = "docs/concepts/loop.md",
    Decisions = "docs/how-to/decisions.md",
    Errors = "docs/how-to/errors.md",
    ToolArguments = "docs/how-to/tool-arguments.md",
    ToolSources = "docs/how-to/tool-sources.md",
    Mcp = "docs/how-to/mcp.md",
    CustomEvents = "docs/how-to/custom-events.md",
    Tracing = "docs/how-to/tracing.md",
    Limits = "docs/how-to/limits.md",
    Streaming = "docs/how-to/streaming.md",
    WriteACapability = "docs/how-to/write-a-capability.md",
    WriteAFileTool = "docs/how-to/write-a-file-tool.md",
    WriteAWire = "docs/how-to/write-a-wire.md",
    WhyDidItStop = "docs/how-to/why-did-it-stop.md",
    Cancellation = "docs/capabilities/cancellation.md",
    Critique = "docs/capabilities/critique.md",
    History = "docs/capabilities/history.md",
    Inventory = "docs/capabilities/inventory.md",
    LlmQuery = "docs/capabilities/llm-query.md",
    Llm = "docs/capabilities/llm.md",
    Metadata = "docs/capabilities/metadata.md",
    Planning = "docs/capabilities/planning.md",
    Questions = "docs/capabilities/questions.md",
    External = "docs/capabilities/external.md",
    Recording = "docs/capabilities/recording.md",
    Retrospective = "docs/capabilities/retrospective.md",
    SelfDescription = "docs/capabilities/self-description.md",
    Skills = "docs/capabilities/skills.md",
    StructuredOutput = "docs/capabilities/structured-output.md",
    Subagents = "docs/capabilities/subagents.md",
    Summarization = "docs/capabilities/summarization.md",
    SystemPrompt = "docs/capabilities/system-prompt.md",
    Tasks = "docs/capabilities/tasks.md",
    ToolRegistry = "docs/capabilities/tool-registry.md",
}

#[cfg(feature = "remote")]
pages! {
    RemoteAgent = "docs/capabilities/remote-agent.md",
}

#[cfg(feature = "web")]
pages! {
    Web = "docs/capabilities/web.md",
}

#[cfg(feature = "sqlite")]
pages! {
    Conversations = "docs/how-to/conversations.md",
}

#[cfg(all(feature = "permissions", feature = "sessions"))]
pages! {
    Approvals = "docs/how-to/approvals.md",
}

#[cfg(feature = "sessions")]
pages! {
    WriteASessionStore = "docs/how-to/write-a-session-store.md",
}
