//! The project of a directory, and forms of paths.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use loopwright_templates::DefinitionPaths;

/// Where skills are in a project, those that count first.
pub(crate) const PROJECT_SKILLS: [&str; 3] =
    [".loopwright/skills", ".agents/skills", ".claude/skills"];

/// Where commands of other programs are, in a project and in the user's home directory.
pub(crate) const COMMANDS: &str = ".claude/commands";

/// Where working trees of a repository are that agents have for themselves.
pub(crate) const WORKTREES: &str = ".claude/worktrees";

/// How many entries of a folder are looked at.
const MAX_ENTRIES: usize = 2000;

/// Lists the files of a project's skills and commands, in order.
pub(crate) fn skill_files(root: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
        entries.flatten().map(|it| it.path()).collect()
    };
    let skills = PROJECT_SKILLS.iter().flat_map(|it| entries(&root.join(it)));
    let skills = skills.map(|it| it.join("SKILL.md")).filter(|it| it.is_file());
    let commands = entries(&root.join(COMMANDS)).into_iter();
    let commands = commands.flat_map(|it| if it.is_dir() { entries(&it) } else { vec![it] });
    let commands = commands.filter(|it| it.extension().is_some_and(|it| it == "md"));
    let mut files: Vec<PathBuf> = skills.chain(commands).collect();
    files.sort();
    files
}

/// Returns the root of the project that a directory is in: the nearest directory with definitions of
/// its own, and not beyond a repository. A folder for definitions without any entry does not count. Outside of repositories it
/// is the directory itself.
pub(crate) fn project_root(workdir: &Path) -> PathBuf {
    let Some(repository) = repository(workdir) else {
        return workdir.to_owned();
    };
    let within = workdir.ancestors().take_while(|it| it.starts_with(repository));
    let has_own = |directory: &&Path| {
        let mut places = DefinitionPaths::PROJECT.iter().chain(&PROJECT_SKILLS);
        places.any(|it| has_entries(&directory.join(it)))
    };
    within.into_iter().find(has_own).unwrap_or(repository).to_owned()
}

/// Returns `true` if a folder has an entry, or may have one.
fn has_entries(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => folder.is_dir(),
    }
}

/// Returns the working tree of git that a directory is in.
pub(crate) fn repository(workdir: &Path) -> Option<&Path> {
    workdir.ancestors().find(|it| it.join(".git").exists())
}

/// Writes a path on one line: what would end the line, or move what is shown, is written as `\n` and the
/// like.
pub(crate) fn plain(path: &Path) -> String {
    let path = path.display().to_string();
    path.chars().fold(String::new(), |text, c| {
        if c.is_control() {
            text + &c.escape_default().to_string()
        } else {
            text + c.encode_utf8(&mut [0; 4])
        }
    })
}

/// Returns the path of a directory without links.
///
/// # Errors
///
/// Returns an error if there is no such directory.
pub(crate) fn real_dir(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    if real.is_dir() { Ok(real) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Returns the absolute path of a file that a tool call names, without `.`.
pub(crate) fn absolute(workdir: &Path, path: &str) -> String {
    workdir.join(path).components().collect::<PathBuf>().display().to_string()
}

/// Writes a path as people know it: from the project, or from the home directory.
pub(crate) fn shown(path: &Path, root: &Path, home: Option<&Path>) -> String {
    if let Ok(below) = path.strip_prefix(root) {
        return below.display().to_string();
    }
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Returns `true` if a directory of a project is reached by a link that leads out of it.
pub(crate) fn leads_out(root: &Path, directory: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(directory).zip(real(root)).is_some_and(|(directory, root)| !directory.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_project_once_it_has_definitions_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("project");
        let sub = root.join("sub");
        fs::create_dir_all(root.join(".git")).unwrap();
        for place in DefinitionPaths::PROJECT.iter().chain(&PROJECT_SKILLS) {
            let folder = sub.join(place);
            fs::create_dir_all(&folder).unwrap();
            assert_eq!(project_root(&sub), root, "{place}");
            fs::write(folder.join("a.md"), "a").unwrap();
            assert_eq!(project_root(&sub), sub, "{place}");
            fs::remove_dir_all(&sub).unwrap();
        }
    }
}
