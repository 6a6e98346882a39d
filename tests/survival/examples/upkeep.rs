//! What upkeep of many sessions costs: fills a store, and measures a check, a page, and deleting and freeing all.
//!
//! `cargo run --release -p loopwright-survival --example upkeep -- sqlite:/tmp/many.db 20000`, or `files:DIRECTORY`
//! or `postgres://…`. The store has to be a new one.

#![expect(clippy::print_stdout, reason = "it reports")]

use std::{env, time::Instant};

use loopwright_agent::AgentDefinition;
use loopwright_core::{
    Change, ChangeRecord, Edit, Timestamp,
    messages::{Message, SectionName},
};
use loopwright_sessions::{
    AppendRequest, ChangeBatch, NewSession, SessionHeader, SessionId, SessionQuery, SessionStore,
};
use loopwright_survival::{Failure, open::open};

/// How many writes follow the creation of a session.
const WRITES: u64 = 3;
/// How many sessions are deleted at once, as by `sessions prune`.
const AT_ONCE: usize = 1_000;

fn main() -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let url = arguments.next().ok_or("the first argument is the address of a new store")?;
    let count = arguments.next().map_or(Ok(20_000), |it| it.parse())?;
    let keeps = arguments.next().is_some_and(|it| it == "keep");
    let store = open(&url).await?;
    let began = Instant::now();
    let mut ids = Vec::new();
    for number in 0..count {
        ids.push(session(&*store, number).await?);
    }
    told("filled", began, count);
    if keeps {
        store.close().await;
        return Ok(());
    }
    let began = Instant::now();
    let page = store.list(&SessionQuery::first(20)).await?;
    told("a page", began, page.sessions.len() as u64);
    let began = Instant::now();
    let findings = store.check(false).await?;
    told("checked", began, count);
    assert!(findings.is_empty(), "{findings:?}");
    let began = Instant::now();
    let now = Timestamp::from_millis(10 * count);
    let mut deleted = 0;
    for ids in ids.chunks(AT_ONCE) {
        deleted += store.delete_unused(ids, now, now).await?.len();
    }
    told("deleted", began, count);
    assert_eq!(deleted, ids.len());
    let began = Instant::now();
    store.reclaim(false).await?;
    told("freed", began, count);
    let began = Instant::now();
    store.check(false).await?;
    told("checked again", began, count);
    store.close().await;
    Ok(())
}

fn told(what: &str, began: Instant, count: u64) {
    let took = began.elapsed();
    let each = u32::try_from(count.max(1)).map_or(took, |count| took / count);
    println!("{what}: {took:.2?}, {each:.1?} each");
}

async fn session(store: &dyn SessionStore, number: u64) -> Result<SessionId, Failure> {
    let (id, now) = (SessionId::new(format!("s{number}"))?, Timestamp::from_millis(number));
    let definition = AgentDefinition::new("agent", "does things", "You do things.");
    let header = SessionHeader::new(id.clone(), "agent", now);
    let changes = [said(0)];
    store
        .create(NewSession { header: &header, definition: &definition, changes: &changes })
        .await?;
    for write in 1..=WRITES {
        let changes = [said(write)];
        store
            .append(AppendRequest {
                id: &id,
                expected: write,
                batch: ChangeBatch { first: write, changes: &changes },
                status: None,
                title: None,
                workdir: None,
                parent: None,
                handled: None,
                lease: None,
                now,
            })
            .await?;
    }
    Ok(id)
}

fn said(number: u64) -> ChangeRecord {
    let message = Message::user(format!("message {number} of some length, as people write them"));
    let edit = Edit::Append { section: SectionName::MESSAGES.into(), message };
    ChangeRecord {
        at: Timestamp::from_millis(number),
        change: Change::StateEdited { by: "test".into(), edit },
    }
}
