//! Caches of package managers between commands, separate from the user's own caches.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};

use super::Toolchains;
use crate::copied_cache::CopiedCache;
use crate::policy::SandboxPolicy;

/// Caches for the commands of one project. No other project sees them, so a command can affect only
/// commands that it could also affect through the project itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caches {
    folder: PathBuf,
    /// Where the changes to copies of the user's caches are kept.
    copies: PathBuf,
}

/// The folder for these, beside the caches of projects, whose names all end with a number.
const COPIES: &str = "copies";
/// The folder for caches of the user's programs, beside those of commands.
const PROGRAMS: &str = "programs";

impl Caches {
    /// Creates the caches of a project in a folder of the user, unless they exist. Returns `None`
    /// if the folder is inside the project or contains it.
    ///
    /// # Errors
    ///
    /// Returns an error if the folders cannot be created.
    pub fn in_folder(folder: &Path, workdir: &Path) -> io::Result<Option<Self>> {
        let workdir = fs::canonicalize(workdir)?;
        create(folder)?;
        let folder = fs::canonicalize(folder)?;
        if folder.starts_with(&workdir) || workdir.starts_with(&folder) {
            return Ok(None);
        }
        let name = name(&workdir);
        let copies = folder.join(COPIES).join(&name);
        let folder = folder.join(name);
        create(&folder)?;
        Ok(Some(Self { folder, copies }))
    }

    /// Returns separate caches for programs that the user has configured, such as servers and hooks, which may have more
    /// permissions than commands. What commands leave in their caches must not run there.
    ///
    /// # Errors
    ///
    /// Returns an error if the folders cannot be created.
    pub fn of_user_programs(&self) -> io::Result<Self> {
        let beside = |path: &Path| {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            io::Result::Ok(parent.join(PROGRAMS).join(name))
        };
        let (folder, copies) = (beside(&self.folder)?, beside(&self.copies)?);
        create(&folder)?;
        Ok(Self { folder, copies })
    }

    /// Returns the folder that commands write to.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds the caches to a policy, unless it already has some.
    pub fn extend(&self, policy: SandboxPolicy) -> SandboxPolicy {
        if policy.cache.is_some() { policy } else { policy.with_cache(&self.folder) }
    }

    /// Adds the user's caches to a policy as copies-on-write. The changes of commands are kept in
    /// the folder for caches, for this project alone.
    pub fn copy(&self, policy: SandboxPolicy, toolchains: &Toolchains) -> SandboxPolicy {
        let copied = toolchains.caches.iter().map(|cache| CopiedCache {
            variable: cache.variable.map(str::to_owned),
            lock: cache.lock.clone(),
            ..CopiedCache::new(&cache.folder, self.copies.join(cache.name))
        });
        copied.fold(policy, SandboxPolicy::with_copied_cache)
    }
}

/// Names a project so that people recognise it, and no other has the name.
fn name(workdir: &Path) -> String {
    // FNV-1a, which stays the same over versions.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = workdir.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    let last = workdir.file_name().map_or_else(Default::default, |it| it.to_string_lossy());
    let last: String = last
        .chars()
        .filter(|it| it.is_ascii_alphanumeric() || "-_.".contains(*it))
        .take(40)
        .collect();
    format!("{last}-{hash:016x}")
}

fn create(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn projects_of_the_same_name_have_caches_of_their_own() {
        assert_eq!(name(Path::new("/srv/a b/web")), "web-fd32cd97298d8888");
        assert_ne!(name(Path::new("/srv/a/web")), name(Path::new("/srv/b/web")));
    }

    #[test]
    fn a_policy_uses_the_caches_of_its_project_unless_it_has_others() {
        let home = tempfile::tempdir().unwrap();
        let workdir = home.path().join("web");
        fs::create_dir(&workdir).unwrap();
        let caches = Caches::in_folder(&home.path().join("caches"), &workdir).unwrap().unwrap();
        assert!(caches.folder().is_dir());
        let policy = caches.extend(SandboxPolicy::in_dir(&workdir));
        assert_eq!(policy.cache.as_deref(), Some(caches.folder()));
        let others = caches.extend(SandboxPolicy::in_dir(&workdir).with_cache("/elsewhere"));
        assert_eq!(others.cache, Some("/elsewhere".into()));
    }

    #[test]
    fn a_policy_has_the_caches_of_the_user_as_copies() {
        let home = tempfile::tempdir().unwrap();
        let (workdir, root) = (home.path().join("web"), home.path().canonicalize().unwrap());
        fs::create_dir(&workdir).unwrap();
        fs::create_dir_all(home.path().join(".npm/_cacache")).unwrap();
        let toolchains = Toolchains::found(&BTreeMap::default(), Some(home.path()), &workdir);
        let caches = Caches::in_folder(&home.path().join("caches"), &workdir).unwrap().unwrap();
        let policy = caches.copy(SandboxPolicy::in_dir(&workdir), &toolchains);
        let layer = root.join("caches/copies").join(name(&root.join("web"))).join("npm");
        let npm = CopiedCache {
            variable: Some("npm_config_cache".to_owned()),
            ..CopiedCache::new(root.join(".npm"), layer)
        };
        assert_eq!(policy.copied_caches, [npm]);
    }

    #[test]
    fn programs_of_the_user_share_no_cache_with_commands() {
        let home = tempfile::tempdir().unwrap();
        let (workdir, root) = (home.path().join("web"), home.path().canonicalize().unwrap());
        fs::create_dir(&workdir).unwrap();
        let caches = Caches::in_folder(&home.path().join("caches"), &workdir).unwrap().unwrap();
        let name = name(&root.join("web"));
        let folder = root.join("caches/programs").join(&name);
        let expect = Caches { folder, copies: root.join("caches/copies/programs").join(name) };
        assert_eq!(caches.of_user_programs().unwrap(), expect);
        assert!(expect.folder().is_dir());
    }

    #[test]
    fn caches_are_not_in_the_project() {
        let home = tempfile::tempdir().unwrap();
        let inside = home.path().join("caches");
        assert_eq!(Caches::in_folder(&inside, home.path()).unwrap(), None);
        assert_eq!(Caches::in_folder(home.path(), &inside).unwrap(), None);
    }
}
