//! The repository that Maven has filled, from which commands read and to which they do not write.

use std::path::{Path, PathBuf};

pub(super) const MAVEN: &str = "maven";
pub(super) const REPOSITORY: &str = "repository";

/// Returns the variable by which Maven reads the repository of the user. Maven 3.9 and newer take it for the second one
/// (`tail`), because `MAVEN_ARGS` names a first one that commands write to. Older ones know neither and use this
/// one alone, in which nothing can be installed. `None` means that none was found, or that its path has a space, which cannot
/// be said.
pub(super) fn options(found: &[(&'static str, PathBuf)]) -> Option<(&'static str, String)> {
    let (_, root) = found.iter().find(|it| it.0 == MAVEN)?;
    let repository = root.join(REPOSITORY);
    let repository = repository.to_str().filter(|it| !it.contains(char::is_whitespace))?;
    let value = format!("-Dmaven.repo.local={repository} -Dmaven.repo.local.tail={repository}");
    Some(("MAVEN_OPTS", value))
}

/// Returns the arguments by which Maven uses a repository in this folder. Returns `None` if its
/// path has a space.
pub(crate) fn arguments(folder: &Path) -> Option<String> {
    let folder = folder.to_str().filter(|it| !it.contains(char::is_whitespace))?;
    Some(format!("-Dmaven.repo.local={folder}"))
}
