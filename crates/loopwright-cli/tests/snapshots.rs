//! Turns of a session whose directory workers store as snapshots.

use crate::server::{Reply, Server, streamed, streamed_call};
use crate::world::{Done, World};

/// A session that a worker ran once.
pub(crate) struct KeptSession {
    pub(crate) world: World,
    pub(crate) server: Server,
    pub(crate) id: String,
}

/// The options that choose the model.
const MODEL: [&str; 2] = ["-m", "openai-compatible/test"];

impl KeptSession {
    pub(crate) fn new() -> Self {
        Self::after(streamed("Done.", "stop"), &[], "completed ")
    }

    /// Returns one whose call waits for approval.
    pub(crate) fn waiting() -> Self {
        let call = streamed_call("", "touch a.txt");
        Self::after(call, &["--permission-mode", "ask"], "needs_input ")
    }

    /// Returns a session that a worker with these options ran, to this end.
    fn after(reply: Reply, options: &[&str], end: &str) -> Self {
        let server = Server::start([reply]);
        let world = World::new().env("OPENAI_COMPATIBLE_BASE_URL", &server.url);
        let storage = format!("file://{}", world.path("storage").display());
        let dirs = world.path("dirs").display().to_string();
        let line = |command: &[&str]| {
            let place = ["--session-dirs", &dirs, "--snapshots", &storage];
            let done = world.run(&[command, &MODEL, &place].concat());
            assert_eq!(done.status, 0, "{done:?}");
            done.stdout
        };
        let submitted = line(&["submit", "Go."]);
        let id = submitted.trim().split(' ').next_back().unwrap().to_owned();
        let worked = line(&[&["worker", "--exit-when-idle"], options].concat());
        assert!(worked.starts_with(end), "{worked}");
        Self { world, server, id }
    }

    /// Returns what a refusal says.
    pub(crate) fn refusal(&self) -> String {
        format!(
            "the directory of session {0} is stored as snapshots, which only workers with `--session-dirs` and `--snapshots` \
             restore; use `loopwright submit --session {0}`, or copy the files with `loopwright sessions fetch {0}`",
            &self.id[..8]
        )
    }

    /// Checks that the model was called only by the worker.
    pub(crate) fn assert_no_turn(&self) {
        assert_eq!(self.server.heard().len(), 1);
    }

    fn run(&self, line: &[&str], stdin: &str) -> Done {
        self.world.run_with(&[line, &MODEL].concat(), stdin)
    }
}

#[test]
fn a_run_continues_no_session_with_snapshots() {
    let kept = KeptSession::new();
    let dir = kept.world.path(&format!("dirs/{}", kept.id)).display().to_string();
    for origin in [&["--resume", &kept.id, "-C", "."][..], &["--continue", "-C", &dir]] {
        let done = kept.run(&[&["run", "More."], origin].concat(), "");
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{done:?}");
        assert!(done.stderr.contains(&kept.refusal()), "{done:?}");
        assert!(!done.stderr.contains("resume with"), "{done:?}");
    }
    kept.assert_no_turn();
}

#[test]
fn a_chat_continues_no_session_with_snapshots() {
    let kept = KeptSession::new();
    let dir = kept.world.path(&format!("dirs/{}", kept.id)).display().to_string();
    let resumed = kept.run(&["chat", "--resume", &kept.id, "-C", "."], "More.\n");
    // The chat stays where it is.
    let chosen = kept.run(&["chat", "-C", &dir], "/resume\n1\n");
    for (done, status) in [(resumed, 2), (chosen, 0)] {
        assert_eq!((done.status, done.stdout.as_str()), (status, ""), "{done:?}");
        assert!(done.stderr.contains(&kept.refusal()), "{done:?}");
    }
    kept.assert_no_turn();
}
