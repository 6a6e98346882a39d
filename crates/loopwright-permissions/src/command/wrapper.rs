//! Wrapper commands: their own arguments, and the start of the wrapped command.

use crate::shell::Word;

/// What stands before the command that a wrapper runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrapped {
    /// The command is no wrapper.
    No,
    /// The command starts at this word.
    At {
        start: usize,
        /// The command gets further words that are unknown.
        has_more: bool,
        /// A folder that the command runs in.
        folder: Option<usize>,
    },
    /// The wrapper runs nothing, and does nothing that needs a rule.
    Nothing,
    /// It is not clear which command runs.
    Unclear,
}

/// A wrapper and its options.
struct Wrapper {
    name: &'static str,
    /// Short options with a value, which is the rest of the word or the next word.
    valued: &'static str,
    /// Short options without a value.
    flags: &'static str,
    long_valued: &'static [&'static str],
    long_flags: &'static [&'static str],
    /// How many words of its own follow the options.
    operands: usize,
}

const NONE: &[&str] = &[];

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        name: "timeout",
        valued: "ks",
        flags: "vfp",
        long_valued: &["kill-after", "signal"],
        long_flags: &["preserve-status", "foreground", "verbose"],
        operands: 1,
    },
    Wrapper {
        name: "time",
        valued: "f",
        flags: "pvq",
        long_valued: &["format"],
        long_flags: &["portability", "verbose", "quiet"],
        operands: 0,
    },
    Wrapper {
        name: "nice",
        valued: "n",
        flags: "0123456789",
        long_valued: &["adjustment"],
        long_flags: NONE,
        operands: 0,
    },
    Wrapper {
        name: "nohup",
        valued: "",
        flags: "",
        long_valued: NONE,
        long_flags: NONE,
        operands: 0,
    },
    Wrapper {
        name: "stdbuf",
        valued: "ioe",
        flags: "",
        long_valued: &["input", "output", "error"],
        long_flags: NONE,
        operands: 0,
    },
    Wrapper {
        name: "ionice",
        valued: "nc",
        flags: "t",
        long_valued: &["class", "classdata"],
        long_flags: &["ignore"],
        operands: 0,
    },
    Wrapper {
        name: "setsid",
        valued: "",
        flags: "cfw",
        long_valued: NONE,
        long_flags: &["ctty", "fork", "wait"],
        operands: 0,
    },
    Wrapper {
        name: "command",
        valued: "",
        flags: "p",
        long_valued: NONE,
        long_flags: NONE,
        operands: 0,
    },
    Wrapper {
        name: "builtin",
        valued: "",
        flags: "",
        long_valued: NONE,
        long_flags: NONE,
        operands: 0,
    },
    Wrapper {
        name: "exec",
        valued: "a",
        flags: "cl",
        long_valued: NONE,
        long_flags: NONE,
        operands: 0,
    },
    Wrapper {
        name: "env",
        valued: "uC",
        flags: "i0v",
        long_valued: &["unset", "chdir"],
        long_flags: &["ignore-environment", "null", "debug"],
        operands: 0,
    },
    Wrapper {
        name: "xargs",
        valued: "nPLsdE",
        flags: "0rtpx",
        long_valued: &["max-args", "max-procs", "max-lines", "max-chars", "delimiter", "eof"],
        long_flags: &["null", "no-run-if-empty", "verbose", "interactive", "exit"],
        operands: 0,
    },
];

/// Returns where the command of a wrapper starts.
pub(super) fn wrapped(name: &str, words: &[Word]) -> Wrapped {
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) else {
        return Wrapped::No;
    };
    let is_query = |word: &Word| matches!(word.literal(), Some("-v" | "-V" | "-pv" | "-pV"));
    if name == "command" && words.get(1).is_some_and(is_query) {
        return Wrapped::Nothing;
    }
    read(wrapper, words).unwrap_or(Wrapped::Unclear)
}

/// Returns `None` if an option is unknown.
fn read(wrapper: &Wrapper, words: &[Word]) -> Option<Wrapped> {
    let mut at = 1;
    let mut folder = None;
    while let Some(word) = words.get(at) {
        let text = word.literal()?;
        if text == "--" {
            at += 1;
            break;
        }
        if text == "-" && wrapper.name == "env" {
            at += 1;
            continue;
        }
        let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else {
            break;
        };
        let takes_next = match option.strip_prefix('-') {
            Some(long) => long_option(wrapper, long)?,
            None => short_options(wrapper, option)?,
        };
        if takes_next {
            at += 1;
            words.get(at)?.literal()?;
            if wrapper.name == "env" && matches!(text, "-C" | "--chdir") {
                folder = Some(at);
            }
        } else if wrapper.name == "env" && (text.starts_with("-C") || text.starts_with("--chdir")) {
            return None;
        }
        at += 1;
    }
    for _ in 0..wrapper.operands {
        words.get(at)?.literal()?;
        at += 1;
    }
    if wrapper.name == "env" {
        while words.get(at).is_some_and(|word| word.known_prefix().contains('=')) {
            at += 1;
        }
        // An unknown word could be an assignment.
        if words.get(at).is_some_and(|word| word.is_unknown) {
            return None;
        }
    }
    let has_more = wrapper.name == "xargs";
    Some(if at < words.len() {
        Wrapped::At { start: at, has_more, folder }
    } else if has_more || matches!(wrapper.name, "exec" | "env" | "time") {
        Wrapped::Nothing
    } else {
        Wrapped::Unclear
    })
}

/// Returns `true` if the value is the next word; `None` for an unknown option.
fn long_option(wrapper: &Wrapper, option: &str) -> Option<bool> {
    let (name, value) =
        option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
    if wrapper.long_valued.contains(&name) {
        return Some(value.is_none());
    }
    (wrapper.long_flags.contains(&name) && value.is_none()).then_some(false)
}

/// Reads letters after `-`.
fn short_options(wrapper: &Wrapper, letters: &str) -> Option<bool> {
    let mut letters = letters.chars();
    while let Some(letter) = letters.next() {
        if wrapper.valued.contains(letter) {
            return Some(letters.as_str().is_empty());
        }
        if !wrapper.flags.contains(letter) {
            return None;
        }
    }
    Some(false)
}

/// Returns `true` if the command is seen through.
pub(crate) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
}

/// Programs that run a command among their arguments. Deny and ask rules are held against every command that their
/// words could be; an allow rule has to name the program itself.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    "busybox", "bwrap", "caffeinate", "cgexec", "chpst", "chroot", "chrt", "dbus-launch",
    "dbus-run-session", "doas", "dumb-init", "eatmydata", "fakeroot", "faketime", "firejail",
    "flock", "gosu", "hyperfine", "i386", "linux32", "linux64", "ltrace", "nocache", "nsenter",
    "numactl", "parallel", "perf", "pkexec", "prlimit", "proot", "rlwrap", "runcon", "runuser",
    "screen", "setarch", "setpriv", "setuidgid", "softlimit", "ssh-agent", "sshpass", "strace",
    "su", "su-exec", "sudo", "systemd-run", "taskset", "tini", "tmux", "torify", "torsocks",
    "toybox", "unbuffer", "unshare", "valgrind", "watch", "winpty", "x86_64", "xvfb-run",
];

/// Returns `true` if the program runs a command among its arguments.
pub(crate) fn is_runner(name: &str) -> bool {
    RUNNERS.binary_search(&name).is_ok()
}
