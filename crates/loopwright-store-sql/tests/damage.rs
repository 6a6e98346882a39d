//! What is damaged is named, hides nothing else, and loses nothing that was acknowledged without a word.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use loopwright_core::Timestamp;
use loopwright_sessions::{
    AppendRequest, ChangeBatch, ClaimRequest, ControlMessage, Job, JobOutcome, JobQuery,
    LeaseRequest, SessionLog, SessionQuery, SessionRelation, SessionStatus, SessionStore as _,
    StoreError,
};
use loopwright_store_sql::SqliteStore;
use tempfile::TempDir;

use crate::{
    sqlite::{open, place, script},
    support::{create, id, said, say, texts},
};

/// A file with the sessions `a` to `d`, in each of which three things were said.
async fn four() -> (TempDir, PathBuf, SqliteStore) {
    let (folder, path) = place();
    let store = open(&path).await;
    for name in ["a", "b", "c", "d"] {
        create(&store, name).await;
        for (number, text) in (0..).zip(["one", "two", "three"]) {
            say(&store, name, number, text).await.unwrap();
        }
    }
    (folder, path, store)
}

/// The names of all pages of a size, and of what cannot be read.
async fn pages(store: &SqliteStore, limit: usize) -> (Vec<String>, Vec<String>) {
    let mut query =
        SessionQuery { kinship: SessionRelation::TopLevel, ..SessionQuery::first(limit) };
    let (mut names, mut unreadable) = (Vec::new(), Vec::new());
    loop {
        let page = store.list(&query).await.unwrap();
        names.extend(page.sessions.iter().map(|it| it.id.to_string()));
        unreadable.extend(page.unreadable.iter().map(ToString::to_string));
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    unreadable.sort();
    (names, unreadable)
}

#[tokio::test]
async fn one_damaged_row_hides_no_other_session_from_a_list_or_a_repair() {
    let (_folder, path, store) = four().await;
    script(&path, "UPDATE sessions SET id = CAST(X'62ff' AS TEXT) WHERE id = 'b'").await;
    script(
        &path,
        "UPDATE sessions SET status = 'actiwe', title = CAST(X'ff' AS TEXT) WHERE id = 'c'",
    )
    .await;
    for limit in [1, 2, 3, 9] {
        let (names, unreadable) = pages(&store, limit).await;
        assert_eq!((names.len(), unreadable.len()), (2, 2), "{limit}: {names:?} {unreadable:?}");
        assert_eq!(unreadable, ["c", "damaged-2"]);
    }
    assert!(matches!(store.header(&id("c")).await, Err(StoreError::Corrupt { .. })));
    assert!(matches!(store.header(&id("damaged-2")).await, Err(StoreError::Corrupt { .. })));
    store.reclaim(false).await.unwrap();
    let found = store.check(false).await.unwrap();
    let named: Vec<_> = found.iter().filter_map(|it| it.session.clone()).collect();
    assert_eq!(named, [id("damaged-2"), id("c")], "{found:?}");
    let repaired = store.check(true).await.unwrap();
    assert!(repaired.iter().all(|it| it.repaired.is_some()), "{repaired:?}");
    assert_eq!(store.check(true).await.unwrap(), []);
    for name in ["a", "salvaged-2", "c", "d"] {
        assert_eq!(said(&store, name).await, ["one", "two", "three"]);
    }
    for name in ["salvaged-2", "c"] {
        let header = store.header(&id(name)).await.unwrap().unwrap();
        assert_eq!((header.status, header.title), (SessionStatus::Suspended, None));
    }
}

/// Replaces bytes wherever they are, also in what is left of earlier forms of a page, and counts the places.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) -> usize {
    let places = bytes.windows(old.len()).enumerate().filter(|(_, it)| *it == old);
    let places: Vec<_> = places.map(|(place, _)| place).collect();
    for place in &places {
        bytes[*place..place + new.len()].copy_from_slice(new);
    }
    places.len()
}

#[tokio::test]
async fn a_name_that_is_damaged_in_the_table_is_taken_from_the_index() {
    let (_folder, path, store) = four().await;
    store.close().await;
    let mut bytes = fs::read(&path).unwrap();
    // Right before the status stand the name and the number of the form, which takes no bytes.
    assert!(replace(&mut bytes, b"cactive", b"\xffactive") > 0);
    fs::write(&path, bytes).unwrap();
    let store = open(&path).await;
    let found = store.check(true).await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|it| it.repaired.is_some()), "{found:?}");
    assert_eq!(said(&store, "c").await, ["one", "two", "three"]);
    assert_eq!(store.check(true).await.unwrap(), []);
    store.close().await;
    assert_eq!(replace(&mut fs::read(&path).unwrap(), b"\xffactive", b"cactive"), 0);
}

#[tokio::test]
async fn a_batch_whose_text_was_altered_is_refused_and_its_session_keeps_the_others() {
    let (_folder, path, store) = four().await;
    script(
        &path,
        "UPDATE batches SET body = CAST(replace(CAST(body AS TEXT), 'two', 'twO') AS BLOB)
            WHERE session = 1",
    )
    .await;
    match texts(&store, "a").await {
        Err(StoreError::Corrupt { reason, .. }) => {
            assert_eq!(reason, "the batch at change 1: the checksum does not match");
        }
        other => panic!("{other:?}"),
    }
    let salvaged = store.salvage(&id("a")).await.unwrap().unwrap();
    let gap = std::slice::from_ref(&(1..2));
    assert_eq!((salvaged.changes.len(), &salvaged.gaps[..]), (2, gap));
    assert_eq!(store.missing(&id("a")).await.unwrap(), None);
    store.check(true).await.unwrap();
    assert_eq!(said(&store, "a").await, ["one"]);
    let missing = store.missing(&id("a")).await.unwrap().unwrap();
    assert!(missing.problem.contains("the changes after the first 1 are missing"), "{missing:?}");
    // A caller that writes it again knows.
    crate::support::say_on(&store, "a", 5, 1, "other").await.unwrap();
    assert_eq!(store.missing(&id("a")).await.unwrap(), None);
    assert_eq!(said(&store, "a").await, ["one", "other"]);
}

#[tokio::test]
async fn a_definition_that_was_altered_is_refused() {
    let (_folder, path, store) = four().await;
    let altered = "UPDATE definitions SET
        body = CAST(replace(CAST(body AS TEXT), 'does', 'dOes') AS BLOB) WHERE session = 1";
    script(&path, altered).await;
    let refused = texts(&store, "a").await.unwrap_err();
    assert!(refused.to_string().ends_with("the agent definition is damaged"), "{refused}");
    assert!(store.definition(&id("a")).await.is_err());
    // What was said can be read.
    assert_eq!(store.salvage(&id("a")).await.unwrap().unwrap().changes.len(), 3);
    assert_eq!(store.check(false).await.unwrap().len(), 1);
    let repaired = store.check(true).await.unwrap();
    let agent =
        "the session is suspended and now has the agent of the same name from another session";
    assert_eq!(repaired[0].repaired.as_deref(), Some(agent));
    assert_eq!(store.check(true).await.unwrap(), []);
    assert_eq!(said(&store, "a").await, ["one", "two", "three"]);
    assert_eq!(said(&store, "b").await, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_file_whose_description_of_the_tables_is_damaged_is_salvaged() {
    for [whole, damaged] in [["agent_label", "agent_lybel"], ["CREATE", "CREBTE"]] {
        let (_folder, path, store) = four().await;
        store.close().await;
        let mut bytes = fs::read(&path).unwrap();
        assert!(replace(&mut bytes, whole.as_bytes(), damaged.as_bytes()) > 0);
        fs::write(&path, bytes).unwrap();
        let found = SqliteStore::salvage(&path).await.unwrap();
        assert!(found[0].repaired.as_ref().unwrap().starts_with("saved 4 of"), "{found:?}");
        let store = open(&path).await;
        for name in ["a", "b", "c", "d"] {
            assert_eq!(said(&store, name).await, ["one", "two", "three"]);
        }
    }
}

const SAID: usize = 10;

fn beside(path: &Path, end: &str) -> PathBuf {
    format!("{}{end}", path.display()).into()
}

/// Writes ten times. Returns the file and those beside it, as a process that was killed leaves them.
async fn killed() -> [Vec<u8>; 3] {
    let (_folder, path) = place();
    let store = open(&path).await;
    create(&store, "a").await;
    for number in 0..SAID {
        say(&store, "a", number as u64, &format!("{number}")).await.unwrap();
    }
    ["", "-wal", "-acknowledged"].map(|end| fs::read(beside(&path, end)).unwrap())
}

/// Opens what a process left. Whatever was acknowledged and is missing has to be named.
async fn is_named(files: [&[u8]; 3], what: &str) -> usize {
    let (_folder, path) = place();
    for (end, bytes) in ["", "-wal", "-acknowledged"].into_iter().zip(files) {
        fs::write(beside(&path, end), bytes).unwrap();
    }
    let store = open(&path).await;
    let page = store.list(&SessionQuery::first(9)).await.unwrap();
    if page.unreadable == [id("a")] {
        assert!(matches!(store.header(&id("a")).await, Err(StoreError::Corrupt { .. })), "{what}");
        return 0;
    }
    let said = said(&store, "a").await;
    assert!((0..SAID).map(|it| it.to_string()).collect::<Vec<_>>().starts_with(&said), "{what}");
    let missing = store.missing(&id("a")).await.unwrap();
    if said.len() < SAID {
        let lost = match SAID - said.len() {
            1 => "the last write is missing".to_owned(),
            lost => format!("the last {lost} writes are missing"),
        };
        assert!(missing.unwrap().problem.ends_with(&lost), "{what}");
        let header = store.header(&id("a")).await.unwrap().unwrap();
        assert_eq!(header.status, SessionStatus::Suspended, "{what}");
        assert_eq!(header.version, SAID as u64 + 2, "{what}");
    } else {
        assert_eq!(missing, None, "{what}");
    }
    // It is named again to the next one who asks, until somebody writes it.
    store.close().await;
    let store = open(&path).await;
    assert_eq!(store.missing(&id("a")).await.unwrap().is_some(), said.len() < SAID, "{what}");
    said.len()
}

/// How many places are tried of those that could be.
fn every(places: usize) -> usize {
    let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
    if is_long { 7 } else { (places / 8).max(1) | 1 }
}

#[tokio::test]
async fn acknowledged_steps_that_a_damaged_log_loses_are_named() {
    let [file, log, acknowledged] = killed().await;
    let mut left = BTreeSet::new();
    for end in (0..=log.len()).rev().step_by(every(log.len())) {
        left.insert(is_named([&file, &log[..end], &acknowledged], &format!("cut at {end}")).await);
        let mut flipped = log.clone();
        if let Some(byte) = flipped.get_mut(end) {
            *byte ^= 1;
        }
        left.insert(is_named([&file, &flipped, &acknowledged], &format!("flip at {end}")).await);
    }
    assert!(left.contains(&SAID) && left.len() > 4, "{left:?}");
    // A process that was killed before it noted what it acknowledged loses nothing.
    assert_eq!(is_named([&file, &log, &[]], "nothing noted").await, SAID);
}

/// How many notes, jobs and control messages are written each.
const BESIDE: usize = 3;

/// Queues jobs, takes notes and posts control messages, in turns. Returns the file and those beside it, as a process
/// that was killed leaves them.
async fn killed_with_more() -> [Vec<u8>; 3] {
    let (_folder, path) = place();
    let store = open(&path).await;
    create(&store, "a").await;
    let now = Timestamp::from_millis(1);
    for _ in 0..BESIDE {
        for log in SessionLog::ALL {
            store.append_log(&id("a"), *log, &[Arc::from(&b"noted"[..])], Some(2)).await.unwrap();
        }
        store.jobs().unwrap().push(&Job::resume(id("a")), now).await.unwrap();
        store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
    }
    ["", "-wal", "-acknowledged"].map(|end| fs::read(beside(&path, end)).unwrap())
}

/// Returns the number of the last note of a log.
async fn last_note(store: &SqliteStore, log: SessionLog) -> usize {
    let notes = store.read_log(&id("a"), log, 0, 9).await.unwrap();
    notes.last().map_or(0, |note| usize::try_from(note.number).unwrap())
}

/// Opens what is left, and returns what is said to be missing, and what has to be.
async fn missing_beside(files: [&[u8]; 3]) -> Option<(Option<String>, Vec<String>)> {
    let (_folder, path) = place();
    for (end, bytes) in ["", "-wal", "-acknowledged"].into_iter().zip(files) {
        fs::write(beside(&path, end), bytes).unwrap();
    }
    let store = open(&path).await;
    if store.list(&SessionQuery::first(9)).await.unwrap().unreadable == [id("a")] {
        return None;
    }
    let missing = store.missing(&id("a")).await.unwrap().map(|it| it.problem);
    let notes = |lost: usize, log: &str| {
        (lost > 0).then(|| format!("the last {lost} entries of the session's {log} are missing"))
    };
    let events = notes(BESIDE - last_note(&store, SessionLog::Events).await, "event log");
    let changes = notes(BESIDE - last_note(&store, SessionLog::Files).await, "file-change log");
    let snapshots = notes(BESIDE - last_note(&store, SessionLog::Folder).await, "snapshot log");
    let jobs = store.jobs().unwrap().records(&JobQuery::last(9)).await.unwrap().len();
    let job =
        (jobs < BESIDE).then(|| "a job that was queued for the session is missing".to_owned());
    let now = Timestamp::from_millis(1);
    let claim = LeaseRequest { owner: "test", replaces: None, now, ttl: Duration::from_secs(1) };
    let lease = store.lease(&id("a"), claim).await.unwrap();
    let posted = store.take_control(&lease).await.unwrap().len();
    let message = "a control message that was sent to the session is missing";
    let message = (posted < BESIDE).then(|| message.to_owned());
    let expected = [events, changes, job, message, snapshots].into_iter().flatten().collect();
    // It is named to the next one who opens the database, too, and once.
    drop(store);
    let store = open(&path).await;
    assert_eq!(store.missing(&id("a")).await.unwrap().map(|it| it.problem), missing);
    for (repair, is_there) in [(false, true), (true, true), (false, false)] {
        let found = store.check(repair).await.unwrap();
        let found: Vec<_> = found.into_iter().filter(|it| it.session.is_some()).collect();
        let problems: Vec<_> = found.iter().map(|it| it.problem.clone()).collect();
        assert_eq!(problems, Vec::from_iter(missing.clone().filter(|_| is_there)));
        assert!(found.iter().all(|it| it.repaired.is_some() == repair), "{found:?}");
    }
    Some((missing, expected))
}

#[tokio::test]
async fn jobs_notes_and_control_messages_that_a_damaged_log_loses_are_named() {
    let [file, log, acknowledged] = killed_with_more().await;
    let mut told = BTreeSet::new();
    for end in (0..=log.len()).rev().step_by(every(log.len())) {
        let Some((missing, expected)) = missing_beside([&file, &log[..end], &acknowledged]).await
        else {
            continue;
        };
        let whole =
            format!("the `-wal` file that the database needs is damaged: {}", expected.join("; "));
        assert_eq!(missing, (!expected.is_empty()).then_some(whole), "cut at {end}");
        told.insert(missing);
    }
    assert!(told.contains(&None) && told.len() > 2, "{told:?}");
    let nothing_noted = missing_beside([&file, &log, &[]]).await.unwrap();
    assert_eq!(nothing_noted, (None, Vec::new()));
}

#[tokio::test]
async fn jobs_that_were_removed_when_they_were_over_are_not_missing() {
    let (_folder, path) = place();
    let store = open(&path).await;
    create(&store, "a").await;
    let now = Timestamp::from_millis(1);
    let jobs = store.jobs().unwrap();
    jobs.push(&Job::resume(id("a")), now).await.unwrap();
    let claimed = jobs
        .claim(ClaimRequest::new("worker", now, Duration::from_secs(1)))
        .await
        .unwrap()
        .unwrap();
    jobs.settle(&claimed, &JobOutcome::Done, now).await.unwrap();
    assert_eq!(jobs.delete_finished(Timestamp::from_millis(2)).await.unwrap(), 1);
    let other = open(&path).await;
    assert_eq!(other.missing(&id("a")).await.unwrap(), None);
}

#[tokio::test]
async fn control_messages_that_were_handled_are_not_missing() {
    let (_folder, path) = place();
    let store = open(&path).await;
    create(&store, "a").await;
    store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
    store.send_control(&id("a"), &ControlMessage::Cancel).await.unwrap();
    let now = Timestamp::from_millis(1);
    let claim = LeaseRequest { owner: "test", replaces: None, now, ttl: Duration::from_secs(1) };
    let lease = store.lease(&id("a"), claim).await.unwrap();
    let handled = store.take_control(&lease).await.unwrap().last().map(|it| it.number);
    let a = id("a");
    let batch = ChangeBatch { first: 0, changes: &[] };
    let write =
        AppendRequest { handled, lease: Some(&lease), ..AppendRequest::new(&a, 1, batch, now) };
    store.append(write).await.unwrap();
    let other = open(&path).await;
    assert_eq!(other.missing(&a).await.unwrap(), None);
}

#[tokio::test]
async fn a_session_of_which_nothing_is_left_is_named_until_a_repair() {
    let [file, _, acknowledged] = killed().await;
    let (_folder, path) = place();
    fs::write(&path, file).unwrap();
    fs::write(beside(&path, "-acknowledged"), acknowledged).unwrap();
    let store = open(&path).await;
    for repair in [false, true] {
        let found = store.check(repair).await.unwrap();
        let named: Vec<_> = found.iter().filter_map(|it| it.session.clone()).collect();
        assert_eq!(named, [id("a")], "{found:?}");
    }
    store.close().await;
    let store = open(&path).await;
    assert_eq!(store.list(&SessionQuery::first(9)).await.unwrap().unreadable, []);
    create(&store, "a").await;
}

#[tokio::test]
async fn no_flip_in_a_file_alters_what_was_said_without_a_word() {
    let (_folder, path) = place();
    let store = open(&path).await;
    create(&store, "a").await;
    for number in 0..SAID {
        say(&store, "a", number as u64, &format!("{number}")).await.unwrap();
    }
    store.close().await;
    let file = fs::read(&path).unwrap();
    let expect: Vec<_> = (0..SAID).map(|it| it.to_string()).collect();
    for place in (0..file.len()).step_by(every(file.len())) {
        let (_folder, path) = self::place();
        let mut flipped = file.clone();
        flipped[place] ^= 1 << (place % 8);
        fs::write(&path, flipped).unwrap();
        let Ok(store) = SqliteStore::open(&path).await else { continue };
        match texts(&store, "a").await {
            Ok(Some(said)) => assert_eq!(said, expect, "byte {place}"),
            Err(_) => {}
            Ok(None) => {
                let found = store.check(false).await;
                assert!(found.is_err() || !found.unwrap().is_empty(), "byte {place}");
            }
        }
    }
}

#[tokio::test]
async fn a_file_that_was_closed_holds_everything_by_itself() {
    let (_folder, path, store) = four().await;
    assert!(fs::metadata(beside(&path, "-wal")).unwrap().len() > 0);
    store.close().await;
    for end in ["-wal", "-shm", "-acknowledged"] {
        assert!(!beside(&path, end).exists(), "{end}");
    }
    let (_other, copy) = place();
    fs::copy(&path, &copy).unwrap();
    assert_eq!(said(&open(&copy).await, "d").await, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_backup_of_a_file_in_use_is_whole_and_replaces_nothing() {
    let (folder, _path, store) = four().await;
    let copy = folder.path().join("copy.db");
    store.back_up(&copy).await.unwrap();
    say(&store, "a", 3, "later").await.unwrap();
    let refused = store.back_up(&copy).await.unwrap_err();
    assert!(refused.to_string().contains("copy.db"), "{refused}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let copy = open(&copy).await;
    assert_eq!(copy.check(false).await.unwrap(), []);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(said(&copy, name).await, ["one", "two", "three"]);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_deleted_or_replaced_while_it_is_open_takes_no_writes() {
    let (folder, path, store) = four().await;
    fs::rename(&path, folder.path().join("elsewhere.db")).unwrap();
    for what in ["deleted", "replaced"] {
        let refused = say(&store, "a", 3, "lost").await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable(_)), "{what}: {refused:?}");
        assert!(refused.to_string().contains("was deleted or replaced"), "{what}: {refused}");
        fs::write(&path, "").unwrap();
    }
    // Put back it is the same one.
    fs::rename(folder.path().join("elsewhere.db"), &path).unwrap();
    say(&store, "a", 3, "kept").await.unwrap();
}
