//! `skills`.

use serde_json::{Value, json};

use crate::world::World;

const REVIEW: &str = "---\nname: review\ndescription: Reviews. Use it before a commit.\nallowed-tools: Read\n---\nLook.\n";

fn world() -> World {
    World::new()
        .file("project/.agents/skills/review/SKILL.md", REVIEW)
        .file("project/.agents/skills/review/scripts/a.sh", "")
        .file(
            ".config/loopwright/skills/mine/SKILL.md",
            "---\nname: mine\ndescription: Is mine.\n---\nGo.\n",
        )
}

#[test]
fn skills_are_listed() {
    let done = world().run(&["skills", "list"]);
    let expect = "\
NAME    DIRECTORY                         DESCRIPTION
review  .agents/skills/review             Reviews. Use it before a commit.
mine    ~/.config/loopwright/skills/mine  Is mine.
";
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, expect, ""));
    let listed = world().run(&["skills", "list", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        listed["skills"][0],
        json!({
            "name": "review", "description": "Reviews. Use it before a commit.",
            "directory": "/project/.agents/skills/review", "allowed_tools": ["Read"],
            "model": null, "agent": null, "model_invocable": true, "user_invocable": true,
            "forks": false,
        })
    );
    assert!(World::new().run(&["skills", "list"]).stderr.starts_with("no skills found"));
}

#[test]
fn a_skill_is_shown_as_a_model_sees_it() {
    let done = world().run(&["skills", "show", "review"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stdout.starts_with("<skill_content name=\"review\">\nLook.\n"), "{}", done.stdout);
    assert!(done.stdout.contains("- scripts/a.sh"), "{}", done.stdout);
    let shown = world().run(&["skills", "show", "review", "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["body"], &shown["schema_version"]), (&json!("Look.\n"), &json!(1)));
    let done = world().run(&["skills", "show", "none"]);
    let expect = "error: unknown skill `none`; available: review, mine\n";
    assert_eq!((done.status, done.stderr.as_str()), (2, expect));
}

#[test]
fn skills_are_checked_and_what_is_left_out_ends_with_3() {
    let done = world().run(&["skills", "validate"]);
    assert_eq!((done.status, done.stdout.lines().count()), (0, 2), "{}", done.stdout);
    let world = world().file("project/.agents/skills/bad/SKILL.md", "---\na: [\n---\n").file(
        "project/.agents/skills/odd/SKILL.md",
        "---\nname: other\ndescription: Odd.\n---\nGo.\n",
    );
    let done = world.run(&["skills", "validate"]);
    assert_eq!(done.status, 3);
    assert!(done.stdout.contains("bad/SKILL.md: error: the skill is skipped"), "{}", done.stdout);
    assert!(done.stdout.contains("odd/SKILL.md: warning: the name `other`"), "{}", done.stdout);
    let one = world.run(&["skills", "validate", ".agents/skills/odd/SKILL.md"]);
    assert_eq!((one.status, one.stdout.lines().count()), (0, 2), "{}", one.stdout);
    let world = world.file("project/.claude/commands/tidy.md", "Tidy up.\n");
    let command = world.run(&["skills", "validate", ".claude/commands/tidy.md"]);
    assert_eq!(command.status, 0, "{}", command.stdout);
    assert!(command.stdout.contains("tidy.md: ok"), "{}", command.stdout);
    let none = world.run(&["skills", "validate", ".agents/skills/none", "--json"]);
    assert_eq!(none.status, 3, "{}", none.stdout);
}
