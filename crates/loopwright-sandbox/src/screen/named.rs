//! Files in a folder that settings of the user name, so that a program of the user's runs or obeys them: settings of
//! git and of direnv. All of these are data that is read here; none of it is run.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::{self, Setting};
use super::{Reason, read_beginning, words};

const GIT: Reason = Reason::new("is run or read by git, according to git settings");
const HOOK: Reason = Reason::new("is run by git, because a hook of the repository links to it");
pub(super) const DIRENV: Reason = Reason::new("is loaded by direnv when a shell enters the folder");

/// How far included settings are followed.
const MAX_INCLUDES: usize = 10;

/// Where the settings of the user are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserSettings {
    home: Option<PathBuf>,
    /// Files that git reads for every repository.
    git: Vec<PathBuf>,
    /// The file that direnv reads.
    direnv: Option<PathBuf>,
}

/// A path that is obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    pub(super) place: Place,
    pub(super) reason: Reason,
}

/// Where a path counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Below the folder.
    Here,
    /// At any depth, because every repository in the folder has the same settings.
    Anywhere,
    /// Below the folder: a shell looks for programs in it.
    Searched,
}

/// What a setting names.
enum Role {
    /// A path, from the top of the repository.
    Path,
    /// A command line, which is run there.
    Line,
    /// More settings, from the folder of the file.
    Include,
}

impl UserSettings {
    /// Finds them by the variables of this process.
    pub(crate) fn found() -> Self {
        Self::by(&|name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from))
    }

    fn by(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let home = variable("HOME");
        let config = variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        let system = variable("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
        let usual = || {
            let own = home.as_ref().map(|it| it.join(".gitconfig"));
            config.as_ref().map(|it| it.join("git/config")).into_iter().chain(own).collect()
        };
        let own = variable("GIT_CONFIG_GLOBAL").map_or_else(usual, |file| vec![file]);
        let git = [system].into_iter().chain(own).filter(|it| it.is_absolute()).collect();
        let direnv = config.map(|it| it.join("direnv/direnv.toml")).filter(|it| it.is_absolute());
        Self { home, git, direnv }
    }
}

/// Returns what settings name in a folder.
pub(super) fn of(root: &Path, user: &UserSettings) -> Vec<Named> {
    let mut finding = Finding { root, home: user.home.as_deref(), found: Vec::new() };
    finding.git(user);
    finding.direnv(user);
    finding.found
}

struct Finding<'a> {
    root: &'a Path,
    home: Option<&'a Path>,
    found: Vec<Named>,
}

impl Finding<'_> {
    fn git(&mut self, user: &UserSettings) {
        let root = self.root;
        let top = root.ancestors().find(|at| fs::symlink_metadata(at.join(".git")).is_ok());
        for file in &user.git {
            self.settings(file, top.unwrap_or(root), Place::Anywhere, 0);
        }
        let Some(top) = top else { return };
        let (own, common) = repository(&top.join(".git"));
        for file in [common.join("config"), own.join("config.worktree")] {
            self.settings(&file, top, Place::Here, 0);
        }
        self.linked_hooks(&common.join("hooks"));
    }

    /// Hooks that lead out of the repository into the folder.
    fn linked_hooks(&mut self, hooks: &Path) {
        let entries = fs::read_dir(hooks).into_iter().flatten().flatten().map(|it| it.path());
        for path in entries.chain([hooks.to_path_buf()]) {
            let is_link = fs::symlink_metadata(&path).is_ok_and(|it| it.is_symlink());
            if is_link && let Ok(target) = fs::read_link(&path) {
                let base = path.parent().unwrap_or(hooks);
                self.add(&base.join(target), Place::Here, HOOK);
            }
        }
    }

    /// Adds what one file of settings makes git run or read.
    fn settings(&mut self, file: &Path, top: &Path, place: Place, depth: usize) {
        let Some(content) = read_beginning(file).filter(|_| depth < MAX_INCLUDES) else { return };
        for setting in config::settings(&content) {
            let value = &setting.value;
            match role(&setting) {
                Some(Role::Include) => {
                    let Some(path) = self.path(value, file.parent()) else { continue };
                    self.add(&path, Place::Here, GIT);
                    self.settings(&path, top, place, depth + 1);
                }
                Some(Role::Path) => self.add_from(value, top, place),
                Some(Role::Line) => self.line(value, top, place),
                None => {}
            }
        }
    }

    /// Adds what a command line may run at the top of a repository. A folder is not run, and a name without a slash is
    /// one of a program elsewhere unless a file has it. In every repository of the folder counts only what is
    /// certainly a program there: the first word, and what begins with a dot.
    fn line(&mut self, line: &str, top: &Path, place: Place) {
        let first = line.trim_start_matches(['!', ' ']);
        for word in words::programs(line) {
            let Some(path) = self.path(word, Some(top)) else { continue };
            if !word.contains('/') && path.is_file() {
                self.add(&path, Place::Here, GIT);
            } else if word.contains('/') && !word.ends_with('/') && !path.is_dir() {
                let is_program = word.starts_with('.') || first.starts_with(word);
                self.add_from(word, top, if is_program { place } else { Place::Here });
            }
        }
    }

    /// Adds a path that git takes from the top of a repository.
    fn add_from(&mut self, value: &str, top: &Path, place: Place) {
        let Some(path) = self.path(value, Some(top)) else { return };
        if place == Place::Anywhere && path.starts_with(top) && Path::new(value).is_relative() {
            // It is looked for in every repository of the folder.
            self.push(without_parents(Path::new(value)), place, GIT);
        }
        self.add(&path, Place::Here, GIT);
    }

    /// The path that a value stands for. `None` means none.
    fn path(&self, value: &str, base: Option<&Path>) -> Option<PathBuf> {
        let of_home = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|it| value.strip_prefix(it));
        match of_home {
            _ if value.is_empty() => None,
            Some(rest) => Some(self.home?.join(rest)),
            None => Some(base?.join(value)),
        }
    }

    /// What direnv loads of a folder without asking again, once it may load its `.envrc`.
    fn direnv(&mut self, user: &UserSettings) {
        let root = self.root;
        for folder in root.ancestors() {
            if let Some(content) = read_beginning(&folder.join(".envrc")) {
                let text = String::from_utf8_lossy(&content);
                for line in text.lines() {
                    self.loaded_by(line, folder);
                }
            }
        }
        let settings = user.direnv.as_deref().and_then(read_beginning).unwrap_or_default();
        let settings = String::from_utf8_lossy(&settings);
        let loads = |line: &str| {
            let (key, value) = line.split_once('=').unwrap_or_default();
            key.trim() == "load_dotenv" && value.trim().starts_with("true")
        };
        if settings.lines().any(loads) {
            self.push(".env".into(), Place::Anywhere, DIRENV);
        }
    }

    /// What one line of an `.envrc` loads, and where it makes a shell look for programs.
    fn loaded_by(&mut self, line: &str, folder: &Path) {
        let loaded = loaded(line).into_iter().map(|word| (word.to_owned(), Place::Here));
        let used = used(line).into_iter().map(|word| (word, Place::Here));
        let searched = searched(line).into_iter().map(|word| (word.to_owned(), Place::Searched));
        for (word, place) in loaded.chain(used).chain(searched) {
            if let Some(path) = self.path(&word, Some(folder)) {
                self.add(&path, place, DIRENV);
            }
        }
    }

    /// Adds a path, and what it leads to if it is a link, if they are in the folder.
    fn add(&mut self, path: &Path, place: Place, reason: Reason) {
        let plain = without_parents(path);
        let real = fs::canonicalize(path).ok();
        let roots = [Some(self.root.to_path_buf()), fs::canonicalize(self.root).ok()];
        for path in [Some(plain), real].into_iter().flatten() {
            let below = roots.iter().flatten().find_map(|root| path.strip_prefix(root).ok());
            if let Some(below) = below {
                self.push(below.to_path_buf(), place, reason);
            }
        }
    }

    fn push(&mut self, path: PathBuf, place: Place, reason: Reason) {
        // What is in a repository is judged as a part of it.
        let is_repository = path.components().next().is_some_and(|it| it.as_os_str() == ".git");
        let named = Named { path, place, reason };
        let is_some = place == Place::Searched || !named.path.as_os_str().is_empty();
        if is_some && !is_repository && !self.found.contains(&named) {
            self.found.push(named);
        }
    }
}

/// Returns the words of a line of `.envrc` that name what is loaded, with all their variants.
pub(super) fn loaded(line: &str) -> Vec<&str> {
    let mut words = line.split(|it: char| it.is_whitespace() || "'\";&|()".contains(it));
    let mut words = words.by_ref().filter(|it| !it.is_empty());
    let loads = |word: &&str| {
        word.starts_with("dotenv")
            || word.starts_with("source_env")
            || matches!(*word, "source" | ".")
    };
    match words.find(loads) {
        None => Vec::new(),
        Some(word) => {
            let named: Vec<&str> = words.take_while(|it| !it.starts_with('#')).collect();
            if named.is_empty() && word.starts_with("dotenv") { vec![".env"] } else { named }
        }
    }
}

/// Splits a line of `.envrc`.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    let ends = |it: char| it.is_whitespace() || "'\";&|()".contains(it);
    line.split(ends).filter(|it| !it.is_empty()).take_while(|it| !it.starts_with('#'))
}

/// What is evaluated by what an `.envrc` uses.
const USED: [(&str, &[&str]); 4] = [
    ("flake", &["flake.nix", "flake.lock"]),
    ("nix", &["shell.nix", "default.nix"]),
    ("devenv", &["devenv.nix", "devenv.yaml", "devenv.lock"]),
    ("guix", &["guix.scm", "manifest.scm", "channels.scm"]),
];

/// Returns the files that are evaluated anew when they change, by a line of `.envrc` such as `use flake ./nix`.
fn used(line: &str) -> Vec<String> {
    let mut words = words_of(line);
    let used = words.find_map(|word| match word {
        "use" => words_of(line).skip_while(|it| *it != "use").nth(1),
        word => word.strip_prefix("use_"),
    });
    let Some((_, files)) = used.and_then(|used| USED.iter().find(|it| it.0 == used)) else {
        return Vec::new();
    };
    // What follows may be a folder, a file or an option.
    let places: Vec<&str> = words_of(line).collect();
    let mut found: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
    for place in places {
        let place = place.split('#').next().unwrap_or(place);
        if place.contains(['/', '.']) {
            found.push(place.to_owned());
            found.extend(files.iter().map(|file| format!("{place}/{file}")));
        }
    }
    found
}

/// How the folder of an `.envrc` is written in it.
const HERE: [&str; 3] = ["$PWD/", "${PWD}/", "$(pwd)/"];

/// Returns the folders that a line of `.envrc` puts into `PATH`.
fn searched(line: &str) -> Vec<&str> {
    let mut words = words_of(line);
    match words.next() {
        Some("PATH_add") => words.collect(),
        Some("path_add") => words.skip_while(|it| *it == "PATH").collect(),
        _ => {
            let value = line.trim_start().trim_start_matches("export ").trim_start();
            let Some(value) = value.strip_prefix("PATH=") else { return Vec::new() };
            let parts = value.split(':').map(|it| it.trim_matches(['"', '\'', ' ']));
            let parts =
                parts.map(|it| HERE.iter().find_map(|here| it.strip_prefix(here)).unwrap_or(it));
            parts.filter(|it| !it.is_empty() && !it.starts_with('$')).collect()
        }
    }
}

/// The folder of a repository, and the one that holds what it shares with its worktrees.
fn repository(at: &Path) -> (PathBuf, PathBuf) {
    let text = |path: &Path| {
        let content = read_beginning(path).filter(|_| path.is_file())?;
        Some(PathBuf::from(String::from_utf8_lossy(&content).trim().to_owned()))
    };
    let link =
        text(at).and_then(|it| it.to_str()?.strip_prefix("gitdir:").map(|it| it.trim().to_owned()));
    let own = match link {
        Some(link) => at.parent().unwrap_or(at).join(link),
        None => at.to_path_buf(),
    };
    let common = text(&own.join("commondir")).map_or_else(|| own.clone(), |it| own.join(it));
    (own, common)
}

/// Settings that hold a command line, by section.
const LINES: [(&str, &[&str]); 24] = [
    (
        "core",
        &[
            "fsmonitor",
            "sshcommand",
            "editor",
            "pager",
            "askpass",
            "gitproxy",
            "alternaterefscommand",
        ],
    ),
    ("sequence", &["editor"]),
    ("diff", &["external", "command", "textconv"]),
    ("filter", &["clean", "smudge", "process"]),
    ("merge", &["driver"]),
    ("difftool", &["cmd", "path"]),
    ("mergetool", &["cmd", "path"]),
    ("guitool", &["cmd"]),
    ("browser", &["cmd", "path"]),
    ("man", &["cmd", "path"]),
    ("credential", &["helper"]),
    ("gpg", &["program", "defaultkeycommand"]),
    ("interactive", &["difffilter"]),
    ("uploadpack", &["packobjectshook"]),
    ("remote", &["uploadpack", "receivepack"]),
    ("submodule", &["update"]),
    ("tar", &["command"]),
    ("hook", &["command"]),
    ("trailer", &["command", "cmd"]),
    ("sendemail", &["smtpserver", "tocmd", "cccmd", "headercmd", "sendmailcmd"]),
    ("imap", &["tunnel"]),
    ("lfs", &["path", "clean", "smudge"]),
    // Every one of these.
    ("alias", &[]),
    ("pager", &[]),
];

/// Returns what a setting names. `None` means nothing that is run, and no settings.
fn role(setting: &Setting) -> Option<Role> {
    let (section, key) = (setting.section.as_str(), setting.key.as_str());
    match (section, key) {
        ("include" | "includeif", "path") => Some(Role::Include),
        ("core", "hookspath") | ("init", "templatedir") => Some(Role::Path),
        // Without this sign they name a command of git.
        ("alias", _) | ("submodule", "update") if !setting.value.starts_with('!') => None,
        _ => {
            let (_, keys) = LINES.iter().find(|it| it.0 == section)?;
            (keys.is_empty() || keys.contains(&key)).then_some(Role::Line)
        }
    }
}

/// The path without `.` and `..`, by its names alone.
fn without_parents(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
