//! The seed map says where each term and each fact of the seeds went, and what it points at exists.

mod macros;
mod source;
mod tables;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    rc::Rc,
};

use self::{
    source::Source,
    tables::{Row, Table, tables},
};
use crate::WORKSPACE;

const MAP: &str = "docs/seed-map.md";
const DECISIONS: &str = "docs/decisions.md";

const TERMS: &[&str] = &["Seed term", "Kind", "Rust", "Shown by"];
const FACTS: &[&str] = &["#", "Fact", "Changed by", "Shown by"];
const REQUIRED_TESTS: &[&str] = &["Required test", "Shown by"];

#[test]
fn everything_the_seed_map_points_at_exists() {
    let problems = problems(&page(MAP), &Sources::new(&read_source));
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_decision_that_the_seed_map_names_is_explained() {
    let explained: BTreeSet<String> = tables(&page(DECISIONS))
        .iter()
        .flat_map(|table| table.rows.iter().map(|row| row.cells[0].clone()))
        .collect();
    let named = decisions(&page(MAP));
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<&String> = named.difference(&explained).collect();
    assert!(missing.is_empty(), "{DECISIONS} has no row for {missing:?}");
}

#[test]
fn every_outcome_of_bad_input_is_shown_by_a_test_that_exists() {
    let sources = Sources::new(&read_source);
    let mut shown = 0;
    for table in tables(&page("docs/bad-input.md")) {
        for row in &table.rows {
            let cell = row.cells.last().unwrap();
            assert_eq!(in_shown_by(cell, &sources), Vec::<String>::new(), "line {}", row.line);
            shown += 1;
        }
    }
    assert!(shown > 20, "{shown}");
}

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(WORKSPACE).join(path)).unwrap()
}

fn read_source(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(WORKSPACE).join("crates").join(path)).ok()
}

/// Finds the numbers of decisions, such as `D4` and `D4a`, in a page.
fn decisions(page: &str) -> BTreeSet<String> {
    let is_decision = |word: &&str| {
        word.strip_prefix('D').is_some_and(|number| {
            let digits = number.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
            !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    page.split(|letter: char| !letter.is_alphanumeric())
        .filter(is_decision)
        .map(ToOwned::to_owned)
        .collect()
}

// ------------------------------------------------------------------------------------------------
// The checks

/// The source files below `crates/`, parsed when they are first needed.
struct Sources<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    parsed: RefCell<BTreeMap<String, Result<Rc<Source>, String>>>,
}

impl<'a> Sources<'a> {
    fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { read, parsed: RefCell::default() }
    }

    fn get(&self, path: &str) -> Result<Rc<Source>, String> {
        let mut parsed = self.parsed.borrow_mut();
        parsed.entry(path.to_owned()).or_insert_with(|| self.parse(path)).clone()
    }

    fn parse(&self, path: &str) -> Result<Rc<Source>, String> {
        let text = (self.read)(path).ok_or_else(|| format!("no file crates/{path}"))?;
        Source::parse(&text).map(Rc::new).map_err(|error| format!("crates/{path}: {error}"))
    }
}

/// Describes everything that is wrong with the map, in the order of its lines.
fn problems(map: &str, sources: &Sources<'_>) -> Vec<String> {
    let tables = tables(map);
    let missing = [TERMS, FACTS]
        .into_iter()
        .filter(|columns| !tables.iter().any(|table| table.is(columns) && !table.rows.is_empty()))
        .map(|columns| format!("{MAP}: no row of a table {columns:?}"));
    let wrong = tables.iter().flat_map(|table| {
        problems_of(table, sources)
            .into_iter()
            .map(|(line, problem)| format!("{MAP}:{line}: {problem}"))
    });
    missing.chain(wrong).collect()
}

fn problems_of(table: &Table, sources: &Sources<'_>) -> Vec<(usize, String)> {
    if ![TERMS, FACTS, REQUIRED_TESTS].iter().any(|columns| table.is(columns)) {
        return vec![(
            table.line,
            format!("no table of this map has the columns {:?}", table.columns),
        )];
    }
    if !table.is_ruled {
        return vec![(table.line, "the columns need a line of dashes below, one each".to_owned())];
    }
    let mut problems = Vec::new();
    for Row { line, cells } in &table.rows {
        if cells.len() != table.columns.len() {
            let (is, should) = (cells.len(), table.columns.len());
            problems.push((*line, format!("{is} cells in a row of {should}")));
            continue;
        }
        for (column, cell) in table.columns.iter().zip(cells) {
            let wrong = match column.as_str() {
                "Rust" => in_rust(cell, sources),
                "Shown by" => in_shown_by(cell, sources),
                _ => Vec::new(),
            };
            problems.extend(wrong.into_iter().map(|problem| (*line, problem)));
        }
    }
    problems
}

/// Checks what a term became: an item first and any text after it, or why there is none.
fn in_rust(cell: &str, sources: &Sources<'_>) -> Vec<String> {
    if ["planned", "dropped", "-"].iter().any(|word| cell.starts_with(word)) {
        return Vec::new();
    }
    let mut codes = cell.split('`').skip(1).step_by(2);
    let first = codes.next().filter(|_| cell.starts_with('`')).unwrap_or(cell);
    let others = codes.filter(|code| code.contains(".rs::"));
    [first].into_iter().chain(others).filter_map(|code| in_item(code, sources).err()).collect()
}

fn in_item(code: &str, sources: &Sources<'_>) -> Result<(), String> {
    let reference = Reference::parse(code)
        .filter(|reference| reference.path.split('/').nth(1) == Some("src"))
        .ok_or_else(|| {
            format!("{code:?} is neither \"`crate/src/file.rs::Item`\" nor planned, dropped or -")
        })?;
    let path: Vec<&str> = reference.item.split("::").collect();
    match sources.get(reference.path)?.missing(&path) {
        Some(item) => Err(format!("no `{item}` in {}", reference.path)),
        None => Ok(()),
    }
}

/// Checks what shows a term or a fact: tests, or a word for having none.
fn in_shown_by(cell: &str, sources: &Sources<'_>) -> Vec<String> {
    if cell.contains("TODO") {
        return vec!["TODO in `Shown by`".to_owned()];
    }
    if ["planned", "-"].contains(&cell) {
        return Vec::new();
    }
    cell.split(',').filter_map(|entry| in_test(entry.trim(), sources).err()).collect()
}

fn in_test(entry: &str, sources: &Sources<'_>) -> Result<(), String> {
    let reference = entry
        .strip_prefix('`')
        .and_then(|entry| entry.strip_suffix('`'))
        .and_then(Reference::parse)
        .filter(|reference| is_identifier(reference.item))
        .ok_or_else(|| {
            format!("{entry:?} is neither \"`crate/path/file.rs::test`\" nor planned or -")
        })?;
    if sources.get(reference.path)?.has_test(reference.item) {
        Ok(())
    } else {
        Err(format!("no test `{}` in {}", reference.item, reference.path))
    }
}

/// A place in the sources, `crate/path/file.rs::Item` or `crate/path/file.rs::Type::method`.
struct Reference<'a> {
    /// The file, below `crates/`.
    path: &'a str,
    item: &'a str,
}

impl<'a> Reference<'a> {
    fn parse(code: &'a str) -> Option<Self> {
        let (stem, item) = code.split_once(".rs::")?;
        let is_path =
            stem.contains('/') && stem.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let path = &code[..stem.len() + ".rs".len()];
        (is_path && item.split("::").all(is_identifier)).then_some(Self { path, item })
    }
}

fn is_identifier(word: &str) -> bool {
    word.chars().all(is_part_of_word) && word.starts_with(|first: char| !first.is_ascii_digit())
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

// ------------------------------------------------------------------------------------------------
// The checks, checked

#[test]
fn a_map_of_existing_places_has_no_problem() {
    check(
        "\
# Map

| Seed term | Kind | Rust | Shown by |
|---|:--|---|--:|
| `Agent` | type | `core/src/agent.rs::Agent` (a struct) | `core/tests/agent.rs::agent_answers` |
| `next\\|peek` | method | `core/src/agent.rs::Agent::next`, `Agent` | `core/tests/agent.rs::agent_answers`, `core/tests/agent.rs::agent_ends` |
| `Bus` | type | planned: with the server | planned |
| `Base` | type | dropped: composition | - |
| - | - | - | - |

The facts:
| # | Fact | Changed by | Shown by |
|---|---|---|---|
| 1 | it ends | D3 | `core/tests/agent.rs::agent_ends` |

| Required test | Shown by |
|---|---|
| the end | `core/tests/agent.rs::agent_ends` |

```
| not | a table |
```
",
        &[],
    );
}

#[test]
fn a_map_without_rows_is_a_problem() {
    check(
        "| Seed term | Kind | Rust | Shown by |\n|---|---|---|---|\n",
        &[
            r#"docs/seed-map.md: no row of a table ["Seed term", "Kind", "Rust", "Shown by"]"#,
            r##"docs/seed-map.md: no row of a table ["#", "Fact", "Changed by", "Shown by"]"##,
        ],
    );
}

#[test]
fn a_table_of_other_columns_is_a_problem() {
    check_tables(
        "| Term | Shown By |\n|---|---|\n| a | - |\n",
        &[r#"docs/seed-map.md:9: no table of this map has the columns ["Term", "Shown By"]"#],
    );
}

#[test]
fn a_table_without_its_line_of_dashes_is_a_problem() {
    let expect = "docs/seed-map.md:9: the columns need a line of dashes below, one each";
    check_tables("| Required test | Shown by |\n| a | - |\n", &[expect]);
    check_tables("| Required test | Shown by |\n|---|\n| a | - |\n", &[expect]);
}

#[test]
fn a_row_of_other_length_is_a_problem() {
    check_row("| a | b | - |", &["3 cells in a row of 4"]);
    check_row("| a | b|c | - | - |", &["5 cells in a row of 4"]);
    check_row("words", &["1 cells in a row of 4"]);
}

#[test]
fn a_term_points_at_an_item_that_exists() {
    let check = |rust, expect: &[&str]| check_row(&format!("| a | b | {rust} | - |"), expect);
    check("`core/src/agent.rs::Agent`", &[]);
    check("`core/src/gone.rs::Agent`", &["no file crates/core/src/gone.rs"]);
    check("`core/src/agent.rs::Age`", &["no `Age` in core/src/agent.rs"]);
    check("`core/src/agent.rs::Agent::gone`", &["no `Agent::gone` in core/src/agent.rs"]);
    check("`core/src/agent.rs::Gone::next`", &["no `Gone::next` in core/src/agent.rs"]);
    check("`core/src/agent.rs::next`", &["no `next` in core/src/agent.rs"]);
    check(
        "`core/src/agent.rs::Agent` and `core/src/agent.rs::Gone`",
        &["no `Gone` in core/src/agent.rs"],
    );
}

#[test]
fn a_term_without_an_item_says_why() {
    for rust in ["", "Agent", "`Agent`", "see `core/src/agent.rs::Agent`"] {
        let code = rust.strip_prefix('`').and_then(|it| it.strip_suffix('`')).unwrap_or(rust);
        check_row(
            &format!("| a | b | {rust} | - |"),
            &[&format!(
                "{code:?} is neither \"`crate/src/file.rs::Item`\" nor planned, dropped or -"
            )],
        );
    }
}

#[test]
fn a_term_is_not_in_the_tests_or_outside_of_the_crates() {
    for code in ["core/tests/agent.rs::agent_ends", "../src/agent.rs::Agent", "agent.rs::Agent"] {
        check_row(
            &format!("| a | b | `{code}` | - |"),
            &[&format!(
                "{code:?} is neither \"`crate/src/file.rs::Item`\" nor planned, dropped or -"
            )],
        );
    }
}

#[test]
fn a_term_is_shown_by_tests_that_exist() {
    let check = |tests, expect: &[&str]| check_row(&format!("| a | b | - | {tests} |"), expect);
    check("`core/tests/gone.rs::agent_ends`", &["no file crates/core/tests/gone.rs"]);
    check("`core/tests/agent.rs::agent_end`", &["no test `agent_end` in core/tests/agent.rs"]);
    check("`core/tests/agent.rs::Agent`", &["no test `Agent` in core/tests/agent.rs"]);
    check("`core/tests/agent.rs::helper`", &["no test `helper` in core/tests/agent.rs"]);
    check(
        "`core/tests/agent.rs::agent_ends`, `core/tests/agent.rs::agent_sleeps`",
        &["no test `agent_sleeps` in core/tests/agent.rs"],
    );
}

#[test]
fn a_term_shown_by_nothing_says_so() {
    let check = |tests: &str, entry: &str| {
        check_row(
            &format!("| a | b | - | {tests} |"),
            &[&format!("{entry:?} is neither \"`crate/path/file.rs::test`\" nor planned or -")],
        );
    };
    check("", "");
    check("later", "later");
    check("planned for later", "planned for later");
    check("core/tests/agent.rs::agent_ends", "core/tests/agent.rs::agent_ends");
    check("`core/tests/agent.rs::agent_ends`,", "");
    check("`core/tests/agent.rs::agent_ends`, planned", "planned");
    check("`core/tests/agent.rs::tests::agent_ends`", "`core/tests/agent.rs::tests::agent_ends`");
}

#[test]
fn a_source_that_cannot_be_parsed_is_a_problem() {
    check_row(
        "| a | b | `core/src/broken.rs::Agent` | - |",
        &["crates/core/src/broken.rs: unexpected end of input, expected identifier"],
    );
}

#[test]
fn decisions_are_found_by_their_numbers() {
    let found = decisions("| D1 | dropped (D4a): | 2D, Depth, D, x D23, D8 |");
    assert_eq!(found, ["D1", "D23", "D4a", "D8"].map(str::to_owned).into());
}

#[test]
fn nothing_is_left_to_do_in_shown_by() {
    check_row("| a | b | - | TODO |", &["TODO in `Shown by`"]);
    check_row("| a | b | - | `core/tests/agent.rs::agent_ends` TODO |", &["TODO in `Shown by`"]);
    check_row("| a TODO | b | planned: TODO | - |", &[]);
}

#[track_caller]
fn check(map: &str, expect: &[&str]) {
    let sources = |path: &str| {
        let text = match path {
            "core/src/agent.rs" => {
                "// Gone and gone\npub struct Agent; impl Agent { pub fn next(&self) { gone() } }"
            }
            "core/tests/agent.rs" => {
                "#[test] fn agent_answers() { helper() }\n#[test] fn agent_ends() {}\nfn helper() {}"
            }
            "core/src/broken.rs" => "pub struct",
            _ => return None,
        };
        Some(text.to_owned())
    };
    assert_eq!(problems(map, &Sources::new(&sources)), expect);
}

/// Checks tables that follow, from line 9 on, the ones that a map must have.
#[track_caller]
fn check_tables(tables: &str, expect: &[&str]) {
    let terms = "| Seed term | Kind | Rust | Shown by |\n|---|---|---|---|\n| a | b | - | - |\n";
    let facts = "| # | Fact | Changed by | Shown by |\n|---|---|---|---|\n| 1 | a | - | - |\n";
    check(&format!("{terms}\n{facts}\n{tables}"), expect);
}

/// Checks a row of the table of terms; its problems are expected without their place.
#[track_caller]
fn check_row(row: &str, expect: &[&str]) {
    let expect: Vec<String> = expect.iter().map(|problem| format!("{MAP}:11: {problem}")).collect();
    check_tables(
        &format!("| Seed term | Kind | Rust | Shown by |\n|---|---|---|---|\n{row}\n"),
        &expect.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}
