//! Work of git in submodules and worktrees, whose repositories are inside another one.

use loopwright_sandbox::screen::Screen;

use crate::planted::{SUBMODULE, user, world};
use crate::transactions::staged;
use crate::world::World;

const COMMIT: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; \
                      cd sub && echo z > z.txt && git add z.txt && git commit -qm inner && cd .. && \
                      git add sub && git commit -qm outer";

/// What git says of the repository and its submodule: their last commits, and what is not as it was committed.
fn state(world: &World) -> String {
    user(
        world,
        "(git log -1 --format=%s; git -C sub log -1 --format=%s; git -C sub status --porcelain; \
          git submodule status | cut -c1; git fsck; git -C sub fsck) > ../state 2>&1",
    );
    std::fs::read_to_string(world.outside("state")).unwrap()
}

#[tokio::test]
async fn a_commit_in_a_submodule_is_kept_with_the_commit_that_names_it() {
    let world = world();
    user(&world, SUBMODULE);
    let ran = staged(&world, COMMIT).await;
    assert_eq!(ran.output.stderr.to_text(), "");
    let changes = ran.transaction.changes(&Screen::standard()).unwrap();
    assert_eq!(changes.refused(), []);
    ran.transaction.apply(changes).unwrap();
    assert_eq!(state(&world), "outer\ninner\n \n");
}

#[tokio::test]
async fn where_changes_are_made_at_once_git_refuses_a_commit_in_a_submodule_and_nothing_names_it() {
    let world = world();
    user(&world, SUBMODULE);
    let output = world.sh(COMMIT).await;
    assert_eq!(output.notes, [""; 0]);
    assert!(output.stderr.to_text().contains("index.lock': Read-only file system"), "{output:?}");
    assert_eq!(state(&world), "s\nx\n?? z.txt\n \n");
}

#[tokio::test]
async fn a_commit_in_a_worktree_is_kept_where_the_repository_is_written() {
    let world = world();
    user(&world, "git worktree add -q ../wt");
    // The folder that the command works in is the worktree; the repository is a folder besides.
    let line = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; \
                echo q > q.txt; git add q.txt && git commit -qm q";
    let policy = loopwright_sandbox::SandboxPolicy {
        workdir: world.outside("wt"),
        ..world.policy().write(world.path(""))
    };
    let output = world.run(&crate::world::sh(line), &policy).await;
    assert_eq!((output.notes, output.stderr.to_text()), (Vec::new(), String::new()));
    user(&world, "(git -C ../wt status --porcelain; git -C ../wt log --format=%s) > ../state 2>&1");
    assert_eq!(std::fs::read_to_string(world.outside("state")).unwrap(), "q\nx\n");
}
