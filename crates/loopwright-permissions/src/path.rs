//! Paths as text, and patterns of paths as in `.gitignore`.

use smallvec::SmallVec;

/// The names of an absolute path, without `.` and `..`.
pub(crate) type Names<'a> = SmallVec<[&'a str; 24]>;

/// The comparison of letters in paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathCase {
    /// `A` and `a` are different, as on Linux.
    #[default]
    Sensitive,
    /// `A` and `a` are the same, as usual on macOS and Windows.
    Insensitive,
}

/// Returns the names of a path, which is relative to a folder unless it starts with `/`. `..` is resolved in the text
/// alone: symbolic links are not followed.
pub(crate) fn names<'a>(folder: &'a str, path: &'a str) -> Names<'a> {
    let mut names = Names::new();
    if !path.starts_with('/') {
        add(&mut names, folder);
    }
    add(&mut names, path);
    names
}

fn add<'a>(names: &mut Names<'a>, path: &'a str) {
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => _ = names.pop(),
            name => names.push(name),
        }
    }
}

/// Folders that are copies of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copies {
    /// Each folder in this one is a copy.
    pub(crate) below: Vec<String>,
    /// What they are copies of.
    pub(crate) of: Vec<String>,
}

impl Copies {
    /// Returns the names of the original, if a path is in a copy.
    pub(crate) fn original<'a>(&'a self, names: Names<'a>, case: PathCase) -> Names<'a> {
        if names.len() <= self.below.len() || !is_below(&names, &self.below, case) {
            return names;
        }
        let rest = names[self.below.len() + 1..].iter().copied();
        self.of.iter().map(String::as_str).chain(rest).collect()
    }
}

/// Writes a path of names.
pub(crate) fn joined(names: &[&str]) -> String {
    if names.is_empty() {
        return "/".to_owned();
    }
    names.iter().fold(String::new(), |path, name| path + "/" + name)
}

/// Returns `true` if a path is a folder or below it.
pub(crate) fn is_below(path: &[&str], folder: &[String], case: PathCase) -> bool {
    path.len() >= folder.len() && path.iter().zip(folder).all(|(a, b)| is_same(a, b, case))
}

fn is_same(one: &str, other: &str, case: PathCase) -> bool {
    match case {
        PathCase::Sensitive => one == other,
        PathCase::Insensitive => folded(one).eq(folded(other)),
    }
}

fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

/// A pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    base: Vec<String>,
    parts: Vec<Part>,
    case: PathCase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `**`: any number of names.
    Any,
    /// One name.
    Name(Glob),
}

/// Where relative patterns start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bases<'a> {
    /// For patterns that start with `/`.
    pub(crate) source: &'a str,
    /// For other relative patterns.
    pub(crate) workdir: &'a str,
    /// For `~/`.
    pub(crate) home: Option<&'a str>,
    pub(crate) case: PathCase,
}

/// Why a pattern is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("a path pattern is empty")]
    Empty,
    #[error("a path pattern starts with `!`, which has no meaning in a rule")]
    Negated,
    #[error("`~` cannot be used: the home directory is unknown")]
    NoHome,
    #[error("a path pattern has more than {MAX_PARTS} components")]
    TooLong,
    #[error("a bracket in a path pattern is not closed")]
    Bracket,
    #[error("`~name` is not supported in rules; write an absolute path")]
    OtherHome,
}

const MAX_PARTS: usize = 60;

impl PathPattern {
    pub(crate) fn new(text: &str, bases: Bases<'_>) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.starts_with('!') {
            return Err(PatternError::Negated);
        }
        let (base, rest, is_anchored) = if let Some(rest) = text.strip_prefix("//") {
            ("", rest, true)
        } else if text == "~" || text.starts_with("~/") {
            (bases.home.ok_or(PatternError::NoHome)?, &text[1..], true)
        } else if text.starts_with('~') {
            return Err(PatternError::OtherHome);
        } else if let Some(rest) = text.strip_prefix('/') {
            (bases.source, rest, true)
        } else if text.starts_with("./") || text.starts_with("../") || text == "." || text == ".." {
            (bases.workdir, text, true)
        } else {
            (bases.workdir, text, text.trim_end_matches('/').contains('/'))
        };
        let mut base: Vec<String> = names("", base).iter().map(ToString::to_string).collect();
        let mut parts = Vec::new();
        if !is_anchored {
            parts.push(Part::Any);
        }
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    if parts.pop().is_none() {
                        base.pop();
                    }
                }
                "**" if parts.last() == Some(&Part::Any) => {}
                "**" => parts.push(Part::Any),
                name => parts.push(Part::Name(Glob::new(name)?)),
            }
        }
        if parts.len() > MAX_PARTS {
            return Err(PatternError::TooLong);
        }
        Ok(Self { base, parts, case: bases.case })
    }

    /// Returns `true` if the pattern names a path or a folder that the path is in.
    pub(crate) fn matches(&self, path: &[&str]) -> bool {
        if !is_below(path, &self.base, self.case) {
            return false;
        }
        // A bit is set if the parts before it can match the names so far.
        let all = 1_u64 << self.parts.len();
        let mut states = self.skip_any(1);
        if states & all != 0 && self.ends_with_name() {
            return true;
        }
        for name in &path[self.base.len()..] {
            states = self.step(states, name);
            if states & all != 0 {
                return true;
            }
        }
        false
    }

    /// Returns `true` if the pattern could name something below a folder.
    pub(crate) fn may_match_below(&self, folder: &[&str]) -> bool {
        let below: Vec<String> = folder.iter().map(ToString::to_string).collect();
        let base: Vec<&str> = self.base.iter().map(String::as_str).collect();
        if is_below(&base, &below, self.case) {
            return true;
        }
        if !is_below(folder, &self.base, self.case) {
            return false;
        }
        let mut states = self.skip_any(1);
        for name in &folder[self.base.len()..] {
            states = self.step(states, name);
        }
        states != 0
    }

    /// Returns `true` if everything that the pattern names is below a folder.
    pub(crate) fn starts_below(&self, folder: &[&str]) -> bool {
        let literal = self.parts.iter().map_while(|part| match part {
            Part::Name(glob) if glob.is_literal() => Some(&glob.0),
            _ => None,
        });
        let start: Vec<&str> = self.base.iter().chain(literal).map(String::as_str).collect();
        let folder: Vec<String> = folder.iter().map(ToString::to_string).collect();
        start.len() > folder.len() && is_below(&start, &folder, self.case)
    }

    fn step(&self, states: u64, name: &str) -> u64 {
        let mut next = 0;
        for (index, part) in self.parts.iter().enumerate() {
            if states & (1 << index) == 0 {
                continue;
            }
            match part {
                // The last `**` needs a name.
                Part::Any => next |= (1 << index) | (1 << (index + 1)),
                Part::Name(glob) if glob.matches(name, self.case) => next |= 1 << (index + 1),
                Part::Name(_) => {}
            }
        }
        self.skip_any(next)
    }

    /// `**` in the middle can be no name at all.
    fn skip_any(&self, mut states: u64) -> u64 {
        for (index, part) in self.parts.iter().enumerate() {
            let is_last = index + 1 == self.parts.len();
            if *part == Part::Any && !is_last && states & (1 << index) != 0 {
                states |= 1 << (index + 1);
            }
        }
        states
    }

    fn ends_with_name(&self) -> bool {
        self.parts.last() != Some(&Part::Any)
    }

    /// Returns the one path that the pattern names, with or without everything below it; `None` if it names paths by wildcards.
    pub(crate) fn single(&self) -> Option<String> {
        let parts = self.parts.strip_suffix(&[Part::Any]).unwrap_or(&self.parts);
        let literal = parts.iter().map(|part| match part {
            Part::Name(glob) if glob.is_literal() => Some(&*glob.0),
            _ => None,
        });
        let base = self.base.iter().map(|name| Some(&**name));
        let names: Vec<&str> = base.chain(literal).collect::<Option<_>>()?;
        Some(joined(&names))
    }

    /// Returns `true` if a shell's pattern of file names could find the last name of this pattern.
    pub(crate) fn may_match(&self, shell: &str) -> bool {
        let is_literal = |part: &&Part| matches!(part, Part::Name(name) if name.is_literal());
        let Some(Part::Name(name)) = self.parts.iter().rev().find(is_literal) else { return true };
        // A pattern finds hidden files only if it starts with a dot.
        let finds = |text: &str| {
            (!name.0.starts_with('.') || text.starts_with('.'))
                && Glob::new(text).is_ok_and(|glob| glob.matches(&name.0, self.case))
        };
        shell.split(['/', '{', ',', '}']).any(finds)
    }

    /// Returns `true` if every path that another pattern can match is matched by this one, as far as that is plain.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        let base: Vec<&str> = other.base.iter().map(String::as_str).collect();
        if self.parts.is_empty() || self.parts == [Part::Any] {
            return is_below(&base, &self.base, self.case) && self != other;
        }
        let mut path: Vec<&str> = base;
        for part in &other.parts {
            match part {
                Part::Name(glob) if glob.is_literal() => path.push(&glob.0),
                _ => break,
            }
        }
        path.len() > other.base.len() && self.matches(&path)
    }

    /// Returns `true` if the pattern is everything below its base.
    pub(crate) fn is_everything_below(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Any => true,
            Part::Name(glob) => glob.0 == "*",
        })
    }
}

/// A pattern of one name: `*`, `?`, `[a-z]`, `[!a]` and `\`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(String);

impl Glob {
    fn new(text: &str) -> Result<Self, PatternError> {
        let mut rest = text.chars();
        while let Some(next) = rest.next() {
            match next {
                '\\' => _ = rest.next(),
                '[' if class(rest.as_str(), 'x').is_none() => return Err(PatternError::Bracket),
                _ => {}
            }
        }
        Ok(Self(text.to_owned()))
    }

    fn is_literal(&self) -> bool {
        !self.0.contains(['*', '?', '[', '\\'])
    }

    fn matches(&self, name: &str, case: PathCase) -> bool {
        match case {
            PathCase::Sensitive if self.is_literal() => self.0 == name,
            PathCase::Sensitive => glob(&self.0, name),
            PathCase::Insensitive => {
                let fold = |text: &str| folded(text).collect::<String>();
                glob(&fold(&self.0), &fold(name))
            }
        }
    }
}

/// Matches a text in time that grows with the product of the lengths at worst.
fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut star: Option<(&str, &str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            star = Some((rest, text));
            pattern = rest;
            continue;
        }
        let next = text.chars().next();
        match next.and_then(|next| one(pattern, next)) {
            Some(rest) => {
                pattern = rest;
                text = &text[next.map_or(0, char::len_utf8)..];
            }
            None if next.is_none() && pattern.is_empty() => return true,
            None => {
                let Some((after, from)) = star else { return false };
                let Some(skipped) = from.chars().next() else { return false };
                text = &from[skipped.len_utf8()..];
                pattern = after;
                star = Some((after, text));
            }
        }
    }
}

/// Matches one character, and returns the rest of the pattern.
fn one(pattern: &str, character: char) -> Option<&str> {
    let mut rest = pattern.chars();
    match rest.next()? {
        '?' => Some(rest.as_str()),
        '[' => class(rest.as_str(), character).and_then(|(is_in, rest)| is_in.then_some(rest)),
        '\\' => (rest.next().unwrap_or('\\') == character).then_some(rest.as_str()),
        literal => (literal == character).then_some(rest.as_str()),
    }
}

/// Reads a class of characters after `[`. Returns whether the character is in it, and what follows it.
fn class(pattern: &str, character: char) -> Option<(bool, &str)> {
    let (is_negated, mut rest) =
        pattern.strip_prefix(['!', '^']).map_or((false, pattern), |rest| (true, rest));
    let mut is_in = false;
    let mut is_first = true;
    loop {
        let mut next = rest.chars();
        let low = match next.next()? {
            ']' if !is_first => return Some((is_in != is_negated, next.as_str())),
            '\\' => next.next()?,
            low => low,
        };
        is_first = false;
        rest = next.as_str();
        let mut high = low;
        if let Some(range) = rest.strip_prefix('-').filter(|range| !range.starts_with(']')) {
            let mut next = range.chars();
            high = next.next()?;
            rest = next.as_str();
        }
        is_in |= (low..=high).contains(&character);
    }
}
