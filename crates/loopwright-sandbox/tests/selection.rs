//! Which driver runs a command, and that none is used that was not allowed.

use loopwright_sandbox::{
    Backend, BackendChoice, BackendSandbox, Enforcement, ExitOutcome, Guarantee, Sandbox as _,
    SandboxError, auto_select,
};

use crate::world::{World, run, sh};

#[tokio::test]
async fn the_strongest_tier_that_works_is_the_default() {
    let world = World::new();
    let output = run(&*auto_select(), &sh(":"), &world.policy().with_backend(BackendChoice::Auto))
        .await
        .unwrap();
    assert_eq!((output.outcome, output.driver.as_str()), (ExitOutcome::Exited(0), "namespaces"));
}

#[tokio::test]
async fn a_driver_without_its_program_is_refused_with_the_remedy() {
    let world = World::in_tier(Backend::Bubblewrap);
    let driver = world.driver().with_program("/no/such/bwrap");
    let error = run(&driver, &sh("echo x > f"), &world.policy()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the command was not run: no sandbox is available: bubblewrap: /no/such/bwrap is not a program; \
         install your distribution's package `bubblewrap`, version 0.8 or newer"
    );
    assert!(!world.path("f").exists());
}

#[tokio::test]
async fn a_program_of_a_driver_that_fails_is_a_refusal_and_not_a_result() {
    let world = World::in_tier(Backend::Bubblewrap);
    let program = crate::containers::program(&world, "echo no permission >&2; exit 1");
    let error =
        run(&world.driver().with_program(program), &sh(":"), &world.policy()).await.unwrap_err();
    let SandboxError::Unavailable(unavailable) = error else { panic!("{error}") };
    assert_eq!(unavailable[0].reason, "first process (no permission) failed");
}

#[tokio::test]
async fn no_isolation_is_an_explicit_choice_that_the_output_shows() {
    let world = World::in_tier(Backend::Host);
    let output = world.sh("test -r /etc/passwd && echo $LOOPWRIGHT_SANDBOX").await;
    assert_eq!((output.driver.as_str(), output.stdout.to_text()), ("host", "1\n".into()));
    assert_eq!(output.enforced.strength(Guarantee::FileReads), None);
    assert_eq!(output.enforced.strength(Guarantee::KillTree), Some(Enforcement::BestEffort));
}

#[tokio::test]
async fn landlock_says_what_it_does_not_enforce() {
    let world = World::in_tier(Backend::Landlock);
    let output = world.sh(":").await;
    assert_eq!(
        output.enforced.missing(),
        [Guarantee::FileMetadata, Guarantee::ProcessView, Guarantee::Scratch]
    );
}

#[tokio::test]
async fn the_default_sandbox_reports_what_the_strongest_backend_does() {
    let _world = World::new();
    let (auto, strongest) = (auto_select(), BackendSandbox::new(Backend::Namespaces));
    assert_eq!(auto.name(), "auto");
    assert_eq!(auto.probe().await.unwrap(), strongest.probe().await.unwrap());
}

#[tokio::test]
async fn the_first_process_in_bubblewrap_is_handed_its_job_and_its_view() {
    let world = World::in_tier(Backend::Bubblewrap);
    let cache = world.outside("cache");
    std::fs::create_dir(&cache).unwrap();
    let log = world.outside("job");
    // The last six arguments are descriptors, the job the first of them: its length, and then JSON.
    let lines =
        format!("shift $(($# - 6)); tail -c +5 /proc/self/fd/$1 > {}; exit 1", log.display());
    let program = crate::containers::program(&world, &lines);
    let policy = world.policy().with_cache(&cache);
    run(&world.driver().with_program(program), &sh(":"), &policy).await.unwrap_err();
    let handed: serde_json::Value = serde_json::from_slice(&std::fs::read(log).unwrap()).unwrap();
    let (job, view) = (&handed[0], &handed[1]);
    assert_eq!(job["policy"]["workdir"], serde_json::json!(policy.workdir));
    let seen = serde_json::json!({ "Cache": cache.canonicalize().unwrap() });
    let entries = view["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["seen"] == seen), "{view}");
}
