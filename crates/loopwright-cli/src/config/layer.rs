//! One layer, and merging of layers.

use std::collections::BTreeMap;

use super::{
    BaseUrl, CapabilitySettings, ChatSettings, Limits, McpTable, ModelFacts, ModelName, ModelRef,
    ModelRefs, NotifySettings, OutputFormat, PermissionSettings, Provider, RemoteAgentTable,
    RestateSettings, Roots, SandboxSettings, SearchSetting, Setting, Text, Timeouts,
};

/// The values that one flag set, environment or file holds, each with its origin.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) model: Option<Setting<ModelName>>,
    pub(super) fallback: Option<Setting<ModelRefs>>,
    pub(super) base_url: Option<Setting<BaseUrl>>,
    pub(super) system_prompt: Option<Setting<String>>,
    pub(super) output_format: Option<Setting<OutputFormat>>,
    pub(super) stream: Option<Setting<bool>>,
    pub(super) limits: Limits,
    pub(super) providers: BTreeMap<String, Provider>,
    /// Only the user's own file has any.
    pub(super) models: BTreeMap<String, ModelFacts>,
    pub(super) timeouts: Timeouts,
    pub(super) sandbox: SandboxSettings,
    /// Not laid over each other: rules of all files apply.
    pub(super) permissions: PermissionSettings,
    /// Not laid over each other: a server of the user wins over one of a project.
    pub(super) mcp: BTreeMap<String, Setting<McpTable>>,
    /// Only the user's own file has any.
    pub(super) capabilities: CapabilitySettings,
    /// Only the user's own file has any.
    pub(super) chat: ChatSettings,
    /// Only the user's own file has any.
    pub(super) aliases: BTreeMap<String, Setting<ModelRef>>,
    /// Only the user's own file has it.
    pub(super) remote_agents: BTreeMap<String, Setting<RemoteAgentTable>>,
    pub(super) web_search: Option<Setting<SearchSetting>>,
    pub(super) store_url: Option<Setting<Text>>,
    pub(super) worker_roots: Option<Setting<Roots>>,
    pub(super) restate: RestateSettings,
    pub(super) notify: NotifySettings,
}

impl Layer {
    /// Fills what is not set from a weaker layer.
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            model: self.model.or(weaker.model),
            fallback: self.fallback.or(weaker.fallback),
            base_url: self.base_url.or(weaker.base_url),
            system_prompt: self.system_prompt.or(weaker.system_prompt),
            output_format: self.output_format.or(weaker.output_format),
            stream: self.stream.or(weaker.stream),
            limits: self.limits.or(weaker.limits),
            providers: overlay(self.providers, weaker.providers),
            models: if self.models.is_empty() { weaker.models } else { self.models },
            timeouts: self.timeouts.or(weaker.timeouts),
            sandbox: self.sandbox.or(weaker.sandbox),
            permissions: self.permissions,
            mcp: self.mcp,
            capabilities: if self.capabilities.is_empty() {
                weaker.capabilities
            } else {
                self.capabilities
            },
            chat: self.chat.or(weaker.chat),
            aliases: if self.aliases.is_empty() { weaker.aliases } else { self.aliases },
            remote_agents: if self.remote_agents.is_empty() {
                weaker.remote_agents
            } else {
                self.remote_agents
            },
            web_search: self.web_search.or(weaker.web_search),
            store_url: self.store_url.or(weaker.store_url),
            worker_roots: self.worker_roots.or(weaker.worker_roots),
            restate: self.restate.or(weaker.restate),
            notify: NotifySettings {
                command: self.notify.command.or(weaker.notify.command),
                webhook: self.notify.webhook.or(weaker.notify.webhook),
            },
        }
    }
}

fn overlay(
    stronger: BTreeMap<String, Provider>,
    weaker: BTreeMap<String, Provider>,
) -> BTreeMap<String, Provider> {
    let mut providers = weaker;
    for (name, provider) in stronger {
        let below = providers.remove(&name).unwrap_or_default();
        providers.insert(name, provider.or(below));
    }
    providers
}
