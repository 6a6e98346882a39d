//! Parsing of data from a model's text.

use serde_json::Value;

/// Returns the JSON that a text is, or that stands in it: in a fenced block, or from the first brace or
/// bracket on.
pub(super) fn json_in(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the response is empty; answer with JSON".to_owned());
    }
    let error = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let found = fenced(text).and_then(|it| serde_json::from_str(it.trim()).ok());
    found
        .or_else(|| text.find(['{', '[']).and_then(|at| first(&text[at..])))
        .ok_or_else(|| format!("the response is not JSON: {error}"))
}

/// Returns what is between the first fences.
fn fenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (_, inside) = after.split_once('\n')?;
    Some(inside.split_once("```").map_or(inside, |(inside, _)| inside))
}

/// Reads the value that a text begins with.
fn first(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter().next()?.ok()
}
