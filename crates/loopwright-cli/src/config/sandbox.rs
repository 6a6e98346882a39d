//! Permissions and limits of commands.

use std::num::NonZeroU64;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use loopwright_sandbox::{BackendChoice, Limits as Machine, Network};
use toml::Value;

use super::limits::{stricter, within};
use super::value::{Mismatch, SettingValue};
use super::{Origin, Setting};

/// How long a command may take by default.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// The keys of the table `sandbox`. A project may hide more and lower limits, and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxSettings {
    /// `sandbox.backend`
    pub backend: Option<Setting<BackendChoice>>,
    /// `sandbox.read`
    pub read: Option<Setting<Strings>>,
    /// `sandbox.write`
    pub write: Option<Setting<Strings>>,
    /// `sandbox.hide`
    pub hide: Option<Setting<Strings>>,
    /// `sandbox.allow`
    pub allow: Option<Setting<Strings>>,
    /// `sandbox.direct`
    pub direct: Option<Setting<Strings>>,
    /// `sandbox.network`
    pub network: Option<Setting<NetworkSetting>>,
    /// `sandbox.path`
    pub path: Option<Setting<Strings>>,
    /// `sandbox.environment`
    pub environment: Option<Setting<Strings>>,
    /// `sandbox.memory`, of all processes of a command
    pub memory: Option<Setting<Bytes>>,
    /// `sandbox.processes`
    pub processes: Option<Setting<NonZeroU64>>,
    /// `sandbox.timeout`
    pub timeout: Option<Setting<Duration>>,
}

impl SandboxSettings {
    /// Fills what is not set from a weaker layer. A project may lower a limit and not raise it; what is hidden adds up.
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            backend: self.backend.or(weaker.backend),
            read: self.read.or(weaker.read),
            write: self.write.or(weaker.write),
            hide: both(self.hide, weaker.hide),
            allow: self.allow.or(weaker.allow),
            direct: self.direct.or(weaker.direct),
            network: self.network.or(weaker.network),
            path: self.path.or(weaker.path),
            environment: self.environment.or(weaker.environment),
            memory: stricter(self.memory, weaker.memory),
            processes: stricter(self.processes, weaker.processes),
            timeout: stricter(self.timeout, weaker.timeout),
        }
    }

    /// Keeps a project from raising what holds where its user says nothing.
    pub(super) fn of_project(self, user: &Self, machine: &Machine) -> Self {
        let processes = NonZeroU64::new(machine.processes).unwrap_or(NonZeroU64::MIN);
        Self {
            memory: within(self.memory, user.memory.as_ref(), Bytes(machine.memory)),
            processes: within(self.processes, user.processes.as_ref(), processes),
            timeout: within(self.timeout, user.timeout.as_ref(), MAX_TIMEOUT),
            ..self
        }
    }
}

fn both(
    strong: Option<Setting<Strings>>,
    weak: Option<Setting<Strings>>,
) -> Option<Setting<Strings>> {
    match (strong, weak) {
        (Some(Setting { value, origin: origin @ Origin::Project(_) }), Some(weak)) => {
            let all = weak.value.0.into_iter().chain(value.0).collect();
            Some(Setting::new(Strings(all), origin))
        }
        (strong, weak) => strong.or(weak),
    }
}

/// Texts in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings(pub Vec<String>);

impl Strings {
    /// Returns the paths that these are: from the home, or from the working folder.
    pub(crate) fn to_paths(&self, workdir: &Path, home: Option<&Path>) -> Vec<PathBuf> {
        let path = |text: &String| {
            let found = in_home(text, home).unwrap_or_else(|| workdir.join(text));
            found.components().filter(|it| *it != Component::CurDir).collect()
        };
        self.0.iter().map(path).collect()
    }
}

/// Returns the path that a text with `~` at its beginning names, or `None` for others.
pub(crate) fn in_home(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    let (below, home) = (text.strip_prefix('~')?, home?);
    (below.is_empty() || below.starts_with('/')).then(|| home.join(below.trim_start_matches('/')))
}

impl SettingValue for Strings {
    const EXPECTED: &'static str = "an array of non-empty strings";
    const EXAMPLE: &'static str = "[\"…\"]";

    fn from_text(text: &str) -> Option<Self> {
        let parts =
            text.split(',').map(|it| Some(it.trim().to_owned()).filter(|it| !it.is_empty()));
        parts.collect::<Option<_>>().map(Self)
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let text = |it: &Value| it.as_str().map(str::to_owned).ok_or(Mismatch::Type);
        let texts = value.as_array().ok_or(Mismatch::Type)?.iter().map(text);
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        if texts.iter().any(String::is_empty) { Err(Mismatch::Value) } else { Ok(Self(texts)) }
    }
}

/// Whom commands may talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSetting(pub Network);

impl NetworkSetting {
    /// Reads names of hosts, or one of the words for a network.
    pub(crate) fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let names: Vec<&str> = names.into_iter().collect();
        let network = match names.as_slice() {
            ["off"] => Network::Off,
            [] | ["loopback"] => Network::Loopback,
            ["host"] => Network::Host,
            hosts => {
                let hosts = hosts.iter().map(|host| host.parse().ok());
                Network::Domains(hosts.collect::<Option<Vec<_>>>()?)
            }
        };
        Some(Self(network))
    }
}

impl SettingValue for NetworkSetting {
    const EXPECTED: &'static str = "`off`, `loopback`, `host` or an array of host names";
    const EXAMPLE: &'static str = "[\"crates.io\", \"*.crates.io\"]";

    fn from_text(text: &str) -> Option<Self> {
        Self::from_names(text.split(',').map(str::trim))
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        if let Some(text) = value.as_str() {
            return Self::from_text(text).ok_or(Mismatch::Value);
        }
        let names = value.as_array().ok_or(Mismatch::Type)?.iter().map(Value::as_str);
        let names = names.collect::<Option<Vec<_>>>().ok_or(Mismatch::Type)?;
        Self::from_names(names).ok_or(Mismatch::Value)
    }
}

impl std::fmt::Display for NetworkSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Network::Off => f.write_str("off"),
            Network::Loopback => f.write_str("loopback"),
            Network::Host => f.write_str("host"),
            Network::Domains(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                f.write_str(&hosts.join(","))
            }
        }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl SettingValue for Bytes {
    const EXPECTED: &'static str = "a size, such as `\"512M\"` or `\"4G\"`";
    const EXAMPLE: &'static str = "\"4G\"";

    fn from_text(text: &str) -> Option<Self> {
        bytes(text).ok().map(Self)
    }
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K")];
        let whole =
            units.into_iter().find(|(shift, _)| self.0.is_multiple_of(1 << shift) && self.0 > 0);
        match whole {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Reads a size: bytes, or a number with the unit `K`, `M` or `G`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "must be a size, such as `4096`, `64K`, `512M` or `2G`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_alike() {
        for (text, bytes) in [("4G", 4 << 30), ("512M", 512 << 20), ("3K", 3072), ("1000", 1000)] {
            assert_eq!(Bytes::from_text(text), Some(Bytes(bytes)));
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(Bytes::from_text("0"), None);
        assert_eq!(Bytes::from_toml(&Value::from(4)), Err(Mismatch::Type));
    }

    #[test]
    fn a_network_is_a_word_or_names_of_hosts() {
        let read = |texts: &[&str]| NetworkSetting::from_toml(&Value::from(texts.to_vec()));
        let shown = |texts: &[&str]| read(texts).map(|it| it.to_string());
        assert_eq!(shown(&["crates.io", "*.Crates.io"]), Ok("crates.io,*.crates.io".to_owned()));
        assert_eq!(shown(&[]), Ok("loopback".to_owned()));
        for word in ["off", "loopback", "host"] {
            assert_eq!(NetworkSetting::from_text(word).unwrap().to_string(), word);
        }
        assert_eq!(read(&["http://crates.io"]), Err(Mismatch::Value));
        assert_eq!(read(&["*"]), Err(Mismatch::Value));
        assert_eq!(NetworkSetting::from_toml(&Value::from(1)), Err(Mismatch::Type));
    }

    #[test]
    fn texts_are_not_empty() {
        let read = |texts: &[&str]| Strings::from_toml(&Value::from(texts.to_vec()));
        assert_eq!(read(&["a", "b c"]), Ok(Strings(vec!["a".to_owned(), "b c".to_owned()])));
        assert_eq!(read(&["a", ""]), Err(Mismatch::Value));
        assert_eq!(Strings::from_toml(&Value::from("a")), Err(Mismatch::Type));
    }
}
