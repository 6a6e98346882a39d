//! The commands that are harmless, and what may follow them.
//!
//! Options are allowed one by one, because many a harmless command has one that writes a file, runs a
//! program or follows links: `sort -o`, `sort --compress-program`, `find -delete`, `grep -R`.

use super::{PathRefusal, Workdir};

/// A command that may be run.
#[derive(Debug)]
pub(super) struct Allowed {
    name: &'static str,
    /// Options of one letter that stand alone.
    flags: &'static str,
    /// Options of one letter with a value.
    valued: &'static str,
    /// Long options; those that end in `=` have a value.
    long: &'static [&'static str],
    operands: Operands,
}

/// What a command does with its words that are no options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    /// It takes none.
    None,
    /// It reads these files.
    Paths,
    /// It reads this file; a second one it would write.
    OnePath,
    /// It searches for the first one in the others, unless `-e` says what to search for.
    PatternThenPaths,
    /// It formats the time by the one that begins with `+`.
    Format,
    /// It repeats whatever there is, options included.
    Anything,
    /// It has a language of its own.
    Find,
}

/// Why a command is not run; the model is told.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandRefusal {
    #[error("there is no command")]
    Empty,
    #[error("`{name}` is not allowed; allowed are {list}", list = names())]
    Unknown { name: String },
    #[error("`{name}` may not be used with `{word}` here")]
    Word { name: &'static str, word: String },
    #[error("`{word}` of `{name}` needs a value")]
    NoValue { name: &'static str, word: String },
    #[error(transparent)]
    Path(#[from] PathRefusal),
}

const fn allowed(
    name: &'static str,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    operands: Operands,
) -> Allowed {
    Allowed { name, flags, valued, long, operands }
}

const COMMANDS: &[Allowed] = &[
    allowed("cat", "AbEnsTv", "", &["number"], Operands::Paths),
    allowed("cut", "sz", "bcdf", &["complement", "output-delimiter="], Operands::Paths),
    allowed("date", "uR", "dI", &["utc", "iso-8601", "iso-8601=", "date="], Operands::Format),
    allowed("echo", "", "", &[], Operands::Anything),
    allowed("find", "", "", &[], Operands::Find),
    allowed(
        "grep",
        "EFGHILachilnoqrsvwx",
        "ABCem",
        &[
            "count",
            "exclude=",
            "exclude-dir=",
            "extended-regexp",
            "files-with-matches",
            "fixed-strings",
            "ignore-case",
            "include=",
            "invert-match",
            "line-number",
            "max-count=",
            "only-matching",
            "recursive",
            "word-regexp",
        ],
        Operands::PatternThenPaths,
    ),
    allowed("head", "qv0123456789", "cn", &["bytes=", "lines="], Operands::Paths),
    allowed(
        "ls",
        "1ACFRSUabdghiklmnopqrstuvx",
        "",
        &["all", "almost-all", "color=", "directory", "human-readable", "recursive", "reverse"],
        Operands::Paths,
    ),
    allowed("pwd", "LP", "", &[], Operands::None),
    allowed(
        "sort",
        "MVbcdfghinrsuz",
        "kt",
        &["key=", "numeric-sort", "reverse", "unique"],
        Operands::Paths,
    ),
    allowed("tail", "qv0123456789", "cn", &["bytes=", "lines="], Operands::Paths),
    allowed("uname", "aimnoprsv", "", &["all"], Operands::None),
    allowed("uniq", "Ddciuz", "fsw", &["count", "repeated", "unique"], Operands::OnePath),
    allowed("wc", "Lclmw", "", &["bytes", "chars", "lines", "words"], Operands::Paths),
];

/// What may follow the paths of `find`, and how many words each takes.
const FIND: &[(&str, usize)] = &[
    ("!", 0),
    ("(", 0),
    (")", 0),
    ("-a", 0),
    ("-and", 0),
    ("-atime", 1),
    ("-empty", 0),
    ("-executable", 0),
    ("-iname", 1),
    ("-ipath", 1),
    ("-iregex", 1),
    ("-ls", 0),
    ("-maxdepth", 1),
    ("-mindepth", 1),
    ("-mmin", 1),
    ("-mtime", 1),
    ("-name", 1),
    ("-newermt", 1),
    ("-not", 0),
    ("-o", 0),
    ("-or", 0),
    ("-path", 1),
    ("-perm", 1),
    ("-print", 0),
    ("-prune", 0),
    ("-readable", 0),
    ("-regex", 1),
    ("-size", 1),
    ("-type", 1),
    ("-writable", 0),
];

/// Lists the commands for people and models.
pub(super) fn names() -> String {
    let names: Vec<&str> = COMMANDS.iter().map(|it| it.name).collect();
    names.join(", ")
}

/// Decides about a command line.
pub(super) fn check(words: &[String], workdir: &Workdir) -> Result<(), CommandRefusal> {
    let (name, arguments) = words.split_first().ok_or(CommandRefusal::Empty)?;
    let command = COMMANDS.iter().find(|it| it.name == name);
    let command = command.ok_or_else(|| CommandRefusal::Unknown { name: name.clone() })?;
    match command.operands {
        Operands::Anything => Ok(()),
        Operands::Find => command.check_find(arguments, workdir),
        _ => command.check(arguments, workdir),
    }
}

impl Allowed {
    fn check(&self, arguments: &[String], workdir: &Workdir) -> Result<(), CommandRefusal> {
        let mut operands = Vec::new();
        let mut has_pattern = false;
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                operands.extend(rest.by_ref());
            } else if let Some(long) = word.strip_prefix("--") {
                self.check_long(long, word)?;
            } else if let Some(letters) = word.strip_prefix('-').filter(|it| !it.is_empty()) {
                has_pattern |= letters.contains('e');
                if self.wants_value(letters, word)? && rest.next().is_none() {
                    return Err(CommandRefusal::NoValue { name: self.name, word: word.clone() });
                }
            } else {
                operands.push(word);
            }
        }
        self.check_operands(&operands, has_pattern, workdir)
    }

    fn check_long(&self, long: &str, word: &str) -> Result<(), CommandRefusal> {
        // Exact, since a shortened option may be any that begins so.
        let name = long.split_inclusive('=').next().unwrap_or(long);
        if self.long.contains(&name) { Ok(()) } else { Err(self.refuse(word)) }
    }

    /// Reads the letters after a dash; tells whether the value of the last one is the next word.
    fn wants_value(&self, letters: &str, word: &str) -> Result<bool, CommandRefusal> {
        for (at, letter) in letters.char_indices() {
            if self.valued.contains(letter) {
                let is_optional = (self.name, letter) == ("date", 'I');
                return Ok(at + letter.len_utf8() == letters.len() && !is_optional);
            }
            if !self.flags.contains(letter) {
                return Err(self.refuse(word));
            }
        }
        Ok(false)
    }

    fn check_operands(
        &self,
        operands: &[&String],
        has_pattern: bool,
        workdir: &Workdir,
    ) -> Result<(), CommandRefusal> {
        let too_many = |most: usize| operands.get(most).map(|it| self.refuse(it));
        let paths = match self.operands {
            Operands::None => return too_many(0).map_or(Ok(()), Err),
            Operands::Format => {
                let other = operands.iter().find(|it| !it.starts_with('+'));
                return other.map_or(Ok(()), |it| Err(self.refuse(it)));
            }
            Operands::OnePath => too_many(1).map_or(Ok(operands), Err)?,
            Operands::PatternThenPaths if !has_pattern => operands.get(1..).unwrap_or_default(),
            _ => operands,
        };
        for path in paths {
            self.check_path(path, workdir)?;
        }
        Ok(())
    }

    fn check_find(&self, arguments: &[String], workdir: &Workdir) -> Result<(), CommandRefusal> {
        let is_expression = |word: &String| word.starts_with(['-', '(', ')', '!', ',']);
        let begin = arguments.iter().position(is_expression).unwrap_or(arguments.len());
        for path in &arguments[..begin] {
            self.check_path(path, workdir)?;
        }
        let mut rest = arguments[begin..].iter();
        while let Some(word) = rest.next() {
            let known = FIND.iter().find(|(name, _)| name == word);
            let (_, values) = known.ok_or_else(|| self.refuse(word))?;
            if rest.by_ref().take(*values).count() < *values {
                return Err(CommandRefusal::NoValue { name: self.name, word: word.clone() });
            }
        }
        Ok(())
    }

    /// `-` is standard input, which is empty.
    fn check_path(&self, path: &str, workdir: &Workdir) -> Result<(), CommandRefusal> {
        let real = if path == "-" { return Ok(()) } else { workdir.resolve(path)? };
        // Reading a pipe or a device may never end.
        if real.is_file() || real.is_dir() { Ok(()) } else { Err(self.refuse(path)) }
    }

    fn refuse(&self, word: &str) -> CommandRefusal {
        CommandRefusal::Word { name: self.name, word: word.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::split;
    use super::*;

    fn verdict(line: &str) -> String {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.txt"), "a").unwrap();
        std::fs::create_dir(root.path().join("src")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("out")).unwrap();
        let workdir = Workdir::new(root.path()).unwrap();
        match check(&split(line).unwrap(), &workdir) {
            Ok(()) => "run".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn looking_around_is_allowed() {
        for line in [
            "ls",
            "ls -la src",
            "cat a.txt",
            "cat -- a.txt",
            "cat -",
            "head -n 5 a.txt",
            "head -5 a.txt",
            "tail -n +2 a.txt",
            "wc -l a.txt",
            "grep -rn --include='*.rs' 'fn main' src",
            "grep -e x -e y a.txt",
            "grep /etc/passwd a.txt",
            "find . -name '*.rs' -not -path './target/*'",
            "find src \\( -name a -o -name b \\) -type f",
            "sort -k2,2n -t: a.txt",
            "uniq -c a.txt",
            "cut -d: -f1 a.txt",
            "date -u +%F",
            "date -I",
            "uname -a",
            "pwd",
            "echo -n hello",
        ] {
            assert_eq!(verdict(line), "run", "{line}");
        }
        assert_eq!(verdict(""), "there is no command");
    }

    #[test]
    fn whatever_writes_runs_or_leaves_is_refused() {
        for line in [
            "sort -o a.txt a.txt",
            "sort -uoa.txt a.txt",
            "sort --output=a.txt a.txt",
            "sort --outp=a.txt a.txt",
            "sort --compress-program=sh a.txt",
            "sort --files0-from=a.txt",
            "uniq a.txt b.txt",
            "uniq -- a.txt b.txt",
            "find . -delete",
            "find . -exec sh",
            "find . -execdir sh",
            "find . -ok sh",
            "find . -fprint x",
            "find . -fprintf x y",
            "find . -fls x",
            "find . -name x -delete",
            "find -L .",
            "find . -follow",
            "find . -files0-from x",
            "find . -newer /etc/passwd",
            "grep -f /etc/passwd a.txt",
            "grep -R x .",
            "grep --file=/etc/passwd a.txt",
            "date -s tomorrow",
            "date 01010000",
            "date -r /etc/passwd",
            "date -f a.txt",
            "tail -f a.txt",
            "tail --follow a.txt",
            "wc --files0-from=a.txt",
            "ls -L",
            "pwd x",
            "uname x",
        ] {
            assert!(verdict(line).contains("may not be used with"), "{line}: {}", verdict(line));
        }
        for line in [
            "cat /etc/passwd",
            "cat a.txt ../x",
            "cat -n -- /etc/passwd",
            "cat out",
            "ls ..",
            "ls -la /",
            "grep -r x /etc",
            "grep -e x /etc/passwd",
            "grep -ie /etc/passwd /etc/passwd",
            "find / -name x",
            "find src .. -name x",
            "head -n 1 /dev/zero",
            "sort -t : out",
        ] {
            assert!(verdict(line).contains("is outside the working directory"), "{line}");
        }
    }

    #[test]
    fn other_commands_are_refused_with_a_list_of_those_there_are() {
        assert_eq!(
            verdict("rm -rf ."),
            "`rm` is not allowed; allowed are cat, cut, date, echo, find, grep, head, ls, pwd, sort, \
             tail, uname, uniq, wc"
        );
        for line in ["/bin/ls", "./a.txt", "sh", "A=b ls", "env", "xargs", "LS"] {
            assert!(verdict(line).contains("is not allowed"), "{line}");
        }
        assert_eq!(verdict("head -n"), "`-n` of `head` needs a value");
        assert_eq!(verdict("cat missing"), "`missing` does not exist");
    }
}
