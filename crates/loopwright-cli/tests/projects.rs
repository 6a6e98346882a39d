//! Projects are built and tested in the sandbox as they are outside of it. What the machine has no tools for is left
//! out, and it says so.

use std::env::{home_dir, split_paths, var_os};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_core::AgentState;
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;
use tempfile::TempDir;

/// A folder for a project, and beside it what the program keeps.
struct Project(TempDir);

impl Project {
    fn with(files: &[(&str, &str)]) -> Self {
        let project = Self(TempDir::new().unwrap());
        fs::create_dir_all(project.path("")).unwrap();
        // The program was used before.
        fs::create_dir_all(project.state()).unwrap();
        for (name, text) in files {
            let path = project.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("project").join(name)
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state/loopwright")
    }

    fn outside(&self, line: &str) -> Output {
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(self.path("")).output().unwrap()
    }

    fn inside(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright"));
        command
            .args(["sandbox", "exec", "--workdir", ".", "--", "bash", "-c", line])
            .current_dir(self.path(""))
            .env("XDG_STATE_HOME", self.0.path().join("state"));
        command.output().unwrap()
    }

    /// Runs a line outside and then inside, both of which succeed; returns what the second said.
    fn check(&self, line: &str) -> String {
        for output in [self.outside(line), self.inside(line)] {
            assert!(output.status.success(), "{line}: {}", said(&output));
        }
        said(&self.inside(line))
    }
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Returns `true` if the machine has all of these programs, and says which it has not.
fn has(programs: &[&str]) -> bool {
    let path = var_os("PATH").unwrap_or_default();
    let is_there = |it: &str| split_paths(&path).any(|folder| folder.join(it).is_file());
    let missing: Vec<_> = programs.iter().filter(|it| !is_there(it)).collect();
    if !missing.is_empty() {
        println!("left out: this machine has no {missing:?}");
    }
    missing.is_empty()
}

/// Finds a small crate that the user has fetched before.
fn fetched() -> Option<(String, String)> {
    let home = var_os("CARGO_HOME").map(PathBuf::from).or(home_dir().map(|it| it.join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/cache")).ok()?.flatten();
    let files = registries.filter_map(|it| fs::read_dir(it.path()).ok()).flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|it| it.file_name().into_string().ok()).collect();
    names.sort();
    names.iter().find_map(|name| {
        let version = name.strip_prefix("cfg-if-")?.strip_suffix(".crate")?;
        Some(("cfg-if".to_owned(), version.to_owned()))
    })
}

const MEMBER: &str = "[package]\nname = \"member\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const TEST: &str = "#[test]\nfn adds() {\n    assert_eq!(part::one() + 1, 2);\n}\n";

#[test]
fn a_rust_workspace_is_tested_with_what_was_fetched_and_built_before() {
    if !has(&["cargo", "cc"]) {
        return;
    }
    let dependency = fetched();
    if dependency.is_none() {
        println!("left out: no crate was fetched before that a project could depend on");
    }
    let registry = dependency.iter().map(|(name, version)| format!("{name} = \"={version}\"\n"));
    let registry: String = registry.collect();
    let member = format!("{MEMBER}[dependencies]\npart = {{ path = \"../part\" }}\n{registry}");
    let part = MEMBER.replace("member", "part");
    let project = Project::with(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"member\", \"part\"]\nresolver = \"2\"\n"),
        ("member/Cargo.toml", &member),
        ("member/src/lib.rs", TEST),
        ("part/Cargo.toml", &part),
        ("part/src/lib.rs", "pub fn one() -> u32 {\n    1\n}\n"),
    ]);
    let line = "cargo test --offline --workspace --lib";
    let outside = project.outside(line);
    assert!(outside.status.success(), "{}", said(&outside));
    let inside = project.inside(line);
    let text = said(&inside);
    assert!(inside.status.success() && text.contains("test adds ... ok"), "{text}");
    // What the user has built counts for the agent too.
    assert!(!text.contains("Compiling"), "{text}");
    fs::write(project.path("part/src/lib.rs"), "pub fn one() -> u32 {\n    2\n}\n").unwrap();
    let broken = project.inside(line);
    assert!(said(&broken).contains("test adds ... FAILED"), "{}", said(&broken));
    assert!(said(&project.outside(line)).contains("test adds ... FAILED"));
}

#[test]
fn a_rust_project_is_built_where_nothing_was_built_before() {
    if !has(&["cargo", "cc"]) {
        return;
    }
    let project = Project::with(&[
        ("Cargo.toml", MEMBER),
        ("src/main.rs", "fn main() { println!(\"hi\"); }"),
    ]);
    let output = project.inside("cargo run --offline --quiet");
    assert_eq!((said(&output).as_str(), output.status.success()), ("hi\n", true));
    assert!(project.path("target/debug/member").is_file());
}

#[test]
fn a_project_of_node_is_tested() {
    if !has(&["node", "npm"]) {
        return;
    }
    let test = "require('node:test')('adds', () => require('assert').equal(1 + 1, 2));\n";
    let project = Project::with(&[
        ("package.json", r#"{ "name": "a", "scripts": { "test": "node --test test" } }"#),
        ("test/adds.test.js", test),
    ]);
    assert!(project.check("npm test").contains("pass 1"));
    assert!(project.check("node --test test").contains("pass 1"));
}

#[test]
fn a_project_of_python_is_tested_in_an_environment_of_its_own() {
    if !has(&["python3"]) {
        return;
    }
    let test = "import unittest\n\nclass Adds(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1 + 1, 2)\n";
    let project = Project::with(&[("test_adds.py", test)]);
    let line = "python3 -m venv --without-pip .venv && .venv/bin/python -m unittest";
    let output = project.inside(line);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("Ran 1 test"), "{}", said(&output));
    // What it left behind is used outside, and by the next command.
    let tested = project.check(".venv/bin/python -m unittest");
    assert!(tested.contains("Ran 1 test"), "{tested}");
}

#[test]
fn a_project_of_c_is_built_by_make() {
    if !has(&["make", "cc"]) {
        return;
    }
    let project = Project::with(&[
        ("Makefile", "test: adds\n\t./adds\nadds: adds.c\n\tcc -o $@ $<\n"),
        ("adds.c", "#include <stdio.h>\nint main(void) { return puts(\"adds\") < 0; }\n"),
    ]);
    let output = project.inside("make test");
    assert!(output.status.success() && said(&output).ends_with("adds\n"), "{}", said(&output));
    assert_eq!(project.check("make test"), "./adds\nadds\n");
}

#[test]
fn a_project_of_c_is_built_by_cmake() {
    if !has(&["cmake", "ctest", "cc"]) {
        return;
    }
    let lists = "cmake_minimum_required(VERSION 3.10)\nproject(adds C)\nenable_testing()\nadd_executable(adds adds.c)\nadd_test(NAME adds COMMAND adds)\n";
    let project =
        Project::with(&[("CMakeLists.txt", lists), ("adds.c", "int main(void) { return 0; }\n")]);
    let line = "cmake -S . -B build && cmake --build build && ctest --test-dir build";
    assert!(project.check(line).contains("100% tests passed"));
}

#[test]
fn a_project_of_go_is_tested() {
    if !has(&["go"]) {
        return;
    }
    let test = "package adds\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fail()\n\t}\n}\n";
    let project = Project::with(&[("go.mod", "module adds\n\ngo 1.20\n"), ("adds_test.go", test)]);
    assert!(project.check("go test ./...").contains("ok"));
}

#[test]
fn a_project_of_java_is_compiled_and_run() {
    if !has(&["javac", "java"]) {
        return;
    }
    let main = "class Adds {\n    public static void main(String[] arguments) {\n        System.out.println(1 + 1);\n    }\n}\n";
    let project = Project::with(&[("Adds.java", main)]);
    assert_eq!(project.check("javac -d out Adds.java && java -cp out Adds"), "2\n");
}

#[test]
fn a_commit_bears_the_name_of_the_user_and_nothing_else_of_the_settings_is_seen() {
    if !has(&["git"]) {
        return;
    }
    let project = Project::with(&[("a.txt", "a\n")]);
    let home = project.0.path().join("home");
    fs::create_dir(&home).unwrap();
    let settings = "[user]\n\tname = A \\\"B\\\" C\n\temail = abc@example.org\n\tsigningkey = k\n[commit]\n\tgpgsign = true\n[alias]\n\tx = !id\n";
    fs::write(home.join(".gitconfig"), settings).unwrap();
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright"));
        command
            .args(["sandbox", "exec", "--workdir", ".", "--", "bash", "-c", line])
            .current_dir(project.path(""))
            .env_remove("GIT_CONFIG_GLOBAL")
            .env_remove("XDG_CONFIG_HOME")
            .env("XDG_STATE_HOME", project.0.path().join("state"))
            .env("HOME", &home);
        command.output().unwrap()
    };
    // The repository is the user's, so that its settings are not new.
    assert!(project.outside("git init -q .").status.success());
    let output = run("git add a.txt && git commit -qm a && git log --format='%an <%ae> %cn'");
    assert_eq!(said(&output), "A \"B\" C <abc@example.org> A \"B\" C\n");
    let output = run("git config --global --list --name-only");
    assert_eq!(said(&output), "user.name\nuser.email\n");
    assert!(said(&project.outside("git log --format=%an")).starts_with("A \"B\" C"));
}

/// The tools of an agent are the same.
#[test]
fn a_command_of_an_agent_finds_the_toolchain() {
    use loopwright_cli::{commands::Commands, config, tools};
    if !has(&["cargo"]) {
        return;
    }
    loopwright_sandbox::set_helper_path(env!("CARGO_BIN_EXE_loopwright"));
    let project = Project::with(&[("Cargo.toml", MEMBER), ("src/lib.rs", "")]);
    let mut sources = config::ConfigSources::from_process().unwrap();
    let state = project.0.path().join("state");
    sources.environment.insert("XDG_STATE_HOME".to_owned(), state.into());
    let flags = config::Flags { workdir: project.path(""), ..config::Flags::default() };
    let config = config::Config::load(flags, &sources).unwrap().config;
    let root = tools::workdir(&project.path("")).unwrap();
    let tools = tools::tools(&root, &Commands::of(&config, &sources));
    let command = json!({ "command": "cargo check --offline --quiet && echo $CARGO_HOME checked" });
    let steps = [ScenarioStep::tool_call("bash", command), ScenarioStep::final_answer("done")];
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(tools)
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let state = runtime.block_on(agent.execute(AgentState::new().with_user_message("go")));
    let calls: Vec<_> = state.step_at(0).unwrap().tool_executions().collect();
    let told = calls[0].1.to_result().to_text();
    assert!(told.ends_with("checked"), "{told}");
    assert!(project.path("target").is_dir());
}

#[test]
fn caches_of_package_managers_are_kept_between_commands_of_a_project() {
    let project = Project::with(&[("a.txt", "a\n")]);
    let output = project.inside("echo kept > $XDG_CACHE_HOME/mark && echo $XDG_CACHE_HOME");
    assert_eq!(said(&output), "/tmp/home/.cache\n");
    assert_eq!(said(&project.inside("cat ~/.cache/mark")), "kept\n");
}

#[test]
fn a_command_leaves_nothing_behind_where_the_program_was_never_used() {
    let project = Project::with(&[("a.txt", "a\n")]);
    let state = project.0.path().join("state");
    fs::remove_dir_all(&state).unwrap();
    let output = project.inside("echo lost > ~/mark && cat ~/mark");
    assert_eq!(said(&output), "lost\n");
    assert!(!state.exists());
}
