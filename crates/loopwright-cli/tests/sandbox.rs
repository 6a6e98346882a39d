//! A command in the sandbox, by hand.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::server::{Server, streamed, streamed_tool};
use crate::world::{Done, World, until_asleep};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

fn exec(world: &World, options: &[&str], command: &[&str]) -> Done {
    let line = [&["sandbox", "exec", "--workdir", "."][..], options, &["--"], command].concat();
    world.run(&line)
}

fn check(options: &[&str], line: &str, status: i32, stdout: &str, stderr: &str) {
    let done = exec(&World::new(), options, &["sh", "-c", line]);
    let expected = Done { status, stdout: stdout.to_owned(), stderr: stderr.to_owned() };
    assert_eq!(done, expected, "{options:?} {line}");
}

#[test]
fn status_and_output_are_those_of_the_command() {
    check(&[], "cat a.txt; echo e >&2; exit 7", 7, "one\ntwo\n", "e\n");
    check(&[], "kill -KILL $$", 137, "", "");
    check(&["--env", "NAME=value"], "echo $NAME", 0, "value\n", "");
}

#[test]
fn limits_have_statuses_of_their_own() {
    let late = "sandbox: the command ran longer than allowed (0.2 s); all its processes exited\n";
    check(&["--timeout", "0.2"], "echo said; sleep 60", 124, "said\n", late);
    let large = "sandbox: all processes of a command together can use at most 100 MiB of memory (`sandbox.memory`)\n\
                 sandbox: the command used more memory than allowed; all its processes exited\n";
    let hog = "head -c 60000000 /dev/zero | tail -c 60000000 | (sleep 20; cat) >/dev/null";
    check(&["--memory", "100M"], &format!("{hog} & {hog} & {hog} & wait"), 137, "", large);
}

#[test]
fn a_denied_path_is_named_after_the_output() {
    let stderr = "touch: cannot touch '/usr/x': Read-only file system\n\
                  sandbox: `/usr/x` is read-only in the sandbox\n";
    check(&[], "touch /usr/x", 1, "", stderr);
}

#[test]
fn long_output_loses_its_middle() {
    check(
        &["--max-output", "8"],
        "printf 0123456789abcdef",
        0,
        "0123\n[8 bytes omitted]\ncdef",
        "",
    );
}

#[test]
fn a_command_that_cannot_run_says_why() {
    let done = exec(&World::new(), &[], &["no-such-program"]);
    let stderr = "error: cannot start `no-such-program`: No such file or directory (os error 2)\n";
    assert_eq!((done.status, done.stderr.as_str()), (127, stderr));
    let done = exec(&World::new(), &["--read", "/no/such/path"], &["true"]);
    assert_eq!(done.status, 125, "{}", done.stderr);
}

#[test]
fn a_secret_of_the_environment_stays_outside() {
    let done = exec(&World::new().env("OPENAI_API_KEY", "sk-hidden"), &[], &["env"]);
    assert!(done.status == 0 && !done.stdout.contains("sk-hidden"), "{done:?}");
}

#[test]
fn the_report_tells_what_happened_and_what_was_enforced() {
    let world = World::new();
    let report = world.path("report.json");
    exec(&world, &["--report", report.to_str().unwrap()], &["sh", "-c", "echo 12; exit 3"]);
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(report["outcome"], serde_json::json!({ "exited": 3 }));
    assert_eq!(report["stdout"], serde_json::json!({ "total": 3, "omitted": 0 }));
    assert_eq!(report["enforced"]["kill_tree"], "enforced");
    assert_eq!(report["not_enforced"], serde_json::json!([]));
}

/// A world with programs and data outside of the project, and a configuration that speaks of them.
fn configured(sandbox: &str) -> World {
    let world = World::new()
        .file("tools/hello", "#!/bin/sh\necho hello\n")
        .file("data/a", "data\n")
        .file("project/keys/a", "key\n")
        .file(".config/loopwright/config.toml", &format!("[sandbox]\n{sandbox}\n"));
    let program = world.path("tools/hello");
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world
}

#[test]
fn the_configuration_says_what_commands_see() {
    let line = "read = ['~/data']\nwrite = ['~/out']\nhide = ['./keys']\npath = ['~/tools']\nenvironment = ['A=1', 'B']";
    let world = configured(line).env("B", "2").env("C", "3");
    std::fs::create_dir(world.path("out")).unwrap();
    let script = "hello; cat ../data/a; echo $A$B$C; echo x > ../out/x; cat keys/a";
    let done = exec(&world, &[], &["sh", "-c", script]);
    let stderr = "cat: keys/a: Permission denied\nsandbox: `keys/a` is hidden in the sandbox\n";
    let expected =
        Done { status: 1, stdout: "hello\ndata\n12\n".to_owned(), stderr: stderr.to_owned() };
    assert_eq!(done, expected);
    assert_eq!(std::fs::read_to_string(world.path("out/x")).unwrap(), "x\n");
}

#[test]
fn file_tools_do_not_read_or_change_what_the_configuration_hides() {
    let world = configured("hide = ['./keys']");
    let read = json!({ "path": "keys/a" });
    let write = json!({ "path": "keys/b", "content": "new" });
    let server = Server::start([
        streamed_tool("", "read_file", &read),
        streamed_tool("", "write_file", &write),
        streamed("Done.", "stop"),
    ]);
    world.run(&[&MODEL[..], &[&server.url, "Go."]].concat());
    let (_, body) = server.heard().pop().unwrap();
    let reason = "`sandbox.hide` in the configuration includes this path";
    assert_eq!(body.to_string().matches(reason).count(), 2, "{body}");
    assert!(!world.path("project/keys/b").exists());
}

#[test]
fn hosts_are_named_on_the_command_line_or_in_the_configuration() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let granted = format!("granted.test:{port}@127.0.0.1");
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let mut head = [0; 1024];
            std::io::Read::read(&mut stream, &mut head).ok();
            std::io::Write::write_all(
                &mut stream,
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            )
            .ok();
        }
    });
    let world = World::new();
    let url = format!("http://granted.test:{port}/");
    let fetch = ["curl", "-s", "-m", "5", url.as_str()];
    let done = exec(&world, &["--network", &granted], &fetch);
    assert_eq!((done.status, done.stdout.as_str()), (0, "hi"), "{}", done.stderr);
    let refused =
        exec(&world, &["--network", &granted], &["curl", "-s", "-m", "5", "http://other.test/"]);
    assert!(
        refused.stderr.contains("sandbox: no connection to other.test:80"),
        "{}",
        refused.stderr
    );
    let world = configured(&format!("network = ['{granted}']"));
    let done = exec(&world, &[], &fetch);
    assert_eq!((done.status, done.stdout.as_str()), (0, "hi"), "{}", done.stderr);
    let off = exec(&world, &["--network", "off"], &fetch);
    assert!(off.status != 0 && off.stdout.is_empty(), "{off:?}");
    let explained = world.run(&["sandbox", "explain"]).stdout;
    assert!(explained.contains(&granted), "{explained}");
}

#[test]
fn the_configuration_says_what_commands_leave_behind_and_use() {
    let script = "echo a > .envrc; ulimit -u";
    let world = configured("allow = ['.envrc']\nprocesses = 77");
    let done = exec(&world, &[], &["bash", "-c", script]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "77\n"), "{}", done.stderr);
    assert_eq!(std::fs::read_to_string(world.path("project/.envrc")).unwrap(), "a\n");
    let world = configured("");
    exec(&world, &[], &["bash", "-c", script]);
    assert!(!world.path("project/.envrc").exists());
}

#[test]
fn sandbox_explain_lists_what_commands_see() {
    let world = configured("read = ['~/data']\npath = ['~/tools']\nmemory = '1G'\ntimeout = 60")
        .file(".cargo/bin/cargo", "")
        .file(".gitconfig", "[user]\n\tname = A\n\temail = a@b\n")
        .file(".local/state/loopwright/sessions/a", "");
    let done = world.run(&["sandbox", "explain", "--", "hello"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let line = |name: &str| done.stdout.lines().find_map(|it| it.strip_prefix(name)).map(str::trim);
    assert_eq!(line("folder"), Some("~/project"));
    assert_eq!(line("toolchains"), Some("cargo: ~/.cargo"));
    assert_eq!(line("PATH"), Some("~/tools"));
    assert_eq!(line("commits as"), Some("A <a@b>"));
    assert_eq!(line("program"), Some("hello: ~/tools/hello"));
    assert!(line("cache").unwrap().starts_with("~/.local/state/loopwright/caches/project-"));
    let limits = line("limits").unwrap();
    assert!(limits.starts_with("1024 MiB of memory, 512 processes, 1G per file, "), "{limits}");
    assert!(limits.ends_with(" in /tmp, 60 s by default, at most 60 s"), "{limits}");
    let done = world.run(&["sandbox", "explain", "--", "no-such-program"]);
    assert!(done.stdout.ends_with("no-such-program: not found\n"), "{}", done.stdout);
}

#[test]
fn sandbox_explain_says_what_a_command_can_do_with_each_path_and_host() {
    let world = configured("read = ['~/data']\nhide = ['~/project/keys']\nnetwork = ['crates.io']")
        .file("data/a", "")
        .file("data/link/b", "")
        .file(".ssh/id", "")
        .file("project/keys/a", "")
        .file(".local/state/loopwright/sessions/a", "");
    std::os::unix::fs::symlink("../.ssh/id", world.path("project/key")).unwrap();
    let cases = [
        ("a.txt", "readable and writable"),
        ("new/b.txt", "readable and writable; it does not exist"),
        ("keys/a", "hidden: `sandbox.hide` in the configuration includes this path"),
        ("key", "not visible: no setting shows it; add it to `sandbox.read`"),
        ("~/.ssh/id", "not visible: no setting shows it; add it to `sandbox.read`"),
        ("../data/a", "read-only"),
        (
            ".git/hooks/x",
            "read-only: changes to it are refused, unless `sandbox.allow` lists it; it does not exist",
        ),
        (
            "~/.local/state/loopwright/sessions/a",
            "hidden: Loopwright keeps its settings and sessions there",
        ),
        ("/usr/bin/env", "read-only"),
        (
            "/etc/shadow",
            "not visible, unless programs need it: commands see about 40 files of `/etc`",
        ),
        ("/proc/1/environ", "not visible: each command has its own folder there"),
        ("https://crates.io/x", "reachable through the proxy"),
        ("https://example.com", "not reachable: `sandbox.network` does not grant the host"),
    ];
    let arguments = cases.iter().map(|(argument, _)| *argument);
    let line: Vec<&str> =
        ["sandbox", "explain", "--", "cat", "-v"].into_iter().chain(arguments).collect();
    let done = world.run(&line);
    let told = done.stdout.lines().skip_while(|it| !it.starts_with("arguments"));
    let told: Vec<&str> = told.map(|it| it[13..].trim()).collect();
    let expect = cases.map(|(argument, verdict)| format!("{argument}: {verdict}"));
    assert_eq!(told, expect, "{}", done.stderr);
}

#[test]
fn sandbox_explain_says_where_a_program_is_for_commands() {
    let tool = ".local/share/uv/tools/ruff/bin/ruff";
    let world = configured("").file(".local/share/uv/python/a", "");
    let world = world.file(tool, "").file(".local/bin/other", "");
    for program in [tool, ".local/bin/other"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(world.path(program), mode).unwrap();
    }
    std::os::unix::fs::symlink(world.path(tool), world.path(".local/bin/ruff")).unwrap();
    let path = format!("{}:/usr/bin", world.path(".local/bin").display());
    let world = world.env("PATH", &path);
    let explained = |program: &str| {
        let done = world.run(&["sandbox", "explain", "--", program]);
        done.stdout.lines().last().unwrap().strip_prefix("program").unwrap().trim().to_owned()
    };
    assert_eq!(explained("ruff"), "ruff: ~/.local/bin/ruff");
    assert_eq!(explained("other"), "other: not visible to commands: ~/.local/bin/other");
    let done = exec(&world, &[], &["sh", "-c", "command -v ruff; command -v other; true"]);
    assert_eq!((done.status, done.stdout), (0, "/.local/bin/ruff\n".to_owned()));
}

#[test]
fn a_virtual_environment_in_the_folder_is_active_for_commands() {
    let program = "project/.venv/bin/hello-venv";
    let world = World::new().file("project/.venv/pyvenv.cfg", "home = /usr/bin\n");
    let world = world.file(program, "#!/bin/sh\necho hello from $VIRTUAL_ENV\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(world.path(program), mode).unwrap();
    let done = exec(&world, &[], &["hello-venv"]);
    assert_eq!(done.stdout, "hello from /project/.venv\n", "{}", done.stderr);
}

/// Serves files by their paths, one for each connection.
fn registry(files: Vec<(String, Vec<u8>)>) -> u16 {
    use std::io::{BufRead as _, BufReader, Write as _};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let path = first.split(' ').nth(1).unwrap_or_default();
            let config = format!(r#"{{"dl":"http://registry.test:{port}/dl"}}"#).into_bytes();
            let found = files.iter().find(|(name, _)| name == path).map(|(_, body)| body);
            let found = found.or((path == "/config.json").then_some(&config));
            let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
            let body = found.map_or(&[][..], Vec::as_slice);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(&[head.as_bytes(), body].concat()).ok();
        }
    });
    port
}

#[test]
fn cargo_fetches_from_a_granted_registry_into_a_copy_of_the_users_cache() {
    let text = |command: &mut Command| {
        let output = command.output().ok().filter(|it| it.status.success())?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let Some(sysroot) = text(Command::new("rustc").args(["--print", "sysroot"])) else {
        println!("left out: this machine has no Rust");
        return;
    };
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\nlicense = \"MIT\"\ndescription = \"A.\"\n";
    let world = World::new().file(".cargo/bin/own", "").file("tiny/src/lib.rs", "");
    let world = world.file("tiny/Cargo.toml", manifest);
    let mut package = Command::new("cargo");
    package.args(["package", "--offline", "--no-verify", "--allow-dirty", "--target-dir"]);
    package.arg(world.path("made")).current_dir(world.path("tiny"));
    text(&mut package).unwrap();
    let archive = world.path("made/package/tiny-1.0.0.crate");
    let checksum = text(Command::new("sha256sum").arg(&archive)).unwrap();
    let entry = json!({
        "name": "tiny", "vers": "1.0.0", "deps": [], "features": {}, "yanked": false,
        "cksum": checksum.split(' ').next(),
    });
    let port = registry(vec![
        ("/ti/ny/tiny".to_owned(), format!("{entry}\n").into_bytes()),
        ("/dl/tiny/1.0.0/download".to_owned(), std::fs::read(archive).unwrap()),
    ]);
    let manifest = "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ntiny = { version = \"1\", registry = \"local\" }\n";
    let config = format!("[registries.local]\nindex = \"sparse+http://registry.test:{port}/\"\n");
    let world = world
        .file("project/Cargo.toml", manifest)
        .file("project/src/lib.rs", "")
        .file("project/.cargo/config.toml", &config)
        .file(".local/state/loopwright/sessions/a", "")
        .env("PATH", &format!("{sysroot}/bin:/usr/bin:/bin"));
    let world = match sysroot.rsplit_once("/toolchains/") {
        Some((rustup, _)) => world.env("RUSTUP_HOME", rustup),
        None => world,
    };
    let granted = format!("registry.test:{port}@127.0.0.1");
    let done = exec(&world, &["--network", &granted], &["cargo", "fetch"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let done = exec(&world, &["--network", "off"], &["cargo", "check", "--offline"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!world.path(".cargo/registry").exists());
}

#[test]
fn a_command_changes_a_copy_of_the_users_cache_and_not_the_cache() {
    let world = World::new()
        .file(".npm/_cacache/a", "of the user")
        .file(".local/state/loopwright/sessions/a", "");
    let line = "cat $npm_config_cache/_cacache/a; echo poison > $npm_config_cache/_cacache/a";
    for said in ["of the user", "poison\n"] {
        let done = exec(&world, &[], &["sh", "-c", line]);
        assert_eq!((done.status, done.stdout.as_str()), (0, said), "{}", done.stderr);
    }
    let of_user = std::fs::read_to_string(world.path(".npm/_cacache/a")).unwrap();
    assert_eq!(of_user, "of the user");
    let explained = world.run(&["sandbox", "explain"]).stdout;
    let copied = explained.lines().find(|it| it.starts_with("copied caches")).unwrap();
    assert!(copied.contains(" ~/.npm: changes in ~/.local/state/loopwright/caches/copies/"));
}

#[test]
fn sandbox_explain_names_hidden_paths_of_the_system_and_those_that_programs_need() {
    let world = configured("hide = ['/bin', '/usr/share/doc', './keys', '/srv/elsewhere']");
    let done = world.run(&["sandbox", "explain"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let lines = done.stdout.lines().skip_while(|it| !it.starts_with("hidden"));
    let lines: Vec<&str> = lines.take(3).map(|it| it[13..].trim()).collect();
    let needed = "/bin: programs cannot start without it";
    assert_eq!(lines, [needed, "/usr/share/doc", "~/project/keys"]);
}

#[test]
fn an_interruption_ends_the_command_and_a_kill_too() {
    for (signal, status) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-KILL", None)] {
        let world = World::new();
        let mark = format!("4{:06}{}", std::process::id() % 1_000_000, signal.len());
        let line = format!("trap '' TERM; setsid sleep {mark} & sleep {mark}");
        let mut child =
            world.start(&["sandbox", "exec", "--workdir", ".", "--", "sh", "-c", &line]);
        until_asleep(&mark);
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), status, "{signal}");
        while Command::new("pgrep")
            .args(["-f", &format!("sleep {mark}")])
            .output()
            .unwrap()
            .status
            .success()
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn the_doctor_names_the_tier_that_is_used() {
    let world = World::new();
    let done = world.run(&["doctor", "sandbox"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let (_, last) = done.stdout.split_once("\nCommands run in namespaces.\n").unwrap();
    assert_eq!(
        last,
        "Commands change copies of your cargo, npm, pip, uv and Go caches.\n\
            Changes in this folder are staged in /.local/state/loopwright/changes and applied when a command exits.\n"
    );
    let left = |folder: &str| world.path(folder).read_dir().unwrap().count();
    assert_eq!(left(".local/state/loopwright/changes"), 0);
    assert_eq!(left(".local/state/loopwright"), 1);
}

/// A folder on a file system of its own. `None` where there is no such folder.
#[expect(clippy::print_stdout, reason = "a test says what it leaves out")]
fn folder_in_memory() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir_in("/dev/shm").ok();
    if folder.is_none() {
        println!("left out, because there is no `/dev/shm` here");
    }
    folder
}

#[test]
fn where_changes_cannot_be_collected_the_doctor_and_each_result_say_so() {
    let Some(folder) = folder_in_memory() else { return };
    let world = World::new();
    let done = world.command(&["doctor", "sandbox"]).current_dir(folder.path()).output().unwrap();
    let told = String::from_utf8(done.stdout).unwrap();
    let places = format!(
        "you own no folder on the same file system (`{}/.local/state/loopwright/changes` is on another file system; \
            `/var/tmp/loopwright-{}` is on another file system)",
        world.path("").display().to_string().trim_end_matches('/'),
        rustix::process::geteuid().as_raw()
    );
    let expect =
        format!("Changes in this folder are applied immediately and cannot be undone: {places}.\n");
    assert!(told.ends_with(&expect), "{told}");
    let workdir = folder.path().to_str().unwrap();
    let exec = |more: &[&str]| {
        let words = [&["sandbox", "exec", "--workdir", workdir], more, &["--", "touch", "a"]];
        world.run(&words.concat())
    };
    let done = exec(&[]);
    assert_eq!(done.status, 0, "{done:?}");
    let expect = "changes were applied immediately and cannot be undone, because they cannot be staged here: you own no folder on the same file system";
    assert!(done.stderr.contains(expect), "{done:?}");
    // One who asks for it needs no note.
    let done = exec(&["--changes", "direct"]);
    assert!(done.status == 0 && !done.stderr.contains(expect), "{done:?}");
}

#[test]
fn a_program_that_the_users_git_names_is_not_changed() {
    for options in [&[][..], &["--changes", "direct"]] {
        let world = World::new().file(".gitconfig", "[core]\n\tfsmonitor = ./run.sh\n");
        let line = "echo 'touch mark' > run.sh; chmod +x run.sh; mkdir sub; cp run.sh sub; echo kept > other.sh";
        let done = exec(&world, options, &["sh", "-c", line]);
        assert_eq!(done.status, 0, "{done:?}");
        let left =
            ["run.sh", "sub/run.sh", "other.sh"].map(|it| world.path("project").join(it).exists());
        assert_eq!(left, [false, false, true], "{options:?} {done:?}");
        assert!(
            done.stderr.contains("is run or read by git, according to git settings"),
            "{done:?}"
        );
    }
}

#[test]
fn a_virtual_environment_of_the_project_replaces_no_program_of_a_command_that_is_not_confined() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new()
        .file("project/.venv/pyvenv.cfg", "home = /usr/bin\n")
        .file("project/.venv/bin/ls", "#!/bin/sh\necho hostile\n");
    let program = world.path("project/.venv/bin/ls");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let says = |options: &[&str]| exec(&world, options, &["sh", "-c", "ls -d ."]).stdout;
    assert_eq!(says(&["--backend", "host"]), ".\n");
    assert_eq!(says(&[]), "hostile\n");
}
