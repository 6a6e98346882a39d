//! The permission rules of a run: those of the command line, the user, the project and the folder, as one policy.

mod reload;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use loopwright_agent::MEMORY_TOOL;
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_capabilities::permissions::Permissions;
use loopwright_capabilities::skills::{SkillAudience, SkillGrants, SkillLibrary, SkillScope};
use loopwright_permissions::{
    Call, Decision, Mode, Policy, PolicyBuilder, Shell, Source, SourceKind, ToolKind,
    claude_settings,
};

pub(crate) use self::reload::Reloaded;
use self::reload::{ReadSettings, ReloadError};
use self::warnings::overruled;
pub(crate) use self::warnings::{IgnoredKeys, tell_untrusted, tell_warnings};
use crate::added_folders::{AddedFolderError, AddedFolders};
use crate::capability_settings::{EXTERNAL, external_tools};
use crate::chosen_rules::KeptPermissions;
use crate::claude_settings::{SharedSettings, UNSET, are_used, read_rules, shared_settings};
use crate::command_hooks::{self, AgentHooks, CommandHook, CommandHooks, skill_hooks};
use crate::config::{Config, ConfigSources, Discovery, NotifySettings, Origin, PermissionSettings};
use crate::console;
use crate::fingerprint::run_files;
use crate::folders::{self, Folder, FoldersError};
use crate::project::{WORKTREES, repository};
use crate::project_settings::{ProjectSettings, settings_file};
use crate::render::{count, sanitize_terminal};
use crate::tools::COMMANDS;

/// Tools of the program that rules name without a meaning of their own.
const OTHER_TOOLS: [&str; 4] = ["ask_remote_agent", "describe_self", "final_answer", MEMORY_TOOL];

/// Returns `true` for tools that rules may name although they have no meaning for rules of their own: those of the
/// program, and those that agents declare.
pub(crate) fn is_known_tool(name: &str, declared: &BTreeSet<String>) -> bool {
    OTHER_TOOLS.contains(&name) || declared.contains(name)
}

/// Returns the names of the tools that the configuration declares for the program's own agent and that run elsewhere.
pub(crate) fn own_external_tools(config: &Config) -> BTreeSet<String> {
    let setting = config.capabilities.get(EXTERNAL).map(|it| it.value.settings());
    setting.iter().flat_map(external_tools).collect()
}

/// Names a mode in a line of its own.
pub(crate) fn mode_in_words(mode: Mode) -> String {
    match mode {
        Mode::Unconfined => format!(
            "mode {mode}: every call runs unless a rule denies it; the sandbox remains active, and only `--add-dir` and `[sandbox]` widen it"
        ),
        mode => format!("mode {mode}"),
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
    /// As it was when the run was prepared: hooks that change meanwhile count for the next run.
    project: Arc<ProjectSettings>,
    /// What rules come from.
    read: Mutex<Arc<ReadSettings>>,
    /// The mode that was chosen during the run.
    mode: Mutex<Option<Mode>>,
    /// What the user chose for the session, and for the rest of the run.
    session: Mutex<Chosen>,
    /// What shadow rules would have done, before the policy was last replaced.
    shadowed: Mutex<BTreeMap<String, (u64, u64)>>,
    /// Held while the policy is replaced.
    changing: Mutex<()>,
    hooks: CommandHooks,
    /// The files of the project that hooks run, once they are needed.
    hook_files: OnceLock<BTreeSet<PathBuf>>,
    /// What is odd about the hooks.
    hook_warnings: Vec<String>,
}

/// Why permissions cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Folders(#[from] FoldersError),
    #[error(transparent)]
    Reload(#[from] ReloadError),
    #[error("mode `{0}` is disabled by the settings; `loopwright policy show` lists them")]
    Disabled(Mode),
    #[error("this run was started without permission settings, so none can be changed")]
    Fixed,
}

impl RunPermissions {
    /// Reads the permissions that a configuration leads to.
    pub(crate) fn of(config: &Config, sources: &ConfigSources) -> Result<Self, FoldersError> {
        let project = ProjectSettings::find(config, sources)?;
        Ok(Self::of_project(config, sources, Arc::new(project)))
    }

    /// Reads the permissions that a configuration leads to, with the settings of its project.
    pub(crate) fn of_project(
        config: &Config,
        sources: &ConfigSources,
        project: Arc<ProjectSettings>,
    ) -> Self {
        let read = ReadSettings::of(config, sources, &project);
        let policy =
            build(&read.config, sources, read.files(), project.folder(), &Chosen::default());
        let added = AddedFolders::of(&policy, config, sources);
        let (hooks, hook_warnings) = hooks(config, sources, read.files());
        let origin = PolicyOrigin {
            hooks,
            hook_files: OnceLock::new(),
            hook_warnings,
            config: config.clone(),
            sources: sources.clone(),
            project,
            read: Mutex::new(Arc::new(read)),
            mode: Mutex::default(),
            session: Mutex::default(),
            shadowed: Mutex::default(),
            changing: Mutex::default(),
        };
        Self { shared: Permissions::new(policy), added, origin: Some(Arc::new(origin)) }
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

    /// Warns about settings that have no effect, and about rules for tools that are unknown and not `declared` by an agent.
    /// `untrusted` says what reviews the settings of a project, and whether its skills are withheld.
    pub(crate) fn tell_warnings(&self, declared: &BTreeSet<String>, untrusted: (&str, bool)) {
        if let Some(origin) = &self.origin {
            let policy = self.policy();
            let PolicyOrigin { config, sources, project, .. } = &**origin;
            tell_untrusted(&policy, config, sources, project, untrusted);
            tell_warnings(&policy, IgnoredKeys::ByFile);
            if let Some(warning) = overruled(&policy, config, project) {
                console::warn(&warning);
            }
            let own = own_external_tools(&origin.config);
            let is_known = |name: &str| is_known_tool(name, declared) || own.contains(name);
            for warning in policy.unknown_tools(is_known) {
                console::warn(&sanitize_terminal(&warning.to_string()));
            }
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
            console::tell(&format!(
                "shadow rule {rule}: {matched} matched, {changed} would change"
            ));
        }
    }

    /// Returns the hooks of the run, and the root of its project.
    pub(crate) fn hooks(&self) -> Option<(&CommandHooks, &Path)> {
        let origin = self.origin.as_ref()?;
        let found = (!origin.hooks.is_empty()).then_some(&origin.hooks)?;
        Some((found, &origin.project.root))
    }

    /// Returns the calls that skills allow while they are active.
    pub(crate) fn grants(&self) -> SkillGrants {
        self.origin.as_ref().map(|origin| lock(&origin.read).grants.clone()).unwrap_or_default()
    }

    /// Returns the files of the project that hooks run. An agent that could change one of them could turn its hook off.
    pub(crate) fn hook_files(&self) -> BTreeSet<PathBuf> {
        let Some(origin) = &self.origin else { return BTreeSet::new() };
        let files = origin.hook_files.get_or_init(|| {
            let agents = AgentHooks::find(&origin.sources, &origin.project);
            let hooks = origin.hooks.iter().chain(agents.iter().map(|(_, hook)| hook));
            run_files(&origin.project.root, hooks.filter_map(CommandHook::command))
        });
        files.clone()
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

    /// Puts the rules and the mode in force that a session keeps, in place of those of the session before it. The mode only
    /// restricts.
    ///
    /// # Errors
    ///
    /// Returns an error if the user's decisions about folders cannot be read.
    pub(crate) fn use_chosen(&self, kept: KeptPermissions) -> Result<(), ChangeError> {
        let Some(origin) = &self.origin else { return Ok(()) };
        if lock(&origin.session).kept == kept {
            return Ok(());
        }
        lock(&origin.session).kept = kept;
        self.renew(origin)
    }

    /// Lets the rules and modes for the working directory hold in another folder as well.
    pub(crate) fn add_folder(&self, folder: &Path) -> Result<(), ChangeError> {
        let origin = self.origin()?;
        lock(&origin.session).folders.push(text(folder));
        self.renew(origin)
    }

    /// Returns the mode that was chosen during the run.
    pub(crate) fn chosen_mode(&self) -> Option<Mode> {
        self.origin.as_ref().and_then(|origin| *lock(&origin.mode))
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

    /// Reads the rules again if a file that they come from has changed, so that they apply to the calls that follow, and
    /// returns what is different. `review` is what reviews the settings of a project.
    ///
    /// # Errors
    ///
    /// Returns an error if a file stops a run at its start. The rules stay as they are.
    pub(crate) fn reload(&self, review: &str) -> Result<Reloaded, ChangeError> {
        let Some(origin) = &self.origin else { return Ok(Reloaded::default()) };
        let _changing = lock(&origin.changing);
        let before = Arc::clone(&lock(&origin.read));
        if !before.is_outdated(&origin.sources) {
            return Ok(Reloaded::default());
        }
        let read = Arc::new(before.again(&origin.sources)?);
        let was = self.policy();
        self.apply(origin, &read)?;
        *lock(&origin.read) = Arc::clone(&read);
        Ok(read.changes(&self.policy(), (&before, &was), &origin.sources, review))
    }

    /// Builds the policy again from everything that it comes from. Of two changes at the same time, the later one builds it from
    /// both.
    fn renew(&self, origin: &PolicyOrigin) -> Result<(), ChangeError> {
        let _changing = lock(&origin.changing);
        let read = Arc::clone(&lock(&origin.read));
        self.apply(origin, &read)
    }

    /// Puts settings in force. The caller keeps others from doing so.
    fn apply(&self, origin: &PolicyOrigin, read: &ReadSettings) -> Result<(), ChangeError> {
        let folder = folders::folder(&origin.sources, &read.project.root)?;
        let (files, session) = (read.files(), lock(&origin.session));
        let mut policy = build(&read.config, &origin.sources, files, &folder, &session);
        drop(session);
        if let Some(mode) = *lock(&origin.mode) {
            policy = policy.with_mode(mode).unwrap_or(policy);
        }
        add_shadow(&mut lock(&origin.shadowed), &self.policy());
        self.shared.set(policy);
        Ok(())
    }
}

/// Reads the calls that skills allow. Those of a project that is not trusted allow nothing, and nor does a skill of the user whose
/// name one of them has: the user or an agent could load that one in its place.
fn grants(sources: &ConfigSources, project: &ProjectSettings) -> SkillGrants {
    if sources.discovery == Discovery::Nothing {
        return SkillGrants::default();
    }
    let (all, base) = (project.skills(sources), text(&project.root));
    if project.is_trusted() {
        return SkillGrants::of(all, &base);
    }
    let mut own = all.list(SkillAudience::All);
    own.retain(|it| all.scope(it.name()) != Some(SkillScope::Project));
    let own = own.iter().fold(SkillLibrary::default(), |own, skill| own.with((**skill).clone()));
    SkillGrants::of(&own, &base)
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
    let files = SettingsFiles { project: &project, for_all_projects: &shared_settings(sources) };
    let policy = build(config, sources, files, project.folder(), &Chosen::default());
    Ok((policy, project))
}

/// The files of settings of other programs, and of a project, as they were read once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingsFiles<'a> {
    pub(crate) project: &'a ProjectSettings,
    /// Those that hold in every project.
    pub(crate) for_all_projects: &'a [SharedSettings],
}

/// What the user chose for a session, and during a run.
#[derive(Debug, Default)]
struct Chosen {
    kept: KeptPermissions,
    folders: Vec<String>,
}

/// Puts the rules of all sources together: with those that the user chose for this `folder`, and for this `session`.
fn build(
    config: &Config,
    sources: &ConfigSources,
    files: SettingsFiles<'_>,
    folder: &Folder,
    session: &Chosen,
) -> Policy {
    let SettingsFiles { project, for_all_projects } = files;
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
            .kept
            .rules
            .iter()
            .fold(chosen, |source, it| source.with_rule(it.decision, &it.rule, 0)),
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
    let is_trusted = project.is_trusted();
    let chose = layers.typed.mode.is_some() || layers.user.mode.is_some();
    for file in for_all_projects {
        builder = builder.source(file.rules(are_used(config), chose));
    }
    for source in project_rules(config, project) {
        builder = builder.source(if is_trusted { source } else { source.untrusted() });
    }
    let policy = builder.build();
    let Some(kept) = session.kept.mode else { return policy };
    let source = Source::new(SourceKind::Flags, "this session", workdir).with_mode(kept);
    let stricter = policy.restricted_by(source).mode();
    policy.with_mode(stricter).unwrap_or(policy)
}

/// Returns the rules that a project brings, as if it were trusted.
fn project_rules(config: &Config, project: &ProjectSettings) -> Vec<Source> {
    let mut sources = Vec::new();
    if let Some(file) = &config.project_file {
        let base = file.path.parent().map(text).unwrap_or_default();
        sources.extend(settings(SourceKind::Project, &config.permissions.project, &base));
    }
    for (kind, path, read) in project.claude() {
        sources.push(read_rules(kind, &path, &text(&project.root), read));
    }
    sources.into_iter().map(Source::confined).collect()
}

/// Returns what the settings of a project allow if it is trusted, a line each.
pub(crate) fn allowed_by(config: &Config, project: &ProjectSettings) -> Vec<String> {
    let of_mode = |mode| {
        let builder = Policy::builder(text(&config.workdir)).mode(mode);
        project_rules(config, project).into_iter().fold(builder, PolicyBuilder::source).build()
    };
    // No mode is stricter.
    let policy = of_mode(Mode::Plan);
    let rules = policy.rules().filter(|rule| rule.decision == Decision::Allow);
    let mut lines: Vec<String> = rules.map(ToString::to_string).collect();
    lines.extend(policy.folders().into_iter().map(|it| format!("folder {it}")));
    if policy.mode() != Mode::Plan {
        lines.push(format!("mode {}", policy.mode()));
    }
    lines
}

/// Why a hook of settings that have changed since they were trusted asks and blocks.
const CHANGED_GUARD: &str = "a hook guards this, and the settings of the project have changed since they were trusted; review with `loopwright trust`";

/// Returns the file of the user's own hooks, if there is a place for it.
pub(crate) fn hooks_file(sources: &ConfigSources) -> Option<PathBuf> {
    Some(sources.own_directory()?.join("hooks.json"))
}

/// Reads the hooks of the user, those of Claude Code for all projects if they are used, those of a project that is trusted, and
/// those of skills. Returns what is odd about them, too.
pub(crate) fn hooks(
    config: &Config,
    sources: &ConfigSources,
    files: SettingsFiles<'_>,
) -> (CommandHooks, Vec<String>) {
    let SettingsFiles { project, for_all_projects } = files;
    let own = hooks_file(sources).and_then(settings_file);
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    if let Some((path, text)) = own {
        let (hooks, odd) = command_hooks::read(&path, &text);
        all.extend(hooks);
        warnings.extend(odd);
    }
    // The rules of a file that cannot be read tell so. How many hooks it has is not known.
    let used = are_used(config);
    let shared: &[SharedSettings] = if used == Some(false) { &[] } else { for_all_projects };
    for file in shared {
        let (hooks, odd) = command_hooks::read(&file.path, &file.text);
        match used {
            Some(true) => {
                all.extend(hooks);
                warnings.extend(odd);
            }
            None if !hooks.is_empty() && command_hooks::is_readable(&file.text) => {
                let count = count(hooks.len() as u64, "hook");
                warnings.push(format!("{}: {count} ignored: {UNSET}", file.path.display()));
            }
            None | Some(false) => {}
        }
    }
    for (_, path, text) in project.claude() {
        if project.is_trusted() {
            let (hooks, odd) = command_hooks::read(&path, text);
            all.extend(hooks);
            warnings.extend(odd);
        }
    }
    let is_read = sources.discovery == Discovery::Files;
    for (path, text) in project.earlier_guards().filter(|_| is_read) {
        let (hooks, _) = command_hooks::read(&path, text);
        all.extend(hooks.into_iter().map(|hook| hook.without_command(CHANGED_GUARD)));
    }
    for found in skill_hooks(sources, project) {
        all.extend(found.hooks);
        warnings.extend(found.warnings);
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
