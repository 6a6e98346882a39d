//! Jobs that are sent again.

use std::{collections::BTreeSet, path::Path, sync::Mutex};

use loopwright_agent::AgentDefinition;
use loopwright_sessions::{NewSession, SessionHeader};
use loopwright_store_sql::SqliteStore;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::turns::HANDLER;

/// The paths of invocations that an ingress has received.
type Received = Arc<Mutex<BTreeSet<String>>>;

/// Accepts every invocation but those of a session, as the ingress of Restate does. Returns its address, and the paths that it
/// receives.
async fn ingress_refusing(session: &str) -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (refused, paths) = (format!("/{session}/"), Received::default());
    let received = Arc::clone(&paths);
    drop(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            // The body is a JSON object without others in it.
            while !request.ends_with(b"}") {
                stream.read_buf(&mut request).await.unwrap();
            }
            let request = String::from_utf8(request).unwrap();
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let status = if path.contains(&refused) { "400 Bad Request" } else { "202 Accepted" };
            received.lock().unwrap().insert(path);
            let response =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    }));
    (url, paths)
}

/// A store with sessions of these names.
async fn store_of(folder: &Path, sessions: &[&str]) -> Arc<SqliteStore> {
    let store = SqliteStore::open(folder.join("sessions.db")).await.unwrap();
    for session in sessions {
        let id = SessionId::new(*session).unwrap();
        let header = &SessionHeader::new(id, "agent", Timestamp::from_millis(0));
        let definition = &AgentDefinition::new("agent", "works", "You work.");
        store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
    }
    Arc::new(store)
}

#[tokio::test]
async fn an_overdue_job_is_sent_however_many_newer_jobs_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(folder.path(), &["a"]).await;
    let (id, at) = (SessionId::new("a").unwrap(), Timestamp::from_millis);
    let service = RestateService::default();
    let (url, _) = ingress_refusing("none").await;
    let scheduler = RestateScheduler::new(Arc::clone(&store) as _, &url, &service).unwrap();
    let job = || Job::resume(id.clone()).with_needs(service.label());
    let mut jobs = vec![job()];
    jobs.resize_with(2 * MAX_FOUND + 1, || job().with_start_at(at(1_000_000)));
    store.jobs().unwrap().push_all(&jobs, at(1_000)).await.unwrap();
    let overdue = &mut Overdue::default();
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(scheduler.send_overdue(at(5_000), overdue).await.unwrap());
    }
    assert_eq!(sent, [1, 0, 0]);
    assert_eq!(overdue.known, HashSet::from([format!("{}@1000#0", jobs[0].id)]));
}

/// More sessions than requests are made at once, the first of which is refused.
const SESSIONS: [&str; 20] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s",
    "t",
];

#[tokio::test]
async fn a_job_that_restate_refuses_does_not_keep_the_others_from_being_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(folder.path(), &SESSIONS).await;
    let service = RestateService::default();
    let (url, received) = ingress_refusing("a").await;
    let scheduler = RestateScheduler::new(store, &url, &service).unwrap();
    let jobs = SESSIONS.map(|session| Job::resume(SessionId::new(session).unwrap()));
    let error = scheduler.push_all(&jobs, Timestamp::from_millis(1_000)).await.unwrap_err();
    assert!(error.to_string().contains("400"), "{error}");
    let path = |session| format!("/{service}/{session}/{HANDLER}/send");
    assert_eq!(*received.lock().unwrap(), BTreeSet::from(SESSIONS.map(path)));
}

#[tokio::test]
async fn overdue_jobs_beside_a_refused_one_are_sent_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(folder.path(), &SESSIONS).await;
    let service = RestateService::default();
    let (url, received) = ingress_refusing("a").await;
    let scheduler = RestateScheduler::new(Arc::clone(&store) as _, &url, &service).unwrap();
    let at = Timestamp::from_millis;
    let job = |session| Job::resume(SessionId::new(session).unwrap()).with_needs(service.label());
    store.jobs().unwrap().push_all(&SESSIONS.map(job), at(1_000)).await.unwrap();
    let overdue = &mut Overdue::default();
    scheduler.send_overdue(at(5_000), overdue).await.unwrap_err();
    assert_eq!(overdue.known.len(), SESSIONS.len() - 1);
    received.lock().unwrap().clear();
    scheduler.send_overdue(at(5_000), overdue).await.unwrap_err();
    let refused = format!("/{service}/a/{HANDLER}/send");
    assert_eq!(*received.lock().unwrap(), BTreeSet::from([refused]));
}
