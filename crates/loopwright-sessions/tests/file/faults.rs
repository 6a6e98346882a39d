//! Disks that are full, directories that are read-only or gone.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use futures::executor::block_on;
use loopwright_sessions::{FileStore, SessionQuery, SessionStore as _, StoreError};

use super::world::{World, append, create, id};

/// Where a child finds the store.
const STORE: &str = "LOOPWRIGHT_TEST_STORE";

/// Checks that an error is one of the store, and returns what it says.
#[track_caller]
fn unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(error @ StoreError::Unavailable(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn writer_without_room() {
    let Some(store) = env::var_os(STORE) else { return };
    let store = FileStore::open(store).unwrap();
    let header = block_on(store.header(&id("a"))).unwrap().unwrap();
    let (mut version, mut length) = (header.version, header.length);
    let error = loop {
        match append(&store, "a", version, length, 50) {
            Ok(next) => (version, length) = (next, length + 50),
            Err(error) => break error,
        }
    };
    // What fails once fails again, and leaves nothing behind.
    unavailable(append(&store, "a", version, length, 50));
    println!("\nwrote {version}\nfailed {error}");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let world = World::new();
    create(&world.store, "a", 1);
    // A limit on the size of files stands for the end of the disk: a part of a write fits, the rest does
    // not.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "file::faults::writer_without_room", "--ignored", "--nocapture"])
        .env(STORE, world.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let told = |what: &str| text.lines().find_map(|it| it.strip_prefix(what)).unwrap().to_owned();
    assert!(
        told("failed ").contains("the file size limit has been reached; raise the file size limit"),
        "{text}"
    );
    let version: u64 = told("wrote ").parse().unwrap();
    assert!(version > 2, "some writes fit");

    let loaded = world.load("a").unwrap().unwrap();
    assert_eq!(loaded.header.version, version);
    assert_eq!(loaded.changes.len() as u64, 1 + (version - 1) * 50);
    assert_eq!(append(&world.store, "a", version, loaded.header.length, 50).unwrap(), version + 1);
    assert_eq!(world.files("a", "log.torn"), [] as [std::path::PathBuf; 0]);
    assert_eq!(world.check(false), []);
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn writer_without_permission() {
    let Some(store) = env::var_os(STORE) else { return };
    let store = FileStore::open(store).unwrap();
    assert_eq!(block_on(store.load(&id("a"))).unwrap().unwrap().changes.len(), 1);
    assert_eq!(block_on(store.list(&SessionQuery::first(9))).unwrap().len(), 1);
    let refused = [
        unavailable(append(&store, "a", 1, 1, 1)),
        unavailable(block_on(store.lease(&id("a"), super::world::claim("me")))),
        unavailable(super::world::create_as(&store, &super::world::header("b"), 0)),
        unavailable(block_on(store.delete(&id("a"), super::world::now()))),
    ];
    for text in refused {
        assert!(text.contains("permission denied; let this user read and write"), "{text}");
    }
    println!("\nrefused");
}

/// Sets the permissions of everything below a directory.
#[cfg(unix)]
fn permit(path: &Path, dirs: u32, files: u32) {
    use std::os::unix::fs::PermissionsExt as _;

    let is_dir = path.is_dir();
    if is_dir {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        for entry in fs::read_dir(path).unwrap() {
            permit(&entry.unwrap().path(), dirs, files);
        }
    }
    let mode = if is_dir { dirs } else { files };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_directory_that_may_not_be_written_can_be_read() {
    use std::os::unix::{fs::MetadataExt as _, process::CommandExt as _};

    let world = World::new();
    create(&world.store, "a", 1);
    let before = world.load("a").unwrap();
    permit(&world.path(), 0o500, 0o400);
    let above = world.path().parent().unwrap().to_owned();
    let program = above.join("program");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", "file::faults::writer_without_permission", "--ignored"]);
    command.arg("--nocapture").env(STORE, world.path()).current_dir("/").stdout(Stdio::piped());
    // Nobody keeps the superuser from writing, so it is done as another user then.
    if fs::metadata(&program).unwrap().uid() == 0 {
        let nobody = 65_534;
        let mut places = vec![above];
        while let Some(place) = places.pop() {
            std::os::unix::fs::chown(&place, Some(nobody), Some(nobody)).unwrap();
            if place.is_dir() {
                places.extend(fs::read_dir(&place).unwrap().map(|it| it.unwrap().path()));
            }
        }
        command.uid(nobody).gid(nobody);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("\nrefused\n"));
    permit(&world.path(), 0o700, 0o600);
    assert_eq!(world.load("a").unwrap(), before);
    assert_eq!(append(&world.store, "a", 1, 1, 1).unwrap(), 2);
}

#[test]
fn a_directory_that_is_gone_is_told_and_may_come_back() {
    let world = World::new();
    create(&world.store, "a", 1);
    append(&world.store, "a", 1, 1, 1).unwrap();
    let elsewhere = world.path().with_extension("moved");
    fs::rename(world.path(), &elsewhere).unwrap();
    let told = [
        unavailable(append(&world.store, "a", 2, 2, 1)),
        unavailable(block_on(world.store.header(&id("a")))),
        unavailable(world.load("a")),
        unavailable(block_on(world.store.list(&SessionQuery::first(9)))),
        unavailable(super::world::create_as(&world.store, &super::world::header("b"), 0)),
        unavailable(block_on(world.store.delete(&id("a"), super::world::now()))),
        unavailable(block_on(world.store.check(false))),
    ];
    for text in told {
        assert!(
            text.contains("the file or directory does not exist; restore the store's directory"),
            "{text}"
        );
    }
    fs::rename(&elsewhere, world.path()).unwrap();
    assert_eq!(append(&world.store, "a", 2, 2, 1).unwrap(), 3);
    assert_eq!(world.check(false), []);
}

#[test]
fn a_session_whose_directory_is_gone_is_not_written_to_what_was_removed() {
    let world = World::new();
    create(&world.store, "a", 1);
    append(&world.store, "a", 1, 1, 1).unwrap();
    fs::remove_dir_all(world.session("a")).unwrap();
    let written = append(&world.store, "a", 2, 2, 1);
    assert!(matches!(written, Err(StoreError::NotFound(_))), "{written:?}");
    assert_eq!(world.load("a").unwrap(), None);
}

#[test]
fn a_file_in_the_place_of_the_directory_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    fs::write(&path, b"x").unwrap();
    let text = unavailable(FileStore::open(&path).map(drop));
    assert!(text.contains("/store"), "{text}");
    fs::remove_file(&path).unwrap();

    let store = FileStore::open(&path).unwrap();
    create(&store, "a", 1);
    fs::remove_dir_all(path.join("sessions")).unwrap();
    fs::write(path.join("sessions"), b"x").unwrap();
    let text = unavailable(append(&store, "a", 1, 1, 1));
    assert!(text.contains("move that file elsewhere"), "{text}");
}
