//! Completion of the arguments of prompts and of templates of resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext,
    Reference, ServerResult,
};
use tokio_util::sync::CancellationToken;

use crate::client::McpClient;
use crate::error::McpError;
use crate::text;

/// Values of one answer.
const MAX_VALUES: usize = 100;

/// The longest value, in bytes.
const MAX_VALUE: usize = 1_000;

/// What has an argument to complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompletionTarget {
    /// A prompt, by its name.
    Prompt(String),
    /// A template of resources, by its `uri` as it is listed.
    Template(String),
}

impl McpClient {
    /// Returns values for an argument that begins with `typed`, and starts the server if it is not running. `others` are the
    /// values of other arguments. Returns no values if the server does not support completion.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, does not answer, or refuses the request.
    pub async fn complete(
        &self,
        target: &CompletionTarget,
        argument: &str,
        typed: &str,
        others: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, Arc<McpError>> {
        let cancel = CancellationToken::new();
        let asked = self.asked(&cancel).await?;
        if !asked.connection.info.has_completions {
            return Ok(Vec::new());
        }
        let reference = match target {
            CompletionTarget::Prompt(name) => Reference::for_prompt(name),
            CompletionTarget::Template(uri) => Reference::for_resource(uri),
        };
        let mut params = CompleteRequestParams::new(reference, ArgumentInfo::new(argument, typed));
        if !others.is_empty() {
            let others = others.clone().into_iter().collect();
            params = params.with_context(CompletionContext::with_arguments(others));
        }
        let request = ClientRequest::CompleteRequest(CompleteRequest::new(params));
        let answer = asked.request("completion/complete", request).await?;
        let ServerResult::CompleteResult(result) = answer else {
            return Err(Arc::new(asked.connection.requests.unexpected("completion/complete")));
        };
        // A value is typed as it is, so one that cannot be shown is left out.
        let is_plain = |it: &String| {
            !it.is_empty() && it.len() <= MAX_VALUE && text::clean(it) == *it && !it.contains('\n')
        };
        Ok(result.completion.values.into_iter().filter(is_plain).take(MAX_VALUES).collect())
    }
}
