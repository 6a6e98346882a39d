//! What was changed in a working tree. No setting of its repository and no mark in its index hides a change: files are compared with the commit
//! by their content.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::git::{Git, GitError};

/// The index that is made for the comparison, in the folder of the repository for a working tree.
const INDEX: &str = "loopwright-index";

/// Patterns that ignore all files of a folder and say nothing about what the ignored files are.
const ALL: [&[u8]; 5] = [b"*", b"/*", b"**", b"/**", b"**/*"];

/// Returns the number of files that differ from the commit: in the working tree, or in its index. Files that the committed
/// `.gitignore` files name do not count. `own` is the folder of the repository for the working tree.
pub(super) fn changed_files(git: &Git, own: &Path) -> Result<usize, GitError> {
    let index = own.join(INDEX);
    let remove = || {
        for file in [index.clone(), index.with_extension("lock")] {
            drop(fs::remove_file(file));
        }
    };
    remove();
    let fresh = git.with_index(&index);
    let names = fresh.run(["read-tree", "HEAD"]).and_then(|_| {
        let mut names = modified(&fresh)?;
        let untracked = ["ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"];
        names.extend(parts(&fresh.bytes(untracked)?));
        names.extend(ignored_by_chance(&fresh)?);
        Ok(names)
    });
    remove();
    let mut names = names?;
    let staged =
        ["diff-index", "-z", "--cached", "--name-only", "--ignore-submodules=all", "HEAD", "--"];
    names.extend(parts(&git.bytes(staged)?));
    Ok(names.len())
}

/// Splits a list of git's.
fn parts(list: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    list.split(|byte| *byte == 0).filter(|part| !part.is_empty()).map(<[u8]>::to_vec)
}

/// Returns the files of the commit that are others now, or are no longer there.
fn modified(git: &Git) -> Result<BTreeSet<Vec<u8>>, GitError> {
    // Where all files can be executed, the file system does not keep it.
    let found = fs::metadata(git.tree().join(".git"));
    let keeps_modes = found.is_ok_and(|it| it.permissions().mode() & 0o100 == 0);
    let mode = format!("core.fileMode={keeps_modes}");
    // What it cannot compare counts as changed below.
    let refresh = ["-c", &mode, "update-index", "-q", "--ignore-submodules", "--refresh"];
    drop(git.bytes(refresh));
    let line = ["-c", &mode, "diff-files", "-z", "--raw", "--no-abbrev", "--ignore-submodules=all"];
    let listed: Vec<Vec<u8>> = parts(&git.bytes(line)?).collect();
    let mut names = BTreeSet::new();
    let mut unclear = Vec::new();
    for entry in listed.chunks(2) {
        let [about, name] = entry else { break };
        let about = String::from_utf8_lossy(about);
        let about: Vec<&str> = about.trim_start_matches(':').split(' ').collect();
        match about.as_slice() {
            // Its attributes may make git write another text than the one that is committed.
            [old, new, object, _, "M"]
                if old == new && old.starts_with("100") && is_plain(name) =>
            {
                unclear.push(((*object).to_owned(), name.clone()));
            }
            _ => drop(names.insert(name.clone())),
        }
    }
    if !unclear.is_empty() {
        let mut input: Vec<u8> = Vec::new();
        for (_, name) in &unclear {
            input.extend(name);
            input.push(b'\n');
        }
        let hashes = git.fed(["hash-object", "--no-filters", "--stdin-paths"], &input)?;
        let hashes = String::from_utf8_lossy(&hashes);
        let mut hashes = hashes.lines();
        let differ = unclear.into_iter().filter(|(object, _)| hashes.next() != Some(object));
        names.extend(differ.map(|(_, name)| name));
    }
    Ok(names)
}

/// Returns `true` if a name is a line that stands for itself.
fn is_plain(name: &[u8]) -> bool {
    !name.contains(&b'\n') && !name.starts_with(b"\"")
}

/// Returns ignored files that may be work: the pattern is in a file that is not committed, or excludes everything.
fn ignored_by_chance(git: &Git) -> Result<Vec<Vec<u8>>, GitError> {
    let line = [
        "ls-files",
        "-z",
        "--others",
        "--ignored",
        "--directory",
        "--exclude-per-directory=.gitignore",
    ];
    let ignored = git.bytes(line)?;
    if ignored.is_empty() {
        return Ok(Vec::new());
    }
    let committed = git.bytes(["ls-files", "-z", "--", ":(glob)**/.gitignore"])?;
    let committed: BTreeSet<Vec<u8>> = parts(&committed).collect();
    // It is silent about a folder that is listed because of what is in it.
    let explained =
        git.fed(["check-ignore", "-z", "--verbose", "--no-index", "--stdin"], &ignored)?;
    let explained: Vec<&[u8]> = explained.split(|byte| *byte == 0).collect();
    let by_chance = explained.chunks(4).filter_map(|entry| {
        let [source, _, pattern, name] = entry else { return None };
        let is_all = *source == b".gitignore" && ALL.contains(&pattern.trim_ascii());
        (is_all || !committed.contains(*source)).then(|| name.to_vec())
    });
    Ok(by_chance.collect())
}
