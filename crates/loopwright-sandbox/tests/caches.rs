//! Caches of the user, which commands see as copies-on-write.

use std::fs;

use loopwright_sandbox::transaction::Transaction;
use loopwright_sandbox::{CopiedCache, ExitOutcome, SandboxPolicy};

use crate::world::{World, sh, until_said};

/// A world with a cache beside the working folder.
struct Cached(World);

impl Cached {
    fn new() -> Self {
        let cached = Self(World::new());
        fs::create_dir_all(cached.0.outside("cache/crates")).unwrap();
        cached.write("crates/a", "of the user");
        cached
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.outside("cache").join(name), text).unwrap();
    }

    /// What the user has at a path of the cache.
    fn of_user(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.outside("cache").join(name)).ok()
    }

    fn copied(&self) -> CopiedCache {
        CopiedCache {
            variable: Some("CACHE".to_owned()),
            ..CopiedCache::new(self.0.outside("cache"), self.0.outside("layer"))
        }
    }

    fn policy(&self) -> SandboxPolicy {
        self.0.policy().with_copied_cache(self.copied())
    }

    async fn says(&self, line: &str) -> String {
        let output = self.0.run(&sh(line), &self.policy()).await;
        let (said, complaint) = (output.stdout.to_text(), output.stderr.to_text());
        assert_eq!((output.outcome, complaint.as_str()), (ExitOutcome::Exited(0), ""), "{line}");
        said
    }
}

#[tokio::test]
async fn a_poisoned_cache_reaches_the_next_command_and_not_the_user() {
    let world = Cached::new();
    world.write("crates/removed", "of the user");
    let line = "cd $CACHE && echo -n poison > crates/a && echo -n new > b && rm crates/removed";
    assert_eq!(world.says(line).await, "");
    let of_user = |name| world.of_user(name);
    assert_eq!(of_user("crates/a").as_deref(), Some("of the user"));
    assert_eq!(of_user("crates/removed").as_deref(), Some("of the user"));
    assert_eq!(of_user("b"), None);
    assert_eq!(world.says("cd $CACHE && cat crates/a b; ls crates").await, "poisonnewa\n");
}

#[tokio::test]
async fn what_the_user_changes_later_is_seen_by_the_next_command() {
    let world = Cached::new();
    world.says("cd $CACHE && echo -n mine > crates/a && echo -n kept > crates/b").await;
    world.write("crates/a", "changed by the user");
    world.write("crates/c", " and new");
    let line = "cd $CACHE/crates && cat a c && echo -n ' ' && cat b";
    assert_eq!(world.says(line).await, "changed by the user and new kept");
}

#[tokio::test]
async fn changes_to_a_cache_that_another_one_replaced_are_dropped() {
    let world = Cached::new();
    world.says("echo -n mine > $CACHE/b").await;
    fs::rename(world.0.outside("cache"), world.0.outside("former")).unwrap();
    fs::create_dir_all(world.0.outside("cache/crates")).unwrap();
    assert_eq!(world.says("ls $CACHE").await, "crates\n");
}

#[tokio::test]
async fn a_cache_that_does_not_exist_is_empty_and_can_be_written() {
    let world = Cached::new();
    fs::remove_dir_all(world.0.outside("cache")).unwrap();
    assert_eq!(world.says("ls -A $CACHE; echo -n a > $CACHE/a").await, "");
    assert_eq!(world.says("cat $CACHE/a").await, "a");
    assert!(!world.0.outside("cache").exists());
}

#[tokio::test]
async fn what_a_command_changed_is_kept_while_another_one_runs() {
    let world = Cached::new();
    world.says("echo -n before > $CACHE/before").await;
    let first = "echo -n a > $CACHE/a; echo ready; until [ -e stop ]; do sleep 0.01; done";
    let mut first = world.0.spawn(first, &world.policy()).await;
    until_said(&mut first, "ready").await;
    let second = "cd $CACHE && cat before && ! [ -e a ] && echo -n b > b && cat b";
    assert_eq!(world.says(second).await, "beforeb");
    assert_eq!(world.says("cat $CACHE/b").await, "b");
    world.0.file("stop", "");
    assert_eq!(first.wait().await.outcome, ExitOutcome::Exited(0));
    assert_eq!(world.says("ls $CACHE").await, "a\nb\nbefore\ncrates\n");
    assert_eq!(world.of_user("a"), None);
}

#[tokio::test]
async fn folders_of_the_user_and_of_commands_that_ran_at_the_same_time_are_united() {
    let world = Cached::new();
    let first = "mkdir $CACHE/new && echo ready; until [ -e stop ]; do sleep 0.01; done; touch $CACHE/new/a";
    let mut first = world.0.spawn(first, &world.policy()).await;
    until_said(&mut first, "ready").await;
    world.says("mkdir $CACHE/new && touch $CACHE/new/b").await;
    world.0.file("stop", "");
    assert_eq!(first.wait().await.outcome, ExitOutcome::Exited(0));
    fs::create_dir(world.0.outside("cache/new")).unwrap();
    world.write("new/c", "");
    assert_eq!(world.says("ls $CACHE/new").await, "a\nb\nc\n");
}

#[tokio::test]
async fn a_folder_that_a_command_replaced_has_nothing_of_the_users() {
    let world = Cached::new();
    world.says("cd $CACHE && rm -r crates && mkdir crates && touch crates/b").await;
    assert_eq!(world.says("ls $CACHE/crates").await, "b\n");
    assert_eq!(world.of_user("crates/a").as_deref(), Some("of the user"));
}

#[tokio::test]
async fn commands_share_a_lock_beside_the_cache() {
    let world = Cached::new();
    fs::write(world.0.outside("package-lock"), "of the user").unwrap();
    let lock = Some(world.0.outside("package-lock"));
    let policy = world.0.policy().with_copied_cache(CopiedCache { lock, ..world.copied() });
    let line = "echo -n locked >> $CACHE/../package-lock && cat $CACHE/../package-lock";
    for said in ["locked", "lockedlocked"] {
        assert_eq!(world.0.run(&sh(line), &policy).await.stdout.to_text(), said);
    }
    assert_eq!(fs::read_to_string(world.0.outside("package-lock")).unwrap(), "of the user");
}

#[tokio::test]
async fn hidden_and_readable_paths_in_a_cache_stay_as_they_are() {
    let world = Cached::new();
    world.write("secret", "secret");
    let policy = world.policy().hide(world.0.outside("cache/secret"));
    let policy = policy.read(world.0.outside("cache/crates"));
    let line = "cat $CACHE/secret; echo -n mine > $CACHE/crates/a; cat $CACHE/crates/a";
    let output = world.0.run(&sh(line), &policy).await;
    assert_eq!(output.stdout.to_text(), "mine");
    assert_eq!(world.of_user("crates/a").as_deref(), Some("of the user"));
}

#[tokio::test]
async fn without_a_layer_a_cache_is_as_readable_as_the_policy_says() {
    let world = Cached::new();
    fs::write(world.0.outside("layer"), "not a folder").unwrap();
    let policy = world.policy().read(world.0.outside("cache"));
    let line = format!(
        "cat {0}/crates/a; echo -n \" $CACHE\"; echo mine > {0}/crates/a",
        world.0.outside("cache").display()
    );
    let output = world.0.run(&sh(&line), &policy).await;
    assert_eq!(output.stdout.to_text(), "of the user ");
    assert_eq!(world.of_user("crates/a").as_deref(), Some("of the user"));
}

#[tokio::test]
async fn a_command_whose_caches_cannot_be_copied_is_not_tried_with_copies_again() {
    let world = Cached::new();
    fs::write(world.0.outside("layer"), "not a folder").unwrap();
    let policy = world.policy();
    let says = async || {
        let output = world.0.run(&sh("echo -n \"$CACHE\""), &policy).await;
        (output.stdout.to_text(), output.copied_caches)
    };
    assert_eq!(world.0.driver().why_not_copied(&policy), None);
    assert_eq!(says().await, (String::new(), false));
    let reason = world.0.driver().why_not_copied(&policy).unwrap();
    assert!(reason.starts_with("mounting the overlay of a cache: "), "{reason}");
    // It would work now, but no command tries.
    fs::remove_file(world.0.outside("layer")).unwrap();
    assert_eq!(says().await, (String::new(), false));
    assert!(!world.0.outside("layer").exists());
    let other = CopiedCache { layer: world.0.outside("other"), ..world.copied() };
    let output = world.0.run(&sh("true"), &world.0.policy().with_copied_cache(other)).await;
    assert!(output.copied_caches);
}

#[tokio::test]
async fn a_command_whose_changes_are_discarded_changes_no_cache_of_later_commands() {
    let world = Cached::new();
    let own = world.0.outside("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("kept"), "own").unwrap();
    let policy = world.policy().with_cache(&own);
    let discarded = policy.clone().discard_changes();
    let poison = "mkdir -p ~/.cache; for at in $CACHE/crates/a ~/.cache/a ~/.cache/kept; do \
        echo -n poison > $at; cat $at; done";
    let transaction = Transaction::begin(&world.0.outside("staging"), &world.0.path("")).unwrap();
    let staged = discarded.clone().with_transaction(&transaction);
    let said = world.0.run(&sh(&format!("cat ~/.cache/kept; {poison}")), &staged).await;
    assert_eq!(said.stdout.to_text(), "ownpoisonpoisonpoison", "{}", said.stderr.to_text());
    transaction.discard();
    // In the background, changes are not staged.
    let said = world.0.run(&sh(poison), &discarded).await;
    assert_eq!(said.stdout.to_text(), "poisonpoisonpoison", "{}", said.stderr.to_text());
    let said = world.0.run(&sh("cat $CACHE/crates/a ~/.cache/kept; ls ~/.cache"), &policy).await;
    assert_eq!(said.stdout.to_text(), "of the userownkept\n", "{}", said.stderr.to_text());
    assert_eq!(fs::read_dir(&own).unwrap().count(), 1);
}
