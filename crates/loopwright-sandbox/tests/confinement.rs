//! What a command cannot reach.

use std::fs;
use std::net::TcpListener;

use loopwright_sandbox::{Backend, ExitOutcome, Guarantee, Network};

use crate::world::{World, mark, sh};

#[tokio::test]
async fn paths_outside_are_neither_read_nor_written() {
    for backend in [Backend::Namespaces, Backend::Landlock] {
        let world = World::in_tier(backend);
        fs::write(world.outside("secret"), "hidden").unwrap();
        let output = world
            .sh("cat ../secret; echo x > ../made; echo x > ../secret; ln -s .. up; cat up/secret")
            .await;
        assert_eq!(output.stdout.to_text(), "", "{backend}");
        assert!(!world.outside("made").exists(), "{backend}");
        assert_eq!(fs::read_to_string(world.outside("secret")).unwrap(), "hidden", "{backend}");
    }
}

#[tokio::test]
async fn paths_named_by_the_policy_are_read_and_written() {
    for backend in [Backend::Namespaces, Backend::Landlock] {
        let world = World::in_tier(backend);
        fs::create_dir(world.outside("library")).unwrap();
        fs::create_dir(world.outside("build")).unwrap();
        fs::write(world.outside("library/a"), "read").unwrap();
        let policy = world.policy().read(world.outside("library")).write(world.outside("build"));
        let line = "cat ../library/a; echo written > ../build/b; echo x > ../library/c";
        let output = world.run(&sh(line), &policy).await;
        assert_eq!(output.stdout.to_text(), "read", "{backend}");
        assert_eq!(fs::read_to_string(world.outside("build/b")).unwrap(), "written\n", "{backend}");
        assert!(!world.outside("library/c").exists(), "{backend}");
    }
}

#[tokio::test]
async fn a_read_only_folder_has_one_writable_place() {
    for backend in [Backend::Namespaces, Backend::Landlock] {
        let world = World::in_tier(backend);
        world.file("source", "read");
        world.file("target/.keep", "");
        let policy = world.policy().read_only().write(world.path("target"));
        let line =
            "cat source; echo x > source; echo x > made; mv target old; echo out > target/out";
        let output = world.run(&sh(line), &policy).await;
        assert_eq!(output.stdout.to_text(), "read", "{backend}");
        assert_eq!(
            (world.read("source"), world.read("target/out")),
            ("read".into(), "out\n".into())
        );
        assert!(!world.path("made").exists(), "{backend}");
    }
}

#[tokio::test]
async fn a_link_that_is_named_leads_where_it_did() {
    let world = World::new();
    fs::create_dir(world.outside("version-1")).unwrap();
    fs::write(world.outside("version-1/a"), "read").unwrap();
    std::os::unix::fs::symlink("version-1", world.outside("current")).unwrap();
    let output =
        world.run(&sh("cat ../current/a"), &world.policy().read(world.outside("current"))).await;
    assert_eq!(output.stdout.to_text(), "read");
}

#[tokio::test]
async fn the_first_process_cannot_be_reached_through_its_memory() {
    for backend in [Backend::Namespaces, Backend::Bubblewrap] {
        let world = World::in_tier(backend);
        let Ok(output) = world.try_run(&sh("exec 3<>/proc/1/mem"), &world.policy()).await else {
            assert_eq!(backend, Backend::Bubblewrap, "the default backend works");
            continue;
        };
        assert_ne!(output.outcome, ExitOutcome::Exited(0), "{backend}");
    }
}

#[tokio::test]
async fn only_its_own_processes_are_seen() {
    let seen = World::new().says("ls /proc | grep -c '^[0-9]'").await;
    assert!(seen.trim().parse::<u32>().unwrap() <= 5, "{seen}");
}

#[tokio::test]
async fn homes_and_most_of_the_system_are_not_there() {
    let text = World::new()
        .says("ls -d /root /home /var/log /run /etc/shadow /etc/ssh 2>/dev/null || true")
        .await;
    assert_eq!(text, "");
}

#[tokio::test]
async fn a_service_of_the_host_is_not_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = World::new();
    for network in [Network::Off, Network::Loopback] {
        let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let command = loopwright_sandbox::Command::new("bash").args(["-c", &line]);
        let output = world.run(&command, &world.policy().with_network(network.clone())).await;
        assert_eq!(output.outcome, ExitOutcome::Exited(1), "{network:?}");
        assert!(output.enforced.enforces(Guarantee::Network));
    }
    assert!(listener.accept().is_err());
}

#[tokio::test]
async fn loopback_is_up_when_it_is_wanted() {
    let world = World::new();
    let line = "tail -n +3 /proc/net/if_inet6 | wc -l; grep -c . /proc/net/if_inet6";
    let loopback = world.run(&sh(line), &world.policy().with_network(Network::Loopback)).await;
    assert_eq!(loopback.stdout.to_text(), "0\n1\n");
    let off = world.run(&sh(line), &world.policy().with_network(Network::Off)).await;
    assert_eq!(off.stdout.to_text(), "0\n0\n");
}

#[tokio::test]
async fn the_hosts_network_is_an_explicit_choice_and_said_to_be_open() {
    let world = World::new();
    let output = world.run(&sh(":"), &world.policy().with_network(Network::Host)).await;
    assert_eq!(output.enforced.strength(Guarantee::Network), None);
}

#[tokio::test]
async fn no_privileges_are_left() {
    let text =
        World::new().says("grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status").await;
    assert_eq!(
        text,
        "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
    );
}

#[tokio::test]
async fn the_first_process_keeps_its_environment_to_itself() {
    let output = World::new().sh("cat /proc/1/environ").await;
    assert_eq!((output.outcome, output.stdout.total), (ExitOutcome::Exited(1), 0));
}

#[tokio::test]
async fn descriptors_of_the_agent_are_not_passed_on() {
    let text = World::new().says("ls /proc/self/fd").await;
    // The last is that of the listing.
    assert_eq!(text, "0\n1\n2\n3\n");
}

#[tokio::test]
async fn scratch_space_is_private_and_limited() {
    let world = World::new();
    let policy = world.policy().with_scratch(1 << 20);
    let mark = mark();
    let outside = std::env::temp_dir().join(format!("outside-{mark}"));
    fs::write(&outside, "").unwrap();
    let line = format!(
        "echo x > $TMPDIR/inside-{mark} && ls -d /tmp/*{mark} {} 2>/dev/null; head -c 2000000 /dev/zero > /tmp/big",
        outside.display()
    );
    let output = world.run(&sh(&line), &policy).await;
    fs::remove_file(&outside).unwrap();
    assert_eq!(
        (output.outcome, output.stdout.to_text()),
        (ExitOutcome::Exited(1), format!("/tmp/inside-{mark}\n"))
    );
    assert!(!std::path::Path::new(&format!("/tmp/inside-{mark}")).exists());
}

#[tokio::test]
async fn files_of_commands_belong_to_the_user_of_the_agent() {
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new();
    world.says("touch mine").await;
    let owner = world.path("mine").metadata().unwrap().uid();
    assert_eq!(owner, world.outside("").metadata().unwrap().uid());
}

#[tokio::test]
async fn a_set_user_id_file_cannot_be_made() {
    let world = World::new();
    let output = world.sh("touch f; chmod u+s f").await;
    assert_eq!(output.outcome, ExitOutcome::Exited(1));
}

#[tokio::test]
async fn a_command_has_no_capabilities_and_can_get_none() {
    for backend in [Backend::Namespaces, Backend::Landlock] {
        let world = World::in_tier(backend);
        let status = world.says("cat /proc/self/status").await;
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(value(set), "0000000000000000", "{backend} {set}");
        }
        assert_eq!(value("NoNewPrivs"), "1", "{backend}");
        assert_eq!(value("Seccomp"), "2", "{backend}");
    }
}

#[tokio::test]
async fn limits_are_those_of_the_policy() {
    for backend in [Backend::Namespaces, Backend::Landlock] {
        let world = World::in_tier(backend);
        let policy = world.policy().with_open_files(77).with_file_size(512 << 10);
        let output = world.run(&sh("ulimit -n; ulimit -f; ulimit -c"), &policy).await;
        assert_eq!(output.stdout.to_text(), "77\n1024\n0\n", "{backend}");
    }
}

#[tokio::test]
async fn a_command_that_lacks_the_hidden_loader_or_shell_is_refused_with_the_hidden_path() {
    let world = World::new();
    let shell = fs::canonicalize("/bin/sh").unwrap().parent().unwrap().to_path_buf();
    let policy = world.policy().hide(&shell);
    let error = world.try_run(&sh(":"), &policy).await.unwrap_err().to_string();
    let expect = format!("`{}` is hidden from commands, and programs need it", shell.display());
    assert!(error.contains(&expect), "{error}");
}

#[tokio::test]
async fn a_link_that_is_made_later_hides_what_it_leads_to_from_the_next_command() {
    let world = World::new();
    let (key, other) = (world.file("key", "sesame"), world.file("other", "plain"));
    let policy = world.policy().hide(world.path("link"));
    let line = sh("cat key 2>&1; cat other 2>&1");
    let said = world.run(&line, &policy).await.stdout.to_text();
    assert_eq!(said, "sesameplain");
    std::os::unix::fs::symlink(&key, world.path("link")).unwrap();
    let said = world.run(&line, &policy).await.stdout.to_text();
    assert_eq!((said.contains("sesame"), said.contains("plain")), (false, true), "{said}");
    fs::remove_file(world.path("link")).unwrap();
    std::os::unix::fs::symlink(&other, world.path("link")).unwrap();
    let said = world.run(&line, &policy).await.stdout.to_text();
    assert_eq!((said.contains("sesame"), said.contains("plain")), (true, false), "{said}");
}
