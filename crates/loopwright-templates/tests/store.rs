//! Definitions that are written.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use loopwright_agent::AgentDefinition;
use loopwright_templates::{
    DefinitionLoader, DefinitionStoreError, FileDefinitionStore, OnExisting, SavedDefinition,
};
use serde_json::json;
use tempfile::TempDir;

fn ada(prompt: &str) -> AgentDefinition {
    AgentDefinition::new("ada", "Counts.", prompt)
}

fn entries(folder: &TempDir) -> Vec<(String, Vec<u8>)> {
    let entry = |it: std::io::Result<fs::DirEntry>| {
        let it = it.unwrap();
        (it.file_name().into_string().unwrap(), fs::read(it.path()).unwrap_or_default())
    };
    let mut entries: Vec<_> = fs::read_dir(folder.path()).unwrap().map(entry).collect();
    entries.sort();
    entries
}

#[test]
fn a_definition_is_written_and_read_again() {
    let folder = TempDir::new().unwrap();
    let store = FileDefinitionStore::open(folder.path()).unwrap();
    let saved = store.save(&ada("You count.")).unwrap();
    let path = store.root().join("ada.md");
    assert_eq!(saved, SavedDefinition { path: path.clone(), replaced: false });
    assert_eq!(DefinitionLoader::new().load(&path).unwrap().definition, ada("You count."));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(entries(&folder).len(), 1);
}

#[test]
fn an_existing_definition_stays_unless_it_may_be_replaced() {
    let folder = TempDir::new().unwrap();
    let store = FileDefinitionStore::open(folder.path()).unwrap();
    store.save(&ada("one")).unwrap();
    let before = entries(&folder);
    assert!(matches!(store.save(&ada("two")), Err(DefinitionStoreError::Exists(_))));
    assert_eq!(entries(&folder), before);
    fs::set_permissions(folder.path().join("ada.md"), fs::Permissions::from_mode(0o644)).unwrap();
    let store = store.with_existing(OnExisting::Replace);
    assert!(store.save(&ada("two")).unwrap().replaced);
    let path = folder.path().join("ada.md");
    assert!(fs::read_to_string(&path).unwrap().ends_with("two\n"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    // A file of another format would define the agent too.
    fs::write(folder.path().join("bob.yml"), "").unwrap();
    let bob = AgentDefinition::new("bob", "Counts.", "Go.");
    let error = store.save(&bob).unwrap_err().to_string();
    assert!(error.ends_with("bob.yml"), "{error}");
}

#[test]
fn a_definition_that_could_not_be_read_back_is_not_written() {
    let folder = TempDir::new().unwrap();
    let store =
        FileDefinitionStore::open(folder.path()).unwrap().with_existing(OnExisting::Replace);
    store.save(&ada("one")).unwrap();
    let before = entries(&folder);
    let mut deep = ada("two");
    let nested = (0..40).fold(json!(1), |value, _| json!({ "k": value }));
    deep.metadata.insert("deep".into(), nested);
    let check = |definition: &AgentDefinition, expect: &str| {
        let Err(DefinitionStoreError::Unreadable(error)) = store.save(definition) else {
            panic!("{expect}");
        };
        let path = store.root().join("ada.md");
        assert_eq!(error.to_string(), format!("{}: {expect}", path.display()));
    };
    check(&deep, "line 36: invalid YAML: the document is nested more than 32 levels deep");
    let long =
        "the file cannot be read: the file is 1048617 bytes long; at most 1048576 are allowed";
    check(&ada(&"x".repeat(1 << 20)), long);
    check(&ada(" "), "`systemPrompt` is missing; write the prompt below the front matter");
    assert_eq!(entries(&folder), before);
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let folder = TempDir::new().unwrap();
    let store = FileDefinitionStore::open(folder.path()).unwrap();
    for name in ["", ".", "..", "../a", "/a", "a/b", "a.b", "a\0b", "A", "-a", "a b", "ä", "a\n"] {
        let definition = AgentDefinition::new(name, "Wants out.", "Go.");
        assert!(matches!(store.save(&definition), Err(DefinitionStoreError::Name(_))), "{name:?}");
    }
    assert_eq!(entries(&folder), []);
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let (folder, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let target = outside.path().join("target");
    fs::write(&target, "kept").unwrap();
    symlink(&target, folder.path().join("ada.md")).unwrap();
    let store = FileDefinitionStore::open(folder.path()).unwrap();
    assert!(matches!(store.save(&ada("one")), Err(DefinitionStoreError::Exists(_))));
    store.with_existing(OnExisting::Replace).save(&ada("one")).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    assert!(!folder.path().join("ada.md").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn one_of_many_concurrent_writers_of_a_name_succeeds() {
    let folder = TempDir::new().unwrap();
    let store = FileDefinitionStore::open(folder.path()).unwrap();
    let write = |number: usize| store.save(&ada(&number.to_string())).is_ok();
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|it| scope.spawn(move || write(it))).collect();
        threads.into_iter().filter_map(|it| it.join().ok()).filter(|it| *it).count()
    });
    assert_eq!((done, entries(&folder).len()), (1, 1));
}

#[test]
fn a_place_that_is_no_directory_keeps_nothing() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for name in ["none", "file"] {
        let opened = FileDefinitionStore::open(folder.path().join(name));
        assert!(matches!(opened, Err(DefinitionStoreError::Root { .. })), "{name}");
    }
}
