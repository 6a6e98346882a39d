//! What a hostile command leaves behind for later commands, other projects and the user.

use std::fs;

use loopwright_sandbox::transaction::{Transaction, recover};

use crate::world::{World, sh};

#[tokio::test]
async fn a_command_that_may_write_around_the_staging_folder_cannot_reach_its_plans() {
    let world = World::new();
    let staging = world.outside("around/staging");
    let transaction = Transaction::begin(&staging, &world.path("")).unwrap();
    let policy = world.policy().write(world.outside("around")).with_transaction(&transaction);
    let line = format!(
        "touch {around}/own; touch {folder}/plan || echo refused; ls {staging} || echo refused",
        around = world.outside("around").display(),
        folder = transaction.folder().display(),
        staging = staging.display()
    );
    let output = world.run(&sh(&line), &policy).await;
    assert_eq!(output.stdout.to_text(), "refused\nrefused\n", "{}", output.stderr.to_text());
    assert!(world.outside("around/own").exists() && !transaction.folder().join("plan").exists());
    transaction.discard();
    assert_eq!(recover(&staging).unwrap(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_layer_is_seen_by_the_commands_of_its_project_alone() {
    let world = World::new();
    let (cache, layers) = (world.outside("cache"), world.outside("layers"));
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("crate"), "of the user").unwrap();
    let policy = |project: &str| {
        let copied = loopwright_sandbox::CopiedCache::new(&cache, layers.join(project));
        world.policy().with_copied_cache(copied)
    };
    let at = cache.display();
    let poison = format!(
        "echo -n poison > {at}/crate; ln -sf /etc/passwd {at}/link; chmod 4755 {at}/crate; cat {at}/crate"
    );
    let said =
        async |project, line: &str| world.run(&sh(line), &policy(project)).await.stdout.to_text();
    assert_eq!(said("first", &poison).await, "poison");
    let look = format!("cat {at}/crate; ls {at}; ls {} 2>&1 | wc -l", layers.display());
    assert_eq!(said("first", &look).await, "poisoncrate\nlink\n1\n");
    assert_eq!(said("second", &look).await, "of the usercrate\n1\n");
    assert_eq!(fs::read_to_string(cache.join("crate")).unwrap(), "of the user");
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
}
