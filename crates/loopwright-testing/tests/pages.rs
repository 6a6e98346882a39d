//! Pages lead somewhere: links, their anchors, the contents of the book, and the list of pages whose Rust is compiled.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use crate::WORKSPACE;

/// Folders that hold no pages of ours: what is built, and files that are wrong on purpose.
const SKIPPED: &[&str] = &["target", "corpus", "fixtures", "artifacts"];

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let root = Path::new(WORKSPACE).canonicalize().unwrap();
    let pages = pages(&root);
    assert!(pages.len() > 40, "{}", pages.len());
    let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
    let exists = |path: &Path| root.join(path).exists();
    let dead = |page: &PathBuf| -> Vec<String> {
        let text = read(page).unwrap();
        let dead = links(&text).into_iter().filter(|link| !leads(page, link, &exists, &read));
        dead.map(|link| format!("{}: {link}", page.display())).collect()
    };
    let dead: Vec<String> = pages.iter().flat_map(dead).collect();
    assert!(dead.is_empty(), "these links lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn the_contents_of_the_book_have_every_page() {
    let docs = Path::new(WORKSPACE).join("docs").canonicalize().unwrap();
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).into_iter().map(PathBuf::from).collect();
    let mut there: BTreeSet<PathBuf> = pages(&docs).into_iter().collect();
    there.remove(Path::new("SUMMARY.md"));
    assert_eq!(listed, there, "docs/SUMMARY.md is the left one");
}

#[test]
fn every_page_with_rust_is_compiled() {
    let root = Path::new(WORKSPACE).canonicalize().unwrap();
    let list = fs::read_to_string(root.join("crates/loopwright/src/pages.rs")).unwrap();
    let has_rust = |page: &PathBuf| {
        let text = fs::read_to_string(root.join(page)).unwrap();
        text.lines().any(|line| line.starts_with("```rust"))
    };
    let is_followed = |page: &Path| page.starts_with("docs/tutorial");
    let forgotten: Vec<PathBuf> = pages(&root)
        .into_iter()
        .filter(|page| page.starts_with("docs") && !is_followed(page) && has_rust(page))
        .filter(|page| !list.contains(&format!("\"{}\"", page.display())))
        .collect();
    assert!(forgotten.is_empty(), "add these to crates/loopwright/src/pages.rs: {forgotten:?}");
}

/// The Markdown files below a folder, by their paths in it.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_symlink() || (name.starts_with('.') && name != ".github") {
                continue;
            }
            if path.is_dir() && !SKIPPED.contains(&&*name) {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path.strip_prefix(root).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

/// The targets of links within the repository. Code is no link.
fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.trim().to_owned());
    targets.filter(|it| !it.contains("://") && !it.starts_with("mailto:")).collect()
}

/// A page without code.
fn prose(page: &str) -> String {
    let mut in_code = false;
    let mut text = String::new();
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if !in_code && !is_fence {
            text.extend(line.split('`').step_by(2));
            text.push('\n');
        }
    }
    text
}

fn leads(
    page: &Path,
    link: &str,
    exists: &dyn Fn(&Path) -> bool,
    read: &dyn Fn(&Path) -> Option<String>,
) -> bool {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(it, to)| (it, Some(to)));
    let target = if path.is_empty() { Some(page.to_path_buf()) } else { beside(page, path) };
    let Some(target) = target.filter(|it| exists(it)) else { return false };
    anchor.is_none_or(|anchor| read(&target).is_some_and(|it| anchors(&it).contains(anchor)))
}

/// The path that a page names, from the root; `None` if it is outside.
fn beside(page: &Path, path: &str) -> Option<PathBuf> {
    let mut target = page.parent()?.to_path_buf();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => target.push(name),
            Component::CurDir => {}
            Component::ParentDir if target.pop() => {}
            _ => return None,
        }
    }
    Some(target)
}

/// The anchors of the headings of a page, as they are made where repositories are shown.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_code = false;
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !in_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |it: &char| it.is_alphanumeric() || matches!(it, '-' | '_' | ' ');
        let anchor = heading.chars().filter(kept).collect::<String>().replace(' ', "-");
        let (mut name, mut count) = (anchor.clone(), 0);
        while anchors.contains(&name) {
            count += 1;
            name = format!("{anchor}-{count}");
        }
        anchors.insert(name);
    }
    anchors
}

#[test]
fn links_in_code_and_links_to_elsewhere_are_left_alone() {
    let page = "[a](a.md#b) `[c](c)` [d](https://d)\n```md\n[e](e)\n```\n![f](f.svg) [g](#h)";
    assert_eq!(links(page), ["a.md#b", "f.svg", "#h"]);
}

#[test]
fn a_link_leads_to_a_file_and_to_a_heading_of_it() {
    let exists = |path: &Path| path == Path::new("docs/a.md") || path == Path::new("x.md");
    let read = |path: &Path| {
        exists(path).then(|| "# A word: `code`\n## Twice\n## Twice\n```\n# no\n```".to_owned())
    };
    let check = |link: &str, expect| {
        assert_eq!(leads(Path::new("docs/a.md"), link, &exists, &read), expect, "{link}");
    };
    for link in ["a.md", "./a.md", "../x.md", "#a-word-code", "#twice", "a.md#twice-1"] {
        check(link, true);
    }
    for link in ["b.md", "../../x.md", "/x.md", "#no", "#twice-2", "b.md#twice"] {
        check(link, false);
    }
}
