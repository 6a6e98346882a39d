//! Skills as files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::front_matter::read_within;
use crate::skills::skill::Skill;
use crate::skills::warning::SkillProblem;

/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";

/// How many entries of a directory are looked at.
const MAX_ENTRIES: usize = 2000;

/// How many files of a skill are listed.
const MAX_RESOURCES: usize = 500;

/// Where files of a skill are, in the order they are listed.
const FOLDERS: [&str; 4] = ["scripts", "references", "assets", "examples"];

/// A skill's file, and what tells whether it was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: PathBuf,
    changed: Option<SystemTime>,
    length: u64,
    /// What its directory may not lead out of.
    bound: Option<PathBuf>,
}

impl Listed {
    fn at(path: PathBuf, bound: Option<PathBuf>) -> Option<Self> {
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some(Self { path, changed: metadata.modified().ok(), length: metadata.len(), bound })
    }

    /// Looks at the file again; `None` if it is not there any more.
    pub(super) fn again(&self) -> Option<Self> {
        Self::at(self.path.clone(), self.bound.clone())
    }
}

/// Finds the skills of a directory, in alphabetical order.
pub(super) fn list(root: &Path, bound: Option<&Path>) -> (Vec<Listed>, Option<SkillProblem>) {
    let Ok(entries) = fs::read_dir(root) else { return (Vec::new(), None) };
    let mut names: Vec<_> =
        entries.take(MAX_ENTRIES + 1).filter_map(|it| it.ok().map(|it| it.file_name())).collect();
    let problem = (names.len() > MAX_ENTRIES).then_some(SkillProblem::TooMany(MAX_ENTRIES));
    names.truncate(MAX_ENTRIES);
    names.sort();
    let is_skipped = |name: &std::ffi::OsString| name == ".git" || name == "node_modules";
    let names = names.into_iter().filter(|it| !is_skipped(it));
    (
        names
            .filter_map(|it| Listed::at(root.join(it).join(FILE), bound.map(Path::to_owned)))
            .collect(),
        problem,
    )
}

/// Reads a skill and finds its files.
pub(super) fn read(listed: &Listed) -> Result<(Skill, Vec<SkillProblem>), SkillProblem> {
    let directory = listed.path.parent().unwrap_or(Path::new(""));
    if let Some(bound) = &listed.bound {
        let real = |path: &Path| {
            fs::canonicalize(path).map_err(|error| SkillProblem::Unreadable(error.to_string()))
        };
        if !real(directory)?.starts_with(real(bound)?) {
            return Err(SkillProblem::Outside);
        }
    }
    let text = read_within(directory, &listed.path)
        .map_err(|error| SkillProblem::Unreadable(error.to_string()))?;
    let name = directory.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
    let (mut skill, problems) = Skill::parse(&name, &text)?;
    skill.resources = resources(directory);
    skill.directory = Some(directory.to_owned());
    Ok((skill, problems))
}

fn resources(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(directory.join(folder)) else { continue };
        let files = entries.take(MAX_ENTRIES).filter_map(Result::ok);
        let files = files.filter(|it| it.path().is_file());
        let mut names: Vec<String> =
            files.map(|it| format!("{folder}/{}", it.file_name().to_string_lossy())).collect();
        names.sort();
        all.extend(names);
    }
    all.truncate(MAX_RESOURCES);
    all
}
