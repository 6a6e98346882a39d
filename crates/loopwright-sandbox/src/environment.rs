//! The environment of a command: an allow-list, created before the sandbox starts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

/// Variables that are passed on because programs print in the user's language and time by them.
const HARMLESS: [&str; 4] = ["LANG", "LC_ALL", "TZ", "TERM"];

/// Parts of names, in upper case, that mark a secret.
const SECRET_PARTS: [&str; 15] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "SESSION",
    "PRIVATE",
    "PWD_",
    "_PWD",
    "SIGNATURE",
    "CERT",
    "DSN",
    "BEARER",
];

/// Beginnings of names that make programs load or run something, or that belong to accounts.
const FILTERED_BEGINNINGS: [&str; 19] = [
    "LD_",
    "DYLD_",
    "BASH_",
    "GIT_",
    "PYTHON",
    "PERL5",
    "RUBY",
    "NODE_",
    "NPM_",
    "PIP_",
    "GEM_",
    "PHP",
    "AWS_",
    "GCP_",
    "GOOGLE_",
    "AZURE_",
    "LOOPWRIGHT_",
    "HTTP_",
    "SSH_",
];

/// Whole names that make programs load or run something.
const FILTERED: [&str; 8] = [
    "ENV",
    "PROMPT_COMMAND",
    "IFS",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "LOCPATH",
    "DATABASE_URL",
    "SHELLOPTS",
];

/// The environment of a command: a small fixed set, inherited variables, and explicit values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct Environment {
    /// The variables inherited from the agent.
    pub inherit: Inherit,
    /// Explicit values, which take precedence.
    pub values: BTreeMap<String, String>,
}

/// The variables inherited from the environment of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inherit {
    /// Language, time zone and terminal.
    #[default]
    Locale,
    /// Also these names, unless they look like secrets.
    Allow(Vec<String>),
    /// All variables, including `PATH`, except those that look like secrets or make programs load
    /// code.
    AllButSecrets,
}

impl Environment {
    /// Sets a variable, regardless of its name.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.values.insert(name.into(), value.into());
        self
    }

    /// Sets the variables inherited from the agent.
    pub fn inherit(mut self, inherit: Inherit) -> Self {
        self.inherit = inherit;
        self
    }

    /// The variables for a command whose home is `home` and whose scratch folder is `scratch`.
    pub(crate) fn resolve(
        &self,
        host: impl IntoIterator<Item = (OsString, OsString)>,
        home: &OsStr,
        scratch: &OsStr,
    ) -> BTreeMap<OsString, OsString> {
        let mut resolved: BTreeMap<OsString, OsString> =
            host.into_iter().filter(|(name, value)| self.takes_over(name, value)).collect();
        let fixed: [(&str, &OsStr); 8] = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin".as_ref()),
            ("HOME", home),
            ("TMPDIR", scratch),
            ("SHELL", "/bin/sh".as_ref()),
            ("USER", "agent".as_ref()),
            ("LOGNAME", "agent".as_ref()),
            ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            ("LOOPWRIGHT_SANDBOX", "1".as_ref()),
        ];
        for (name, value) in fixed {
            // Programs of the user's own are found where the user finds them.
            let is_inherited = name == "PATH" && resolved.contains_key(OsStr::new(name));
            if !is_inherited {
                resolved.insert(name.into(), value.into());
            }
        }
        for (name, value) in &self.values {
            resolved.insert(name.into(), value.into());
        }
        resolved
    }

    fn takes_over(&self, name: &OsStr, value: &OsStr) -> bool {
        let Some(text) = name.to_str() else { return false };
        if HARMLESS.contains(&text) {
            return true;
        }
        let wanted = match &self.inherit {
            Inherit::Locale => false,
            Inherit::Allow(names) => names.iter().any(|name| name == text),
            Inherit::AllButSecrets => true,
        };
        wanted && !is_secret_name(text) && !holds_password(value)
    }
}

/// Returns `true` if a variable of this name probably contains a secret or makes programs load
/// code.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    FILTERED.contains(&name.as_str())
        || FILTERED_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Whether a value is an address with a password in it, as in `scheme://user:password@host`.
pub(crate) fn holds_password(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    value.split_once("://").is_some_and(|(_, rest)| {
        rest.split(['/', '?']).next().is_some_and(|authority| authority.contains('@'))
    })
}

#[cfg(test)]
mod tests;
