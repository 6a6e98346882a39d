//! Rules about commands.

use super::{Found, LintKind};
use crate::command::{
    CommandPattern, PatternKind, ends_with_risk, is_opaque_prefix, is_runner, is_wrapper,
};
use crate::rule::parse;

/// Programs that run any program or code that their arguments name.
#[rustfmt::skip]
const RUN_ANYTHING: &[&str] = &[
    "R", "Rscript", "ansible", "bun", "bundle exec", "bunx", "chroot", "conda run", "deno",
    "docker", "dotnet", "emacs", "gdb", "ghci", "go run", "go tool", "groovy", "irb", "java",
    "jshell", "julia", "kubectl", "lldb", "lua", "luajit", "mise exec", "mysql", "nc", "ncat",
    "nix", "nix-shell", "node", "npm exec", "npx", "osascript", "parallel", "perl", "php",
    "pipenv run", "pipx", "pnpm dlx", "pnpm exec", "pnpx", "podman", "poetry run", "psql", "pypy",
    "python", "python2", "python3", "ruby", "scala", "socat", "sqlite3", "ssh", "tclsh", "ts-node",
    "tsx", "uv run", "uvx", "vim", "watch", "wsl", "yarn dlx", "yarn exec", "yarn node",
];

/// Returns `true` if a program runs any code that its arguments or its input contain.
pub(crate) fn runs_anything(program: &str) -> bool {
    RUN_ANYTHING.contains(&program) || is_runner(program)
}

/// Finds what a deny or ask rule lets pass.
pub(super) fn restricting(pattern: &CommandPattern, text: &str) -> Option<Found> {
    let words = pattern.words();
    let loose = |message: String| Some(Found::new(LintKind::Loose, message));
    if let Some(found) = colon(text) {
        return Some(found);
    }
    if pattern.is_everything() {
        return loose("the pattern matches every command; write `Bash`".to_owned());
    }
    let program = words.first()?;
    if program.contains('/') {
        let name = program.rsplit('/').next().unwrap_or(program);
        return loose(format!(
            "the pattern does not match `{name}` without a path; write `Bash({name} *)`"
        ));
    }
    if pattern.has_assignment {
        return loose(
            "the same command with the assignment in another form is not matched".to_owned(),
        );
    }
    if words.iter().skip(1).any(|word| word.starts_with('-')) {
        let before: Vec<&str> =
            words.iter().take_while(|word| !word.starts_with('-')).copied().collect();
        let before = before.join(" ");
        return loose(format!(
            "the same options in another order or form are not matched; write `Bash({before} *)`"
        ));
    }
    if words.iter().skip(1).any(|word| word.contains("://") || word.contains('/')) {
        return loose(format!(
            "the same argument in another form or after an option is not matched; write \
                `Bash({program} *)`"
        ));
    }
    if pattern.kind() == PatternKind::Exact {
        let words = words.join(" ");
        return loose(format!(
            "only the command without further arguments matches; write `Bash({words} *)`"
        ));
    }
    None
}

/// Finds what an allow rule does not allow, or allows beside what it names.
pub(super) fn allowing(pattern: &CommandPattern, text: &str) -> Option<Found> {
    let words = pattern.words();
    let found = |kind, message: String| Some(Found::new(kind, message));
    if let Some(found) = colon(text) {
        return Some(found);
    }
    if pattern.is_everything() {
        return found(
            LintKind::Broad,
            "the pattern matches every command; write `Bash`".to_owned(),
        );
    }
    let is_exact = pattern.kind() == PatternKind::Exact;
    let Some(program) = words.first().copied() else {
        return found(
            LintKind::Broad,
            "the pattern starts with `*`, so any program matches".to_owned(),
        );
    };
    if !is_exact && is_wrapper(program) {
        let message = "wrappers are skipped, so the wrapped command needs a rule";
        return found(LintKind::Dead, format!("`{program}`: {message}"));
    }
    if !is_exact && is_opaque_prefix(&words) {
        return found(
            LintKind::Dead,
            format!(
                "a rule with `*` cannot allow `{program}`, because its arguments do not show \
                what it runs"
            ),
        );
    }
    if !is_exact && ends_with_risk(&words) {
        return found(
            LintKind::Broad,
            format!("the last argument lets `{program}` run any program or write any file"),
        );
    }
    if pattern.kind() == PatternKind::Wildcard && words.len() == 1 && !text.contains(' ') {
        return found(
            LintKind::Broad,
            format!(
                "all programs whose names start with `{program}` match; write `Bash({program} *)`"
            ),
        );
    }
    if !is_exact && runs_anything(&words.join(" ")) {
        return found(
            LintKind::Broad,
            format!("`{program}` runs any code that its arguments contain"),
        );
    }
    None
}

/// `:*` is only special at the end.
fn colon(text: &str) -> Option<Found> {
    let specifier = parse(text).ok()?.specifier?;
    let inside = specifier.strip_suffix(":*").unwrap_or(specifier);
    let is_inside = inside.contains(":* ") || inside.ends_with(":*");
    is_inside.then(|| Found::new(LintKind::Dead, "`:*` is special only at the end; write ` *`"))
}
