//! Warnings about files that an earlier run has shown.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::config::{ConfigSources, read_text};
use crate::console;
use crate::store::state_directory;

/// The file in the folder of state, with a warning in each line.
const FILE: &str = "warnings";

/// From how many bytes on the file starts again.
const MAX_BYTES: usize = 64 << 10;

/// Shows the warnings that no earlier run has shown. Without a folder of state, that is all of them.
pub(crate) fn warn_once<W: Display>(
    sources: &ConfigSources,
    warnings: impl IntoIterator<Item = W>,
) {
    let warnings: Vec<String> = warnings.into_iter().map(|it| it.to_string()).collect();
    let folder = state_directory(sources).filter(|it| it.is_dir());
    for warning in unknown(folder.as_deref(), warnings) {
        console::warn(&warning);
    }
}

/// Returns the warnings that are new, and remembers them. A file that cannot be used hides no warning.
fn unknown(folder: Option<&Path>, warnings: Vec<String>) -> Vec<String> {
    let Some(file) = folder.map(|it| it.join(FILE)).filter(|_| !warnings.is_empty()) else {
        return warnings;
    };
    let text = read_text(&file).unwrap_or_default();
    let known: BTreeSet<&str> = text.lines().collect();
    let line = |warning: &str| warning.replace('\n', " ");
    let is_new = |it: &String| !known.contains(line(it).as_str());
    let new: Vec<String> = warnings.into_iter().filter(is_new).collect();
    if new.is_empty() {
        return new;
    }
    if text.len() > MAX_BYTES {
        fs::remove_file(&file).ok();
    }
    let lines: String = new.iter().map(|it| line(it) + "\n").collect();
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&file);
    opened.and_then(|mut file| file.write_all(lines.as_bytes())).ok();
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_new_once_in_each_folder_of_state() {
        let folder = tempfile::tempdir().unwrap();
        let of = |folder, warnings: &[&str]| {
            unknown(folder, warnings.iter().map(|it| (*it).to_owned()).collect())
        };
        let own = Some(folder.path());
        assert_eq!(of(own, &["a\nb", "c"]), ["a\nb", "c"]);
        assert_eq!(of(own, &["c", "d", "a\nb"]), ["d"]);
        assert_eq!(of(own, &["d"]), Vec::<String>::new());
        assert_eq!(of(None, &["d"]), ["d"]);
        assert_eq!(of(Some(Path::new("/none/such")), &["d"]), ["d"]);
    }

    #[test]
    fn a_long_file_starts_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "x".repeat(MAX_BYTES + 1)).unwrap();
        assert_eq!(unknown(Some(folder.path()), vec!["a".to_owned()]), ["a"]);
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "a\n");
    }
}
