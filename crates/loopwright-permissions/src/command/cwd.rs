//! The folders that a command may run in.

use crate::path;
use crate::shell::Word;

/// How many folders are kept apart.
const MAX: usize = 8;

/// The folders that a command may run in, or `None` if they are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cwd(pub(crate) Option<Vec<String>>);

impl Cwd {
    pub(crate) fn new(folder: &str) -> Self {
        Self(Some(vec![folder.to_owned()]))
    }

    pub(crate) const UNKNOWN: Self = Self(None);

    /// Returns the folders after `cd`, if it succeeds.
    pub(super) fn after_cd(&self, words: &[Word], home: Option<&str>) -> Self {
        let Some(target) = cd_target(words) else { return Self::UNKNOWN };
        let is_absolute = target.text.starts_with('/');
        let folders = match (&self.0, &target) {
            (_, target) if target.has_tilde => {
                let rest = target.text.strip_prefix('~').unwrap_or_default();
                let is_own = rest.is_empty() || rest.starts_with('/');
                home.filter(|_| is_own).map(|home| vec![normal("/", &format!("{home}{rest}"))])
            }
            (_, target) if is_absolute => Some(vec![normal("/", &target.text)]),
            (Some(folders), target) => {
                Some(folders.iter().map(|folder| normal(folder, &target.text)).collect())
            }
            (None, _) => None,
        };
        Self(folders)
    }

    /// Returns the folders of either.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let (Some(one), Some(other)) = (&self.0, &other.0) else { return Self::UNKNOWN };
        let mut all = one.clone();
        all.extend(other.iter().filter(|folder| !one.contains(folder)).cloned());
        Self((all.len() <= MAX).then_some(all))
    }
}

fn normal(folder: &str, path: &str) -> String {
    path::joined(&path::names(folder, path))
}

/// Returns the folder that `cd` names, or `None` if it is unknown.
fn cd_target(words: &[Word]) -> Option<Word> {
    let mut arguments = words.iter().skip(1);
    let mut first = arguments.next();
    while let Some(option) = first {
        match option.literal()? {
            "-L" | "-P" | "-e" | "-LP" | "-PL" => first = arguments.next(),
            "--" => {
                first = arguments.next();
                break;
            }
            "-" => return None,
            text if text.starts_with('-') => return None,
            _ => break,
        }
    }
    // Without a folder it is the home directory.
    let home = Word { has_tilde: true, ..Word::from_literal("~") };
    let target = first.cloned().unwrap_or(home);
    (arguments.next().is_none() && target.literal().is_some_and(|text| !text.is_empty()))
        .then_some(target)
}
