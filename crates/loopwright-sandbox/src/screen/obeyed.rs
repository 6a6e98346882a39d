//! The table of names that are obeyed.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};
use std::sync::LazyLock;

const SHELL: &str = "is read by shells and terminals when they start";
pub(super) const EDITOR: &str = "is applied by editors when they open the folder";
const AGENT: &str = "gives instructions to coding agents";
pub(super) const HOOK: &str = "runs code at each commit";
const SESSION: &str = "runs when a user session starts";
pub(super) const DIRECTORY: &str = "runs code when a shell enters the folder";
const PACKAGES: &str = "makes package managers and build tools run other programs";
const PROGRAM: &str = "is run by a program that starts in this folder";
const CONTROL: &str = "makes version control run code";
const SECRETS: &str = "contains keys";

/// [`NAMES`], taken apart once, by the first name of each path.
static TABLE: LazyLock<HashMap<OsString, Vec<Listed>>> = LazyLock::new(|| {
    let mut table: HashMap<_, Vec<_>> = HashMap::new();
    for (place, (path, reason)) in NAMES.iter().enumerate() {
        let names = names(Path::new(path));
        if let Some(first) = names.first().cloned() {
            table.entry(first).or_default().push(Listed { place, names, reason });
        }
    }
    table
});

/// The last name of each path in the table.
static ENDS: LazyLock<HashSet<OsString>> = LazyLock::new(|| {
    TABLE.values().flatten().filter_map(|listed| listed.names.last().cloned()).collect()
});

/// Returns `true` if a path in the table ends with this name, in lower case.
pub(super) fn ends_with(name: &OsStr) -> bool {
    ENDS.contains(name)
}

/// One line of the table.
struct Listed {
    /// Which line it is; of two that match, the first says why.
    place: usize,
    names: Vec<OsString>,
    reason: &'static str,
}

/// Finds what the table says of a path, by its names in lower case.
pub(super) fn listed(path: &[OsString]) -> Option<&'static str> {
    let found = path.iter().enumerate().flat_map(|(at, name)| {
        let begin_so = TABLE.get(name).into_iter().flatten();
        begin_so.filter(move |listed| path[at..].starts_with(&listed.names))
    });
    found.min_by_key(|listed| listed.place).map(|listed| listed.reason)
}

/// The names of a path, in lower case, as some file systems do not tell them apart.
pub(super) fn names(path: &Path) -> Vec<OsString> {
    let normal = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    normal.collect()
}

/// Names that are obeyed wherever they are, with all that is below them, and why.
pub(super) const NAMES: &[(&str, &str)] = &[
    (".bashrc", SHELL),
    (".bash_profile", SHELL),
    (".bash_login", SHELL),
    (".bash_logout", SHELL),
    (".bash_aliases", SHELL),
    (".profile", SHELL),
    (".zshrc", SHELL),
    (".zshenv", SHELL),
    (".zprofile", SHELL),
    (".zlogin", SHELL),
    (".zlogout", SHELL),
    (".kshrc", SHELL),
    (".mkshrc", SHELL),
    (".cshrc", SHELL),
    (".tcshrc", SHELL),
    (".login", SHELL),
    (".logout", SHELL),
    (".xonshrc", SHELL),
    (".inputrc", SHELL),
    (".tmux.conf", SHELL),
    (".screenrc", SHELL),
    (".config/fish", SHELL),
    (".config/nushell", SHELL),
    (".config/tmux", SHELL),
    (".xinitrc", SESSION),
    (".xsession", SESSION),
    (".xsessionrc", SESSION),
    (".xprofile", SESSION),
    (".config/autostart", SESSION),
    (".config/systemd", SESSION),
    (".config/environment.d", SESSION),
    (".envrc", DIRECTORY),
    ("mise.toml", DIRECTORY),
    (".mise.toml", DIRECTORY),
    ("mise.local.toml", DIRECTORY),
    (".mise.local.toml", DIRECTORY),
    (".mise", DIRECTORY),
    ("mise/config.toml", DIRECTORY),
    (".config/mise.toml", DIRECTORY),
    (".config/mise", DIRECTORY),
    (".vscode", EDITOR),
    (".idea", EDITOR),
    (".zed", EDITOR),
    (".fleet", EDITOR),
    (".helix", EDITOR),
    (".theia", EDITOR),
    (".devcontainer", EDITOR),
    (".devcontainer.json", EDITOR),
    (".vimrc", EDITOR),
    (".exrc", EDITOR),
    (".nvimrc", EDITOR),
    (".nvim.lua", EDITOR),
    (".dir-locals.el", EDITOR),
    (".dir-locals-2.el", EDITOR),
    (".lvimrc", EDITOR),
    (".local.vimrc", EDITOR),
    (".vim", EDITOR),
    (".config/nvim", EDITOR),
    (".emacs", EDITOR),
    (".emacs.d", EDITOR),
    (".config/emacs", EDITOR),
    ("rust-analyzer.toml", EDITOR),
    (".lazygit.yml", EDITOR),
    ("lazygit.yml", EDITOR),
    (".project", EDITOR),
    (".kiro", AGENT),
    (".amazonq", AGENT),
    (".roo", AGENT),
    (".qwen", AGENT),
    (".factory", AGENT),
    (".crush.json", AGENT),
    ("crush.json", AGENT),
    (".continue", AGENT),
    ("opencode.json", AGENT),
    (".mcp.json", AGENT),
    (".claude", AGENT),
    (".codex", AGENT),
    (".agents", AGENT),
    (".cursor", AGENT),
    (".gemini", AGENT),
    (".windsurf", AGENT),
    (".opencode", AGENT),
    (".aider.conf.yml", AGENT),
    (".loopwright", AGENT),
    ("loopwright.toml", AGENT),
    (".husky", HOOK),
    (".githooks", HOOK),
    (".pre-commit-config.yaml", HOOK),
    (".overcommit.yml", HOOK),
    (".simple-git-hooks.json", HOOK),
    (".gitmodules", CONTROL),
    (".gitconfig", CONTROL),
    (".config/git", CONTROL),
    (".sl/config", CONTROL),
    (".jj/workspace-config.toml", CONTROL),
    (".hg/hgrc", CONTROL),
    (".hg/hgrc-not-shared", CONTROL),
    (".hg/sharedpath", CONTROL),
    (".jj/repo", CONTROL),
    (".fslckout", CONTROL),
    ("_fossil_", CONTROL),
    ("_darcs/prefs/defaults", CONTROL),
    (".npmrc", PACKAGES),
    (".yarnrc", PACKAGES),
    (".yarnrc.yml", PACKAGES),
    (".yarn/releases", PACKAGES),
    (".yarn/plugins", PACKAGES),
    (".pnpmfile.cjs", PACKAGES),
    (".pnpmfile.mjs", PACKAGES),
    ("bunfig.toml", PACKAGES),
    (".cargo/config", PACKAGES),
    (".cargo/config.toml", PACKAGES),
    (".bundle/config", PACKAGES),
    (".mvn", PACKAGES),
    ("gradle/wrapper", PACKAGES),
    (".sbtopts", PACKAGES),
    (".jvmopts", PACKAGES),
    (".corepack.env", PACKAGES),
    (".bazelrc", PACKAGES),
    (".bazeliskrc", PACKAGES),
    ("tools/bazel", PACKAGES),
    (".gdbinit", PROGRAM),
    (".gdbearlyinit", PROGRAM),
    (".config/gdb", PROGRAM),
    (".lldbinit", PROGRAM),
    (".irbrc", PROGRAM),
    (".pryrc", PROGRAM),
    (".rprofile", PROGRAM),
    (".octaverc", PROGRAM),
    (".ghci", PROGRAM),
    (".renviron", PROGRAM),
    (".rdata", PROGRAM),
    (".ocamlinit", PROGRAM),
    (".iex.exs", PROGRAM),
    (".erlang", PROGRAM),
    (".pdbrc", PROGRAM),
    (".perldb", PROGRAM),
    (".byebugrc", PROGRAM),
    (".rdbgrc", PROGRAM),
    (".sqliterc", PROGRAM),
    (".psqlrc", PROGRAM),
    (".valgrindrc", PROGRAM),
    (".lessfilter", PROGRAM),
    (".mailcap", PROGRAM),
    (".procmailrc", PROGRAM),
    (".forward", PROGRAM),
    (".ripgreprc", PROGRAM),
    ("jupyter_server_config.py", PROGRAM),
    ("ansible.cfg", PROGRAM),
    (".user.ini", PROGRAM),
    ("sitecustomize.py", PROGRAM),
    ("usercustomize.py", PROGRAM),
    (".ssh", SECRETS),
];
