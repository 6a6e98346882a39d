use serde_json::{Value, json};

use super::*;

#[test]
fn yaml_is_read_without_aliases_and_without_depth() {
    let read = |text: &str| Yaml::read(text).map(|it| Value::Object(it.values));
    assert_eq!(read("a: &a [x, x]\nb: [*a, *a]"), Err(YamlError::Alias { line: 2 }));
    assert_eq!(read(&format!("a: {}", "[".repeat(100))), Err(YamlError::Deep { line: 1 }));
    assert!(read(&format!("a: {}", "[".repeat(10_000))).is_err());
    let nested = format!("a:\n  {}", "- ".repeat(10_000));
    assert_eq!(read(&nested), Err(YamlError::Deep { line: 2 }));
    assert_eq!(read("- a"), Err(YamlError::NotAMap));
    let text = "a: 1\nb: 1.5\nc: 'true'\nd: true\ne: ~\nf: |\n  two\n  lines\ng: !!str 5\n1: -3\n\
        h: 0x10\ni: 1e400\nj: nan";
    let expect = json!({
        "a": 1, "b": 1.5, "c": "true", "d": true, "e": null, "f": "two\nlines\n", "g": "5", "1": -3,
        "h": "0x10", "i": "1e400", "j": "nan",
    });
    assert_eq!(read(text), Ok(expect));
    assert_eq!(read(""), Ok(json!({})));
}

#[test]
fn every_value_is_known_by_its_line_and_keys_that_repeat_are_told() {
    let yaml = Yaml::read("a: 1\n\nb:\n  - x\n  - c: 2\n    d:\n      e: 3\na: 4").unwrap();
    let line = |path: &[&str]| yaml.lines.find(path.iter().copied()).map(|it| it.line);
    let paths: [&[&str]; 6] =
        [&["b"], &["b", "0"], &["b", "1", "c"], &["b", "1", "d", "e"], &["a"], &["b", "2"]];
    assert_eq!(paths.map(line), [Some(3), Some(4), Some(5), Some(7), Some(8), None]);
    assert_eq!(yaml.repeated, [Repeated { key: "a".into(), line: 8 }]);
    assert_eq!((&yaml.values["a"], yaml.has_more), (&4.into(), false));
    assert!(Yaml::read("a: 1\n---\nb: 2\n").unwrap().has_more);
}

#[test]
fn an_error_names_its_line() {
    let error = Yaml::read("a: 1\nb: [").unwrap_err();
    assert!(error.line() >= Some(2), "{error}");
    assert!(error.to_string().ends_with(&error.problem()), "{error}");
}

#[test]
fn front_matter_ends_at_the_first_line_of_dashes() {
    assert_eq!(split("---\na: 1\n---\nbody\n---\nmore"), Some(("a: 1\n", "body\n---\nmore")));
    assert_eq!(split("---\n---\n"), Some(("", "")));
    for text in ["", "---", "---\na: 1", "a\n---\nb\n---\n"] {
        assert_eq!(split(text), None, "{text}");
    }
    assert_eq!(plain("\u{feff}a\r\nb\rc"), "a\nb\rc");
}

#[test]
fn a_forgotten_quote_is_put_there() {
    let read = read("name: a\ndescription: Use it: it's good: really").unwrap();
    assert!(read.is_quoted);
    assert_eq!(read.yaml.values["description"], "Use it: it's good: really");
    assert_eq!(read.yaml.lines.find(["description"]).map(|it| it.line), Some(2));
}

#[test]
fn a_hint_of_brackets_is_text_and_needs_no_quotes() {
    let read = read("argument-hint: [number] [priority]\ndescription: D.").unwrap();
    assert!(!read.is_quoted);
    assert_eq!(read.yaml.values["argument-hint"], "[number] [priority]");
}

#[test]
fn a_file_is_read_whole_and_from_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out.md"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(&outside, "text").unwrap();
    std::fs::write(inside.join("long.md"), "x".repeat((1 << 20) + 1)).unwrap();
    std::fs::write(inside.join("binary.md"), [0xff, 0xfe]).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("link.md")).unwrap();
    let told = |name: &str| read_within(&inside, &inside.join(name)).map_err(|it| it.to_string());
    assert_eq!(told("link.md"), Err("the link leads outside its directory".into()));
    assert_eq!(
        told("long.md"),
        Err("the file is 1048577 bytes long; at most 1048576 are allowed".into())
    );
    assert_eq!(told("binary.md"), Err("not UTF-8".into()));
    assert_eq!(told("."), Err("not a regular file".into()));
    assert_eq!(read_file(&inside.join("link.md")).ok(), Some("text".to_owned()));
}
