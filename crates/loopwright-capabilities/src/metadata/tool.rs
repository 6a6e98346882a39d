//! `store_metadata`, `read_metadata` and `list_metadata`.

use std::sync::Arc;

use loopwright_core::{
    Metadata, NoArgs, Reach, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::earlier_calls;
use crate::metadata::policy::{MetadataError, MetadataPolicy};
use crate::metadata::preview::{kind, preview};

/// Stores a value under a key.
#[derive(Clone, Debug, Default)]
pub struct StoreMetadata(pub(super) Arc<MetadataPolicy>);

/// The arguments of the tool `store_metadata`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreMetadataArgs {
    /// The key to store the value under. An earlier value is replaced.
    pub key: String,
    /// Any JSON value.
    pub value: Value,
}

impl StoreMetadata {
    /// Creates it with a policy.
    pub fn new(policy: MetadataPolicy) -> Self {
        Self(Arc::new(policy))
    }

    fn check(&self, args: &StoreMetadataArgs, cx: &ToolCx<'_>) -> Result<(), MetadataError> {
        self.0.check(&args.key, &args.value)?;
        let earlier = earlier_calls::earlier::<StoreMetadataArgs>(cx).into_iter();
        let coming: Vec<String> = earlier
            .filter(|it| self.0.check(&it.key, &it.value).is_ok())
            .map(|it| it.key)
            .collect();
        self.0.check_room(&args.key, cx.state.metadata(), &coming)
    }
}

impl Tool for StoreMetadata {
    type Args = StoreMetadataArgs;
    type Output = ToolOutput;
    type Error = MetadataError;

    fn name(&self) -> &'static str {
        "store_metadata"
    }

    fn description(&self) -> &'static str {
        "Stores a value under a key, so that you can read it in a later step or turn. An earlier \
            value under the key is replaced. The value can be read from the next step on."
    }

    fn options(&self) -> ToolOptions {
        looking()
    }

    async fn call(
        &self,
        args: StoreMetadataArgs,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, MetadataError> {
        self.check(&args, cx)?;
        let StoreMetadataArgs { key, value } = args;
        let text = format!("Stored `{key}`: {}", preview(&value));
        let result = json!({ "success": true, "key": key, "value": value, "error": null });
        let output = ToolOutput { value: Some(result.into()), ..ToolOutput::text(text) };
        Ok(output.with_metadata(key, value))
    }
}

/// Reads a stored value.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadMetadata;

/// The arguments of the tool `read_metadata`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMetadataArgs {
    /// The key of the stored value.
    pub key: String,
}

impl Tool for ReadMetadata {
    type Args = ReadMetadataArgs;
    type Output = ToolOutput;
    type Error = MetadataError;

    fn name(&self) -> &'static str {
        "read_metadata"
    }

    fn description(&self) -> &'static str {
        "Reads the value stored under a key: text unchanged, anything else as JSON."
    }

    fn options(&self) -> ToolOptions {
        looking()
    }

    async fn call(
        &self,
        args: ReadMetadataArgs,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, MetadataError> {
        let metadata = cx.state.metadata();
        if args.key.trim().is_empty() {
            return Err(MetadataError::EmptyKey);
        }
        let value = metadata.get(&args.key).cloned();
        let value = value.ok_or_else(|| unknown(args.key, metadata))?;
        Ok(ToolOutput::json(value))
    }
}

fn unknown(key: String, metadata: &Metadata) -> MetadataError {
    let keys: Vec<&str> = metadata.iter().map(|(key, _)| key).collect();
    let known = if keys.is_empty() {
        "no values are stored".to_owned()
    } else {
        format!("available: {}", keys.join(", "))
    };
    MetadataError::Unknown { key, known }
}

/// Lists the stored values.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListMetadata;

impl Tool for ListMetadata {
    type Args = NoArgs;
    type Output = ToolOutput;
    type Error = MetadataError;

    fn name(&self) -> &'static str {
        "list_metadata"
    }

    fn description(&self) -> &'static str {
        "Lists the keys of stored values, each with the type of its value."
    }

    fn options(&self) -> ToolOptions {
        looking()
    }

    async fn call(&self, _args: NoArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, MetadataError> {
        let metadata = cx.state.metadata();
        let keys = metadata.iter().map(|(key, value)| json!({ "key": key, "type": kind(value) }));
        let list = json!({ "count": metadata.len(), "keys": keys.collect::<Vec<_>>() });
        if metadata.is_empty() {
            let text = "No values are stored. Store a value with `store_metadata`.";
            return Ok(ToolOutput { value: Some(list.into()), ..ToolOutput::text(text) });
        }
        Ok(ToolOutput::json(list))
    }
}

/// They only look; what is kept is part of the answer.
fn looking() -> ToolOptions {
    ToolOptions {
        side_effects: SideEffects::ReadOnly,
        reach: Reach::Agent,
        ..ToolOptions::default()
    }
}
