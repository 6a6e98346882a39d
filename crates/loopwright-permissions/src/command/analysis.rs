//! The analysis of a script.

use super::cwd::Cwd;
use super::part::{Analysis, Part, PathUse, Scope};
use super::pattern::join;
use super::risk::Risk;
use super::wrapper::{Wrapped, is_runner, wrapped};
use super::{files, opaque, risk};
use crate::call::Access;
use crate::policy::Shell;
use crate::shell::{self, Direction, Event, Function, Redirect, ScopeKind, Script, Simple, Word};
use crate::variables::is_powerful;

/// How many wrappers may stand before each other.
const MAX_WRAPPERS: usize = 8;
/// How many words of a runner are looked at as the start of a command.
const MAX_STARTS: usize = 24;
/// How deep texts of commands may contain texts of commands.
const MAX_DEPTH: usize = 3;
/// How many texts of commands a text may contain.
const MAX_TEXTS: usize = 64;

/// Takes a command text apart.
pub(crate) fn analyse(text: &str, start: &Cwd, home: Option<&str>, shell: Shell) -> Analysis {
    let mut analysis = Analysis::default();
    Reader { home, shell, depth: 0 }.script(text, start, &mut analysis);
    analysis
}

/// Marks a path that starts with an unquoted `~`, so that it is not taken for one of the folder.
pub(super) fn tilde(word: &Word, path: &str) -> String {
    if word.has_tilde || !path.starts_with('~') { path.to_owned() } else { format!("./{path}") }
}

struct Reader<'a> {
    home: Option<&'a str>,
    shell: Shell,
    /// How many texts this one is inside of.
    depth: usize,
}

/// A text of commands that a command gets as an argument or as its input.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nested {
    text: String,
    /// What follows the text is unknown.
    is_cut: bool,
}

/// A scope that is open.
struct Open {
    kind: ScopeKind,
    /// The folders when it started.
    before: Cwd,
    is_isolated: bool,
    /// Where commands after the scope may be because a `cd` in it failed.
    stayed: Option<Cwd>,
}

impl Reader<'_> {
    fn script(&self, text: &str, cwd: &Cwd, analysis: &mut Analysis) {
        let script = shell::read(text);
        let changes_folder = script.commands.iter().any(|command| {
            command.words.first().is_some_and(|word| word.is_unknown)
                || command.words.iter().any(is_change)
        });
        let problem = script.problems.first().map(|problem| problem.reason());
        let error = script.error.as_ref().map(|error| error.reason);
        analysis.unreadable = analysis.unreadable.or(error).or(problem);
        if self.shell == Shell::Posix && script.is_bash_only {
            let reason = "the shell may parse the text differently from bash";
            analysis.unreadable = analysis.unreadable.or(Some(reason));
        }
        if script.functions.iter().any(|function| is_special(&function.name)) {
            let reason = "a function has the name of a command with a special meaning";
            analysis.unreadable = analysis.unreadable.or(Some(reason));
        }
        if !changes_folder {
            for index in 0..script.commands.len() {
                self.command(index, &script, cwd, analysis);
            }
            return;
        }
        let has_odd_cd = script.error.is_some() || !script.functions.is_empty();
        let cwd = if has_odd_cd { Cwd::UNKNOWN } else { cwd.clone() };
        self.events(&script, cwd, analysis);
    }

    /// Follows the folder through a script that changes it.
    fn events(&self, script: &Script, mut cwd: Cwd, analysis: &mut Analysis) {
        let mut open: Vec<Open> = Vec::new();
        // What `cd` leads to if it succeeds; without it the folder stays.
        let mut reached: Option<Cwd> = None;
        for event in &script.events {
            match event {
                Event::Open(scope) => {
                    if matches!(
                        scope.kind,
                        ScopeKind::Loop | ScopeKind::Function | ScopeKind::Detached
                    ) {
                        // The folder may have changed in an earlier round, or changes later.
                        cwd = Cwd::UNKNOWN;
                    }
                    open.push(Open {
                        kind: scope.kind,
                        before: cwd.clone(),
                        is_isolated: scope.isolated,
                        stayed: None,
                    });
                }
                Event::Close => {
                    let Some(scope) = open.pop() else { continue };
                    if scope.is_isolated {
                        cwd = scope.before;
                        reached = None;
                    } else if scope.kind == ScopeKind::Branch {
                        cwd = cwd.or(&scope.before);
                    } else if let Some(stayed) = scope.stayed {
                        cwd = cwd.or(&stayed);
                    }
                    let is_element = open.last().is_some_and(|outer| outer.kind == ScopeKind::List);
                    if !is_element && let Some(target) = reached.take() {
                        cwd = cwd.or(&target);
                    }
                }
                Event::And => {
                    if let Some(target) = reached.take() {
                        // What follows runs only if `cd` succeeded; what follows the list runs anyway.
                        let stays = std::mem::replace(&mut cwd, target);
                        if let Some(scope) = open.last_mut() {
                            let stayed = scope.stayed.take();
                            scope.stayed =
                                Some(stayed.map_or(stays.clone(), |stayed| stayed.or(&stays)));
                        }
                    }
                }
                Event::Or => {
                    if let Some(target) = reached.take() {
                        cwd = cwd.or(&target);
                    }
                }
                Event::Simple(index) => {
                    let command = &script.commands[*index];
                    if let Some(target) = reached.take() {
                        cwd = cwd.or(&target);
                    }
                    self.command(*index, script, &cwd, analysis);
                    let name = command.words.first().map(|word| &*word.text);
                    match name {
                        Some("cd" | "pushd") => {
                            reached = Some(cwd.after_cd(&command.words, self.home));
                        }
                        Some("popd") => reached = Some(Cwd::UNKNOWN),
                        _ if command.words.iter().skip(1).any(is_change) => cwd = Cwd::UNKNOWN,
                        _ => {}
                    }
                }
            }
        }
    }

    fn command(&self, index: usize, script: &Script, cwd: &Cwd, analysis: &mut Analysis) {
        let command = &script.commands[index];
        let mut part = Part::new(command, cwd);
        for redirect in &command.redirects {
            part.redirect(redirect);
        }
        for assignment in &command.assignments {
            let reason = opaque::assignment(&assignment.name, &assignment.value);
            if reason.is_some() && command.words.is_empty() {
                part.opaque = reason;
            } else if is_powerful(&assignment.name) {
                // `IFS= read` is how lines are read.
                let is_reading = command.words.first().is_some_and(|word| word.text == "read");
                part.needs_whole |= !(is_reading && assignment.name == "IFS");
            } else if reason.is_some() {
                part.opaque = reason;
            }
        }
        let mut nested = Vec::new();
        if command.is_test {
            part.opaque = opaque::evaluation(&command.words[0].text, &command.words);
            part.is_neutral = part.opaque.is_none();
        } else if command.words.is_empty() {
            part.is_neutral = part.opaque.is_none() && !part.needs_whole;
        } else {
            self.words(&command.words, &mut part, &mut nested);
            find_function(index, &command.words, script, &mut part);
        }
        let reads_commands = part.reads_commands;
        analysis.parts.push(part);
        if reads_commands {
            let documents = command.documents.iter().filter_map(|id| script.documents.get(*id));
            nested.extend(documents.map(|text| Nested { text: text.clone(), is_cut: false }));
        }
        nested.sort_unstable();
        nested.dedup();
        for text in nested {
            self.nested(&text, cwd, analysis);
        }
    }

    /// Looks at the words of a command, and at those of the command that it runs.
    fn words(&self, words: &[Word], part: &mut Part, nested: &mut Vec<Nested>) {
        let mut words = words.to_vec();
        for _ in 0..=MAX_WRAPPERS {
            part.text = join(&words);
            let program = words[0].literal().filter(|program| program.contains('/'));
            part.program = program.map(|program| tilde(&words[0], program));
            match self.command_words(&words, part, nested) {
                Some(inner) => words = inner,
                None => return,
            }
        }
        part.hide("commands are nested too deeply");
        starts(&words, part, nested);
    }

    /// Looks at the words of one command. Returns those of the command that it runs, if it is a wrapper.
    fn command_words(
        &self,
        words: &[Word],
        part: &mut Part,
        nested: &mut Vec<Nested>,
    ) -> Option<Vec<Word>> {
        part.start(words);
        let Some(given) = words[0].literal() else {
            part.hide("the name of the command is computed");
            let mut unknown = words.to_vec();
            unknown[0] = Word::unknown("…");
            part.see(&unknown);
            starts(words, part, nested);
            return None;
        };
        let name = base_name(given);
        part.files.extend(files::named(name, words));
        if opaque::is_shell(name) || matches!(name, "eval" | "trap" | "watch" | "script" | "su") {
            collect(name, words, part, nested);
        }
        if matches!(name, "find" | "fd") {
            executed(words, part, nested);
        }
        if is_runner(name) {
            collect(name, words, part, nested);
            starts(words, part, nested);
            for start in 1..words.len().min(MAX_STARTS) {
                let name = words[start].literal().map(base_name).unwrap_or_default();
                self.risks(name, &words[start..], part);
            }
        }
        self.risks(name, words, part);
        let is_free = part.opaque.is_none() && given == name && !part.needs_whole;
        match wrapped(name, words) {
            Wrapped::No => {
                if matches!(name, "cd" | "pushd") && given == name {
                    part.target = Some(part.cwd.after_cd(words, self.home));
                }
                let reason =
                    opaque::reason(name, words).or_else(|| opaque::evaluation(name, words));
                part.opaque = part.opaque.or(reason);
                part.is_neutral = is_free && reason.is_none() && opaque::is_neutral(name);
                None
            }
            Wrapped::Nothing => {
                part.is_neutral = is_free && name != "env";
                None
            }
            Wrapped::Unclear => {
                part.hide("the command that runs is unknown");
                starts(words, part, nested);
                for text in words.iter().filter_map(Word::literal) {
                    let split = text.strip_prefix("--split-string=");
                    let text = split.or_else(|| text.strip_prefix("-S")).unwrap_or(text);
                    let has_blank = text.contains([' ', '\t']);
                    nested
                        .extend(has_blank.then(|| Nested { text: text.to_owned(), is_cut: false }));
                }
                None
            }
            Wrapped::At { start, has_more, folder } => {
                if given != name && !is_system(given) {
                    part.hide("the program is not at its usual path");
                }
                if let Some(folder) = folder {
                    let cd = [Word::from_literal("cd"), words[folder].clone()];
                    part.cwd = part.cwd.or(&part.cwd.after_cd(&cd, self.home));
                }
                for word in &words[1..start] {
                    let assigned = word.text.split_once('=').map_or("", |(name, _)| name);
                    part.needs_whole |= name == "env" && is_powerful(assigned);
                    part.has_assignment |= name == "env" && !assigned.is_empty();
                }
                let more = has_more.then(|| Word::unknown("…"));
                Some(words[start..].iter().cloned().chain(more).collect())
            }
        }
    }

    /// Finds the arguments that an allow rule has to name.
    fn risks(&self, name: &str, words: &[Word], part: &mut Part) {
        let found = risk::of(name, words);
        part.opaque = part.opaque.or(found.opaque);
        part.risks.extend(found.named);
        for (word, folder) in found.folders {
            let cd = [Word::from_literal("cd"), folder];
            let cwd = part.cwd.after_cd(&cd, self.home);
            let reason = "the argument makes the program work outside the agent's folders";
            part.folders.push((Risk { option: word.clone(), word, reason }, cwd));
        }
    }

    /// Reads a text that a command gets as an argument and runs. Only deny and ask rules see what is in it.
    fn nested(&self, nested: &Nested, cwd: &Cwd, analysis: &mut Analysis) {
        analysis.texts += 1;
        if self.depth >= MAX_DEPTH || analysis.texts > MAX_TEXTS {
            let reason = "commands inside strings are nested too deeply";
            analysis.unreadable = analysis.unreadable.or(Some(reason));
            return;
        }
        let mut inner = Analysis { texts: analysis.texts, ..Analysis::default() };
        let (home, shell) = (self.home, self.shell);
        Reader { home, shell, depth: self.depth + 1 }.script(&nested.text, cwd, &mut inner);
        analysis.texts = inner.texts;
        if !nested.is_cut {
            analysis.unreadable = analysis.unreadable.or(inner.unreadable);
        }
        analysis.parts.extend(inner.parts.into_iter().map(|part| Part { is_nested: true, ..part }));
    }
}

/// Finds the function that a command calls.
fn find_function(index: usize, words: &[Word], script: &Script, part: &mut Part) {
    let is_called = |function: &&Function| words[0].literal() == Some(&function.name);
    let mut called = script.functions.iter().filter(is_called).peekable();
    if called.peek().is_none() {
        return;
    }
    if called.any(|function| function.before.is_some_and(|before| before <= index)) {
        part.calls_function = true;
    } else {
        part.is_neutral = false;
        part.hide("a function of this name may be defined");
    }
}

impl Part {
    fn new(command: &Simple, cwd: &Cwd) -> Self {
        let is_declared = |word: &&Word| !command.words.contains(word);
        let assigned = command.assignments.iter().map(|assignment| &assignment.value);
        let whole: Vec<&Word> = assigned.filter(is_declared).chain(&command.words).collect();
        Self {
            source: command.source.clone(),
            text: join(&command.words),
            whole: join(whole),
            program: None,
            has_assignment: !command.assignments.is_empty(),
            views: Vec::new(),
            opaque: None,
            risks: Vec::new(),
            folders: Vec::new(),
            needs_whole: false,
            is_neutral: false,
            is_nested: false,
            calls_function: false,
            reads_commands: false,
            has_input: !command.documents.is_empty(),
            redirects: Vec::new(),
            files: Vec::new(),
            hosts: Vec::new(),
            cwd: cwd.clone(),
            target: None,
        }
    }

    /// Says why no rule with a wildcard can allow the command.
    fn hide(&mut self, reason: &'static str) {
        self.opaque = self.opaque.or(Some(reason));
    }

    fn see(&mut self, words: &[Word]) {
        let text = join(words);
        if !self.views.contains(&text) {
            self.views.push(text);
        }
    }

    /// Sees words that may be a command, also without the folder of the program.
    fn start(&mut self, words: &[Word]) {
        self.see(words);
        if let Some(name) = words.first().and_then(Word::literal).filter(|name| name.contains('/'))
        {
            let mut named = words.to_vec();
            named[0] = Word::from_literal(base_name(name));
            self.see(&named);
        }
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let accesses: &[Access] = match redirect.direction {
            Direction::Internal => return,
            Direction::Read => &[Access::Read],
            Direction::Write => &[Access::Write],
            Direction::ReadWrite => &[Access::Read, Access::Write],
        };
        let target = &redirect.target;
        let path = target.literal();
        if let Some(host) = path.and_then(|path| {
            let rest = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"))?;
            rest.split('/').next()
        }) {
            self.hosts.push(host.to_ascii_lowercase());
            self.opaque = Some("the redirection opens a connection");
            return;
        }
        if path.is_some_and(is_device) {
            return;
        }
        let path = path.map(|path| tilde(target, path));
        let uses = accesses.iter().map(|access| PathUse {
            access: *access,
            path: path.clone(),
            glob: None,
            scope: Scope::File,
        });
        self.redirects.extend(uses);
    }
}

/// Devices that keep nothing.
fn is_device(path: &str) -> bool {
    const NAMES: &[&str] =
        &["null", "zero", "full", "stdin", "stdout", "stderr", "tty", "random", "urandom"];
    path.strip_prefix("/dev/").is_some_and(|name| {
        NAMES.contains(&name)
            || name
                .strip_prefix("fd/")
                .is_some_and(|fd| fd.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// Takes every word for the start of a command.
fn starts(words: &[Word], part: &mut Part, nested: &mut Vec<Nested>) {
    for start in 1..words.len().min(MAX_STARTS) {
        part.start(&words[start..]);
        let name = words[start].literal().map(base_name).unwrap_or_default();
        part.files.extend(files::named(name, &words[start..]));
        if opaque::is_shell(name) || name == "eval" {
            collect(name, &words[start..], part, nested);
        }
    }
    if words.len() > MAX_STARTS {
        part.hide("the command that runs is unknown");
    }
}

/// Collects the texts that a command may run.
fn collect(name: &str, words: &[Word], part: &mut Part, nested: &mut Vec<Nested>) {
    part.reads_commands |= opaque::is_shell(name);
    if texts(name, words, nested) {
        part.see(&[Word::unknown("…")]);
    }
}

/// Looks at the commands after the options of `find` and `fd` that run some.
fn executed(words: &[Word], part: &mut Part, nested: &mut Vec<Nested>) {
    const OPTIONS: &[&str] =
        &["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    let is_option = |word: &Word| word.literal().is_some_and(|text| OPTIONS.contains(&text));
    for (index, _) in words.iter().enumerate().filter(|(_, word)| is_option(word)).take(MAX_STARTS)
    {
        let command = &words[index + 1..];
        part.start(command);
        if let Some(name) = command.first().and_then(Word::literal).map(base_name)
            && opaque::is_shell(name)
        {
            collect(name, command, part, nested);
        }
        if command.first().is_some_and(|word| word.is_unknown) {
            part.see(&[Word::unknown("…")]);
        }
    }
}

/// Reads the texts among the words of a command. Returns `true` if a part of them is unknown.
fn texts(name: &str, words: &[Word], nested: &mut Vec<Nested>) -> bool {
    let mut hides = false;
    if name == "eval" {
        let text: Vec<&str> = words[1..].iter().map(Word::known_prefix).collect();
        let is_cut = words.iter().any(|word| word.is_unknown);
        nested.push(Nested { text: text.join(" "), is_cut });
        return is_cut;
    }
    let takes_texts = !is_runner(name) || name == "watch";
    let has_blank = |word: &&Word| {
        let blanks = [' ', '\t', '\n'];
        takes_texts && word.literal().is_some_and(|text| text.contains(blanks))
    };
    // The first word after `-c` that is no option.
    let is_option = |word: &&Word| word.text.starts_with(['-', '+']);
    let code = words.iter().skip(1).position(|word| is_option(&word) && word.text.ends_with('c'));
    let code = code.and_then(|at| {
        let rest = words.iter().enumerate().skip(at + 2);
        rest.into_iter().find(|(_, word)| !is_option(word)).map(|(index, _)| index)
    });
    let is_code = |index: usize| Some(index) == code || name == "trap";
    for (index, word) in words.iter().enumerate().skip(1) {
        if word.literal().is_some() && (is_code(index) || has_blank(&word)) {
            nested.push(Nested { text: word.text.clone(), is_cut: false });
        } else if word.is_unknown && is_code(index) {
            nested.push(Nested { text: word.known_prefix().to_owned(), is_cut: true });
            hides = true;
        }
    }
    hides
}

/// Returns the name of a program without its folder.
pub(super) fn base_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.is_empty() { path } else { name }
}

fn is_system(path: &str) -> bool {
    ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"]
        .iter()
        .any(|folder| path.strip_prefix(folder).is_some_and(|name| !name.contains('/')))
}

fn is_change(word: &Word) -> bool {
    matches!(&*word.text, "cd" | "pushd" | "popd")
}

/// Returns `true` if a function of this name would change what the analysis takes for granted.
fn is_special(name: &str) -> bool {
    let words = [Word::from_literal(name), Word::from_literal("x")];
    opaque::is_neutral(name)
        || matches!(name, "cd" | "printf" | "echo" | "let")
        || wrapped(name, &words) != Wrapped::No
        || is_runner(name)
        || opaque::is_shell(name)
}
