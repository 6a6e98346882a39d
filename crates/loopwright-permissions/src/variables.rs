//! Variables that change which programs run or what they do.

/// Variables with this name change how the commands after them run.
#[rustfmt::skip]
const POWERFUL: &[&str] = &[
    "ACKRC", "AR", "AS", "AWKLIBPATH", "BASHOPTS", "BASH_ENV", "BROWSER", "CC", "CDPATH",
    "CLASSPATH", "CONFIG_SHELL", "CONFIG_SITE", "COR_PROFILER", "CPP", "CURL_HOME", "CVS_RSH",
    "CXX", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "EDITOR", "ENV", "EXECIGNORE",
    "EXINIT", "FPATH", "GLOBIGNORE", "GNUPGHOME", "GRADLE_USER_HOME", "HISTFILE", "HOME",
    "HOSTALIASES", "IFS", "INPUTRC", "JUST_SHELL", "KUBECONFIG", "LD", "LESS", "LESSCLOSE",
    "LESSKEY", "LESSOPEN", "LOCALDOMAIN", "MAILCAPS", "MAKE", "MAKEFILES", "MAKEFLAGS", "MANOPT",
    "MORE", "MPLCONFIGDIR", "MYSQL_HOME", "NETRC", "NODE_REPL_EXTERNAL_MODULE", "PAGER", "PATH",
    "PERL5DB", "PERLLIB", "PHPRC", "PHP_INI_SCAN_DIR", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4",
    "PSQLRC", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONBREAKPOINT", "PYTHONHOME", "PYTHONINSPECT",
    "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "RANDFILE", "RIPGREP_CONFIG_PATH", "RSH",
    "RSYNC_RSH", "RUSTC", "RUSTDOC", "RUSTFLAGS", "SHELL", "SHELLOPTS", "SSH_ASKPASS",
    "SSH_AUTH_SOCK", "SUDO_ASKPASS", "SVN_SSH", "TAR_OPTIONS", "TERMINFO", "TERMINFO_DIRS", "VIM",
    "VIMINIT", "VIMRUNTIME", "VISUAL", "WGETRC", "ZDOTDIR",
];

/// Variables whose names start like this.
#[rustfmt::skip]
const STARTS: &[&str] = &[
    "ANSIBLE_", "AWS_", "BASH_", "BUNDLE_", "BUN_", "CARGO_", "CMAKE_", "COMPOSER_", "CORECLR_",
    "DENO_", "DOCKER_", "DOTNET_", "DYLD_", "ELECTRON_", "EMACS", "ESLINT_", "GCONV_", "GEM_",
    "GIT_", "GO", "HG", "JAVA_", "JDK_", "KRB5_", "LD_", "LUA_", "MAKE_", "MALLOC_", "MYVIM",
    "NIX_", "NODE_", "NPM_", "OPENSSL_", "PERL", "PIP_", "PYENV_", "PYTHON", "RUBY", "RUSTUP_",
    "R_", "SSL_", "UV_", "XDG_", "YARN_", "_JAVA", "npm_",
];

/// Variables whose names end like this.
#[rustfmt::skip]
const ENDS: &[&str] = &[
    "EDITOR", "FLAGS", "OPTS", "PAGER", "PATH", "_ARGS", "_BINARY", "_CC", "_CMD", "_COMMAND",
    "_COMPILER", "_CONF", "_CONFIG", "_CONFIG_FILE", "_EXE", "_FLAGS", "_HOOK", "_HOOKS",
    "_LAUNCHER", "_LINKER", "_LOADER", "_MODULES", "_MODULE_FILE", "_OPTIONS", "_OPTS", "_PLUGINS",
    "_PRELOAD", "_PROGRAM", "_PROXY", "_RC", "_RUNNER", "_SHELL", "_SSH", "_WRAPPER", "_proxy",
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
