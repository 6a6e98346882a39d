//! The settings of a repository: which of them are data.

/// Settings without a subsection that say only how the repository is laid out, or who commits.
const PLAIN: [(&str, &str); 16] = [
    ("core", "repositoryformatversion"),
    ("core", "filemode"),
    ("core", "bare"),
    ("core", "logallrefupdates"),
    ("core", "ignorecase"),
    ("core", "precomposeunicode"),
    ("core", "symlinks"),
    ("core", "autocrlf"),
    ("core", "eol"),
    ("extensions", "objectformat"),
    ("extensions", "refstorage"),
    ("user", "name"),
    ("user", "email"),
    ("pull", "rebase"),
    ("pull", "ff"),
    ("init", "defaultbranch"),
];

/// Settings of each remote or branch that are data.
const NAMED: [(&str, &str); 7] = [
    ("remote", "url"),
    ("remote", "fetch"),
    ("remote", "tagopt"),
    ("remote", "prune"),
    ("branch", "remote"),
    ("branch", "merge"),
    ("branch", "rebase"),
];

/// Returns the settings that may make git run or find something, in their order. Whatever is not plainly one of those
/// that are data is one of these, and so is a line that is written in an unusual way.
/// `None` means that this cannot be told: it is too long, no text, or has values of more than one line.
pub(super) fn obeyed(content: &[u8]) -> Option<Vec<String>> {
    if content.len() as u64 >= super::LOOKED_AT {
        return None;
    }
    let text = std::str::from_utf8(content).ok()?;
    let mut section: Option<(String, Option<String>)> = None;
    let mut obeyed = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        // What follows is part of a value, however it looks.
        if line.ends_with('\\') || line.matches('"').count() % 2 == 1 {
            return None;
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            section = heading(line);
            if section.is_none() {
                obeyed.push(line.to_owned());
            }
            continue;
        }
        let is_data = section.as_ref().is_some_and(|(name, sub)| {
            setting(line).is_some_and(|(key, value)| is_data(name, sub.as_deref(), &key, value))
        });
        if !is_data {
            obeyed.push(match &section {
                Some((name, sub)) => format!("{name}.{}.{line}", sub.as_deref().unwrap_or("")),
                None => line.to_owned(),
            });
        }
    }
    Some(obeyed)
}

/// What a setting names a path for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathSetting {
    /// Where hooks are.
    Hooks,
    /// More settings.
    Include,
}

/// Returns the paths of hooks and of included settings, in their order. More than git would obey rather than less: no
/// condition is looked at, and of a line that is written in an unusual way only the end counts.
pub(super) fn paths(content: &[u8]) -> Vec<(PathSetting, String)> {
    let text = String::from_utf8_lossy(content);
    let mut paths = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        let line = line.trim();
        let line = match line.rsplit_once(']') {
            Some((heading, rest)) if line.starts_with('[') => {
                section = heading[1..].trim().to_ascii_lowercase();
                rest
            }
            _ => line,
        };
        let Some((key, value)) = line.split_once('=') else { continue };
        let end = value.find([';', '#']).unwrap_or(value.len());
        let value = value[..end].trim().trim_matches('"').to_owned();
        let kind = match key.trim().to_ascii_lowercase().as_str() {
            "hookspath" => PathSetting::Hooks,
            "path" if section.starts_with("include") => PathSetting::Include,
            _ => continue,
        };
        if !value.is_empty() {
            paths.push((kind, value));
        }
    }
    paths
}

/// Reads `[name]` or `[name "sub"]`.
fn heading(line: &str) -> Option<(String, Option<String>)> {
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let (name, sub) = match inner.split_once(' ') {
        Some((name, sub)) => {
            let sub = sub.trim().strip_prefix('"')?.strip_suffix('"')?;
            (name, Some(sub))
        }
        None => (inner, None),
    };
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_plain = sub.is_none_or(|sub| !sub.contains(['"', '\\', ']', '[']));
    (is_word && is_plain).then(|| (name.to_ascii_lowercase(), sub.map(str::to_owned)))
}

/// Reads `key = value` or `key`.
fn setting(line: &str) -> Option<(String, &str)> {
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let key = key.trim();
    let is_word = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // A line that continues in the next one is not read, and quotes could hide what is in a value.
    (is_word && !line.contains(['\\', '"'])).then(|| (key.to_ascii_lowercase(), value.trim()))
}

fn is_data(section: &str, sub: Option<&str>, key: &str, value: &str) -> bool {
    match sub {
        None => PLAIN.contains(&(section, key)),
        // Both may be an address, and an address may name a program.
        Some(_)
            if (section, key) == ("remote", "url") || (section, key) == ("branch", "remote") =>
        {
            !value.starts_with('-') && !value.contains("::")
        }
        Some(_) => NAMED.contains(&(section, key)),
    }
}

#[cfg(test)]
mod tests;
