//! The specifier of `Bash(…)`.

use smallvec::SmallVec;

use super::risk::Risk;
use crate::shell::{self, UNKNOWN_END, UNKNOWN_START, Word};

/// Separates words of a command.
pub(crate) const SEPARATOR: char = '\u{1f}';

const STAR: &str = "\u{1}*\u{2}";
/// Stands for a star between words of a pattern.
const CUT: &str = "\u{3}";

/// Whether a pattern matches a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    No,
    /// It depends on values that are unknown.
    Maybe,
    Yes,
}

/// What a pattern is, for `lint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternKind {
    /// One command with exactly these words.
    Exact,
    /// Commands that start with these words.
    Prefix,
    /// Anything else with `*`.
    Wildcard,
}

/// A pattern of commands. `*` stands for any text, blanks included. A `*` or `:*` at the end, after a blank or a word,
/// stands for any further words or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    /// The texts between the stars.
    pieces: Vec<String>,
    /// Any further words may follow.
    has_more: bool,
    /// The pattern names an assignment before the command.
    pub(crate) has_assignment: bool,
}

/// Why a pattern matches no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("each command is matched separately, but this pattern contains several commands")]
    Compound,
    #[error("redirections are not part of the matched command; use a rule `Edit(path)`")]
    Redirection,
    #[error("the pattern cannot be read as a command")]
    Unreadable,
}

impl CommandPattern {
    pub(crate) fn new(text: &str) -> Result<Self, PatternError> {
        let (head, has_more) = match text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
            Some(head) if !head.trim().is_empty() => (head.trim(), true),
            _ => (text.trim(), false),
        };
        let script = shell::read(head);
        if script.error.is_some() {
            return Err(PatternError::Unreadable);
        }
        let Some(command) = script.commands.last() else { return Err(PatternError::Unreadable) };
        if command.source.trim() != head {
            return Err(PatternError::Compound);
        }
        if !command.redirects.is_empty() {
            return Err(PatternError::Redirection);
        }
        let assignments = command.assignments.iter().map(|assignment| &assignment.value);
        let is_declared = |value: &&Word| !command.words.contains(value);
        let words: Vec<&Word> = assignments.filter(is_declared).chain(&command.words).collect();
        let canonical = join(words.iter().copied());
        let has_assignment = words.len() > command.words.len();
        let pieces = canonical.split(STAR).map(ToOwned::to_owned).collect();
        Ok(Self { pieces, has_more, has_assignment })
    }

    pub(crate) fn kind(&self) -> PatternKind {
        match (self.pieces.len(), self.has_more) {
            (1, false) => PatternKind::Exact,
            (1, true) => PatternKind::Prefix,
            _ => PatternKind::Wildcard,
        }
    }

    /// Returns `true` if the pattern matches every command that another one matches, as far as that is plain.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        let is_exact = other.kind() == PatternKind::Exact;
        match self.kind() {
            PatternKind::Exact => false,
            PatternKind::Wildcard => is_exact && self.matches(other.start()) == Match::Yes,
            PatternKind::Prefix => {
                let rest = other.start().strip_prefix(self.start());
                let is_word = other.kind() != PatternKind::Wildcard;
                rest.is_some_and(|rest| rest.starts_with(SEPARATOR) || rest.is_empty() && is_word)
            }
        }
    }

    /// Returns the words up to the first star, and whether the last of them is complete.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.pieces[0].split(SEPARATOR).filter(|word| !word.is_empty()).collect()
    }

    /// Returns `true` if the pattern names an argument as often as a command has it: the whole word, or its option before
    /// a star.
    pub(crate) fn names<'a>(&self, risks: impl Iterator<Item = &'a Risk>) -> bool {
        let risks: SmallVec<[&Risk; 4]> = risks.collect();
        if risks.is_empty() {
            return true;
        }
        let text = self.pieces.join(CUT);
        let is_named = |risk: &Risk, word: &str| match word.split_once(CUT) {
            None => word == risk.word,
            Some((start, _)) => start.starts_with(&risk.option) && risk.word.starts_with(start),
        };
        risks.iter().all(|risk| {
            let named = text.split(SEPARATOR).filter(|word| is_named(risk, word)).count();
            named >= risks.iter().filter(|other| other.word == risk.word).count()
        })
    }

    /// Returns the text before the first star.
    pub(crate) fn start(&self) -> &str {
        &self.pieces[0]
    }

    /// Returns `true` if the pattern has no text that a command would have to contain.
    pub(crate) fn is_everything(&self) -> bool {
        self.pieces.iter().all(String::is_empty)
    }

    /// Holds the pattern against a command, whose words [`join`] has put together.
    pub(crate) fn matches(&self, text: &str) -> Match {
        if !text.contains(UNKNOWN_START) {
            return if self.matches_text(text, text) { Match::Yes } else { Match::No };
        }
        if self.matches_text(text, &masked(text)) {
            return Match::Yes;
        }
        let known = text.split(UNKNOWN_START).next().unwrap_or_default();
        let start = self.start();
        let can_match = start.starts_with(known)
            || known.starts_with(start) && (self.pieces.len() > 1 || !self.has_more)
            || known.starts_with(start) && known[start.len()..].starts_with(SEPARATOR)
            || known.starts_with(start) && known.len() == start.len();
        if can_match && !(self.kind() == PatternKind::Exact && self.is_excluded(known)) {
            Match::Maybe
        } else {
            Match::No
        }
    }

    /// Returns `true` if an exact pattern is shorter than the known start of a command.
    fn is_excluded(&self, known: &str) -> bool {
        known.len() > self.start().len()
    }

    /// `masked` is the text without the sources of what is unknown. Pieces that name such a source are looked for in
    /// the text itself.
    fn matches_text(&self, text: &str, masked: &str) -> bool {
        let find_in = |piece: &str| if piece.contains(UNKNOWN_START) { text } else { masked };
        let (first, rest) = self.pieces.split_first().map_or(("", &[][..]), |(f, r)| (f, r));
        if !find_in(first).starts_with(first) {
            return false;
        }
        let mut at = first.len();
        let Some((last, middle)) = rest.split_last() else {
            return at == text.len() || self.has_more && text[at..].starts_with(SEPARATOR);
        };
        for piece in middle {
            let Some(found) = find_in(piece)[at..].find(piece.as_str()) else { return false };
            at += found + piece.len();
        }
        if find_in(last)[at..].ends_with(last.as_str()) {
            return true;
        }
        let is_boundary = |end: usize| text[end..].starts_with(SEPARATOR);
        self.has_more
            && find_in(last)[at..]
                .match_indices(last.as_str())
                .any(|(found, piece)| is_boundary(at + found + piece.len()))
    }
}

/// Returns a text in which the sources of unknown values are hidden, with the same length.
fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut is_unknown = false;
    for character in text.chars() {
        match character {
            UNKNOWN_START => is_unknown = true,
            UNKNOWN_END => is_unknown = false,
            _ if is_unknown => {
                masked.extend(std::iter::repeat_n('\u{3}', character.len_utf8()));
                continue;
            }
            _ => {}
        }
        masked.push(character);
    }
    masked
}

/// Puts words together to the text that patterns are held against.
pub(crate) fn join<'a>(words: impl IntoIterator<Item = &'a Word>) -> String {
    let mut text = String::new();
    for (index, word) in words.into_iter().enumerate() {
        if index > 0 {
            text.push(SEPARATOR);
        }
        text.push_str(&word.text);
    }
    text
}
