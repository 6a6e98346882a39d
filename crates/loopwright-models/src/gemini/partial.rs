//! Arguments that arrive as values at paths.

use serde_json::{Map, Value};

use super::wire::PartialArg;

/// The most steps of a path, as deep as JSON is read elsewhere.
const DEEPEST: usize = 100;

/// The most items that a list lacks before one that is named.
const MAX_MISSING: usize = 1000;

/// One step down from a value.
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

/// Puts a value where its path leads; a text continues the text that is there.
///
/// Returns `None` if the path is invalid: it is malformed, or it leads through something that is
/// neither an object nor a list.
pub(super) fn put(arguments: &mut Map<String, Value>, arg: &PartialArg<'_>) -> Option<()> {
    let mut rest = arg.json_path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, more) = next_step(rest)?;
        steps.push(step);
        rest = more;
    }
    if steps.len() > DEEPEST {
        return None;
    }
    let (Step::Field(first), steps) = steps.split_first()? else { return None };
    let mut place = arguments.entry(*first).or_insert(Value::Null);
    for step in steps {
        place = step.down(place)?;
    }
    match (&arg.string_value, &arg.number_value, arg.bool_value) {
        (Some(more), _, _) => match place {
            Value::String(text) => text.push_str(more),
            place => *place = Value::from(more.as_ref()),
        },
        (None, Some(number), _) => *place = Value::Number(number.clone()),
        (None, None, Some(bool)) => *place = bool.into(),
        (None, None, None) => *place = Value::Null,
    }
    Some(())
}

/// Reads `.name`, `['name']`, `["name"]` or `[0]`.
fn next_step(path: &str) -> Option<(Step<'_>, &str)> {
    if let Some(path) = path.strip_prefix('.') {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (name, rest) = path.split_at(end);
        return (!name.is_empty()).then_some((Step::Field(name), rest));
    }
    let path = path.strip_prefix('[')?;
    for quote in ["'", "\""] {
        if let Some(path) = path.strip_prefix(quote) {
            let (name, rest) = path.split_once(quote)?;
            return Some((Step::Field(name), rest.strip_prefix(']')?));
        }
    }
    let (item, rest) = path.split_once(']')?;
    Some((Step::Item(item.parse().ok()?), rest))
}

impl Step<'_> {
    /// Goes down, making what is not there yet.
    fn down<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match self {
            Self::Field(name) => {
                if value.is_null() {
                    *value = Value::Object(Map::new());
                }
                Some(value.as_object_mut()?.entry(*name).or_insert(Value::Null))
            }
            Self::Item(item) => {
                if value.is_null() {
                    *value = Value::Array(Vec::new());
                }
                let items = value.as_array_mut()?;
                if *item >= items.len() {
                    if item - items.len() > MAX_MISSING {
                        return None;
                    }
                    items.resize(item + 1, Value::Null);
                }
                items.get_mut(*item)
            }
        }
    }
}

#[cfg(test)]
mod tests;
