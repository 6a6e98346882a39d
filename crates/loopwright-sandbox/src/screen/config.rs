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

/// A setting as git reads it. Names are in lower case, but for that of a subsection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) sub: Option<String>,
    pub(super) key: String,
    /// Empty for a setting without a value.
    pub(super) value: String,
}

/// Returns the settings of a file, in their order. What git refuses to read is left out, and what follows it is read, so
/// that these are rather too many than too few.
pub(super) fn settings(content: &[u8]) -> Vec<Setting> {
    let text = String::from_utf8_lossy(content);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n");
    let mut rest = Rest(text.as_str());
    let mut section = None;
    let mut settings = Vec::new();
    loop {
        rest.skip(|it| it.is_ascii_whitespace());
        match rest.0.chars().next() {
            None => return settings,
            Some('#' | ';') => rest.skip(|it| it != '\n'),
            Some('[') => {
                rest.0 = &rest.0[1..];
                section = rest.heading();
            }
            Some(_) => {
                let key =
                    rest.take(|it| it.is_ascii_alphanumeric() || it == '-').to_ascii_lowercase();
                rest.skip(|it| it == ' ' || it == '\t');
                let value = match rest.0.strip_prefix('=') {
                    Some(after) => {
                        rest.0 = after;
                        rest.value()
                    }
                    None => Some(String::new()),
                };
                match (&section, value) {
                    (Some((section, sub)), Some(value)) if !key.is_empty() => {
                        let (section, sub) = (String::clone(section), Option::clone(sub));
                        settings.push(Setting { section, sub, key, value });
                    }
                    _ => rest.skip(|it| it != '\n'),
                }
            }
        }
    }
}

/// What is still to be read.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|it| !is_part(it)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn skip(&mut self, is_part: impl Fn(char) -> bool) {
        self.take(is_part);
    }

    /// Reads the name of a section and its subsection, after the bracket.
    fn heading(&mut self) -> Option<(String, Option<String>)> {
        let name = self.take(|it| it.is_ascii_alphanumeric() || it == '-' || it == '.');
        let name = name.to_ascii_lowercase();
        let dotted =
            name.split_once('.').map(|(name, sub)| (name.to_owned(), Some(sub.to_owned())));
        self.skip(|it| it == ' ' || it == '\t');
        let Some(quoted) = self.0.strip_prefix('"') else {
            self.0 = self.0.strip_prefix(']')?;
            return Some(dotted.unwrap_or((name, None)));
        };
        let mut sub = String::new();
        let mut characters = quoted.char_indices();
        loop {
            match characters.next()? {
                (at, '"') => {
                    self.0 = quoted[at + 1..].strip_prefix(']')?;
                    return Some((name, Some(sub)));
                }
                (_, '\n') => return None,
                (_, '\\') => sub.push(characters.next()?.1),
                (_, character) => sub.push(character),
            }
        }
    }

    /// Reads a value, after the sign. `None` means that git takes it for an error.
    fn value(&mut self) -> Option<String> {
        let (mut value, mut is_quoted, mut is_comment) = (String::new(), false, false);
        // Spaces count only if something follows them.
        let mut spaces = String::new();
        let mut characters = self.0.char_indices();
        let mut end = self.0.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '\n' => {
                    end = at;
                    break;
                }
                _ if is_comment => {}
                '#' | ';' if !is_quoted => is_comment = true,
                it if it.is_ascii_whitespace() && !is_quoted => {
                    if !value.is_empty() {
                        spaces.push(it);
                    }
                }
                it => {
                    value.push_str(&std::mem::take(&mut spaces));
                    match it {
                        '"' => is_quoted = !is_quoted,
                        '\\' => match characters.next()?.1 {
                            '\n' => {}
                            't' => value.push('\t'),
                            'b' => value.push('\u{8}'),
                            'n' => value.push('\n'),
                            it @ ('\\' | '"') => value.push(it),
                            _ => return None,
                        },
                        it => value.push(it),
                    }
                }
            }
        }
        self.0 = &self.0[end..];
        (!is_quoted).then_some(value)
    }
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
