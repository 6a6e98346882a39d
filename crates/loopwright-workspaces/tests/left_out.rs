//! What snapshots do not contain.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use loopwright_workspaces::object_store::memory::InMemory;
use loopwright_workspaces::{LeftOutReason, Snapshots};

use crate::support::write;

#[tokio::test]
async fn caches_links_out_and_special_files_are_left_out_and_listed() {
    let (world, snapshots) =
        (tempfile::tempdir().unwrap(), Snapshots::new(Arc::new(InMemory::new())));
    let (folder, target) = (world.path().join("a"), world.path().join("b"));
    for name in ["target/debug", "src/target", "node_modules/x", "src/node_modules", "direct"] {
        fs::create_dir_all(folder.join(name)).unwrap();
        write(&folder.join(name).join("file"), name, 0o600);
    }
    write(
        &folder.join("target/CACHEDIR.TAG"),
        "Signature: 8a477f597d28d172789f06886806bc55\n#",
        0o600,
    );
    write(&folder.join("src/target/CACHEDIR.TAG"), "Signature: none", 0o600);
    write(&folder.join("package.json"), "{}", 0o600);
    symlink("/usr", folder.join("absolute")).unwrap();
    symlink("../b", folder.join("out")).unwrap();
    symlink("src/../package.json", folder.join("unsure")).unwrap();
    symlink("../package.json", folder.join("src/inside")).unwrap();
    let _socket = UnixListener::bind(folder.join("socket")).unwrap();
    let snapshots = snapshots.with_left_out(["direct".into()]);
    let saved = snapshots.save(&folder, None).await.unwrap();
    let mut left_out: Vec<_> =
        saved.left_out.iter().map(|it| (it.path.as_path(), it.reason)).collect();
    left_out.sort_by_key(|(path, _)| *path);
    let expected = [
        ("absolute", LeftOutReason::LinkOut),
        ("direct", LeftOutReason::Configured),
        ("node_modules", LeftOutReason::Cache),
        ("out", LeftOutReason::LinkOut),
        ("socket", LeftOutReason::Special),
        ("target", LeftOutReason::Cache),
        ("unsure", LeftOutReason::LinkOut),
    ];
    assert_eq!(left_out, expected.map(|(path, reason)| (Path::new(path), reason)));
    snapshots.restore(&saved.snapshot.id(), &target).await.unwrap();
    let manifest = snapshots.load(&saved.snapshot.id()).await.unwrap();
    let kept: Vec<_> = manifest.entries().iter().map(|it| it.path.to_str().unwrap()).collect();
    let expected = [
        "package.json",
        "src",
        "src/inside",
        "src/node_modules",
        "src/node_modules/file",
        "src/target",
        "src/target/CACHEDIR.TAG",
        "src/target/file",
    ];
    assert_eq!(kept, expected);
    assert_eq!(fs::read_to_string(target.join("src/inside")).unwrap(), "{}");
}
