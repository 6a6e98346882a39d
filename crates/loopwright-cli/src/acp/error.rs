//! Errors as JSON-RPC answers them.

use std::error::Error;

use serde_json::{Value, json};

use crate::console;
use crate::exit::ExitCode;
use crate::session::SessionsError;
use crate::startup::StartError;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    code: i32,
    message: String,
}

impl RpcError {
    pub(super) fn parse(message: impl Into<String>) -> Self {
        Self { code: -32700, message: message.into() }
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self { code: -32600, message: message.into() }
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self { code: -32601, message: format!("unknown method `{method}`") }
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self { code: -32602, message: message.into() }
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self { code: -32603, message: message.into() }
    }

    pub(super) fn auth_required(message: impl Into<String>) -> Self {
        Self { code: -32000, message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self { code: -32002, message: message.into() }
    }

    /// Reads the error of a response.
    pub(super) fn of(error: &Value) -> Self {
        let code = error["code"].as_i64().and_then(|it| i32::try_from(it).ok());
        let message = error["message"].as_str().unwrap_or("the client rejected the request");
        Self { code: code.unwrap_or(-32603), message: message.to_owned() }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn to_json(&self) -> Value {
        json!({"code": self.code, "message": self.message})
    }
}

fn text(error: &(dyn Error + 'static)) -> String {
    console::with_causes(error).join(": ")
}

impl From<StartError> for RpcError {
    fn from(refused: StartError) -> Self {
        let message = text(&*refused.error);
        if refused.exit_code == ExitCode::NoModel {
            return Self::auth_required(message);
        }
        match refused.error.downcast::<SessionsError>() {
            Ok(error) => (*error).into(),
            Err(_) if refused.exit_code == ExitCode::Usage => Self::invalid_params(message),
            Err(_) => Self::internal(message),
        }
    }
}

impl From<SessionsError> for RpcError {
    fn from(error: SessionsError) -> Self {
        let message = text(&error);
        match error {
            SessionsError::Unknown(_)
            | SessionsError::Deleted(_)
            | SessionsError::Ambiguous { .. } => Self::not_found(message),
            // Its text names a command, and an editor has none.
            SessionsError::NothingLeft(_) => Self::invalid_params(
                "the session has no unfinished work to continue; write a message",
            ),
            error if error.exit_code() == ExitCode::Usage => Self::invalid_params(message),
            _ => Self::internal(message),
        }
    }
}
