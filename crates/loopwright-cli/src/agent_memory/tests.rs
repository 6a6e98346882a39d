use std::os::unix::fs::symlink;

use loopwright_permissions::Policy;
use loopwright_templates::DefinitionPaths;
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A home with a project, the user's agent `mine` and the project's agent `theirs`.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(TempDir::new().unwrap());
        for (folder, name) in [(".claude/agents", "mine"), ("p/.claude/agents", "theirs")] {
            let text = format!("---\nname: {name}\ndescription: D.\n---\nGo.\n");
            fs::create_dir_all(home.path(folder)).unwrap();
            fs::write(home.path(folder).join(format!("{name}.md")), text).unwrap();
        }
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn notes(&self, agent: &str, memory: &str, mode: Mode) -> AgentNotes {
        let agents = AgentDefinitionRegistry::new();
        let paths = DefinitionPaths::new().with_project(self.path("p"));
        agents.auto_discover(&paths.with_user_dir(self.path(".claude/agents")));
        let places = MemoryPlaces {
            home: Some(self.0.path().to_owned()),
            root: self.path("p"),
            agents,
            permissions: Permissions::new(Policy::builder("/").mode(mode).build()),
        };
        places.configured(&json!({ "agent": agent, "memory": memory })).unwrap().0
    }
}

fn args(action: MemoryAction, file: &str, content: &str) -> AgentMemoryArgs {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    AgentMemoryArgs { action, file: given(file), content: given(content) }
}

fn write(notes: &AgentNotes, file: &str, content: &str) -> Result<String, String> {
    notes.run(&args(MemoryAction::Write, file, content)).map_err(|error| error.to_string())
}

#[test]
fn notes_are_written_read_listed_and_deleted_in_the_folder_of_the_agent() {
    let home = Home::new();
    let notes = home.notes("mine", "user", Mode::Auto);
    let run = |action, file| notes.run(&args(action, file, "")).map_err(|it| it.to_string());
    assert_eq!(run(MemoryAction::List, ""), Ok("(no notes yet)".to_owned()));
    assert_eq!(write(&notes, "MEMORY.md", "# Index\n"), Ok("wrote MEMORY.md".to_owned()));
    assert_eq!(write(&notes, "build.md", "Use make."), Ok("wrote build.md".to_owned()));
    assert_eq!(run(MemoryAction::List, ""), Ok("MEMORY.md\nbuild.md".to_owned()));
    assert_eq!(run(MemoryAction::Read, "build.md"), Ok("Use make.".to_owned()));
    let path = home.path(".claude/agent-memory/mine/build.md");
    assert_eq!(fs::read_to_string(&path).unwrap(), "Use make.");
    assert_eq!(run(MemoryAction::Delete, "build.md"), Ok("deleted build.md".to_owned()));
    let missing = Err("`build.md` does not exist; `list` shows the files".to_owned());
    assert_eq!(run(MemoryAction::Delete, "build.md"), missing);
    assert_eq!(run(MemoryAction::Read, "build.md"), missing);
    assert!(notes.prompt().ends_with("These are your notes in `MEMORY.md`:\n\n# Index"));
}

#[test]
fn each_place_has_a_folder_and_a_project_reaches_only_its_own() {
    let home = Home::new();
    let cases = [
        ("mine", "user", ".claude/agent-memory/mine"),
        ("mine", "project", "p/.claude/agent-memory/mine"),
        ("mine", "local", "p/.claude/agent-memory-local/mine"),
        ("theirs", "user", "p/.claude/agent-memory-local/theirs"),
        // The definition of a session whose file is gone.
        ("other", "user", "p/.claude/agent-memory-local/other"),
    ];
    for (agent, memory, folder) in cases {
        let notes = home.notes(agent, memory, Mode::Auto);
        assert!(write(&notes, "a.md", "text").is_ok(), "{agent} {memory}");
        let path = home.path(folder).join("a.md");
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), Some("text"), "{agent} {memory}");
    }
    let ignored = fs::read_to_string(home.path("p/.claude/agent-memory-local/.gitignore"));
    assert_eq!(ignored.unwrap(), "*\n");
    assert!(!home.path("p/.claude/agent-memory/.gitignore").exists());
}

#[test]
fn no_name_and_no_link_leads_out_of_the_folder() {
    let home = Home::new();
    let notes = home.notes("theirs", "project", Mode::Auto);
    for name in ["../a.md", "a/b.md", ".a.md", "a.txt", "/a.md", "a b.md", "ä.md", ""] {
        assert!(write(&notes, name, "text").is_err(), "{name}");
    }
    fs::create_dir_all(home.path("p/.claude/agent-memory")).unwrap();
    fs::create_dir_all(home.path("secret")).unwrap();
    fs::write(home.path("secret/MEMORY.md"), "hidden").unwrap();
    symlink("../../../secret", home.path("p/.claude/agent-memory/theirs")).unwrap();
    assert!(!notes.prompt().contains("hidden"), "{}", notes.prompt());
    assert!(write(&notes, "a.md", "text").is_err());
    assert_eq!(notes.files(), Vec::<String>::new());
    assert!(!home.path("secret/a.md").exists());
}

#[test]
fn notes_have_limits() {
    let home = Home::new();
    let notes = home.notes("mine", "user", Mode::Auto);
    let too_large = "x".repeat(65_537);
    let expect = "the content is 65537 bytes long, but a file can be at most 65536 bytes long; write less, or split the content into several files";
    assert_eq!(write(&notes, "a.md", &too_large), Err(expect.to_owned()));
    for number in 0..100 {
        write(&notes, &format!("{number}.md"), "x").unwrap();
    }
    let too_many = Err("there are already 100 files; delete one first".to_owned());
    assert_eq!(write(&notes, "a.md", "x"), too_many);
    assert_eq!(write(&notes, "7.md", "y"), Ok("wrote 7.md".to_owned()));
    let long = "line\n".repeat(300);
    notes.run(&args(MemoryAction::Delete, "0.md", "")).unwrap();
    write(&notes, "MEMORY.md", &long).unwrap();
    let prompt = notes.prompt();
    assert_eq!(prompt.matches("line").count(), 200, "{prompt}");
    assert!(prompt.ends_with("\n(truncated; use `read` to see the whole file)"), "{prompt}");
}

#[test]
fn notes_do_not_change_in_mode_plan() {
    let home = Home::new();
    let notes = home.notes("mine", "user", Mode::Plan);
    let refused = Err("notes cannot be changed in permission mode `plan`".to_owned());
    let run = |action, file| notes.run(&args(action, file, "")).map_err(|it| it.to_string());
    assert_eq!(
        [write(&notes, "a.md", "x"), run(MemoryAction::Delete, "a.md")],
        [refused.clone(), refused]
    );
    assert_eq!(run(MemoryAction::List, ""), Ok("(no notes yet)".to_owned()));
}
