//! Containers, seen through a client program that records what it is asked.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use loopwright_sandbox::{Backend, ExitOutcome, TimeoutKind};

use crate::world::{World, left, mark, run, sh, until_said};

/// A program of these lines of shell.
pub(crate) fn program(world: &World, lines: &str) -> PathBuf {
    let path = world.outside("client");
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A client that writes its arguments, one in each line, and what its environment file holds.
fn recorder(world: &World, then: &str) -> PathBuf {
    let log = world.outside("log");
    let log = log.display();
    program(
        world,
        &format!(
            "printf '%s\\n' \"$@\" >> {log}.$1\n\
             file=; for a in \"$@\"; do test \"$file\" = next && cp \"$a\" {log}.env && file=; \
             test \"$a\" = --env-file && file=next; \
             test \"$created\" = next && touch \"$a\" && created=; \
             test \"$a\" = --cidfile && created=next; done\n\
             env > {log}.client\n\
             test \"$1\" = rm && exit 0\n{then}"
        ),
    )
}

fn logged(world: &World, name: &str) -> String {
    fs::read_to_string(world.outside(&format!("log.{name}"))).unwrap_or_default()
}

#[tokio::test]
async fn a_container_is_named_and_gets_nothing_that_it_was_not_given() {
    let world = World::in_tier(Backend::Docker);
    let driver = world.driver().with_program(recorder(&world, "echo said; exit 5"));
    let policy = world
        .policy()
        .with_env("TOKEN", "not-an-argument")
        .with_image("image:1")
        .with_processes(20);
    let output = run(&driver, &sh("true"), &policy).await.unwrap();
    assert_eq!(
        (output.outcome, output.stdout.to_text()),
        (ExitOutcome::Exited(5), "said\n".into())
    );
    let arguments = logged(&world, "run");
    let work = fs::canonicalize(world.path("")).unwrap();
    let work = work.display().to_string();
    let expected = [
        "run",
        "--interactive",
        "--init",
        "--read-only",
        "--name=",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--user=",
        "--pids-limit=20",
        "--memory=536870912",
        "--memory-swap=536870912",
        "--ulimit=fsize=67108864:67108864",
        "--ulimit=nofile=1024:1024",
        "--ulimit=core=0:0",
        "--shm-size=67108864",
        "--tmpfs=/tmp:rw,nosuid,nodev,mode=1777,size=67108864",
        "--network=none",
        &format!("--mount=type=bind,source={work},target={work}"),
        "--env-file",
        "/",
        "--cidfile",
        "/",
        "--workdir",
        &work,
        "--",
        "image:1",
        "/bin/sh",
        "-c",
        "true",
    ];
    let mut expected = expected.to_vec();
    let processes = rustix::process::getrlimit(rustix::process::Resource::Nproc).maximum;
    let numbers: u64 =
        fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    let processes =
        processes.map(|most| most.min(numbers)).map(|most| format!("--ulimit=nproc={most}:{most}"));
    if let (Some(at), Some(limit)) =
        (expected.iter().position(|argument| *argument == "--network=none"), &processes)
    {
        expected.insert(at, limit);
    }
    let arguments: Vec<&str> = arguments.lines().collect();
    assert_eq!(arguments.len(), expected.len(), "{arguments:#?}");
    for (argument, expected) in arguments.iter().zip(expected) {
        assert!(argument.starts_with(expected), "{argument} is not {expected}");
    }
    assert!(logged(&world, "env").lines().any(|line| line == "TOKEN=not-an-argument"));
    assert!(!logged(&world, "client").contains("not-an-argument"));
}

#[tokio::test]
async fn a_container_of_podman_may_not_make_user_namespaces_or_trace_processes() {
    let world = World::in_tier(Backend::Podman);
    let log = world.outside("log");
    let copy = format!(
        "for a in \"$@\"; do case \"$a\" in --security-opt=seccomp=*) \
         cp \"${{a#--security-opt=seccomp=}}\" {}.profile;; esac; done",
        log.display()
    );
    let driver = world.driver().with_program(recorder(&world, &copy));
    run(&driver, &sh("true"), &world.policy()).await.unwrap();
    let places = ["/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json"];
    if !places.iter().any(|path| fs::exists(path).unwrap()) {
        assert_eq!(logged(&world, "profile"), "");
        return;
    }
    let profile: serde_json::Value = serde_json::from_str(&logged(&world, "profile")).unwrap();
    let rules = profile["syscalls"].as_array().unwrap();
    let allows = |name: &str| {
        rules.iter().any(|rule| {
            rule["action"] == "SCMP_ACT_ALLOW"
                && rule["names"].as_array().unwrap().iter().any(|it| it == name)
                && rule["args"].as_array().is_none_or(Vec::is_empty)
        })
    };
    assert!(allows("read") && allows("execve"));
    for name in ["ptrace", "process_vm_readv", "clone", "clone3", "unshare", "setns", "mount"] {
        assert!(!allows(name), "{name}");
    }
}

#[tokio::test]
async fn a_container_runs_as_the_owner_of_the_folder() {
    use std::os::unix::fs::MetadataExt as _;
    let world = World::in_tier(Backend::Docker);
    let driver = world.driver().with_program(recorder(&world, ""));
    run(&driver, &sh("true"), &world.policy()).await.unwrap();
    let owner = world.path("").metadata().unwrap();
    let user = format!("--user={}:{}", owner.uid(), owner.gid());
    assert!(logged(&world, "run").lines().any(|line| line == user), "{user}");
}

/// The name that the container was given.
fn name(world: &World) -> String {
    let arguments = logged(world, "run");
    let name = arguments.lines().find_map(|line| line.strip_prefix("--name="));
    name.unwrap().to_owned()
}

#[tokio::test]
async fn a_container_whose_time_runs_out_is_ended_by_its_name() {
    let world = World::in_tier(Backend::Docker);
    let mark = mark();
    let driver =
        world.driver().with_program(recorder(&world, &format!("trap '' TERM; sleep {mark}")));
    let output = run(&driver, &sh("true"), &world.policy().with_timeout(Duration::from_secs(1)))
        .await
        .unwrap();
    assert_eq!(output.outcome, ExitOutcome::TimedOut(TimeoutKind::Wall));
    assert_eq!(logged(&world, "rm"), format!("rm\n--force\n{}\n", name(&world)));
    assert_eq!(left(&mark), 0);
}

#[tokio::test]
async fn a_container_whose_agent_drops_it_is_ended_by_its_name() {
    use loopwright_sandbox::Sandbox as _;
    let world = World::in_tier(Backend::Podman);
    let mark = mark();
    let driver = world.driver().with_program(recorder(&world, &format!("echo up; sleep {mark}")));
    let mut child = driver.spawn(&sh("true"), &world.policy()).await.unwrap();
    until_said(&mut child, "up\n").await;
    drop(child);
    let removal = format!("rm\n--force\n--time=0\n{}\n", name(&world));
    while logged(&world, "rm").len() < removal.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((logged(&world, "rm"), left(&mark)), (removal, 0));
}

#[tokio::test]
async fn the_environment_file_is_gone_afterwards() {
    let world = World::in_tier(Backend::Docker);
    let driver = world.driver().with_program(recorder(&world, ""));
    run(&driver, &sh("true"), &world.policy()).await.unwrap();
    let arguments = logged(&world, "run");
    let mut arguments = arguments.lines().skip_while(|argument| *argument != "--env-file");
    let file = arguments.nth(1).unwrap();
    assert!(!std::path::Path::new(file).exists(), "{file}");
}

#[tokio::test]
async fn a_client_that_fails_is_not_taken_for_the_command() {
    let world = World::in_tier(Backend::Docker);
    let driver = world.driver().with_program(program(&world, "echo no daemon >&2; exit 125"));
    let output = run(&driver, &sh("true"), &world.policy()).await.unwrap();
    assert_eq!(
        (output.outcome, output.stderr.to_text()),
        (ExitOutcome::Lost, "no daemon\n".into())
    );
    assert_eq!(
        output.notes,
        ["the container did not start: its program failed, and the command was not run"]
    );
}

/// Runs a client that makes a container which is started at this time, and exits with a status.
async fn started_at(time: &str, status: i32) -> (ExitOutcome, Vec<String>, World) {
    let world = World::in_tier(Backend::Docker);
    let lines = format!("test \"$1\" = inspect && echo '{time}' && exit 0\nexit {status}");
    let driver = world.driver().with_program(recorder(&world, &lines));
    let output = run(&driver, &sh("true"), &world.policy()).await.unwrap();
    (output.outcome, output.notes, world)
}

#[tokio::test]
async fn a_container_that_was_made_and_not_started_did_not_run_the_command() {
    for status in [125, 126, 127] {
        for never in ["0001-01-01T00:00:00Z", "0001-01-01 00:00:00 +0000 UTC"] {
            let (outcome, notes, world) = started_at(never, status).await;
            assert_eq!(outcome, ExitOutcome::Lost, "{status} {never}");
            assert_eq!(
                notes,
                ["the container did not start: its program failed, and the command was not run"]
            );
            assert_eq!(logged(&world, "rm"), format!("rm\n--force\n{}\n", name(&world)));
        }
        let (outcome, notes, _) = started_at("2026-01-02T03:04:05Z", status).await;
        assert_eq!((outcome, notes.len()), (ExitOutcome::Exited(status), 0));
    }
}

#[tokio::test]
async fn a_container_is_removed_when_its_command_has_ended() {
    let (outcome, _, world) = started_at("", 0).await;
    assert_eq!(outcome, ExitOutcome::Exited(0));
    assert_eq!(logged(&world, "inspect"), "");
    assert_eq!(logged(&world, "rm"), format!("rm\n--force\n{}\n", name(&world)));
}

#[tokio::test]
async fn trying_out_a_container_asks_its_daemon() {
    use loopwright_sandbox::Sandbox as _;
    let world = World::in_tier(Backend::Docker);
    let driver = world.driver().with_program(program(&world, "test $1 = version"));
    assert!(driver.probe().await.is_ok());
    let driver = world.driver().with_program(program(&world, "echo no daemon >&2; exit 1"));
    assert_eq!(driver.probe().await.unwrap_err().reason, "no daemon");
}

#[tokio::test]
async fn a_folder_that_containers_cannot_mount_is_refused() {
    let world = World::in_tier(Backend::Docker);
    let odd = world.path("a,readonly");
    fs::create_dir(&odd).unwrap();
    let driver = world.driver().with_program(recorder(&world, ""));
    let mut policy = world.policy();
    policy.workdir = odd;
    let error = run(&driver, &sh("true"), &policy).await.unwrap_err();
    assert!(error.to_string().contains("containers cannot mount"), "{error}");
    assert_eq!(logged(&world, "run"), "");
}

#[tokio::test]
async fn the_path_of_an_image_stays_unless_the_policy_gives_another_one() {
    let world = World::in_tier(Backend::Docker);
    let driver = world.driver().with_program(recorder(&world, ""));
    let paths = |log: String| log.lines().filter(|it| it.starts_with("PATH=")).count();
    run(&driver, &sh("true"), &world.policy()).await.unwrap();
    assert_eq!(paths(logged(&world, "env")), 0);
    run(&driver, &sh("true"), &world.policy().with_env("PATH", "/x")).await.unwrap();
    assert!(logged(&world, "env").lines().any(|line| line == "PATH=/x"));
}

#[tokio::test]
async fn the_client_of_a_container_finds_its_daemon_as_the_agent_would() {
    let world = World::in_tier(Backend::Docker);
    let driver = world.driver().with_program(recorder(&world, ""));
    run(&driver, &sh("true"), &world.policy()).await.unwrap();
    let Ok(home) = std::env::var("HOME") else { return };
    let home = format!("HOME={home}");
    assert!(logged(&world, "client").lines().any(|line| line == home), "{home}");
}
