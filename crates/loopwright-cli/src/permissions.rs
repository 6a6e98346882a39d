//! The permission rules of a run: those of the command line, the user, the project and the folder, as one policy.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_capabilities::front_matter::is_foreign;
use loopwright_capabilities::permissions::Permissions;
use loopwright_permissions::{
    Call, Decision, Mode, Policy, PolicyBuilder, Shell, Source, SourceKind, ToolKind,
    claude_settings,
};
use loopwright_templates::{DefinitionLoader, DefinitionPaths};
use sha2::{Digest as _, Sha256};

use crate::added_folders::{AddedFolderError, AddedFolders};
use crate::command_hooks::{self, CommandHooks};
use crate::config::{
    Config, ConfigSources, Discovery, NotifySettings, Origin, PermissionSettings, read_text,
};
use crate::console;
use crate::folders::{self, Folder, FoldersError};
use crate::project::{WORKTREES, leads_out, project_root, repository, skill_files};
use crate::render::{count, sanitize_terminal};
use crate::tools::COMMANDS;

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
}

impl ProjectSettings {
    /// Reads the settings of the project that a configuration is for.
    ///
    /// # Errors
    ///
    /// Returns an error if the user's decisions about folders cannot be read. A file of the project that cannot be read or belongs to
    /// another user counts as absent.
    pub(crate) fn find(config: &Config, sources: &ConfigSources) -> Result<Self, FoldersError> {
        let root = project_root(&config.workdir);
        let mut files = Vec::new();
        if let Some(file) = &config.project_file {
            files.push((file.path.to_path_buf(), file.text.to_string()));
        }
        let others = CLAUDE.iter().map(|(name, _)| *name).chain([MCP_FILE]);
        for name in others.filter(|_| sources.discovery == Discovery::Files) {
            let path = root.join(name);
            if let Ok(text) = text_of(&path) {
                files.push((path, text));
            }
        }
        if sources.discovery == Discovery::Files {
            let directories = DefinitionPaths::PROJECT.map(|it| root.join(it));
            let directories = directories.into_iter().filter(|it| !leads_out(&root, it));
            files.extend(agent_files(directories));
            files.extend(files_with_commands(&root));
        }
        let folder = folders::folder(sources, &root)?;
        Ok(Self { root, files, folder })
    }

    /// Returns the fingerprint of the settings.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (path, text) in &self.files {
            let name = path.to_string_lossy();
            for part in [name.as_bytes(), text.as_bytes()] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        format!("{:x}", hash.finalize())
    }

    /// Returns `true` if the user trusts the settings as they are now.
    pub(crate) fn is_trusted(&self) -> bool {
        self.folder.trusted.as_ref() == Some(&self.fingerprint())
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

/// How warnings end about settings that count only in a trusted project.
const UNTRUSTED: &str = "the project is not trusted";

/// Warns about settings that have no effect. All those that trust would change are one warning.
pub(crate) fn tell_warnings(policy: &Policy, project: &ProjectSettings) {
    let (untrusted, others): (Vec<_>, Vec<_>) =
        policy.warnings().iter().partition(|it| it.message.ends_with(UNTRUSTED));
    for warning in others {
        console::warn(warning);
    }
    let reason = if project.has_changed() {
        "settings of this project have changed since they were trusted"
    } else {
        "this project is not trusted"
    };
    if !untrusted.is_empty() {
        let ignored = count(untrusted.len() as u64, "permission setting");
        console::warn(&format!("{reason}: {ignored} ignored; trust them with `loopwright trust`"));
    }
}

/// The permissions of a run, which the user may change while the run waits.
#[derive(Clone, Debug)]
pub struct RunPermissions {
    shared: Permissions,
    added: AddedFolders,
    /// `None` means that there are no settings to change.
    origin: Option<Arc<PolicyOrigin>>,
}

/// What a policy is built from.
#[derive(Debug)]
struct PolicyOrigin {
    config: Config,
    sources: ConfigSources,
    /// As it was when the run was prepared: what changes meanwhile counts for the next run.
    project: ProjectSettings,
    /// The mode that was chosen during the run.
    mode: Mutex<Option<Mode>>,
    /// What the user chose for the rest of the run.
    session: Mutex<Chosen>,
    /// What shadow rules would have done, before the policy was last replaced.
    shadowed: Mutex<BTreeMap<String, (u64, u64)>>,
    hooks: CommandHooks,
    /// What is odd about the hooks.
    hook_warnings: Vec<String>,
}

/// Why permissions cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Folders(#[from] FoldersError),
    #[error("mode `{0}` is disabled by the settings; `loopwright policy show` lists them")]
    Disabled(Mode),
    #[error("this run has no settings to change")]
    Fixed,
}

impl RunPermissions {
    /// Reads the permissions that a configuration leads to.
    pub(crate) fn of(config: &Config, sources: &ConfigSources) -> Result<Self, FoldersError> {
        let (policy, project) = policy(config, sources)?;
        let added = AddedFolders::of(&policy, config, sources);
        let (hooks, hook_warnings) = hooks(sources, &project);
        let origin = PolicyOrigin {
            hooks,
            hook_warnings,
            config: config.clone(),
            sources: sources.clone(),
            project,
            mode: Mutex::default(),
            session: Mutex::default(),
            shadowed: Mutex::default(),
        };
        Ok(Self { shared: Permissions::new(policy), added, origin: Some(Arc::new(origin)) })
    }

    /// Returns the folders that tools use besides the working directory.
    ///
    /// # Errors
    ///
    /// Returns an error if one that was typed cannot be used.
    pub(crate) fn added_folders(&self) -> Result<&[PathBuf], AddedFolderError> {
        match &self.added.refused {
            Some(error) => Err(error.clone()),
            None => Ok(&self.added.usable),
        }
    }

    /// Warns about settings that have no effect.
    pub(crate) fn tell_warnings(&self) {
        if let Some(origin) = &self.origin {
            tell_warnings(&self.policy(), &origin.project);
            origin.hook_warnings.iter().for_each(|warning| console::warn(warning));
            self.added.ignored.iter().for_each(|error| console::warn(error));
        }
    }

    /// Tells what shadow rules would have done.
    pub(crate) fn tell_shadow(&self) {
        let Some(origin) = &self.origin else { return };
        let mut counts = lock(&origin.shadowed).clone();
        add_shadow(&mut counts, &self.policy());
        for (rule, (matched, changed)) in counts {
            let rule = sanitize_terminal(&rule);
            let (matched, changed) = (count(matched, "call"), count(changed, "decision"));
            console::tell(&format!("shadow: {rule}: {matched} matched, {changed} would change"));
        }
    }

    /// Returns the hooks of the run, and the root of its project.
    pub(crate) fn hooks(&self) -> Option<(&CommandHooks, &Path)> {
        let origin = self.origin.as_ref()?;
        let found = (!origin.hooks.is_empty()).then_some(&origin.hooks)?;
        Some((found, &origin.project.root))
    }

    /// Returns what is told when the run waits for the user.
    pub(crate) fn notify(&self) -> Option<&NotifySettings> {
        self.origin.as_ref().map(|origin| &origin.config.notify)
    }

    /// Returns the permissions of a run that nothing is configured for.
    pub(crate) fn without_rules(workdir: &WorkspaceRoot) -> Self {
        let policy = Policy::builder(text(workdir.path())).mode(Mode::Auto).build();
        let added = AddedFolders::default();
        Self { shared: Permissions::new(policy), added, origin: None }
    }

    /// Returns the policy that agents share.
    pub(crate) fn shared(&self) -> &Permissions {
        &self.shared
    }

    /// Returns the policy that is in force.
    pub(crate) fn policy(&self) -> Policy {
        self.shared.policy()
    }

    /// Allows or denies calls for good: in this project, for this user.
    pub(crate) fn decide_always(
        &self,
        decision: Decision,
        rules: &[String],
    ) -> Result<(), ChangeError> {
        let origin = self.origin()?;
        folders::update(&origin.sources, &origin.project.root, |folder| {
            let kept =
                if decision == Decision::Deny { &mut folder.deny } else { &mut folder.allow };
            for rule in rules {
                if !kept.contains(rule) {
                    kept.push(rule.clone());
                }
            }
        })?;
        self.renew(origin)
    }

    /// Allows or denies calls for the rest of the run.
    pub(crate) fn decide_in_session(
        &self,
        decision: Decision,
        rules: &[String],
    ) -> Result<(), ChangeError> {
        let origin = self.origin()?;
        lock(&origin.session).rules.extend(rules.iter().map(|rule| (decision, rule.clone())));
        self.renew(origin)
    }

    /// Lets the rules and modes for the working directory hold in another folder as well.
    pub(crate) fn add_folder(&self, folder: &Path) -> Result<(), ChangeError> {
        let origin = self.origin()?;
        lock(&origin.session).folders.push(text(folder));
        self.renew(origin)
    }

    /// Changes the mode.
    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), ChangeError> {
        let origin = self.origin()?;
        self.policy().with_mode(mode).ok_or(ChangeError::Disabled(mode))?;
        *lock(&origin.mode) = Some(mode);
        self.renew(origin)
    }

    fn origin(&self) -> Result<&PolicyOrigin, ChangeError> {
        self.origin.as_deref().ok_or(ChangeError::Fixed)
    }

    fn renew(&self, origin: &PolicyOrigin) -> Result<(), ChangeError> {
        let PolicyOrigin { config, sources, project, .. } = origin;
        add_shadow(&mut lock(&origin.shadowed), &self.policy());
        let folder = folders::folder(sources, &project.root)?;
        let mut policy = build(config, sources, project, &folder, &lock(&origin.session));
        if let Some(mode) = *lock(&origin.mode) {
            policy = policy.with_mode(mode).unwrap_or(policy);
        }
        self.shared.set(policy);
        Ok(())
    }
}

fn add_shadow(counts: &mut BTreeMap<String, (u64, u64)>, policy: &Policy) {
    for count in policy.shadow_counts() {
        let (matched, changed) = counts.entry(count.rule.to_string()).or_default();
        *matched += count.matched;
        *changed += count.changed;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the rules that hold for the runs of a configuration, and the settings of its project.
///
/// # Errors
///
/// Returns an error if the user's decisions about folders cannot be read.
pub(crate) fn policy(
    config: &Config,
    sources: &ConfigSources,
) -> Result<(Policy, ProjectSettings), FoldersError> {
    let project = ProjectSettings::find(config, sources)?;
    let policy = build(config, sources, &project, &project.folder, &Chosen::default());
    Ok((policy, project))
}

/// What the user chose during a run.
#[derive(Debug, Default)]
struct Chosen {
    rules: Vec<(Decision, String)>,
    folders: Vec<String>,
}

/// Puts the rules of all sources together: with those that the user chose for this `folder`, and for this `session`.
fn build(
    config: &Config,
    sources: &ConfigSources,
    project: &ProjectSettings,
    folder: &Folder,
    session: &Chosen,
) -> Policy {
    let workdir = text(&config.workdir);
    // Without bash, `sh` runs commands, which reads some of them in another way.
    let shell = if loopwright_sandbox::Command::has_bash() { Shell::Bash } else { Shell::Posix };
    let mut builder = Policy::builder(workdir.as_str()).mode(Mode::Auto).shell(shell);
    let home = sources.home.as_deref().map(text);
    if let Some(home) = &home {
        builder = builder.home(home.as_str());
    }
    if let Some(repository) = repository(&config.workdir) {
        builder = builder.copies(text(&repository.join(WORKTREES)), text(repository));
    }
    let layers = &config.permissions;
    let typed = settings(SourceKind::Flags, &layers.typed, &workdir);
    let user = settings(SourceKind::User, &layers.user, home.as_deref().unwrap_or("/"));
    builder = [typed, user].into_iter().flatten().fold(builder, PolicyBuilder::source);
    let chosen = Source::new(SourceKind::Flags, "this session", workdir.as_str());
    builder = session.folders.iter().fold(builder, |builder, it| builder.folder(it.as_str()));
    builder = builder.source(
        session
            .rules
            .iter()
            .fold(chosen, |source, (decision, rule)| source.with_rule(*decision, rule, 0)),
    );
    if let Some(path) = folders::file(sources) {
        let kept = Source::new(SourceKind::Local, text(&path), text(&project.root));
        let kept = folder.allow.iter().fold(kept, |source, rule| source.allow(rule, 0));
        builder =
            builder.source(folder.deny.iter().fold(kept, |source, rule| source.deny(rule, 0)));
    }
    if let Some(shadow) = &layers.shadow {
        let source =
            claude_settings(SourceKind::Flags, &text(&shadow.path), &workdir, &shadow.text);
        builder = builder.source(source.into_shadow());
    }
    let mut of_project = Vec::new();
    if let Some(file) = &config.project_file {
        let base = file.path.parent().map(text).unwrap_or_default();
        of_project.extend(settings(SourceKind::Project, &layers.project, &base));
    }
    for (name, kind) in CLAUDE {
        let path = project.root.join(name);
        if let Some(read) = project.text(&path) {
            of_project.push(claude_settings(kind, &text(&path), &text(&project.root), read));
        }
    }
    let is_trusted = project.is_trusted();
    for source in of_project {
        let source = source.confined();
        builder = builder.source(if is_trusted { source } else { source.untrusted() });
    }
    builder.build()
}

/// The user's own hooks, in the folder of the configuration.
pub(crate) const HOOKS: &str = "hooks.json";

/// Reads the hooks of the user and those of a project that is trusted. Returns what is odd about them, too.
pub(crate) fn hooks(
    sources: &ConfigSources,
    project: &ProjectSettings,
) -> (CommandHooks, Vec<String>) {
    let own = sources.own_directory().map(|folder| folder.join(HOOKS));
    let own = own.and_then(|path| text_of(&path).ok().map(|text| (path, text)));
    let of_project = CLAUDE.iter().map(|(name, _)| project.root.join(name));
    let of_project = of_project.filter_map(|path| Some((project.text(&path)?.to_owned(), path)));
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    if let Some((path, text)) = own {
        let (hooks, odd) = command_hooks::read(&path, &text);
        all.extend(hooks);
        warnings.extend(odd);
    }
    for (text, path) in of_project {
        let (hooks, odd) = command_hooks::read(&path, &text);
        if project.is_trusted() {
            all.extend(hooks);
            warnings.extend(odd);
        } else if !hooks.is_empty() {
            let count = count(hooks.len() as u64, "hook");
            let path = path.display();
            warnings.push(format!(
                "{path}: {count} ignored: {UNTRUSTED}; trust it with `loopwright trust`"
            ));
        }
    }
    (CommandHooks::new(all), warnings)
}

/// Returns `true` if nothing that a tool of the program does leaves the working directory: file tools never do, commands
/// do not where they run in a sandbox. Nothing is known of other tools.
pub(crate) fn is_confined(tool: &str, are_commands: bool) -> bool {
    let is_for_files = matches!(ToolKind::of(tool), ToolKind::Read | ToolKind::Write);
    is_for_files || are_commands && COMMANDS.contains(&tool)
}

/// Marks a call of the program's tools as confined if it is.
pub(crate) fn confined(call: Call<'_>, are_commands: bool) -> Call<'_> {
    if is_confined(call.tool(), are_commands) { call.confined() } else { call }
}

/// Makes a source of one layer, or `None` if it says nothing.
fn settings(kind: SourceKind, layer: &PermissionSettings, base: &str) -> Option<Source> {
    let file = match layer.origin()? {
        Origin::Project(path) | Origin::User(path) => text(path),
        origin => origin.to_string(),
    };
    let mut source = Source::new(kind, file, base);
    if let Some(mode) = &layer.mode {
        source = source.with_mode(mode.value);
    }
    let folders = layer.folders.iter().flat_map(|it| &it.value.0);
    source = folders.fold(source, |source, it| source.with_folder(it.as_str()));
    for (decision, list) in layer.lists() {
        for (rule, line) in list.iter().flat_map(|it| &it.value.0) {
            source = source.with_rule(decision, rule, *line);
        }
    }
    Some(source)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Reads the skills and commands of a project whose commands run when the user invokes them.
fn files_with_commands(root: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let files = skill_files(root).into_iter().filter_map(|path| {
        let text = text_of(&path).ok()?;
        Some((path, text))
    });
    files.filter(|(_, text)| ["!`", "```!"].iter().any(|it| text.contains(it)))
}

fn text_of(path: &Path) -> io::Result<String> {
    // Opening a named pipe waits for whoever writes to it.
    if is_foreign(path)? || !path.metadata()?.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    read_text(path)
}
