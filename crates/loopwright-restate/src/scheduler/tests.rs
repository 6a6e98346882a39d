//! Jobs that are sent again.

use loopwright_agent::AgentDefinition;
use loopwright_sessions::{NewSession, SessionHeader};
use loopwright_store_sql::SqliteStore;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// Accepts every invocation, as the ingress of Restate does, and returns its address.
async fn ingress() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            // The body is a JSON object without others in it.
            while !request.ends_with(b"}") {
                stream.read_buf(&mut request).await.unwrap();
            }
            let response =
                "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    }));
    url
}

#[tokio::test]
async fn an_overdue_job_is_sent_however_many_newer_jobs_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap());
    let (id, at) = (SessionId::new("a").unwrap(), Timestamp::from_millis);
    let header = &SessionHeader::new(id.clone(), "agent", at(0));
    let definition = &AgentDefinition::new("agent", "works", "You work.");
    store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
    let service = RestateService::default();
    let scheduler = RestateScheduler::new(Arc::clone(&store) as _, &ingress().await, &service);
    let scheduler = scheduler.unwrap();
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
