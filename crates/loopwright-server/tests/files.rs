//! The folders of sessions.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use axum::body::Body;
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_server::Role;
use loopwright_sessions::{SessionFiles, SessionId};
use loopwright_testing::{FakeModel, ModelDriver, test_loop};
use serde_json::json;

use crate::{
    api::{LOCAL, answering},
    world::{Reply, World, request},
};

async fn put(world: &World, token: &str, path: &str, body: impl Into<Body>) -> Reply {
    world.send(request("PUT", token, path, body.into())).await
}

#[tokio::test]
async fn files_are_sent_listed_read_and_deleted() {
    let world = answering(&[]).await;
    let id = world.post(LOCAL, "/v1/sessions", json!({})).await.id();
    let path = format!("/v1/sessions/{id}");
    assert_eq!(
        put(&world, LOCAL, &format!("{path}/file?path=a%2Fb.txt"), "one\n").await.status,
        204
    );
    assert_eq!(fs::read_to_string(world.files.join("a/b.txt")).unwrap(), "one\n");
    let listed = world.get(LOCAL, &format!("{path}/files?path=a")).await;
    let entry = json!({"name": "b.txt", "is_directory": false, "bytes": 4});
    assert_eq!(listed.json(), json!({"entries": [entry], "is_complete": true}));
    let top = world.get(LOCAL, &format!("{path}/files")).await.json();
    assert_eq!(top["entries"], json!([{"name": "a", "is_directory": true, "bytes": 0}]));
    let read = world.get(LOCAL, &format!("{path}/file?path=a/b.txt")).await;
    assert_eq!(
        (&*read.text, &read.headers["content-disposition"]),
        ("one\n", &"attachment".parse().unwrap())
    );
    assert_eq!(world.delete(LOCAL, &format!("{path}/file?path=a/b.txt")).await.status, 204);
    assert_eq!(world.get(LOCAL, &format!("{path}/file?path=a/b.txt")).await.problem(), "not_found");
}

#[tokio::test]
async fn no_path_leads_out_of_the_folder() {
    let agent = test_loop(ModelDriver::new(FakeModel::script(["x"])));
    let world = World::built(agent, |server| server.with_max_file(100)).await;
    let id = world.post(LOCAL, "/v1/sessions", json!({})).await.id();
    let outside = world.files.parent().unwrap().to_path_buf();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, world.files.join("out")).unwrap();
    symlink(outside.join("secret"), world.files.join("link")).unwrap();
    let file = |path: &str| format!("/v1/sessions/{id}/file?path={path}");
    let absolute = outside.join("secret").display().to_string();
    for path in [
        "../secret",
        "a/../../secret",
        "out/secret",
        "link",
        &absolute,
        "..%2fsecret",
        "",
        "%00",
        ".",
    ] {
        let read = world.get(LOCAL, &file(path)).await;
        assert!(
            read.status.is_client_error() && !read.text.contains(&absolute),
            "{path}: {read:?}"
        );
        let written = put(&world, LOCAL, &file(path), "x").await;
        assert!(written.status.is_client_error(), "{path}: {written:?}");
        assert!(world.delete(LOCAL, &file(path)).await.status.is_client_error(), "{path}");
    }
    for path in ["..", "out", "/", "../"] {
        let listed = world.get(LOCAL, &format!("/v1/sessions/{id}/files?path={path}")).await;
        assert!(listed.status.is_client_error(), "{path}: {listed:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
    assert_eq!(
        put(&world, LOCAL, &file(".git/hooks/post-commit"), "x").await.problem(),
        "forbidden"
    );
    assert_eq!(put(&world, LOCAL, &file("large"), vec![b'x'; 101]).await.problem(), "too_large");
    fs::write(world.files.join("large"), [b'x'; 101]).unwrap();
    assert_eq!(world.get(LOCAL, &file("large")).await.problem(), "too_large");
    let reader = world.token("ada", Role::Read);
    assert_eq!(world.get(&reader, &file("large")).await.problem(), "not_found");
    assert_eq!(put(&world, &reader, &file("a"), "x").await.problem(), "forbidden");
}

#[tokio::test]
async fn what_a_session_changed_is_shown_as_a_difference() {
    let world = answering(&["x"]).await;
    let id = world.post(LOCAL, "/v1/sessions", json!({})).await.id();
    world.post(LOCAL, &format!("/v1/sessions/{id}/messages"), json!({"text": "go"})).await;
    world.work().await;
    fs::write(world.files.join("a"), "one\ntwo\n").unwrap();
    let journal = SessionFiles::new(Arc::clone(&world.store) as _, SessionId::new(&id).unwrap());
    let journal: Arc<dyn loopwright_capabilities::files::FileJournal> = Arc::new(journal);
    let root = WorkspaceRoot::new(&world.files).with_journal(journal);
    let work = tokio::task::spawn_blocking(move || {
        root.write("a", b"one\nthree\n").unwrap();
        root.write("new", b"new\n").unwrap();
        root.write("gone", b"x").unwrap();
        root.remove("gone").unwrap();
    });
    work.await.unwrap();
    let path = format!("/v1/sessions/{id}/diff");
    let shown = world.get(LOCAL, &path).await;
    let diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n";
    let added = "--- new\n+++ new\n@@ -0,0 +1 @@\n+new\n";
    assert_eq!(
        shown.json()["files"],
        json!([
            {"path": "a", "change": "changed", "diff": diff},
            {"path": "new", "change": "added", "diff": added},
        ])
    );
    let mut again = request("GET", LOCAL, &path, Body::empty());
    again.headers_mut().insert("if-none-match", shown.headers["etag"].clone());
    assert_eq!(world.send(again).await.status, 304);
}
