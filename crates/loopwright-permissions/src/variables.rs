//! Variables that change which programs run or what they do.

/// Variables with this name change how the commands after them run.
#[rustfmt::skip]
const POWERFUL: &[&str] = &[
    "AR", "AS", "BASHOPTS", "BASH_ENV", "BROWSER", "CC", "CDPATH", "CLASSPATH", "CPP",
    "CURL_HOME", "CVS_RSH", "CXX", "EDITOR", "ENV", "EXECIGNORE", "EXINIT", "FPATH", "GLOBIGNORE",
    "HOME", "HOSTALIASES", "IFS", "INPUTRC", "JUST_SHELL", "KUBECONFIG", "LD", "LESS",
    "LESSCLOSE", "LESSKEY", "LESSOPEN", "LOCALDOMAIN", "MAILCAPS", "MAKE", "MAKEFILES",
    "MAKEFLAGS", "MANOPT", "MORE", "NETRC", "NODE_REPL_EXTERNAL_MODULE", "PAGER", "PATH",
    "PERL5DB", "PHPRC", "PHP_INI_SCAN_DIR", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4",
    "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONBREAKPOINT", "PYTHONHOME", "PYTHONINSPECT",
    "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "RSYNC_RSH", "RUSTC", "RUSTDOC", "RUSTFLAGS",
    "SHELL", "SHELLOPTS", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SUDO_ASKPASS", "SVN_SSH",
    "TAR_OPTIONS", "TERMINFO", "TERMINFO_DIRS", "VIMINIT", "VISUAL", "WGETRC", "ZDOTDIR",
];

/// Variables whose names start like this.
#[rustfmt::skip]
const STARTS: &[&str] = &[
    "BASH_", "BUNDLE_", "BUN_", "CARGO_", "DENO_", "DOCKER_", "DYLD_", "GCONV_", "GEM_", "GIT_",
    "GO", "JAVA_", "JDK_", "LD_", "LUA_", "MALLOC_", "NODE_", "NPM_", "PERL", "PIP_", "PYTHON",
    "RUBY", "SSL_", "UV_", "XDG_", "_JAVA", "npm_",
];

/// Variables whose names end like this.
#[rustfmt::skip]
const ENDS: &[&str] = &[
    "EDITOR", "FLAGS", "OPTS", "PAGER", "PATH", "_ARGS", "_BINARY", "_CMD", "_COMMAND", "_CONF",
    "_CONFIG", "_EXE", "_FLAGS", "_HOOK", "_LINKER", "_OPTIONS", "_OPTS", "_PLUGINS", "_PRELOAD",
    "_PROXY", "_RC", "_RUNNER", "_SHELL", "_SSH", "_WRAPPER", "_proxy",
];

/// Variables that the rules above name, and that do not change which programs run.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "CARGO_BUILD_JOBS", "CARGO_INCREMENTAL", "CARGO_NET_OFFLINE", "CARGO_TERM_COLOR",
    "CARGO_TERM_PROGRESS_WHEN", "CARGO_TERM_QUIET", "CARGO_TERM_VERBOSE", "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_DATE", "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT", "GOARCH", "GOMAXPROCS",
    "GOOS", "NODE_ENV", "PIP_NO_INPUT", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED",
    "PYTHONUNBUFFERED",
];

/// Returns `true` if setting a variable of this name can change what a command does.
pub(crate) fn is_powerful(name: &str) -> bool {
    if HARMLESS.contains(&name) {
        return false;
    }
    POWERFUL.contains(&name)
        || STARTS.iter().any(|start| name.starts_with(start))
        || ENDS.iter().any(|end| name.ends_with(end))
}
