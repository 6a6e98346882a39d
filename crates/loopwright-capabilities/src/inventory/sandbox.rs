//! A sandbox policy from a configuration with some of its fields.

use loopwright_agent::BuildError;
use loopwright_sandbox::SandboxPolicy;
use serde_json::{Value, json};

use crate::bash::BashPolicy;
use crate::files::WorkspaceRoot;

/// Fields that hold a time or null.
const TIMES: [&str; 2] = ["idle_timeout", "cpu"];

/// Returns the policy of commands in a directory, with what a configuration says of it. Times are seconds.
///
/// # Errors
///
/// Returns an error if the configuration names an unknown field, or a value does not fit.
pub(super) fn policy(
    capability: &'static str,
    root: &WorkspaceRoot,
    display: &BashPolicy,
    changes: &Value,
) -> Result<SandboxPolicy, BuildError> {
    let wrong = |reason: String| BuildError::Capability {
        capability: capability.into(),
        reason: "the `sandbox` setting is invalid".to_owned(),
        source: Some(reason.into()),
    };
    let policy = SandboxPolicy::in_dir(root.path()).with_timeout(display.timeout);
    let policy = root.extra_protected_paths().fold(policy, SandboxPolicy::protect);
    let mut value = serde_json::to_value(policy).map_err(|error| wrong(error.to_string()))?;
    lay_over(&mut value, changes, "sandbox").map_err(wrong)?;
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}

/// Lays a value over another one of the same form, field by field.
fn lay_over(value: &mut Value, changes: &Value, at: &str) -> Result<(), String> {
    let field = at.rsplit('.').next().unwrap_or_default();
    let is_time = |map: &serde_json::Map<String, Value>| map.contains_key("nanos");
    match (&mut *value, changes) {
        (Value::Object(map), Value::Number(seconds)) if is_time(map) => {
            *value = time(seconds.as_f64(), at)?;
        }
        (Value::Null, Value::Number(seconds)) if TIMES.contains(&field) => {
            *value = time(seconds.as_f64(), at)?;
        }
        (Value::Object(map), Value::Object(changes)) if !map.is_empty() => {
            for (key, change) in changes {
                let known: Vec<String> = map.keys().map(|it| format!("`{it}`")).collect();
                let Some(value) = map.get_mut(key) else {
                    let known = known.join(", ");
                    return Err(format!("unknown field `{at}.{key}`, expected one of {known}"));
                };
                lay_over(value, change, &format!("{at}.{key}"))?;
            }
        }
        _ => *value = changes.clone(),
    }
    Ok(())
}

fn time(seconds: Option<f64>, at: &str) -> Result<Value, String> {
    let time = std::time::Duration::try_from_secs_f64(seconds.unwrap_or(f64::NAN));
    time.map(|it| json!(it)).map_err(|error| format!("`{at}`: {error}"))
}
