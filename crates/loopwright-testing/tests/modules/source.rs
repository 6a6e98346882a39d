//! The modules of a crate, what they declare, and the paths that they use.
//!
//! Files are read as tokens, so that what stands in calls of macros counts. Code for tests does not.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{UseTree, Visibility};

/// A path as it is written.
pub(super) type Segments = Vec<String>;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    Module(usize),
    /// An item, by the file that declares it.
    Item(String),
}

/// The modules of a crate; the first one is its root.
#[derive(Default)]
pub(super) struct Tree(Vec<Module>);

#[derive(Default)]
struct Module {
    file: String,
    /// The folder that the files of its children are in.
    folder: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
    globs: Vec<Segments>,
    paths: BTreeSet<Segments>,
    /// The identifiers that stand outside of imports.
    words: BTreeSet<String>,
}

struct Import {
    name: String,
    path: Segments,
    /// Whether others may import it from here.
    is_shared: bool,
}

impl Tree {
    pub(super) fn read(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut tree = Self::default();
        tree.add_file(root.to_owned(), String::new(), None, read);
        tree
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn file(&self, module: usize) -> &str {
        &self.0[module].file
    }

    /// Returns the paths of the items that a module uses. What it only hands on is not used.
    pub(super) fn uses(&self, module: usize) -> Vec<Segments> {
        let module = &self.0[module];
        let used = |it: &&Import| !it.is_shared || module.words.contains(&it.name);
        let imports = module.imports.iter().filter(used).map(|it| it.path.clone());
        imports.chain(module.paths.iter().cloned()).collect()
    }

    /// Returns what a path leads to, through imports and re-exports; `None` for other crates.
    pub(super) fn resolve(&self, from: usize, path: &[String]) -> Option<Origin> {
        self.resolve_within(from, path, 12)
    }

    fn resolve_within(&self, from: usize, path: &[String], depth: usize) -> Option<Origin> {
        let (first, rest) = path.split_first()?;
        let depth = depth.checked_sub(1)?;
        let mut at = match first.as_str() {
            "crate" => Origin::Module(0),
            "self" => Origin::Module(from),
            "super" => Origin::Module(self.0[from].parent?),
            name => self.named(from, name, depth)?,
        };
        for name in rest {
            let Origin::Module(module) = at else { return Some(at) };
            at = match name.as_str() {
                "super" => Origin::Module(self.0[module].parent?),
                // What no declaration names comes from a macro of the file.
                name => self
                    .named(module, name, depth)
                    .unwrap_or_else(|| Origin::Item(self.0[module].file.clone())),
            };
        }
        Some(at)
    }

    fn named(&self, module: usize, name: &str, depth: usize) -> Option<Origin> {
        let it = &self.0[module];
        if it.items.contains(name) {
            return Some(Origin::Item(it.file.clone()));
        }
        if let Some(child) = it.children.get(name) {
            return Some(Origin::Module(*child));
        }
        if let Some(import) = it.imports.iter().find(|import| import.name == name) {
            // An import of another crate's item under this name leads nowhere.
            let is_itself = import.path.first().is_some_and(|first| first == name);
            return if is_itself { None } else { self.resolve_within(module, &import.path, depth) };
        }
        it.globs.iter().find_map(|glob| match self.resolve_within(module, glob, depth)? {
            Origin::Module(other) if other != module => {
                self.named(other, name, depth.checked_sub(1)?)
            }
            _ => None,
        })
    }

    fn add_file(
        &mut self,
        file: String,
        folder: String,
        parent: Option<usize>,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> usize {
        let text = read(&file).unwrap_or_else(|| panic!("no file {file}"));
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.0.push(Module { file, folder, parent, ..Module::default() });
        let module = self.0.len() - 1;
        self.walk(module, tokens, true, read);
        module
    }

    /// Notes what tokens declare, if they are those of a module, and what they use.
    fn walk(
        &mut self,
        module: usize,
        tokens: TokenStream,
        declares: bool,
        read: &dyn Fn(&str) -> Option<String>,
    ) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Punct(it) if it.as_char() == '#' => {
                    at += 1;
                    if is_for_tests(tokens.get(at)) {
                        at = after_item(&tokens, at + 1);
                        continue;
                    }
                    // Other attributes name no items of this crate.
                    if matches!(tokens.get(at), Some(TokenTree::Group(_))) {
                        at += 1;
                    }
                }
                TokenTree::Group(group) => {
                    self.walk(module, group.stream(), false, read);
                    at += 1;
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    let next = tokens.get(at + 1);
                    match (word.as_str(), next) {
                        ("pub", Some(TokenTree::Group(it)))
                            if it.delimiter() == Delimiter::Parenthesis =>
                        {
                            is_public = true;
                            at += 2;
                            continue;
                        }
                        ("pub", _) => {
                            is_public = true;
                            at += 1;
                            continue;
                        }
                        (
                            "use",
                            Some(TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Group(_)),
                        ) if !is_capture(next) => {
                            let end = (at..tokens.len()).find(|it| is_punct(&tokens[*it], ';'));
                            let end = end.unwrap_or(tokens.len() - 1);
                            let item: TokenStream = tokens[at..=end].iter().cloned().collect();
                            if let Ok(item) = syn::parse2::<syn::ItemUse>(item) {
                                debug_assert!(matches!(item.vis, Visibility::Inherited));
                                self.add_use(module, &item.tree, Vec::new(), is_public);
                            }
                            is_public = false;
                            at = end + 1;
                            continue;
                        }
                        ("mod", Some(TokenTree::Ident(name))) if declares => {
                            self.add_module(module, &name.to_string(), tokens.get(at + 2), read);
                            is_public = false;
                            at += 3;
                            continue;
                        }
                        (
                            "struct" | "enum" | "trait" | "fn" | "const" | "static" | "type"
                            | "union",
                            Some(TokenTree::Ident(name)),
                        ) if declares => {
                            self.0[module].items.insert(name.to_string());
                        }
                        ("macro_rules", Some(_)) => {
                            if let Some(TokenTree::Ident(name)) = tokens.get(at + 2) {
                                self.0[module].items.insert(name.to_string());
                            }
                        }
                        _ => {}
                    }
                    is_public = false;
                    at = self.add_path(module, &tokens, at);
                }
                _ => at += 1,
            }
        }
    }

    /// Notes a path that begins at a place; returns the place after it.
    fn add_path(&mut self, module: usize, tokens: &[TokenTree], mut at: usize) -> usize {
        let is_foreign =
            at >= 2 && is_punct(&tokens[at - 1], ':') && is_punct(&tokens[at - 2], ':');
        let mut path = Segments::new();
        while let Some(TokenTree::Ident(word)) = tokens.get(at) {
            path.push(word.to_string());
            at += 1;
            let goes_on = tokens.len() > at + 2
                && is_punct(&tokens[at], ':')
                && is_punct(&tokens[at + 1], ':')
                && matches!(tokens[at + 2], TokenTree::Ident(_));
            if !goes_on {
                break;
            }
            at += 2;
        }
        if !is_foreign {
            self.0[module].words.insert(path[0].clone());
            if path.len() > 1 {
                self.0[module].paths.insert(path);
            }
        }
        at
    }

    fn add_module(
        &mut self,
        parent: usize,
        name: &str,
        next: Option<&TokenTree>,
        read: &dyn Fn(&str) -> Option<String>,
    ) {
        let folder = format!("{}{name}/", self.0[parent].folder);
        let child = if let Some(TokenTree::Group(body)) = next {
            let file = self.0[parent].file.clone();
            self.0.push(Module { file, folder, parent: Some(parent), ..Module::default() });
            let child = self.0.len() - 1;
            self.walk(child, body.stream(), true, read);
            child
        } else {
            let file = format!("{}{name}.rs", self.0[parent].folder);
            if read(&file).is_some() {
                self.add_file(file, folder, Some(parent), read)
            } else if read(&format!("{folder}mod.rs")).is_some() {
                self.add_file(format!("{folder}mod.rs"), folder, Some(parent), read)
            } else {
                // A file of another name, which only one system compiles.
                return;
            }
        };
        self.0[parent].children.insert(name.to_owned(), child);
    }

    fn add_use(&mut self, module: usize, tree: &UseTree, mut path: Segments, is_shared: bool) {
        match tree {
            UseTree::Path(it) => {
                path.push(it.ident.to_string());
                self.add_use(module, &it.tree, path, is_shared);
            }
            UseTree::Group(it) => {
                for tree in &it.items {
                    self.add_use(module, tree, path.clone(), is_shared);
                }
            }
            UseTree::Glob(_) => self.0[module].globs.push(path),
            UseTree::Name(it) if it.ident == "self" => {
                let name = path.last().cloned().unwrap_or_default();
                self.0[module].imports.push(Import { name, path, is_shared });
            }
            UseTree::Name(it) => {
                let name = it.ident.to_string();
                path.push(name.clone());
                self.0[module].imports.push(Import { name, path, is_shared });
            }
            UseTree::Rename(it) => {
                path.push(it.ident.to_string());
                let name = it.rename.to_string();
                self.0[module].imports.push(Import { name, path, is_shared });
            }
        }
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == character)
}

/// Whether `use` is that of `impl Trait + use<…>`.
fn is_capture(next: Option<&TokenTree>) -> bool {
    next.is_some_and(|it| is_punct(it, '<'))
}

fn is_for_tests(attribute: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = attribute else { return false };
    let text: String = group.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test")
}

/// Returns the place after the item that begins at a place.
fn after_item(tokens: &[TokenTree], mut at: usize) -> usize {
    let mut is_use = false;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Ident(word) if word == "use" => is_use = true,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !is_use => break,
            token if is_punct(token, ';') => break,
            _ => {}
        }
    }
    at
}
