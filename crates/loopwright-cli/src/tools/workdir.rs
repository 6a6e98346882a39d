//! The directory that tools are confined to.

use std::io;
use std::path::{Component, Path, PathBuf};

/// A directory that paths are taken from and must not leave.
///
/// A path is judged by where it leads when it is looked at. Whoever may swap directories for links
/// between that moment and the use of the path is not kept out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workdir(PathBuf);

/// Why a path is not used; the model is told.
#[derive(Debug, thiserror::Error)]
pub enum PathRefusal {
    /// It leads out of the directory, by itself or by a link.
    #[error("`{0}` is outside the working directory; use a path inside it")]
    Outside(String),
    /// There is no such file.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// The operating system does not say where it leads.
    #[error("`{path}` cannot be used")]
    Unusable {
        /// As the model wrote it.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
}

impl Workdir {
    /// Takes a directory.
    ///
    /// # Errors
    ///
    /// If it does not exist.
    pub fn new(path: &Path) -> io::Result<Self> {
        path.canonicalize().map(Self)
    }

    /// Returns the directory, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns where a path leads, which is in the directory or the directory itself.
    ///
    /// # Errors
    ///
    /// If it leads out of the directory or nowhere. Of what lies outside not even the existence is
    /// told.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, PathRefusal> {
        let joined = self.0.join(path);
        match joined.canonicalize() {
            Ok(real) if real.starts_with(&self.0) => Ok(real),
            Ok(_) => Err(PathRefusal::Outside(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = path.to_owned();
                let is_inside = self.ends_inside(&joined);
                Err(if is_inside { PathRefusal::Missing(path) } else { PathRefusal::Outside(path) })
            }
            Err(source) => Err(PathRefusal::Unusable { path: path.to_owned(), source }),
        }
    }

    /// Tells whether a path that leads nowhere would at least lead there inside: neither a link nor
    /// `..` stands where it ceases to exist.
    fn ends_inside(&self, path: &Path) -> bool {
        let mut ancestors = path.ancestors().peekable();
        while let Some(missing) = ancestors.next() {
            let Some(real) = ancestors.peek().and_then(|parent| parent.canonicalize().ok()) else {
                continue;
            };
            let rest = path.strip_prefix(missing).unwrap_or(path);
            let goes_up = missing.file_name().is_none()
                || rest.components().any(|it| it == Component::ParentDir);
            return real.starts_with(&self.0) && !goes_up && !missing.is_symlink();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_path_is_used_if_it_stays_inside() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("a.txt"), "a").unwrap();
        fs::write(home.path().join("secret"), "s").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        link("../secret", "out");
        link("../nothing", "dangling");
        link("a.txt", "in");
        link("..", "up");
        let workdir = Workdir::new(&root).unwrap();
        let check = |path: &str, expect: &str| {
            let said = match workdir.resolve(path) {
                Ok(real) => real.strip_prefix(workdir.path()).unwrap().display().to_string(),
                Err(PathRefusal::Outside(_)) => "outside".to_owned(),
                Err(PathRefusal::Missing(_)) => "missing".to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expect, "{path}");
        };
        check("a.txt", "a.txt");
        check("./sub/../a.txt", "a.txt");
        check("in", "a.txt");
        check(".", "");
        check(workdir.path().join("a.txt").to_str().unwrap(), "a.txt");
        check("b.txt", "missing");
        check("sub/b/c.txt", "missing");
        for outside in [
            "..",
            "../secret",
            "../root/../secret",
            "out",
            "dangling",
            "up/secret",
            "up/nothing",
            "b/../../secret",
            "../nothing",
            "/etc/passwd",
            "/etc/no-such-file",
            "/",
        ] {
            check(outside, "outside");
        }
        assert_eq!(workdir.resolve("a\0b").unwrap_err().to_string(), "`a\0b` cannot be used");
    }
}
