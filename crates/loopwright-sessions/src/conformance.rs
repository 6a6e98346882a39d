//! What every store must do, as tests that any store can run.
//!
//! ```
//! use loopwright_sessions::{MemoryStore, conformance};
//!
//! # loopwright_testing::block_on(async {
//! for fact in conformance::CASES {
//!     println!("{}", fact.name);
//!     (fact.check)(&MemoryStore::new()).await; // panics where it does not hold
//! }
//! # });
//! ```

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::{fmt, time::Duration};

use futures::future::BoxFuture;
use loopwright_agent::AgentDefinition;
use loopwright_core::{
    AgentState, Change, ChangeRecord, Edit, Seq, Timestamp,
    messages::{Message, SectionName},
};

mod control;
mod jobs;
mod ledger;
mod keeping;
mod scheduler;
mod waiting;

use crate::{
    header::{ForkPoint, SessionHeader, SessionQuery, SessionScope},
    id::{PrincipalTag, SessionId},
    status::SessionStatus,
    store::{
        AppendRequest, ChangeBatch, ControlMessage, Lease, LeaseRequest, LoadedSession, NewSession,
        SessionStore, StoreError,
    },
};

use control::{
    a_lease_knows_which_control_messages_were_sent_before_it,
    a_write_that_fails_handles_no_control_message,
    control_messages_come_in_order_and_stay_until_a_write_handles_them,
    no_number_of_a_control_message_is_used_again, the_holder_of_a_lease_is_known_without_taking_it,
};
pub use jobs::JOB_CASES;
use keeping::{
    a_store_in_order_has_no_findings, a_write_may_change_where_a_session_works_and_for_whom,
    names_are_found_by_their_beginning, notes_are_numbered_and_read_from_any_place,
    notes_of_what_is_not_there_are_refused, old_notes_may_be_forgotten,
    sessions_that_nobody_used_are_deleted_at_once, waiting_for_notes_ends_when_there_are_some,
    what_a_rewind_left_is_reclaimed_only_if_it_is_said,
    what_is_new_is_read_alone_only_on_the_current_branch,
    what_was_deleted_is_reclaimed_but_for_what_forks_need,
};
pub use ledger::LEDGER_CASES;
pub use scheduler::{
    ORDER_CASES, QueueUnderTest, SCHEDULER_CASES, SchedulerCase, SchedulerUnderTest,
};
pub use waiting::WAKE_CASES;
use waiting::an_entry_ends_a_wait_whenever_it_is_added;

/// Something that holds of every store.
#[derive(Clone, Copy)]
pub struct ConformanceCase {
    /// What holds.
    pub name: &'static str,
    /// Panics if it does not hold of a store, which is empty.
    pub check: for<'a> fn(&'a dyn SessionStore) -> BoxFuture<'a, ()>,
}

impl fmt::Debug for ConformanceCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! facts {
    ($($name:ident),* $(,)?) => {
        /// What holds of every store.
        pub const CASES: &[ConformanceCase] = &[
            $(ConformanceCase { name: stringify!($name), check: |store| Box::pin($name(store)) }),*
        ];
    };
}

facts![
    what_is_created_is_loaded_as_it_was,
    a_name_is_taken_once,
    a_deleted_name_stays_taken,
    what_is_appended_comes_after_what_was_there,
    every_change_survives_as_it_was,
    a_write_on_another_version_is_a_conflict,
    a_batch_that_does_not_follow_is_a_conflict,
    the_last_write_repeated_is_acknowledged_and_kept_once,
    a_repeated_write_with_other_bytes_is_a_conflict,
    a_write_may_change_the_header_only,
    a_write_may_change_where_a_session_works_and_for_whom,
    what_is_not_there_is_not_found,
    a_deleted_session_is_not_loaded_and_not_written,
    deleting_what_is_not_there_does_nothing,
    a_fork_begins_with_what_its_source_had,
    a_fork_and_its_source_go_on_by_themselves,
    a_fork_of_a_fork_has_both,
    a_fork_outlives_its_source,
    what_is_not_there_cannot_be_forked,
    a_rewound_session_goes_on_from_there,
    what_was_rewound_is_still_there_for_a_fork_that_has_it,
    a_rewind_on_another_version_is_a_conflict,
    one_writer_has_the_lease,
    a_lease_that_ended_is_taken_over_and_the_old_one_is_lost,
    a_lease_in_force_refuses_whoever_shows_none,
    a_lease_is_given_back,
    a_renewed_lease_lasts_longer,
    the_holder_of_a_lease_is_known_without_taking_it,
    control_messages_come_in_order_and_stay_until_a_write_handles_them,
    no_number_of_a_control_message_is_used_again,
    a_lease_knows_which_control_messages_were_sent_before_it,
    a_write_that_fails_handles_no_control_message,
    the_list_shows_the_latest_first_page_by_page,
    the_list_can_be_narrowed,
    a_lease_of_somebody_who_is_gone_is_taken_over_at_once,
    time_does_not_go_back,
    a_batch_may_be_cut_by_a_fork_and_by_a_rewind,
    what_is_new_is_read_alone_only_on_the_current_branch,
    notes_are_numbered_and_read_from_any_place,
    old_notes_may_be_forgotten,
    notes_of_what_is_not_there_are_refused,
    waiting_for_notes_ends_when_there_are_some,
    an_entry_ends_a_wait_whenever_it_is_added,
    what_was_deleted_is_reclaimed_but_for_what_forks_need,
    what_a_rewind_left_is_reclaimed_only_if_it_is_said,
    sessions_that_nobody_used_are_deleted_at_once,
    names_are_found_by_their_beginning,
    a_store_in_order_has_no_findings,
];

/// The first moment of these tests.
const BEGIN: u64 = 1_800_000_000_000;
const LASTS: Duration = Duration::from_secs(30);

fn moment(number: u64) -> Timestamp {
    Timestamp::from_millis(BEGIN + number * 1_000)
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// Changes that follow one another from the number of the first.
fn said(texts: &[&str]) -> Vec<ChangeRecord> {
    let change = |text: &&str| {
        let section = SectionName::MESSAGES.into();
        let edit = Edit::Append { section, message: Message::user(*text) };
        ChangeRecord { at: moment(0), change: Change::StateEdited { by: "test".into(), edit } }
    };
    texts.iter().map(change).collect()
}

fn header(name: &str) -> SessionHeader {
    SessionHeader::new(id(name), "agent", moment(0))
}

fn definition() -> AgentDefinition {
    AgentDefinition::new("agent", "does things", "You do things.")
}

fn claim(owner: &str, now: Timestamp) -> LeaseRequest<'_> {
    LeaseRequest { owner, replaces: None, now, ttl: LASTS }
}

async fn create(store: &dyn SessionStore, header: &SessionHeader, texts: &[&str]) -> SessionHeader {
    let (definition, changes) = (definition(), said(texts));
    let new = NewSession { header, definition: &definition, changes: &changes };
    store.create(new).await.unwrap()
}

/// Appends at the end on some version.
async fn append(
    store: &dyn SessionStore,
    name: &str,
    expected: u64,
    first: Seq,
    texts: &[&str],
) -> Result<u64, StoreError> {
    append_with(store, name, expected, first, texts, None, moment(1)).await
}

async fn append_with(
    store: &dyn SessionStore,
    name: &str,
    expected: u64,
    first: Seq,
    texts: &[&str],
    lease: Option<&Lease>,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let (id, changes) = (id(name), said(texts));
    let batch = ChangeBatch { first, changes: &changes };
    store.append(AppendRequest { lease, ..AppendRequest::new(&id, expected, batch, now) }).await
}

async fn load(store: &dyn SessionStore, name: &str) -> LoadedSession {
    store.load(&id(name)).await.unwrap().unwrap()
}

/// Returns what was said, as the state that the changes lead to has it.
async fn texts(store: &dyn SessionStore, name: &str) -> Vec<String> {
    let loaded = load(store, name).await;
    assert_eq!(loaded.header.length, loaded.changes.len() as u64);
    let state = AgentState::new().replay(loaded.changes).unwrap();
    state.transcript().iter().map(|turn| turn.message().text()).collect()
}

#[track_caller]
fn is_conflict<T: fmt::Debug>(result: &Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict { .. })), "{result:?}");
}

async fn what_is_created_is_loaded_as_it_was(store: &dyn SessionStore) {
    let header = SessionHeader { title: Some("t".into()), ..header("a") };
    let created = create(store, &header, &["one", "two"]).await;
    assert_eq!(created, SessionHeader { version: 1, length: 2, ..header });
    assert_eq!(store.header(&id("a")).await.unwrap(), Some(created.clone()));
    let changes = said(&["one", "two"]);
    assert_eq!(store.definition(&id("a")).await.unwrap(), Some(definition()));
    let expect = LoadedSession { header: created, definition: definition(), changes };
    assert_eq!(store.load(&id("a")).await.unwrap(), Some(expect));
}

async fn a_name_is_taken_once(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    let (definition, changes) = (definition(), said(&["two"]));
    let again = NewSession { header: &header("a"), definition: &definition, changes: &changes };
    assert!(matches!(store.create(again).await, Err(StoreError::Exists(_))));
    assert_eq!(texts(store, "a").await, ["one"]);
}

async fn a_deleted_name_stays_taken(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    store.delete(&id("a"), moment(1)).await.unwrap();
    let definition = definition();
    let again = NewSession { header: &header("a"), definition: &definition, changes: &[] };
    assert!(matches!(store.create(again).await, Err(StoreError::Exists(_))));
}

async fn what_is_appended_comes_after_what_was_there(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    assert_eq!(append(store, "a", 1, 1, &["two", "three"]).await.unwrap(), 2);
    assert_eq!(append(store, "a", 2, 3, &["four"]).await.unwrap(), 3);
    assert_eq!(texts(store, "a").await, ["one", "two", "three", "four"]);
    let header = store.header(&id("a")).await.unwrap().unwrap();
    assert_eq!((header.version, header.length, header.updated_at), (3, 4, moment(1)));
}

async fn every_change_survives_as_it_was(store: &dyn SessionStore) {
    let odd = ["", "\u{0}\n\"\\", "ünïcödé 🦀", &"x".repeat(100_000)];
    create(store, &header("a"), &odd).await;
    assert_eq!(load(store, "a").await.changes, said(&odd));
}

async fn a_write_on_another_version_is_a_conflict(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    append(store, "a", 1, 1, &["two"]).await.unwrap();
    is_conflict(&append(store, "a", 1, 1, &["other"]).await);
    is_conflict(&append(store, "a", 3, 2, &["other"]).await);
    assert_eq!(texts(store, "a").await, ["one", "two"]);
}

async fn a_batch_that_does_not_follow_is_a_conflict(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    is_conflict(&append(store, "a", 1, 0, &["other"]).await);
    is_conflict(&append(store, "a", 1, 2, &["other"]).await);
    assert_eq!(texts(store, "a").await, ["one"]);
}

async fn the_last_write_repeated_is_acknowledged_and_kept_once(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    assert_eq!(append(store, "a", 1, 1, &["two"]).await.unwrap(), 2);
    assert_eq!(append(store, "a", 1, 1, &["two"]).await.unwrap(), 2);
    assert_eq!(append(store, "a", 2, 2, &["three"]).await.unwrap(), 3);
    is_conflict(&append(store, "a", 1, 1, &["two"]).await);
    assert_eq!(texts(store, "a").await, ["one", "two", "three"]);
}

async fn a_repeated_write_with_other_bytes_is_a_conflict(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    append(store, "a", 1, 1, &["two"]).await.unwrap();
    is_conflict(&append(store, "a", 1, 1, &["2"]).await);
    is_conflict(&append(store, "a", 1, 1, &["two", "three"]).await);
}

async fn a_write_may_change_the_header_only(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    let (id, title) = (id("a"), "about".into());
    let batch = ChangeBatch { first: 1, changes: &[] };
    let status = Some(SessionStatus::Suspended);
    let write = AppendRequest {
        status,
        title: Some(&title),
        ..AppendRequest::new(&id, 1, batch, moment(2))
    };
    assert_eq!(store.append(write).await.unwrap(), 2);
    let header = store.header(&id).await.unwrap().unwrap();
    let told = (header.status, header.title.as_deref(), header.length);
    assert_eq!(told, (SessionStatus::Suspended, Some("about"), 1));
}

async fn what_is_not_there_is_not_found(store: &dyn SessionStore) {
    let id = id("nobody");
    assert_eq!(store.header(&id).await.unwrap(), None);
    assert_eq!(store.load(&id).await.unwrap(), None);
    assert_eq!(store.definition(&id).await.unwrap(), None);
    let not_found = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::NotFound(_))), "{result:?}");
    };
    not_found(append(store, "nobody", 1, 0, &["one"]).await.map(drop));
    not_found(store.rewind(&id, 1, 0, None, moment(1)).await.map(drop));
    not_found(store.lease(&id, claim("me", moment(1))).await.map(drop));
    not_found(store.send_control(&id, &ControlMessage::Stop).await);
}

async fn a_deleted_session_is_not_loaded_and_not_written(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    store.delete(&id("a"), moment(2)).await.unwrap();
    assert_eq!(store.load(&id("a")).await.unwrap(), None);
    let header = store.header(&id("a")).await.unwrap().unwrap();
    assert_eq!(header.status, SessionStatus::Deleted);
    for expected in [1, 2, 3] {
        let written = append_with(store, "a", expected, 1, &["two"], Some(&lease), moment(3)).await;
        assert!(matches!(written, Err(StoreError::NotFound(_))), "{written:?}");
    }
    let renewed = store.renew(&lease, moment(3), LASTS).await;
    assert!(matches!(renewed, Err(StoreError::LeaseLost(_))), "{renewed:?}");
}

async fn deleting_what_is_not_there_does_nothing(store: &dyn SessionStore) {
    store.delete(&id("nobody"), moment(1)).await.unwrap();
    create(store, &header("a"), &[]).await;
    store.delete(&id("a"), moment(1)).await.unwrap();
    let deleted = store.header(&id("a")).await.unwrap();
    store.delete(&id("a"), moment(2)).await.unwrap();
    assert_eq!(store.header(&id("a")).await.unwrap(), deleted);
}

/// Forks a session where it stands, or earlier.
async fn fork(store: &dyn SessionStore, source: &str, name: &str, at: Seq) -> SessionHeader {
    let source = store.header(&id(source)).await.unwrap().unwrap();
    let from = Some(ForkPoint { session: source.id.clone(), branch: source.branch, at });
    let header = SessionHeader { from, parent: Some(source.id), ..header(name) };
    create(store, &header, &[]).await
}

async fn a_fork_begins_with_what_its_source_had(store: &dyn SessionStore) {
    create(store, &header("a"), &["one", "two"]).await;
    let created = fork(store, "a", "whole", 2).await;
    assert_eq!((created.version, created.length), (1, 2));
    fork(store, "a", "part", 1).await;
    assert_eq!(texts(store, "whole").await, ["one", "two"]);
    assert_eq!(texts(store, "part").await, ["one"]);
    assert_eq!(load(store, "whole").await.header.parent, Some(id("a")));
}

async fn a_fork_and_its_source_go_on_by_themselves(store: &dyn SessionStore) {
    create(store, &header("a"), &["one", "two"]).await;
    fork(store, "a", "b", 1).await;
    append(store, "a", 1, 2, &["three"]).await.unwrap();
    append(store, "b", 1, 1, &["other"]).await.unwrap();
    assert_eq!(texts(store, "a").await, ["one", "two", "three"]);
    assert_eq!(texts(store, "b").await, ["one", "other"]);
}

async fn a_fork_of_a_fork_has_both(store: &dyn SessionStore) {
    create(store, &header("a"), &["one", "two"]).await;
    fork(store, "a", "b", 2).await;
    append(store, "b", 1, 2, &["three", "four"]).await.unwrap();
    fork(store, "b", "c", 3).await;
    fork(store, "b", "d", 1).await;
    append(store, "c", 1, 3, &["other"]).await.unwrap();
    assert_eq!(texts(store, "c").await, ["one", "two", "three", "other"]);
    assert_eq!(texts(store, "d").await, ["one"]);
}

async fn a_fork_outlives_its_source(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    fork(store, "a", "b", 1).await;
    append(store, "b", 1, 1, &["two"]).await.unwrap();
    store.delete(&id("a"), moment(2)).await.unwrap();
    assert_eq!(texts(store, "b").await, ["one", "two"]);
}

async fn what_is_not_there_cannot_be_forked(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    create(store, &header("gone"), &["one"]).await;
    store.delete(&id("gone"), moment(1)).await.unwrap();
    for (session, at) in [("nobody", 0), ("gone", 0), ("a", 2)] {
        let from = Some(ForkPoint { session: id(session), branch: 0, at });
        let header = SessionHeader { from, ..header("b") };
        let definition = definition();
        let new = NewSession { header: &header, definition: &definition, changes: &[] };
        let created = store.create(new).await;
        assert!(matches!(created, Err(StoreError::NotFound(_))), "{session}@{at}: {created:?}");
        assert_eq!(store.header(&id("b")).await.unwrap(), None);
    }
}

async fn a_rewound_session_goes_on_from_there(store: &dyn SessionStore) {
    create(store, &header("a"), &["one", "two", "three"]).await;
    assert_eq!(store.rewind(&id("a"), 1, 1, None, moment(1)).await.unwrap(), 2);
    assert_eq!(texts(store, "a").await, ["one"]);
    assert_eq!(append(store, "a", 2, 1, &["other"]).await.unwrap(), 3);
    assert_eq!(texts(store, "a").await, ["one", "other"]);
    assert_eq!(store.rewind(&id("a"), 3, 0, None, moment(2)).await.unwrap(), 4);
    assert_eq!(append(store, "a", 4, 0, &["anew"]).await.unwrap(), 5);
    assert_eq!(texts(store, "a").await, ["anew"]);
    let beyond = store.rewind(&id("a"), 5, 2, None, moment(3)).await;
    assert!(matches!(beyond, Err(StoreError::NotFound(_))), "{beyond:?}");
}

async fn what_was_rewound_is_still_there_for_a_fork_that_has_it(store: &dyn SessionStore) {
    create(store, &header("a"), &["one", "two"]).await;
    fork(store, "a", "b", 2).await;
    store.rewind(&id("a"), 1, 0, None, moment(1)).await.unwrap();
    append(store, "a", 2, 0, &["anew"]).await.unwrap();
    assert_eq!(texts(store, "b").await, ["one", "two"]);
}

async fn a_rewind_on_another_version_is_a_conflict(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    is_conflict(&store.rewind(&id("a"), 2, 0, None, moment(1)).await);
    assert_eq!(texts(store, "a").await, ["one"]);
}

async fn one_writer_has_the_lease(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    assert_eq!(&*lease.owner, "me");
    let other = store.lease(&id("a"), claim("you", moment(2))).await;
    match other {
        Err(StoreError::Busy { owner, until, .. }) => {
            assert_eq!((&*owner, until), ("me", lease.until));
        }
        other => panic!("{other:?}"),
    }
    let again = store.lease(&id("a"), claim("me", moment(2))).await;
    assert!(matches!(again, Err(StoreError::Busy { .. })), "also for the same owner: {again:?}");
}

async fn a_lease_that_ended_is_taken_over_and_the_old_one_is_lost(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let ends = LeaseRequest { ttl: Duration::ZERO, ..claim("me", moment(1)) };
    let old = store.lease(&id("a"), ends).await.unwrap();
    // Nobody took it over, so a caller that has it may still write.
    append_with(store, "a", 1, 0, &["one"], Some(&old), moment(40)).await.unwrap();
    let new = store.lease(&id("a"), claim("you", moment(41))).await.unwrap();
    assert!(new.number > old.number);
    let lost = append_with(store, "a", 2, 1, &["two"], Some(&old), moment(42)).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost(_))), "{lost:?}");
    let lost = store.renew(&old, moment(42), LASTS).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost(_))), "{lost:?}");
    store.release(&old).await.unwrap();
    append_with(store, "a", 2, 1, &["two"], Some(&new), moment(42)).await.unwrap();
    assert_eq!(texts(store, "a").await, ["one", "two"]);
}

async fn a_lease_in_force_refuses_whoever_shows_none(store: &dyn SessionStore) {
    create(store, &header("a"), &["one"]).await;
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    let written = append_with(store, "a", 1, 1, &["two"], None, moment(2)).await;
    assert!(matches!(written, Err(StoreError::Busy { .. })), "{written:?}");
    let rewound = store.rewind(&id("a"), 1, 0, None, moment(2)).await;
    assert!(matches!(rewound, Err(StoreError::Busy { .. })), "{rewound:?}");
    append_with(store, "a", 1, 1, &["two"], Some(&lease), moment(2)).await.unwrap();
    // One that ended keeps nobody off.
    store.renew(&lease, moment(2), Duration::ZERO).await.unwrap();
    append_with(store, "a", 2, 2, &["three"], None, moment(60)).await.unwrap();
}

async fn a_lease_is_given_back(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let lease = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    store.release(&lease).await.unwrap();
    let other = store.lease(&id("a"), claim("you", moment(2))).await.unwrap();
    store.release(&lease).await.unwrap();
    let lost = append_with(store, "a", 1, 0, &["one"], Some(&lease), moment(3)).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost(_))), "{lost:?}");
    append_with(store, "a", 1, 0, &["one"], Some(&other), moment(3)).await.unwrap();
}

async fn a_renewed_lease_lasts_longer(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let ends = LeaseRequest { ttl: Duration::ZERO, ..claim("me", moment(1)) };
    let lease = store.lease(&id("a"), ends).await.unwrap();
    let renewed = store.renew(&lease, moment(20), LASTS).await.unwrap();
    assert!(renewed.until.since(lease.until) >= LASTS, "{lease:?} {renewed:?}");
    assert_eq!(renewed, Lease { until: renewed.until, ..lease });
    let other = store.lease(&id("a"), claim("you", moment(40))).await;
    assert!(matches!(other, Err(StoreError::Busy { .. })), "{other:?}");
}

async fn the_list_shows_the_latest_first_page_by_page(store: &dyn SessionStore) {
    for number in 0..7 {
        let moment = moment([3, 1, 4, 1, 5, 2, 6][number]);
        let header = SessionHeader { updated_at: moment, ..header(&format!("s{number}")) };
        create(store, &header, &["one"]).await;
    }
    let mut query = SessionQuery::first(3);
    let mut pages = Vec::new();
    loop {
        let page = store.list(&query).await.unwrap();
        pages.push(page.sessions.iter().map(|it| it.id.to_string()).collect::<Vec<_>>());
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    assert_eq!(pages, [vec!["s6", "s4", "s2"], vec!["s0", "s5", "s3"], vec!["s1"]]);
}

async fn the_list_can_be_narrowed(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    create(store, &SessionHeader { agent_name: "other".into(), ..header("b") }, &[]).await;
    create(store, &SessionHeader { status: SessionStatus::Suspended, ..header("c") }, &[]).await;
    create(store, &header("d"), &[]).await;
    store.delete(&id("d"), moment(1)).await.unwrap();
    let names = async |query: SessionQuery| {
        let page = store.list(&query).await.unwrap();
        let mut names: Vec<_> = page.sessions.iter().map(|it| it.id.to_string()).collect();
        names.sort();
        names
    };
    let all = SessionQuery::first(10);
    assert_eq!(names(all.clone()).await, ["a", "b", "c"]);
    let agent_name = Some("other".into());
    assert_eq!(names(SessionQuery { agent_name, ..all.clone() }).await, ["b"]);
    let status = Some(SessionStatus::Suspended);
    assert_eq!(names(SessionQuery { status, ..all.clone() }).await, ["c"]);
    let status = Some(SessionStatus::Deleted);
    assert_eq!(names(SessionQuery { status, ..all.clone() }).await, ["d"]);
    let (ada, bob) = (PrincipalTag::of("ada"), PrincipalTag::of("bob"));
    let of_ada = SessionId::generate_tagged(&ada);
    create(store, &header(of_ada.as_str()), &[]).await;
    create(store, &header(SessionId::generate_tagged(&bob).as_str()), &[]).await;
    let in_scope = |scope| SessionQuery { scope, ..all.clone() };
    assert_eq!(names(in_scope(SessionScope::Any)).await.len(), 5);
    assert_eq!(names(in_scope(SessionScope::Untagged)).await, ["a", "b", "c"]);
    assert_eq!(names(in_scope(SessionScope::Tagged(ada))).await, [of_ada.as_str()]);
    let none = PrincipalTag::of("nobody");
    assert_eq!(names(in_scope(SessionScope::Tagged(none))).await, [""; 0]);
}

async fn a_lease_of_somebody_who_is_gone_is_taken_over_at_once(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let old = store.lease(&id("a"), claim("me", moment(1))).await.unwrap();
    let another = LeaseRequest { replaces: Some("them"), ..claim("you", moment(2)) };
    let busy = store.lease(&id("a"), another).await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    let instead = LeaseRequest { replaces: Some("me"), ..claim("you", moment(2)) };
    let new = store.lease(&id("a"), instead).await.unwrap();
    assert!(new.number > old.number);
    let lost = append_with(store, "a", 1, 0, &["one"], Some(&old), moment(3)).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost(_))), "{lost:?}");
}

async fn time_does_not_go_back(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    append_with(store, "a", 1, 0, &["one"], None, moment(9)).await.unwrap();
    append_with(store, "a", 2, 1, &["two"], None, moment(4)).await.unwrap();
    let header = store.header(&id("a")).await.unwrap().unwrap();
    assert_eq!((header.version, header.updated_at), (3, moment(9)));
}

async fn a_batch_may_be_cut_by_a_fork_and_by_a_rewind(store: &dyn SessionStore) {
    create(store, &header("a"), &["one", "two", "three"]).await;
    append(store, "a", 1, 3, &["four", "five", "six"]).await.unwrap();
    fork(store, "a", "b", 5).await;
    append(store, "b", 1, 5, &["and"]).await.unwrap();
    assert_eq!(texts(store, "b").await, ["one", "two", "three", "four", "five", "and"]);
    store.rewind(&id("a"), 2, 4, None, moment(2)).await.unwrap();
    append(store, "a", 3, 4, &["or", "but"]).await.unwrap();
    store.rewind(&id("a"), 4, 5, None, moment(3)).await.unwrap();
    assert_eq!(texts(store, "a").await, ["one", "two", "three", "four", "or"]);
    store.rewind(&id("a"), 5, 2, None, moment(4)).await.unwrap();
    assert_eq!(texts(store, "a").await, ["one", "two"]);
    assert_eq!(texts(store, "b").await, ["one", "two", "three", "four", "five", "and"]);
}
