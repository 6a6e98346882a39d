//! The folders that workers may use.

use std::path::{Path, PathBuf};

use toml::Value;

use super::value::{Mismatch, SettingValue};

/// Folders, each by its absolute path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// The folders, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

impl FromIterator<PathBuf> for Roots {
    fn from_iter<T: IntoIterator<Item = PathBuf>>(folders: T) -> Self {
        Self(folders.into_iter().collect())
    }
}

fn folder(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    path.is_absolute().then(|| path.to_owned())
}

impl SettingValue for Roots {
    const EXPECTED: &'static str = "an array of absolute folder paths";
    const EXAMPLE: &'static str = "[\"/srv/projects\"]";

    fn from_text(text: &str) -> Option<Self> {
        text.split(':').map(folder).collect()
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let folders = value.as_array().ok_or(Mismatch::Type)?.iter();
        let text = |value: &Value| value.as_str().ok_or(Mismatch::Type).map(folder);
        let folders: Vec<Option<PathBuf>> = folders.map(text).collect::<Result<_, _>>()?;
        folders.into_iter().collect::<Option<Vec<_>>>().map(Self).ok_or(Mismatch::Value)
    }

    fn example() -> &'static str {
        "/srv/projects"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_absolute() {
        let both = Roots(vec!["/a".into(), "/b c".into()]);
        assert_eq!(Roots::from_toml(&Value::from(vec!["/a", "/b c"])), Ok(both.clone()));
        assert_eq!(Roots::from_text("/a:/b c"), Some(both));
        assert_eq!(Roots::from_toml(&Value::from(vec!["a"])), Err(Mismatch::Value));
        assert_eq!(Roots::from_toml(&Value::from("/a")), Err(Mismatch::Type));
        assert_eq!(Roots::from_toml(&Value::from(vec![1])), Err(Mismatch::Type));
    }
}
