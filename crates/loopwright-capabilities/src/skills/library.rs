//! The skill library.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::skills::parse::HOOKS;
use crate::skills::read::{Listed, list_commands, list_skills, read};
use crate::skills::skill::{Skill, SkillInfo};
use crate::skills::warning::{SkillProblem, SkillWarning};

/// The available skills, from several directories.
///
/// A skill is a directory with a file `SKILL.md`, directly in a directory of skills. Of skills with
/// equal names, those of the project take precedence over those of the user, and those over
/// packages; within a scope, the one added first takes precedence, and within a directory the first
/// in alphabetical order.
///
/// Files are read when needed. Listing rereads changed files, and getting a skill rereads its own
/// file. Add only directories whose authors may instruct the model: omit those of an untrusted
/// project. Clones are the same library.
///
/// ```
/// use loopwright_capabilities::skills::{SkillInfo, Skill, SkillLibrary, SkillScope};
///
/// let review = SkillInfo::new("review", "Reviews code. Use it before a commit.");
/// let skills = SkillLibrary::new(".agents/skills")
///     .with_dir(SkillScope::User, "/home/ann/.agents/skills")
///     .with(Skill::new(review, "Look at $ARGUMENTS, worst things first."));
/// assert_eq!(skills.get("review").unwrap().content(), "Look at $ARGUMENTS, worst things first.");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SkillLibrary {
    roots: Vec<Root>,
    own: Vec<Arc<Skill>>,
    /// What the project's directories may not lead out of.
    bound: Option<PathBuf>,
    /// Whether the program runs hooks of skills.
    runs_hooks: bool,
    index: Arc<Mutex<Index>>,
}

/// A directory of skills.
#[derive(Clone, Debug)]
struct Root {
    scope: SkillScope,
    directory: PathBuf,
    holds: Holds,
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Skills,
    Commands,
}

/// The scope of skills, in order of precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkillScope {
    /// Skills of the current project.
    #[default]
    Project,
    /// Skills of the user.
    User,
    /// Skills of a program or a package.
    Package,
}

/// The audience of a list of skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillAudience {
    /// Everyone, with all skills.
    All,
    /// Models, with only the skills that they can select.
    Models,
    /// People, with only the skills that they can select.
    Users,
}

#[derive(Debug, Default)]
struct Index {
    is_scanned: bool,
    /// By file, so that what has not changed is not read again.
    files: BTreeMap<PathBuf, Read>,
    by_name: Vec<Found>,
    warnings: Vec<SkillWarning>,
}

#[derive(Clone, Debug)]
struct Found {
    skill: Arc<Skill>,
    file: Option<Listed>,
    scope: Option<SkillScope>,
}

/// What was made of a file.
#[derive(Debug)]
struct Read {
    listed: Listed,
    skill: Result<(Arc<Skill>, Vec<SkillProblem>), SkillProblem>,
}

impl SkillLibrary {
    /// Creates a library with the project's skill directory. A missing directory has no skills.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::default().with_dir(SkillScope::Project, directory)
    }

    /// Adds a directory of skills.
    pub fn with_dir(self, scope: SkillScope, directory: impl Into<PathBuf>) -> Self {
        self.with_root(Root { scope, directory: directory.into(), holds: Holds::Skills })
    }

    /// Adds a directory of commands, such as `.claude/commands`: each Markdown file is a skill
    /// named after the file, prefixed with its subdirectory if it has one: `git/push.md` is
    /// `git:push`. Models see those with a description.
    pub fn with_commands(self, scope: SkillScope, directory: impl Into<PathBuf>) -> Self {
        self.with_root(Root { scope, directory: directory.into(), holds: Holds::Commands })
    }

    fn with_root(mut self, root: Root) -> Self {
        self.roots.push(root);
        self.roots.sort_by_key(|it| it.scope);
        self.index = Arc::default();
        self
    }

    /// Omits project skills whose links lead outside a directory, such as the project's root.
    pub fn with_boundary(mut self, directory: impl Into<PathBuf>) -> Self {
        self.bound = Some(directory.into());
        self.index = Arc::default();
        self
    }

    /// Declares that the program runs the [hooks](SkillInfo::hooks) of skills, so that they are no warning.
    pub fn with_hooks(mut self) -> Self {
        self.runs_hooks = true;
        self
    }

    /// Adds a skill without a file. It comes after those with files.
    pub fn with(mut self, skill: Skill) -> Self {
        self.own.push(Arc::new(skill));
        self.index = Arc::default();
        self
    }

    /// Returns a skill from its current file. Blocks while it reads.
    pub fn get(&self, name: &str) -> Option<Arc<Skill>> {
        let mut index = self.scanned();
        if let Some(skill) = index.current(name) {
            return Some(skill);
        }
        self.scan(&mut index);
        index.current(name)
    }

    /// Returns `true` if the skill exists. Blocks while it reads.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the scope of the skill that has a name. A skill without a file has none. Blocks while it reads.
    pub fn scope(&self, name: &str) -> Option<SkillScope> {
        self.scanned().find(name)?.scope
    }

    /// Returns the file of the skill that has a name. A skill that a program created has none. Blocks while it reads.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.scanned().find(name)?.file.as_ref()?.path.clone())
    }

    /// Returns the skills for an audience, in order. Blocks while it reads.
    pub fn list(&self, audience: SkillAudience) -> Vec<Arc<Skill>> {
        let mut index = self.index();
        self.scan(&mut index);
        let shown = |it: &&Found| audience.sees(&it.skill.info);
        index.by_name.iter().filter(shown).map(|it| Arc::clone(&it.skill)).collect()
    }

    /// Returns the names of the skills for an audience, in order. Blocks while it reads.
    pub fn names(&self, audience: SkillAudience) -> Vec<String> {
        self.list(audience).iter().map(|it| it.name().to_owned()).collect()
    }

    /// Returns the skills for an audience as text, a line each. Blocks while it reads.
    pub fn to_text(&self, audience: SkillAudience) -> String {
        text_of(&self.list(audience))
    }

    /// Returns the problems of the files. Blocks while it reads.
    pub fn warnings(&self) -> Vec<SkillWarning> {
        let mut index = self.index();
        self.scan(&mut index);
        let mut warnings = index.warnings.clone();
        let of_hooks = SkillProblem::Unsupported { key: HOOKS };
        warnings.retain(|it| !self.runs_hooks || it.problem != of_hooks);
        warnings
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scanned(&self) -> MutexGuard<'_, Index> {
        let mut index = self.index();
        if !index.is_scanned {
            self.scan(&mut index);
        }
        index
    }

    /// Looks at all directories, and reads what has changed.
    fn scan(&self, index: &mut Index) {
        let mut before = std::mem::take(&mut index.files);
        *index = Index { is_scanned: true, ..Index::default() };
        for Root { scope, directory, holds } in &self.roots {
            let bound = self.bound.as_deref().filter(|_| *scope == SkillScope::Project);
            let (files, problem) = match holds {
                Holds::Skills => list_skills(directory, bound),
                Holds::Commands => list_commands(directory, bound),
            };
            index.warn(directory, problem);
            for listed in files {
                let known = before.remove(&listed.path).filter(|it| it.listed == listed);
                let read = known.unwrap_or_else(|| Read::new(listed));
                index.take(read, *scope);
            }
        }
        for skill in &self.own {
            if index.find(skill.name()).is_none() {
                index.by_name.push(Found { skill: Arc::clone(skill), file: None, scope: None });
            }
        }
    }
}

/// Returns skills as text, a line each.
pub(super) fn text_of(skills: &[Arc<Skill>]) -> String {
    let lines: Vec<String> = skills.iter().map(|it| it.info.to_line()).collect();
    if lines.is_empty() {
        return "(no skills available)".to_owned();
    }
    format!("Available skills:\n{}", lines.join("\n"))
}

impl Index {
    fn find(&self, name: &str) -> Option<&Found> {
        self.by_name.iter().find(|it| it.skill.name() == name)
    }

    /// Returns a skill if its file still is what was read, or could be read again.
    fn current(&mut self, name: &str) -> Option<Arc<Skill>> {
        let place = self.by_name.iter().position(|it| it.skill.name() == name)?;
        let found = self.by_name.get_mut(place)?;
        let Some(file) = &found.file else { return Some(Arc::clone(&found.skill)) };
        let now = file.again()?;
        if now == *file {
            return Some(Arc::clone(&found.skill));
        }
        let (skill, _) = read(&now).ok()?;
        if skill.name() != name {
            return None;
        }
        *found = Found { skill: Arc::new(skill), file: Some(now), scope: found.scope };
        Some(Arc::clone(&found.skill))
    }

    fn take(&mut self, read: Read, scope: SkillScope) {
        let path = read.listed.path.clone();
        match &read.skill {
            Ok((skill, problems)) => {
                self.warn(&path, problems.iter().cloned());
                let by = self.find(skill.name()).and_then(|it| it.file.as_ref());
                if let Some(by) = by.map(|it| it.path.clone()) {
                    self.warn(&path, [SkillProblem::Shadowed { by }]);
                } else {
                    let file = Some(read.listed.clone());
                    let (skill, scope) = (Arc::clone(skill), Some(scope));
                    self.by_name.push(Found { skill, file, scope });
                }
            }
            Err(problem) => self.warn(&path, [problem.clone()]),
        }
        self.files.insert(path, read);
    }

    fn warn(&mut self, path: &Path, problems: impl IntoIterator<Item = SkillProblem>) {
        let warning = |problem| SkillWarning { path: path.to_owned(), problem };
        self.warnings.extend(problems.into_iter().map(warning));
    }
}

impl Read {
    fn new(listed: Listed) -> Self {
        let skill = read(&listed).map(|(skill, problems)| (Arc::new(skill), problems));
        Self { listed, skill }
    }
}

impl SkillAudience {
    fn sees(self, info: &SkillInfo) -> bool {
        match self {
            Self::All => true,
            Self::Models => info.model_invocable,
            Self::Users => info.user_invocable,
        }
    }
}
