//! Sessions that move to another place.

use std::fs;

use super::{Place, answers, mode, said};
use crate::server::nowhere;
use crate::world::World;

#[test]
fn a_fork_is_exported_whole_and_is_the_same_elsewhere() {
    let place = Place::new(answers(["one", "two", "three"]));
    let id = place.ran(&["1?"]);
    let fork = place.ran(&["--fork", &id, "2?"]);
    let done = place.sessions(&["export", &fork, "../talk.jsonl"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, ""), "{}", done.stderr);
    let path = place.world.path("talk.jsonl");
    assert_eq!(mode(&path), 0o600);
    let text = fs::read_to_string(&path).unwrap();
    let other = Place::within(World::new().file("talk.jsonl", &text), answers(["four"]));
    let done = other.sessions(&["import", "../talk.jsonl"]);
    assert_eq!((done.status, done.stdout), (0, format!("{fork}\n")), "{}", done.stderr);
    let (here, there) = (place.shown(&fork), other.shown(&fork));
    assert_eq!(here["entries"], there["entries"]);
    assert_eq!(there["session"]["workdir"], "/project");
    // Line by line the same, but for the first one, which says where it is kept.
    let again = other.sessions(&["export", &fork]).stdout;
    assert_eq!(again.split_once('\n').unwrap().1, text.split_once('\n').unwrap().1);
    other.ran(&["-r", &fork, "4?"]);
    assert_eq!(said(&other.shown(&fork)), ["1?", "one", "2?", "two", "4?", "four"]);

    let taken = other.sessions(&["import", "../talk.jsonl"]);
    assert_eq!(taken.status, 2);
    assert!(taken.stderr.contains("choose another one with `--id`"), "{}", taken.stderr);
    let overwritten = place.sessions(&["export", &fork, "../talk.jsonl"]);
    assert_eq!(overwritten.status, 2, "{}", overwritten.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_that_is_no_session_is_refused_and_nothing_is_kept() {
    let place = Place::new(answers(["one"]));
    let id = place.ran(&["1?"]);
    let text = place.sessions(&["export", &id]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    let cut = lines[..lines.len() - 1].join("\n");
    let newer = text.replacen("\"format\":1", "\"format\":99", 1);
    let broken = text.replacen("\n{", "\n[", 1);
    let mut shuffled = lines.clone();
    shuffled.swap(1, lines.len() - 1);
    let shuffled = shuffled.join("\n");
    let wrong = [
        ("", "line 1 of - is not part of an exported session"),
        ("hello\n", "line 1 of - is not part of an exported session"),
        (cut.as_str(), "- is incomplete"),
        (
            newer.as_str(),
            "- has format 99, but this program supports formats up to 1; update the program",
        ),
        (broken.as_str(), "line 2 of - is not part of an exported session"),
        (shuffled.as_str(), "are inconsistent"),
    ];
    for (text, expect) in wrong {
        let done = place.world.run_with(&["sessions", "import", "-", "--id", "new"], text);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{expect}");
        assert!(done.stderr.contains(expect), "{expect}: {}", done.stderr);
    }
    assert_eq!(place.sessions(&["show", "new"]).status, 2);
}

#[test]
fn a_session_may_not_say_whose_key_goes_to_the_address_of_the_user() {
    let place = Place::new(answers(["one"]));
    let id = place.ran(&["1?"]);
    let user = format!("base_url = '{}'\n", place.server.url);
    let text = place.sessions(&["export", &id]).stdout.replace("openai-compatible", "openai");
    let world = World::new()
        .file(".config/loopwright/config.toml", &user)
        .file("a.jsonl", &text)
        .env("OPENAI_API_KEY", "k");
    let imported = world.run(&["sessions", "import", "../a.jsonl"]);
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    let closed = [("OPENAI_BASE_URL", nowhere())];
    let world = closed.iter().fold(world, |world, (name, url)| world.env(name, url));
    let done = world.run(&["run", "-r", &id, "2?"]);
    assert_eq!(done.status, 5, "{}", done.stderr);
    assert!(
        done.stderr.contains("is ignored, because the model comes from the session"),
        "{}",
        done.stderr
    );
}
