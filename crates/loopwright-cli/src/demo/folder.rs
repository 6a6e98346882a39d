//! The folder that the demonstration takes place in, and what is said about it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_core::RunEnv;
use serde_json::json;

use super::script::Line;
use crate::tools;

const FILES: [(&str, &str); 3] = [
    (
        "README.md",
        "# Corner Bakery\n\nOrders are in orders.txt, prices in prices.txt.\nClosed on Mondays.\n",
    ),
    (
        "orders.txt",
        "Fri  Amal   2 rye\nSat  Bea    4 rye, 1 walnut\nSat  Chidi  6 rolls\nSat  Dana   1 walnut\n",
    ),
    ("prices.txt", "rye     4.20\nwalnut  5.50\nroll    0.60\n"),
];

/// Where it takes place, what is asked, and what the script says.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) workdir: WorkspaceRoot,
    /// Where the state is kept, which no tool reaches.
    pub(super) kept: PathBuf,
    pub(super) questions: [String; 2],
    pub(super) lines: Vec<Line>,
}

impl Folder {
    /// Makes a bakery.
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        let kept = private_directory(parent)?;
        let bakery = kept.join("bakery");
        fs::create_dir(&bakery)?;
        for (name, text) in FILES {
            fs::write(bakery.join(name), text)?;
        }
        Ok(Self {
            workdir: tools::workdir(&bakery)?,
            kept,
            questions: [
                "What has to be baked for Saturday?".to_owned(),
                "And what does Bea have to pay?".to_owned(),
            ],
            lines: bakery_lines(),
        })
    }

    /// Takes a folder that is there.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let workdir = tools::workdir(path)?;
        let file = readable_file(workdir.path())?;
        let kept = private_directory(&std::env::temp_dir())?;
        let questions = [
            "What is in this folder?".to_owned(),
            match &file {
                Some(file) => format!("Which files have the same type as {file}?"),
                None => "Is there anything in its subfolders?".to_owned(),
            },
        ];
        Ok(Self { workdir, kept, questions, lines: any_lines(file.as_deref()) })
    }
}

fn private_directory(parent: &Path) -> io::Result<PathBuf> {
    let path = parent.join(format!("loopwright-demo-{:08x}", RunEnv::system().seed >> 32));
    fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// Finds a text file to read: what introduces the folder, if it is there.
fn readable_file(directory: &Path) -> io::Result<Option<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_short = entry.metadata().is_ok_and(|it| it.is_file() && it.len() < 1 << 20);
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_plain = name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
        if is_short && is_plain && fs::read_to_string(entry.path()).is_ok() {
            names.push(name);
        }
    }
    names.sort_by_key(|name| {
        (!name.to_lowercase().starts_with("readme"), name.starts_with('.'), name.clone())
    });
    Ok(names.into_iter().next())
}

fn bakery_lines() -> Vec<Line> {
    vec![
        Line::new("Let me see what is here.").call("list_dir", json!({"path": "."})),
        Line::new("First the orders, and a file outside this folder to show what happens.")
            .call("read_file", json!({"path": "orders.txt"}))
            .call("read_file", json!({"path": "/etc/passwd"})),
        Line::new(
            "For Saturday there are three orders: 4 rye and 1 walnut for Bea, 6 rolls for\n\
             Chidi, 1 walnut for Dana. So bake 4 rye, 2 walnut and 6 rolls.",
        ),
        Line::new("I know the orders already; the prices are missing.")
            .call("read_file", json!({"path": "prices.txt"}))
            .call("grep", json!({"pattern": "Bea", "path": "orders.txt"})),
        Line::new("Bea pays 22.30: four rye at 4.20 and one walnut at 5.50."),
    ]
}

fn any_lines(file: Option<&str>) -> Vec<Line> {
    let Some(file) = file else {
        return vec![
            Line::new("Let me see what is here.").call("list_dir", json!({"path": "."})),
            Line::new("None of these is a text file, as the list above shows."),
            Line::new("Let me look.").call("search_files", json!({"pattern": "**/*"})),
            Line::new("The list above shows what I found."),
        ];
    };
    vec![
        Line::new("Let me see what is here.").call("list_dir", json!({"path": "."})),
        Line::new("First one of them, and a file outside this folder to show what happens.")
            .call("read_file", json!({"path": file, "limit": 20}))
            .call("read_file", json!({"path": "/etc/passwd"})),
        Line::new(format!(
            "The list above shows what is here, and how {file} begins. A real model would\n\
             explain what it means; this one is a script."
        )),
        Line::new("Let me look for it.")
            .call("search_files", json!({"pattern": format!("**/*{}", extension(file))})),
        Line::new("The list above shows what I found."),
    ]
}

/// Returns what stands behind the last dot, with it.
fn extension(file: &str) -> &str {
    file.rfind('.').map_or("", |dot| &file[dot..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_user_is_read_where_it_introduces_itself() {
        let home = tempfile::tempdir().unwrap();
        let check = |expect: Option<&str>| {
            assert_eq!(readable_file(home.path()).unwrap().as_deref(), expect);
        };
        check(None);
        fs::write(home.path().join("a b.txt"), "x").unwrap();
        fs::write(home.path().join("image"), b"\xff\0").unwrap();
        check(None);
        fs::write(home.path().join(".hidden"), "x").unwrap();
        check(Some(".hidden"));
        fs::write(home.path().join("main.rs"), "x").unwrap();
        check(Some("main.rs"));
        fs::write(home.path().join("Readme.md"), "x").unwrap();
        check(Some("Readme.md"));
    }
}
