//! Programs of servers outside of the system and of toolchains.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use loopwright_sandbox::SandboxPolicy;

/// Folders that every sandbox shows.
const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// The `PATH` of a policy that sets none.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The longest first line of a script that is read.
const MAX_LINE: u64 = 512;

/// Adds those folders of the user's `PATH` to the `PATH` of a policy that are in the `read_paths` of the policy and
/// outside of the working folder, where a command of an agent could put a program.
pub(crate) fn add_programs(policy: &mut SandboxPolicy, user_path: &OsStr) {
    let workdir = real(&policy.workdir);
    let shown: Vec<PathBuf> =
        policy.read_paths.iter().map(|it| real(&policy.workdir.join(it))).collect();
    let values = &mut policy.environment.values;
    let current = values.get("PATH").map_or(SYSTEM_PATH, String::as_str);
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in std::env::split_paths(user_path).filter(|it| it.is_absolute()) {
        let folder = real(&folder);
        let is_shown = shown.iter().any(|it| folder.starts_with(it));
        let is_known = std::env::split_paths(current).any(|it| it == folder);
        if is_shown && !is_known && !folder.starts_with(&workdir) && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    if folders.is_empty() {
        return;
    }
    let own = folders.iter().filter_map(|it| it.to_str());
    let joined = own.chain([current]).collect::<Vec<_>>().join(":");
    values.insert("PATH".to_owned(), joined);
}

/// The reason why the user can start a program, and a command of a policy cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The sandbox does not show these files: the program, the target of a link, or its interpreter.
    Hidden(Vec<PathBuf>),
    /// The sandbox shows the program at this path, but its folder is not in `PATH`.
    NotInPath(PathBuf),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hidden(files) => {
                let files: Vec<String> =
                    files.iter().map(|it| format!("`{}`", it.display())).collect();
                write!(f, "these files are not visible in the sandbox: {}", files.join(" and "))
            }
            Self::NotInPath(file) => {
                write!(
                    f,
                    "`{}` is visible in the sandbox, but its folder is not in `PATH`",
                    file.display()
                )
            }
        }
    }
}

/// Returns the reason why a program cannot be started that the user can start, or `None` if the user cannot start it
/// either.
pub(crate) fn missing(policy: &SandboxPolicy, program: &str, user_path: &OsStr) -> Option<Missing> {
    let is_path = program.contains('/');
    let file = if is_path {
        Some(policy.workdir.join(program))
    } else {
        std::env::split_paths(user_path)
            .filter(|it| it.is_absolute())
            .map(|folder| folder.join(program))
            .find(|file| is_program(file))
    };
    let file = file.filter(|it| is_program(it))?;
    let mut needed = vec![file.clone()];
    let target = real(&file);
    let interpreter = interpreter(&target);
    needed.push(target);
    if let Some(interpreter) = interpreter.filter(|it| it.is_file()) {
        needed.push(interpreter.clone());
        needed.push(real(&interpreter));
    }
    let mut hidden: Vec<PathBuf> = Vec::new();
    for path in needed {
        if !shows(policy, &path) && !hidden.contains(&path) {
            hidden.push(path);
        }
    }
    match hidden.is_empty() {
        false => Some(Missing::Hidden(hidden)),
        true if is_path => None,
        true => Some(Missing::NotInPath(file)),
    }
}

/// Returns `true` for a file that may be executed.
fn is_program(file: &Path) -> bool {
    #[cfg(unix)]
    let is_executable = |it: &std::fs::Metadata| {
        std::os::unix::fs::PermissionsExt::mode(&it.permissions()) & 0o111 != 0
    };
    #[cfg(not(unix))]
    let is_executable = |_: &std::fs::Metadata| true;
    file.metadata().is_ok_and(|it| it.is_file() && is_executable(&it))
}

fn shows(policy: &SandboxPolicy, path: &Path) -> bool {
    let named =
        policy.read_paths.iter().chain(&policy.write_paths).map(|it| policy.workdir.join(it));
    SYSTEM.iter().any(|it| path.starts_with(it))
        || named
            .chain([policy.workdir.clone()])
            .any(|it| path.starts_with(&it) || path.starts_with(real(&it)))
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut text = Vec::new();
    File::open(script).ok()?.take(MAX_LINE).read_to_end(&mut text).ok()?;
    let line = text.strip_prefix(b"#!")?.split(|it| *it == b'\n').next()?;
    let word = std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?;
    Some(PathBuf::from(word)).filter(|it| it.is_absolute())
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A folder with a project and, outside of it, a program that is a link to a script with an interpreter of its own.
    struct World(tempfile::TempDir);

    impl World {
        fn new() -> Self {
            let world = Self(tempfile::tempdir().unwrap());
            for folder in ["project", "bin", "tools/bin"] {
                fs::create_dir_all(world.path(folder)).unwrap();
                fs::set_permissions(world.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
            }
            fs::copy("/bin/sh", world.path("tools/sh")).unwrap();
            let script = format!("#!{} -e\nexit\n", world.path("tools/sh").display());
            fs::write(world.path("tools/bin/serve"), script).unwrap();
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(world.path("tools/bin/serve"), executable).unwrap();
            symlink(world.path("tools/bin/serve"), world.path("bin/serve")).unwrap();
            world
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn policy(&self) -> SandboxPolicy {
            SandboxPolicy::in_dir(self.path("project"))
        }
    }

    #[test]
    fn a_program_outside_of_the_sandbox_is_named_with_all_that_it_needs() {
        let world = World::new();
        let user_path = world.path("bin");
        let missing =
            |policy: SandboxPolicy, program: &str| missing(&policy, program, user_path.as_os_str());
        let all = ["bin/serve", "tools/bin/serve", "tools/sh"].map(|it| world.path(it));
        let bare = missing(world.policy(), "serve").unwrap();
        assert_eq!(bare, Missing::Hidden(all.to_vec()));
        let text =
            format!("these files are not visible in the sandbox: `{}` and ", all[0].display());
        assert!(bare.to_string().starts_with(&text), "{bare}");
        assert_eq!(
            missing(world.policy(), "../bin/serve").map(|it| it.to_string().is_empty()),
            Some(false)
        );
        let half = world.policy().read(world.path("bin"));
        assert_eq!(missing(half.clone(), "serve"), Some(Missing::Hidden(all[1..].to_vec())));
        let shown = half.read("../tools");
        assert_eq!(missing(shown.clone(), "serve"), Some(Missing::NotInPath(all[0].clone())));
        assert_eq!(missing(shown, all[0].to_str().unwrap()), None);
        assert_eq!(missing(world.policy(), "none"), None);
        assert_eq!(missing(world.policy(), "./none"), None);
    }

    #[test]
    fn programs_in_folders_that_a_policy_names_are_in_its_path() {
        let world = World::new();
        fs::create_dir(world.path("project/bin")).unwrap();
        let folders = ["bin", "tools/bin", "project/bin"].map(|it| world.path(it));
        let user_path = std::env::join_paths(folders).unwrap();
        let path = |mut policy: SandboxPolicy| {
            add_programs(&mut policy, &user_path);
            policy.environment.values.get("PATH").cloned()
        };
        assert_eq!(path(world.policy()), None);
        let tools = world.path("tools/bin").display().to_string();
        let extended = path(world.policy().read("../tools").read("."));
        assert!(extended.unwrap().starts_with(&format!("{tools}:/usr/local/bin:/usr/bin")));
        let known = world.policy().read("../tools").with_env("PATH", format!("/usr/bin:{tools}"));
        assert_eq!(path(known), Some(format!("/usr/bin:{tools}")));
    }
}
