//! What a command takes of the files that a user may watch.

use std::time::Duration;

use loopwright_sandbox::{Backend, Command, ExitOutcome, Guarantee, Sandbox as _};
use rustix::fs::inotify;

use crate::world::{World, until_said};

const TAKE: &str = r#"
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
made = []
while len(made) < 5000:
    one = libc.inotify_init1(0)
    if one < 0: break
    made.append(one)
print("made", len(made), "errno", ctypes.get_errno(), flush=True)
time.sleep(600)
"#;

#[tokio::test]
async fn a_command_leaves_watches_to_the_users_other_programs() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        println!("left out: there is no Python");
        return;
    }
    let all = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap();
    let share = (all.trim().parse::<u64>().unwrap() / 4).clamp(1, 64);
    for (backend, said) in [
        (Backend::Namespaces, format!("made {share} errno 24\n")),
        (Backend::Bubblewrap, format!("made {share} errno 24\n")),
        (Backend::Landlock, "made 0 errno 38\n".to_owned()),
    ] {
        let world = World::in_tier(backend);
        if backend == Backend::Bubblewrap && world.driver().probe().await.is_err() {
            println!("left out: there is no bubblewrap that works here");
            continue;
        }
        let command = Command::new("/usr/bin/python3").args(["-c", TAKE]);
        let policy = world.policy().with_open_files(4096);
        let mut child = world.driver().spawn(&command, &policy).await.unwrap();
        until_said(&mut child, &said).await;
        let one = inotify::init(inotify::CreateFlags::CLOEXEC);
        assert!(one.is_ok(), "{backend}: {one:?}");
        let output = child.stop(Duration::ZERO).await;
        assert_eq!(output.outcome, ExitOutcome::Cancelled, "{backend}");
        assert!(output.enforced.enforces(Guarantee::FileWatches), "{backend}");
    }
}

#[tokio::test]
async fn a_command_watches_what_it_sees() {
    let world = World::new();
    let line = "cat /proc/sys/user/max_inotify_watches /proc/sys/user/max_user_namespaces; \
                echo 9 > /proc/sys/user/max_inotify_instances; true";
    let output = world.sh(line).await;
    let all = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap();
    let share = (all.trim().parse::<u64>().unwrap() / 4).clamp(1, 65_536);
    assert_eq!(
        (output.outcome, output.stdout.to_text()),
        (ExitOutcome::Exited(0), format!("{share}\n0\n"))
    );
    assert!(output.stderr.to_text().contains("Read-only file system"), "{output:?}");
}
