//! The author of commits.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// The user's name and email address in git.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The name. `None` means that git has none.
    pub name: Option<String>,
    /// The address. `None` means that git has none.
    pub email: Option<String>,
}

impl Author {
    /// Reads the author of commits in a folder from the user's git. Blocks while git runs. Without
    /// git, the author is unknown.
    pub fn of_git(workdir: &Path) -> Self {
        let mut git = Command::new("git");
        git.arg("-C").arg(workdir).args(["config", "-z", "--get-regexp", r"^user\.(name|email)$"]);
        let said = git.stdin(Stdio::null()).stderr(Stdio::null()).output();
        said.map_or_else(
            |_| Self::default(),
            |it| Self::listed(&String::from_utf8_lossy(&it.stdout)),
        )
    }

    /// Reads what git lists; of several values, the last one counts.
    fn listed(text: &str) -> Self {
        let mut author = Self::default();
        for (key, value) in text.split('\0').filter_map(|it| it.split_once('\n')) {
            let value = Some(value.to_owned()).filter(|it| !it.contains(char::is_control));
            match key {
                "user.name" => author.name = value,
                "user.email" => author.email = value,
                _ => {}
            }
        }
        author
    }

    /// Returns git settings that contain only the name and the address.
    pub fn git_settings(&self) -> String {
        let line = |key: &str, value: &Option<String>| {
            let value = value.as_ref()?.replace('\\', r"\\").replace('"', "\\\"");
            Some(format!("\t{key} = \"{value}\"\n"))
        };
        let lines = [line("name", &self.name), line("email", &self.email)];
        let lines: String = lines.into_iter().flatten().collect();
        if lines.is_empty() { lines } else { format!("[user]\n{lines}") }
    }
}

/// Returns the variables that tell git the same where no settings can be written.
pub(crate) fn variables(author: &Author) -> Vec<(String, String)> {
    let parts = [("NAME", &author.name), ("EMAIL", &author.email)];
    let parts = parts.into_iter().filter_map(|(part, value)| Some((part, value.as_ref()?)));
    parts
        .flat_map(|(part, value)| {
            ["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_{part}"), value.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(name: &str, email: &str) -> Author {
        Author { name: Some(name.to_owned()), email: Some(email.to_owned()) }
    }

    #[test]
    fn the_last_name_that_git_lists_counts() {
        let text = "user.name\nMe\0user.email\nme@example.org\0user.name\nMe \"M\" at work\0";
        assert_eq!(Author::listed(text), author("Me \"M\" at work", "me@example.org"));
        assert_eq!(Author::listed(""), Author::default());
    }

    #[test]
    fn a_name_cannot_add_a_setting() {
        let text = "user.name\nMe\n[core]\nhooksPath=x\0user.email\nme@example.org\0";
        let email = Some("me@example.org".to_owned());
        assert_eq!(Author::listed(text), Author { name: None, email });
        let settings = author(r#"a" \"#, "b").git_settings();
        assert_eq!(settings, "[user]\n\tname = \"a\\\" \\\\\"\n\temail = \"b\"\n");
    }

    #[test]
    fn without_a_name_there_are_no_settings() {
        assert_eq!(Author::default().git_settings(), "");
    }
}
