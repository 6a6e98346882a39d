//! The settings that a project brings, and whether the user trusts them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use loopwright_capabilities::front_matter::is_foreign;
use loopwright_capabilities::skills::SkillLibrary;
use loopwright_permissions::SourceKind;
use loopwright_templates::{DefinitionLoader, DefinitionPaths};
use serde_json::{Map, Value, json};

use crate::config::{Config, ConfigSources, Discovery, read_text};
use crate::fingerprint::{
    TooManyFiles, fingerprint, fingerprint_without, named_files, skill_commands,
};
use crate::folders::{self, Folder, FoldersError};
use crate::project::{leads_out, project_root, skill_files};
use crate::skill_folders::{Places, skills};

/// The file of a project that names servers of the Model Context Protocol.
pub(crate) const MCP_FILE: &str = ".mcp.json";

/// Settings of Claude Code whose permissions hold here as well, below the root of a project.
const CLAUDE: [(&str, SourceKind); 2] = [
    (".claude/settings.local.json", SourceKind::Local),
    (".claude/settings.json", SourceKind::Project),
];

/// The settings that a project brings, and whether the user trusts them.
#[derive(Debug)]
pub(crate) struct ProjectSettings {
    /// The root of the project.
    pub(crate) root: PathBuf,
    /// The files that there are, with their texts.
    files: Vec<(PathBuf, String)>,
    /// What the user has decided about the project.
    folder: Folder,
    /// The fingerprint, once it is needed.
    fingerprint: OnceLock<Result<String, TooManyFiles>>,
    /// The skills of the project and the user, once they are needed.
    skills: OnceLock<SkillLibrary>,
}

impl ProjectSettings {
    /// Reads the settings of the project that a configuration is for.
    ///
    /// # Errors
    ///
    /// Returns an error if the user's decisions about folders cannot be read.
    pub(crate) fn find(config: &Config, sources: &ConfigSources) -> Result<Self, FoldersError> {
        let root = project_root(&config.workdir);
        let mut files = Vec::new();
        if let Some(file) = &config.project_file {
            files.push((file.path.to_path_buf(), file.text.to_string()));
        }
        if sources.discovery == Discovery::Files {
            files.extend(CLAUDE.iter().filter_map(|(name, _)| settings_file(root.join(name))));
            // What is missing of servers restricts nothing.
            let servers = root.join(MCP_FILE);
            files.extend(text_of(&servers).ok().map(|text| (servers, text)));
            let directories = DefinitionPaths::PROJECT.map(|it| root.join(it));
            let directories = directories.into_iter().filter(|it| !leads_out(&root, it));
            files.extend(agent_files(directories));
            files.extend(skills_that_run(&root));
        }
        let folder = folders::folder(sources, &root)?;
        Ok(Self { root, files, folder, fingerprint: OnceLock::new(), skills: OnceLock::new() })
    }

    /// Returns the fingerprint of the settings and of the files that they run, as they are when this is first called.
    ///
    /// # Errors
    ///
    /// Returns an error if these are too many files.
    pub(crate) fn fingerprint(&self) -> Result<&str, &TooManyFiles> {
        let made = self.fingerprint.get_or_init(|| fingerprint(&self.root, &self.files));
        made.as_deref()
    }

    fn fingerprint_without(&self, file: &Path) -> Option<String> {
        fingerprint_without(&self.root, &self.files, file).ok()
    }

    /// Returns `true` if the user trusts the settings as they are now.
    pub(crate) fn is_trusted(&self) -> bool {
        let trusted = self.folder.trusted.as_deref();
        trusted.is_some_and(|trusted| self.fingerprint() == Ok(trusted))
    }

    /// Returns why the project is not trusted.
    pub(crate) fn distrust(&self) -> String {
        if self.folder.trusted.is_none() {
            return "this project is not trusted".to_owned();
        }
        match self.fingerprint() {
            Ok(_) => CHANGED.to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Returns the skills of the project and the user, which are found when this is first called.
    pub(crate) fn skills(&self, sources: &ConfigSources) -> &SkillLibrary {
        self.skills.get_or_init(|| skills(&self.root, sources, Places::All))
    }

    /// Returns what the user has decided about the project.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the settings of Claude Code, with their texts.
    pub(crate) fn claude(&self) -> impl Iterator<Item = (SourceKind, PathBuf, &str)> {
        CLAUDE.iter().filter_map(move |(name, kind)| {
            let path = self.root.join(name);
            let text = self.text(&path)?;
            Some((*kind, path, text))
        })
    }

    /// Returns the hooks that guard calls and prompts, as settings of their own, one for each file that has some.
    pub(crate) fn guards(&self) -> Vec<String> {
        let of_file = |text: &str| {
            let settings: Value = serde_json::from_str(text).ok()?;
            let hooks = settings.get("hooks")?.as_object()?.clone();
            let is_guard = |event: &str| GUARDS.contains(&event);
            let kept: Map<_, _> = hooks.into_iter().filter(|(event, _)| is_guard(event)).collect();
            (!kept.is_empty()).then(|| json!({ "hooks": kept }).to_string())
        };
        self.claude().filter_map(|(_, _, text)| of_file(text)).collect()
    }

    /// Returns the guards of the settings that were trusted before they changed, as if they stood in a file of the project.
    pub(crate) fn earlier_guards(&self) -> impl Iterator<Item = (PathBuf, &str)> {
        let guards = if self.has_changed() { &*self.folder.guards } else { &[] };
        guards.iter().map(|text| (self.root.join(CLAUDE[0].0), text.as_str()))
    }

    /// Returns the files of the project that commands in the settings name.
    pub(crate) fn named_files(&self) -> impl Iterator<Item = PathBuf> {
        named_files(&self.root, &self.files).into_iter()
    }

    /// Returns the commands of skills, with their files.
    pub(crate) fn skill_commands(&self) -> impl Iterator<Item = (&Path, String)> {
        let skills =
            self.files.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "md"));
        skills.flat_map(|(path, text)| skill_commands(text).map(move |it| (path.as_path(), it)))
    }

    /// Returns `true` if the user has trusted other settings of the project.
    pub(crate) fn has_changed(&self) -> bool {
        self.folder.trusted.is_some() && !self.is_trusted()
    }

    /// Returns the paths of the files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Returns the files of agents that name servers or hooks, with their texts.
    pub(crate) fn agents(&self) -> impl Iterator<Item = (&Path, &str)> {
        let directories = DefinitionPaths::PROJECT.map(|it| self.root.join(it));
        let is_agent =
            move |path: &Path| directories.iter().any(|it| path.parent() == Some(it.as_path()));
        let files = self.files.iter().map(|(path, text)| (path.as_path(), text.as_str()));
        files.filter(move |(path, _)| is_agent(path))
    }

    /// Returns the text of a file, if it is there.
    pub(crate) fn text(&self, path: &Path) -> Option<&str> {
        self.files.iter().find(|(known, _)| known == path).map(|(_, text)| text.as_str())
    }
}

/// Returns the places of the settings of Claude Code in the project of a directory.
pub(crate) fn claude_files(workdir: &Path, sources: &ConfigSources) -> Vec<PathBuf> {
    if sources.discovery != Discovery::Files {
        return Vec::new();
    }
    let root = project_root(workdir);
    CLAUDE.iter().map(|(name, _)| root.join(name)).collect()
}

/// Returns `true` if the project has settings of Claude Code, whether or not they can be read.
pub(crate) fn has_claude_settings(config: &Config) -> bool {
    let root = project_root(&config.workdir);
    CLAUDE.iter().any(|(name, _)| root.join(name).symlink_metadata().is_ok())
}

/// Runs a command of the user that changes a file of the project. A project that is trusted before remains trusted if nothing
/// else has changed meanwhile.
pub(crate) fn keeping_trust<T, E>(
    config: &Config,
    sources: &ConfigSources,
    file: &Path,
    change: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let before = ProjectSettings::find(config, sources).ok().filter(ProjectSettings::is_trusted);
    let others = before.as_ref().and_then(|it| it.fingerprint_without(file));
    let changed = change()?;
    let (Some(before), Some(others)) = (before, others) else { return Ok(changed) };
    let Ok(after) = ProjectSettings::find(config, sources) else { return Ok(changed) };
    let Ok(fingerprint) = after.fingerprint() else { return Ok(changed) };
    // Without a place for the decision, the project is trusted no longer, which a run reports.
    let is_new = before.folder.trusted.as_deref() != Some(fingerprint);
    if is_new && after.fingerprint_without(file) == Some(others) {
        let _kept = folders::update(sources, &before.root, |folder| {
            // The user may have revoked it meanwhile.
            if folder.trusted == before.folder.trusted {
                folder.trust(fingerprint.to_owned(), after.guards());
            }
        });
    }
    Ok(changed)
}

/// The events whose hooks can keep calls and prompts from running.
const GUARDS: [&str; 2] = ["PreToolUse", "UserPromptSubmit"];

/// Why trust has ended.
const CHANGED: &str =
    "settings of this project, or files that they run, have changed since they were trusted";

/// Files of one directory of agents that are looked at.
const MAX_AGENTS: usize = 500;

/// Keys of agent files that start programs, which requires trust.
const BROUGHT: [&str; 3] = ["mcpServers", "mcp_servers", "hooks"];

/// Returns the files of agents that name servers or hooks, with their texts. Those of another user are left out.
pub(crate) fn agent_files(
    directories: impl IntoIterator<Item = PathBuf>,
) -> Vec<(PathBuf, String)> {
    let loader = DefinitionLoader::new();
    let brings = |text: &str| BROUGHT.iter().any(|key| text.contains(key));
    let mut files = Vec::new();
    for directory in directories {
        let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
        let mut paths: Vec<PathBuf> =
            entries.map(|it| it.path()).filter(|it| loader.reads(it)).take(MAX_AGENTS).collect();
        paths.sort();
        let texts = paths.into_iter().filter_map(|path| Some((text_of(&path).ok()?, path)));
        files.extend(texts.filter(|(text, _)| brings(text)).map(|(text, path)| (path, text)));
    }
    files
}

/// Reads the skills and commands of a project that run something: commands when the user invokes them, and hooks.
fn skills_that_run(root: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let files = skill_files(root).into_iter().filter_map(|path| {
        let text = text_of(&path).ok()?;
        Some((path, text))
    });
    files.filter(|(_, text)| ["!`", "```!", "hooks"].iter().any(|it| text.contains(it)))
}

/// Reads a file of settings, and returns its path with it; `None` if the file does not exist.
///
/// The text of a file that cannot be read is empty, which is no valid file of settings: its rules and hooks are not lost in silence.
pub(crate) fn settings_file(path: PathBuf) -> Option<(PathBuf, String)> {
    let is_absent = |error: &io::Error| {
        let is_missing =
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        is_missing && path.symlink_metadata().is_err()
    };
    match text_of(&path) {
        Err(error) if is_absent(&error) => None,
        read => Some((path, read.unwrap_or_default())),
    }
}

/// Reads a file of settings.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is not a regular file, or belongs to another user.
pub(crate) fn text_of(path: &Path) -> io::Result<String> {
    let refused = |reason: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if is_foreign(path)? {
        return refused("the file belongs to another user");
    }
    // Opening a named pipe blocks until another process writes to it.
    if !path.metadata()?.is_file() {
        return refused("not a regular file");
    }
    read_text(path)
}

/// Returns why a file of settings cannot be read; `None` if it can.
pub(crate) fn why_unreadable(path: &Path) -> Option<String> {
    let error = text_of(path).err()?;
    Some(match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => "the symbolic link is broken".to_owned(),
        io::ErrorKind::InvalidData => "not UTF-8 text".to_owned(),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    #[test]
    fn a_file_that_another_program_changes_meanwhile_ends_trust() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(root.join(".loopwright/agents")).unwrap();
        let (cwd, home) = (root.clone(), Some(home.path().into()));
        let sources = ConfigSources { cwd, home, ..ConfigSources::default() };
        let flags = Flags { workdir: ".".into(), ..Flags::default() };
        let config = Config::load(flags, &sources).unwrap().config;
        let project = || ProjectSettings::find(&config, &sources).unwrap();
        let file = root.join(".loopwright/agents/a.md");
        let changing = |paths: &[&Path]| {
            let fingerprint = project().fingerprint().unwrap().to_owned();
            folders::update(&sources, &project().root, |it| it.trusted = Some(fingerprint))
                .unwrap();
            assert!(project().is_trusted());
            let write = || paths.iter().try_for_each(|path| std::fs::write(path, "x"));
            keeping_trust(&config, &sources, &file, write).unwrap();
            project().is_trusted()
        };
        let other = root.join(".loopwright/agents/b.md");
        assert!(changing(&[&file]));
        assert!(!changing(&[&file, &other]));
    }

    #[test]
    fn a_settings_file_that_cannot_be_read_is_not_an_absent_one() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::write(path("text"), "{}").unwrap();
        std::fs::write(path("invalid"), b"{\"a\": \"\xff\"}").unwrap();
        let large = std::fs::File::create(path("large")).unwrap();
        large.set_len(1 << 30).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink("nowhere", path("dangling")).unwrap();
        std::os::unix::fs::symlink("circle", path("circle")).unwrap();
        let cases = [
            ("text", Some("{}")),
            ("invalid", Some("")),
            ("large", Some("")),
            ("folder", Some("")),
            ("dangling", Some("")),
            ("circle", Some("")),
            ("absent", None),
            ("text/absent", None),
        ];
        let reasons = ["text", "invalid", "folder", "dangling"].map(|it| why_unreadable(&path(it)));
        let reason = |text: &str| Some(text.to_owned());
        let expect = [
            None,
            reason("not UTF-8 text"),
            reason("not a regular file"),
            reason("the symbolic link is broken"),
        ];
        assert_eq!(reasons, expect);
        for (name, expect) in cases {
            let expect = expect.map(|text| (path(name), text.to_owned()));
            assert_eq!(settings_file(path(name)), expect, "{name}");
        }
    }
}
