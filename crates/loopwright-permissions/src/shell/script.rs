//! The result of the parser.

use std::ops::Range;

use super::evaluation::Evaluated;
use super::word::Word;

/// A command text that was read.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// What happens, in the order of the text. Substitutions come before the command that contains them.
    pub(crate) events: Vec<Event>,
    /// The simple commands, which events refer to by index.
    pub(crate) commands: Vec<Simple>,
    /// The functions that the text defines.
    pub(crate) functions: Vec<Function>,
    /// The text is read by bash alone as it is read here.
    pub(crate) is_bash_only: bool,
    /// Arithmetic is done with variables.
    pub(crate) has_arithmetic: bool,
    /// The variables that arithmetic evaluates.
    pub(super) evaluated: Evaluated,
    /// A quoted text contains a command, which arithmetic would run if it got the text.
    pub(crate) has_quoted_command: bool,
    /// The texts of here-documents and here-strings, as far as they are known.
    pub(crate) documents: Vec<String>,
    /// Constructs that run or change something that the text does not show.
    pub(crate) problems: Vec<Problem>,
    /// Why the reading ended early; everything after this place is unknown.
    pub(crate) error: Option<ReadError>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The command before which the function is surely defined. `None` means that it may be
    /// undefined.
    pub(crate) before: Option<usize>,
}

/// One thing that a script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A scope starts.
    Open(Scope),
    /// The scope that was opened last ends.
    Close,
    /// The next element runs only if the last one succeeded.
    And,
    /// The next element runs only if the last one failed.
    Or,
    /// A simple command, by its index.
    Simple(usize),
}

/// A part of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    /// The part runs in a process of its own, which cannot change the directory of the rest.
    pub(crate) isolated: bool,
}

/// The kinds of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    /// Commands that `&&` and `||` connect, or one pipeline of them.
    List,
    /// A part that always runs, once.
    Group,
    /// A part that may run or not.
    Branch,
    /// A part that runs any number of times.
    Loop,
    /// The body of a function, which runs where it is called.
    Function,
    /// A substitution in a here-document, which is read after the command that it belongs to.
    Detached,
}

/// A command with its words.
#[derive(Debug, Default)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
    /// The text of the command.
    pub(crate) source: String,
    /// The here-documents and here-strings that the command gets, by their place in the script.
    pub(crate) documents: Vec<usize>,
    /// `[[ … ]]` or `(( … ))`, whose first word is its opening.
    pub(crate) is_test: bool,
}

/// A variable that gets a value before a command or on its own.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: Word,
}

/// A redirection of a command.
#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) direction: Direction,
    pub(crate) target: Word,
}

/// What a redirection does to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    ReadWrite,
    /// A descriptor is copied or closed, or the input is part of the text.
    Internal,
}

/// Something in a script whose effect cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// `${x@P}` runs what the variable contains.
    PromptExpansion,
    /// `${!x}` uses a variable whose name is unknown.
    Indirection,
    /// A subscript with quotes is evaluated again.
    Subscript,
    /// Arithmetic could run a command that a quoted text contains.
    Arithmetic,
    /// Arithmetic could run a command that data contains.
    Data,
    /// A loop, `read` or an expansion sets a variable that changes what commands do.
    Variable,
}

impl Problem {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::PromptExpansion => "`${…@P}` runs commands that a variable contains",
            Self::Indirection => "`${!…}` uses a variable whose name is computed",
            Self::Subscript => "a quoted subscript is evaluated a second time",
            Self::Arithmetic => "arithmetic could run a command contained in a quoted string",
            Self::Data => "arithmetic could run a command contained in a file or in command output",
            Self::Variable => "an assignment sets a variable that changes how commands run",
        }
    }
}

/// Why a text cannot be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadError {
    pub(crate) reason: &'static str,
    /// Where, in bytes of the innermost text.
    pub(crate) at: usize,
}

impl Script {
    pub(crate) fn open(&mut self, kind: ScopeKind, isolated: bool) -> usize {
        self.events.push(Event::Open(Scope { kind, isolated }));
        self.events.len() - 1
    }

    pub(crate) fn close(&mut self) {
        self.events.push(Event::Close);
    }

    /// Finds the functions that are surely defined: on their own, and not in a part that may not run or that runs in a
    /// process of its own.
    pub(super) fn find_certain_functions(&mut self) {
        let is_removed = |command: &Simple| command.words.iter().any(|word| word.text == "unset");
        let has_removal = self.commands.iter().any(is_removed) || self.error.is_some();
        let mut open: Vec<Scope> = Vec::new();
        let (mut next, mut commands, mut is_conditional) = (0, 0, false);
        for event in &self.events {
            match event {
                Event::Open(scope) => {
                    if scope.kind == ScopeKind::Function {
                        let is_plain =
                            |scope: &Scope| scope.kind == ScopeKind::List && !scope.isolated;
                        let is_certain =
                            open.iter().all(is_plain) && !is_conditional && !has_removal;
                        if let Some(function) = self.functions.get_mut(next) {
                            function.before = is_certain.then_some(commands);
                        }
                        next += 1;
                    }
                    open.push(*scope);
                }
                Event::Close => {
                    open.pop();
                    is_conditional &= !open.is_empty();
                }
                Event::And | Event::Or => is_conditional = true,
                Event::Simple(index) => commands = index + 1,
            }
        }
    }

    /// Makes a scope isolated, once the operator after it is known.
    pub(crate) fn isolate(&mut self, scope: usize) {
        if let Some(Event::Open(scope)) = self.events.get_mut(scope) {
            scope.isolated = true;
        }
    }

    pub(crate) fn push(&mut self, command: Simple) {
        self.events.push(Event::Simple(self.commands.len()));
        self.commands.push(command);
    }
}

/// Returns a part of a text, or an empty one where the range is not on character boundaries.
pub(crate) fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}
