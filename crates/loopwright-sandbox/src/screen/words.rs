//! Paths in the command lines that settings hold.

/// Programs that run the file that they are given.
const INTERPRETERS: [&str; 18] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python2", "python3", "perl", "ruby",
    "node", "deno", "bun", "php", "env", "source", ".",
];

/// Returns the words of a command line that may be paths of programs: those with a slash, and those that an interpreter
/// is given. Quotes and signs of the shell end a word, so that these are rather too many than too few.
pub(super) fn programs(line: &str) -> Vec<&str> {
    let mut programs = Vec::new();
    let mut is_run = false;
    let ends = |it: char| it.is_whitespace() || "'\"`()[]{};&|<>=,!".contains(it);
    for word in line.split(ends).filter(|it| !it.is_empty()) {
        let is_option = word.starts_with('-');
        if word.contains('/') || (is_run && !is_option) {
            programs.push(word);
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        is_run = INTERPRETERS.contains(&name) || (is_run && is_option);
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_programs_are_found_in_command_lines() {
        for (line, expect) in [
            ("./run.sh", &["./run.sh"][..]),
            ("run.sh", &[]),
            ("true", &[]),
            ("less -R", &[]),
            ("sh run.sh --all", &["run.sh"]),
            ("/usr/bin/env -S python3 tools.py", &["/usr/bin/env", "python3", "tools.py"]),
            ("!f() { ./a \"$1\" && bash 'b c'; }; f", &["./a", "b"]),
            ("tool --config=conf/x", &["conf/x"]),
            ("!git add notes", &[]),
        ] {
            assert_eq!(programs(line), expect, "{line}");
        }
    }
}
