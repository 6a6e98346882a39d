//! What file tools do not write.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use loopwright_sandbox::PROTECTED_PATHS;

/// Paths that are not written.
#[derive(Clone, Debug)]
pub(super) struct Protected(Vec<Vec<OsString>>);

impl Protected {
    pub(super) fn standard() -> Self {
        let mut protected = Self(Vec::new());
        for path in PROTECTED_PATHS {
            protected.add(path);
        }
        protected
    }

    pub(super) fn add(&mut self, path: &str) {
        let names = names(Path::new(path)).map(OsStr::to_ascii_lowercase).collect::<Vec<_>>();
        if !names.is_empty() {
            self.0.push(names);
        }
    }

    /// Tells whether a path without links is protected or in something protected. Case is ignored,
    /// as some file systems do. A file in the place of a repository would bring hooks of its own.
    pub(super) fn covers(&self, path: &Path) -> bool {
        let path: Vec<OsString> = names(path).map(OsStr::to_ascii_lowercase).collect();
        let begins = |at: usize| self.0.iter().any(|it| path[at..].starts_with(it));
        (0..path.len()).any(begins) || path.last().is_some_and(|name| name == ".git")
    }
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|it| match it {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
