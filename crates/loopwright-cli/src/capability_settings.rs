//! The table `[capabilities]`, where it concerns tools that the program adds itself.

use loopwright_agent::BuildError;
use loopwright_capabilities::bash::Background;
use loopwright_capabilities::inventory;
use loopwright_capabilities::web::{WebFetchTool, WebPolicy};
use loopwright_core::AgentLoop;
use serde_json::Value;

use crate::config::{CapabilitySetting, CapabilitySettings, closest};

/// The capability that requests pages.
pub(crate) const WEB: &str = "use_web";

/// The capability that declares tools that run elsewhere.
pub(crate) const EXTERNAL: &str = "use_external_tools";

/// How the names of capabilities begin.
const PREFIX: &str = "use_";

/// The capability of all tools that the program adds itself.
const ALL_TOOLS: &str = "use_coding_tools";

/// Capabilities of some of these tools, which take precedence over the capability of all of them.
const TOOLS: [(&str, &[&str]); 2] = [("use_bash", COMMANDS), ("use_file_tools", FILES)];

const COMMANDS: &[&str] = &["bash", "bash_start", "bash_read", "bash_stop"];
const FILES: &[&str] =
    &["read_file", "write_file", "edit_file", "list_dir", "search_files", "grep"];

/// Checks the names of capabilities.
///
/// # Errors
///
/// Returns an error with the closest name, or all of them, for an unknown name.
pub(crate) fn check<'a>(
    settings: &CapabilitySettings,
    known: impl Iterator<Item = &'a str>,
) -> Result<(), BuildError> {
    let known: Vec<&str> = known.chain([WEB]).collect();
    let Some(name) = settings.keys().find(|it| !known.contains(&it.as_str())) else {
        return Ok(());
    };
    // All names begin with the same word, which makes them alike.
    let short = |it: &str| it.trim_start_matches(PREFIX).to_owned();
    let shorts: Vec<String> = known.iter().map(|it| short(it)).collect();
    let shorts: Vec<&str> = shorts.iter().map(String::as_str).collect();
    Err(if let Some(meant) = closest(&short(name), &shorts) {
        let reason = format!("unknown capability; did you mean `{PREFIX}{meant}`?");
        BuildError::capability(name.clone(), reason)
    } else {
        let (name, known) = (name.clone(), known.join(", "));
        BuildError::Unknown { kind: "capability", name, known }
    })
}

/// Returns the names of the tools that run elsewhere, of the settings of the capability that declares them.
pub(crate) fn external_tools(settings: &Value) -> impl Iterator<Item = String> {
    let tools = settings["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str()).map(str::to_owned)
}

/// Returns the tool that requests pages, with its settings. Returns `None` if it is switched off.
///
/// # Errors
///
/// Returns an error if the settings are invalid.
pub(crate) fn web_fetch(settings: &CapabilitySettings) -> Result<Option<WebFetchTool>, BuildError> {
    let setting = settings.get(WEB).map(|it| &it.value);
    if setting == Some(&CapabilitySetting::Off) {
        return Ok(None);
    }
    let config = setting.map(CapabilitySetting::settings).unwrap_or_default();
    let policy: WebPolicy = inventory::read(&config, WEB)?;
    Ok(Some(WebFetchTool::new(policy)))
}

/// Returns whether the settings of commands allow them in the background; `None` if they do not say.
pub(crate) fn background(settings: &CapabilitySettings) -> Option<Background> {
    let value = |name: &str| settings.get(name)?.value.settings().get("background").cloned();
    // What is wrong with it is reported where the capability is made.
    value("use_bash")
        .or_else(|| value("use_coding_tools"))
        .and_then(|it| serde_json::from_value(it).ok())
}

/// Leaves out the tools of capabilities that are switched off.
pub(crate) fn without_tools(settings: &CapabilitySettings, agent: AgentLoop) -> AgentLoop {
    let off = tools_off(settings);
    if off.is_empty() {
        return agent;
    }
    agent.with(|parts| parts.tools = parts.tools.filter(|tool| !off.contains(&&**tool.name())))
}

/// Returns the tools that are switched off.
fn tools_off(settings: &CapabilitySettings) -> Vec<&'static str> {
    let is_off = |name: &str| {
        let set = settings.get(name).or_else(|| settings.get(ALL_TOOLS));
        set.is_some_and(|it| it.value == CapabilitySetting::Off)
    };
    let off = TOOLS.into_iter().filter(|(name, _)| is_off(name));
    off.flat_map(|(_, tools)| tools).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Origin, Setting};
    use crate::files::tests::file_tools;

    #[test]
    fn the_tools_for_files_are_known() {
        let mut known = FILES.to_vec();
        known.sort_unstable();
        let tools = file_tools(Path::new("/"));
        let mut names: Vec<&str> = tools.names().iter().map(|it| &**it).collect();
        names.sort_unstable();
        assert_eq!(known, names, "`FILES` lists the tools of `UseFileTools`");
    }

    #[test]
    fn a_capability_of_some_tools_takes_precedence_over_that_of_all_tools() {
        let off = |set: &[(&str, CapabilitySetting)]| {
            let set = set.iter().map(|(name, value)| {
                ((*name).to_owned(), Setting::new(value.clone(), Origin::Default))
            });
            tools_off(&set.collect())
        };
        let on = || CapabilitySetting::On(Value::Null);
        let (none, both) = (Vec::<&str>::new(), [COMMANDS, FILES].concat());
        assert_eq!(off(&[]), none);
        assert_eq!(off(&[("use_bash", CapabilitySetting::Off)]), COMMANDS);
        assert_eq!(off(&[("use_file_tools", CapabilitySetting::Off)]), FILES);
        assert_eq!(off(&[(ALL_TOOLS, CapabilitySetting::Off)]), both);
        assert_eq!(off(&[(ALL_TOOLS, CapabilitySetting::Off), ("use_bash", on())]), FILES);
        assert_eq!(off(&[(ALL_TOOLS, CapabilitySetting::Off), ("use_file_tools", on())]), COMMANDS);
        assert_eq!(off(&[(ALL_TOOLS, on()), ("use_bash", CapabilitySetting::Off)]), COMMANDS);
    }
}
