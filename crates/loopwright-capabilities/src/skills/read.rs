//! Skill files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::front_matter::read_within;
use crate::skills::skill::Skill;
use crate::skills::substitute::counted_from_zero;
use crate::skills::warning::SkillProblem;

/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";

/// How many entries of a directory are looked at.
const MAX_ENTRIES: usize = 2000;

/// How many files of a skill are listed.
const MAX_RESOURCES: usize = 500;

/// Where files of a skill are, in the order they are listed.
const FOLDERS: [&str; 4] = ["scripts", "references", "assets", "examples"];

/// A skill's file, with the data that shows whether it has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: PathBuf,
    changed: Option<SystemTime>,
    length: u64,
    /// What its directory may not lead out of.
    bound: Option<PathBuf>,
    /// Its name, if it is a command.
    command: Option<String>,
}

impl Listed {
    fn at(path: PathBuf, bound: Option<&Path>, command: Option<String>) -> Option<Self> {
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let (changed, length) = (metadata.modified().ok(), metadata.len());
        Some(Self { path, changed, length, bound: bound.map(Path::to_owned), command })
    }

    /// Looks at the file again. Returns `None` if it is not there any more.
    pub(super) fn again(&self) -> Option<Self> {
        Self::at(self.path.clone(), self.bound.as_deref(), self.command.clone())
    }
}

/// Finds the skills of a directory, in alphabetical order.
pub(super) fn list_skills(root: &Path, bound: Option<&Path>) -> Found {
    let (names, problem) = entries(root);
    let is_skipped = |name: &OsString| name == ".git" || name == "node_modules";
    let names = names.into_iter().filter(|it| !is_skipped(it));
    let files = names.filter_map(|it| Listed::at(root.join(it).join(FILE), bound, None));
    (files.collect(), problem)
}

/// Finds the commands of a directory and of those in it, in alphabetical order.
pub(super) fn list_commands(root: &Path, bound: Option<&Path>) -> Found {
    let (names, mut problem) = entries(root);
    let mut files = Vec::new();
    for name in names {
        let path = root.join(&name);
        if path.is_dir() {
            let (below, more) = entries(&path);
            let commands = below.iter().filter_map(|it| {
                let command = format!("{}:{}", name.to_str()?, command(it)?);
                Listed::at(path.join(it), bound, Some(command))
            });
            files.extend(commands);
            problem = problem.or(more);
        } else if let Some(command) = command(&name) {
            files.extend(Listed::at(path, bound, Some(command.to_owned())));
        }
    }
    (files, problem)
}

/// What is found in a directory, and what is wrong with it.
type Found = (Vec<Listed>, Option<SkillProblem>);

/// Lists the names in a directory, in alphabetical order.
fn entries(root: &Path) -> (Vec<OsString>, Option<SkillProblem>) {
    let Ok(entries) = fs::read_dir(root) else { return (Vec::new(), None) };
    let mut names: Vec<_> =
        entries.take(MAX_ENTRIES + 1).filter_map(|it| it.ok().map(|it| it.file_name())).collect();
    let problem = (names.len() > MAX_ENTRIES).then_some(SkillProblem::TooMany(MAX_ENTRIES));
    names.truncate(MAX_ENTRIES);
    names.sort();
    (names, problem)
}

/// Returns the name of a command, if a file is one.
fn command(file: &OsStr) -> Option<&str> {
    let name = file.to_str()?.strip_suffix(".md")?;
    (!name.is_empty() && !name.starts_with('.')).then_some(name)
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
    if let Some(name) = &listed.command {
        return command_of(name, &text);
    }
    let name = directory.file_name().map(|it| it.to_string_lossy()).unwrap_or_default();
    let (mut skill, problems) = Skill::parse(&name, &text)?;
    skill.resources = resources(directory);
    skill.directory = Some(directory.to_owned());
    Ok((skill, problems))
}

/// Reads a command. Its file needs no front matter, and names it.
fn command_of(name: &str, text: &str) -> Result<(Skill, Vec<SkillProblem>), SkillProblem> {
    let (mut skill, mut problems) = Skill::parse(name, text)?;
    problems.retain(|it| {
        !matches!(
            it,
            SkillProblem::NoFrontMatter
                | SkillProblem::NoDescription
                | SkillProblem::BadName(_)
                | SkillProblem::NameMismatch { .. }
        )
    });
    name.clone_into(&mut skill.info.name);
    if skill.info.description.is_empty() {
        skill.info.model_invocable = false;
        let first = skill.content().lines().map(|it| it.trim_start_matches('#').trim());
        let first = first.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        skill.info.description = first.to_owned();
    }
    skill.body = counted_from_zero(&skill.body);
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
