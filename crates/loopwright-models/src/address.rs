//! Base URLs from environment variables.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    secret::{VarSource, lookup},
    wire::WireApi,
};

/// A variable that replaces a provider's base URL. Written as its name, or as a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct BaseUrlVar {
    /// The variable's name.
    pub variable: Arc<str>,
    /// The end of the base URL that this variable usually omits; it is appended unless it is
    /// already present.
    pub path: Option<Arc<str>>,
    /// The default port, if the variable contains a host like that of Ollama: possibly without
    /// scheme and port, and possibly the listen address of a server.
    pub host_port: Option<u16>,
}

impl BaseUrlVar {
    /// Uses the complete value of this variable.
    pub fn named(variable: impl Into<Arc<str>>) -> Self {
        Self { variable: variable.into(), path: None, host_port: None }
    }

    /// Returns the address, if the variable is set.
    pub(crate) fn read(&self, variables: &dyn VarSource) -> Option<String> {
        let value = lookup(variables, &self.variable)?;
        let address = match self.host_port {
            Some(port) => of_host(&value, port),
            None => value,
        };
        match &self.path {
            Some(path) if !address.trim_end_matches('/').ends_with(&**path) => {
                Some(format!("{}/{path}", address.trim_end_matches('/')))
            }
            _ => Some(address),
        }
    }
}

/// Reads `host`, `host:port` or a whole address. The address of all interfaces cannot be called,
/// but who listens there listens here.
fn of_host(value: &str, port: u16) -> String {
    let (scheme, rest, port) = match value.split_once("://") {
        Some(("https", rest)) => ("https", rest, 443),
        Some((_, rest)) => ("http", rest, 80),
        None => ("http", value, port),
    };
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let (host, port) = match host.rsplit_once(':') {
        Some((name, number)) if !number.is_empty() && !number.contains(']') => {
            (name, number.to_owned())
        }
        _ => (host.trim_end_matches(':'), port.to_string()),
    };
    let host = match host {
        "" | "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        host => host,
    };
    format!("{scheme}://{host}:{port}/{path}").trim_end_matches('/').to_owned()
}

/// Replaces names in braces with the values of these variables. Of several names, separated by bars, the
/// first one that is set is used.
///
/// # Errors
///
/// Returns an error if none is set: the first name.
pub(crate) fn fill(template: &str, variables: &dyn VarSource) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, (names, after))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        let mut names = names.split('|').peekable();
        let first = names.peek().copied().unwrap_or_default();
        let value = names.find_map(|name| lookup(variables, name));
        filled.push_str(before);
        filled.push_str(&value.ok_or_else(|| first.to_owned())?);
        rest = after;
    }
    Ok(filled + rest)
}

/// Ollama's own interface stands beside the one under `/v1` that many know it by.
pub(crate) fn of_wire(address: &str, wire: WireApi) -> &str {
    match (wire, address.trim_end_matches('/').strip_suffix("/v1")) {
        (WireApi::Ollama, Some(own)) => own,
        _ => address,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Name(Arc<str>),
    Table(Table),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    variable: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_port: Option<u16>,
}

impl From<Written> for BaseUrlVar {
    fn from(written: Written) -> Self {
        match written {
            Written::Name(variable) => Self::named(variable),
            Written::Table(Table { variable, path, host_port }) => {
                Self { variable, path, host_port }
            }
        }
    }
}

impl From<BaseUrlVar> for Written {
    fn from(BaseUrlVar { variable, path, host_port }: BaseUrlVar) -> Self {
        match (&path, host_port) {
            (None, None) => Self::Name(variable),
            _ => Self::Table(Table { variable, path, host_port }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_variable_without_scheme_or_port_is_completed() {
        for (value, expect) in [
            ("box", "http://box:11434"),
            ("box:8080", "http://box:8080"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            (":8080", "http://127.0.0.1:8080"),
            ("[::]:8080", "http://[::1]:8080"),
            ("[::1]", "http://[::1]:11434"),
            ("http://box", "http://box:80"),
            ("https://box/ollama/", "https://box:443/ollama"),
            ("https://box:1/", "https://box:1"),
        ] {
            assert_eq!(of_host(value, 11434), expect, "{value}");
        }
    }

    #[test]
    fn the_missing_path_of_a_base_url_variable_is_appended() {
        let variable = BaseUrlVar { path: Some("v1".into()), ..BaseUrlVar::named("A") };
        let read = |value: &'static str| variable.read(&move |_: &str| Some(value.to_owned()));
        assert_eq!(read("https://x").as_deref(), Some("https://x/v1"));
        assert_eq!(read("https://x/").as_deref(), Some("https://x/v1"));
        assert_eq!(read("https://x/v1/").as_deref(), Some("https://x/v1/"));
        assert_eq!(variable.read(&|_: &str| None), None);
    }

    #[test]
    fn ollamas_address_is_its_own_if_that_of_its_other_interface_is_meant() {
        assert_eq!(of_wire("http://x/v1/", WireApi::Ollama), "http://x");
        assert_eq!(of_wire("http://x/", WireApi::Ollama), "http://x/");
        assert_eq!(of_wire("http://x/v1", WireApi::OpenAiChat), "http://x/v1");
    }

    #[test]
    fn names_in_braces_are_variables() {
        let region = |name: &str| (name == "REGION").then(|| "eu".to_owned());
        assert_eq!(fill("https://a.{REGION}.b", &region).unwrap(), "https://a.eu.b");
        assert_eq!(fill("https://a", &region).unwrap(), "https://a");
        assert_eq!(fill("https://{OTHER|REGION}", &region).unwrap(), "https://eu");
        assert_eq!(fill("{OTHER|MORE}", &region).unwrap_err(), "OTHER");
        assert_eq!(fill("{", &region).unwrap(), "{");
    }

    #[test]
    fn a_variable_is_written_as_its_name_or_as_a_table() {
        #[derive(Deserialize)]
        struct Vars {
            vars: Vec<BaseUrlVar>,
        }
        let text = "vars = ['A', { variable = 'B', path = 'v1' }]";
        let Vars { vars } = toml::from_str(text).unwrap();
        let second = BaseUrlVar { path: Some("v1".into()), ..BaseUrlVar::named("B") };
        assert_eq!(vars, [BaseUrlVar::named("A"), second]);
    }
}
