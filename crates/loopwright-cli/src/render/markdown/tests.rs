use super::*;

/// Makes styles legible: each begins with `‹` and its name, and ends with `›`.
fn marked(text: &str) -> String {
    [
        ("\u{1b}[0m", "›"),
        ("\u{1b}[1m", "‹b:"),
        ("\u{1b}[2m", "‹f:"),
        ("\u{1b}[3m", "‹i:"),
        ("\u{1b}[4m", "‹u:"),
        ("\u{1b}[9m", "‹s:"),
        ("\u{1b}[32m", "‹green:"),
        ("\u{1b}[35m", "‹magenta:"),
        ("\u{1b}[36m", "‹cyan:"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, mark)| text.replace(code, mark))
}

fn whole(source: &str, columns: usize) -> String {
    let mut markdown = Markdown::new(Width::of(columns), Preview::Hidden);
    let printed = markdown.push(source);
    printed + &markdown.finish()
}

fn check(source: &str, expect: &str) {
    assert_eq!(marked(&whole(source, 31)), expect, "{source}");
}

const EVERYTHING: &str = "\
# A title

Some *emphasis*, **strong `code`** and ~~nothing~~; [a link](https://example.com/a) and <https://b.example>.
A second line that has to be wrapped somewhere *and somewhere else too*.

- one
- two, which is long enough to be wrapped
  1. nested
  2. twice

     with more
- [x] done

> quoted words that go on and on

| name | size |
|------|-----:|
| a    |    1 |
| bb   |   10 |

```rust
fn main() {
    println!(\"*not emphasis*\");
}
```

---

<b>raw</b>

The end, with a * star and 1 < 2.
";

#[test]
fn words_are_styled_and_wrapped() {
    check("# A *title*", "‹b:‹u:A› ‹b:‹i:‹u:title›\n");
    check("a **b `c`** ~~d~~", "a ‹b:b› ‹b:‹cyan:c› ‹s:d›\n");
    check("one two three four five six seven", "one two three four five six\nseven\n");
    check("a\nb  \nc", "a b\nc\n");
    check("[a b](http://c) <http://d>", "‹u:a b› ‹f:(http://c)› ‹u:http://d›\n");
}

#[test]
fn lists_hang_and_quotes_have_a_bar() {
    check(
        "- one\n- two three four five six seven eight\n  1. nine\n  2. ten\n",
        "‹b:• ›one\n‹b:• ›two three four five six\n  seven eight\n  ‹b:1. ›nine\n  ‹b:2. ›ten\n",
    );
    check("> a\n> - b\n", "‹f:│ ›a\n‹f:│ ›‹b:• ›b\n");
    check("- a\n\n  b\n- [ ] c", "‹b:• ›a\n  b\n‹b:• ›☐ c\n");
    check("> a\n>\n> b", "‹f:│ ›a\n‹f:│ ›\n‹f:│ ›b\n");
    check("9. a\n10. b", "‹b:9. ›a\n‹b:10. ›b\n");
}

#[test]
fn code_is_coloured_and_a_long_line_is_broken_where_the_room_ends() {
    check("```rust\nlet a = 1;\n```", "  ‹magenta:let› a = ‹cyan:1›;\n");
    check(
        &format!("```\n{}\n```", "x".repeat(40)),
        &format!("  {}\n    {}\n", "x".repeat(28), "x".repeat(12)),
    );
    check("```\na\n\n\tb", "  a\n  \n      b\n");
}

#[test]
fn tables_keep_to_the_width() {
    check("| a | b |\n|---|--:|\n| c | 10 |", "‹b:a›‹f: │ › ‹b:b›\n‹f:──┼───›\nc‹f: │ ›10\n");
    let wide = "| a | b |\n|---|---|\n| one two three four five six | ten |";
    let (head, rule) = (format!("‹b:a›{:23}‹f: │ ›‹b:b›", ""), "─".repeat(24));
    let rows = format!("one two three four five ‹f: │ ›ten\nsix{:21}‹f: │ ›", "");
    check(wide, &format!("{head}\n‹f:{rule}─┼────›\n{rows}\n"));
    let many = "|a|b|c|d|e|\n|-|-|-|-|-|\n|1|2|3|4|5|";
    check(many, "‹b:a›\n  1\n‹b:b›\n  2\n‹b:c›\n  3\n‹b:d›\n  4\n‹b:e›\n  5\n");
}

/// What stands on a terminal after it was written there.
fn seen(printed: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = printed;
    while let Some(c) = rest.chars().next() {
        let last = lines.last_mut().unwrap();
        if let Some(after) = rest.strip_prefix(ERASE) {
            last.clear();
            rest = after;
            continue;
        }
        if c == '\n' {
            lines.push(String::new());
        } else {
            last.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    lines
}

#[test]
fn however_it_comes_the_same_is_left_on_the_terminal() {
    for columns in [24, 80, 200] {
        let expect = seen(&whole(EVERYTHING, columns));
        for size in [1, 2, 3, 7, 50] {
            let mut markdown = Markdown::new(Width::of(columns), Preview::Shown);
            let letters: Vec<char> = EVERYTHING.chars().collect();
            let mut printed = String::new();
            for piece in letters.chunks(size) {
                printed += &markdown.push(&piece.iter().collect::<String>());
            }
            printed += &markdown.finish();
            assert_eq!(seen(&printed), expect, "{size} letters at a time in {columns} columns");
        }
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in [24, 80, 200] {
        for line in seen(&anstream::adapter::strip_str(&whole(EVERYTHING, columns)).to_string()) {
            assert!(line.chars().count() < columns, "{columns}: {line}");
        }
    }
}

#[test]
fn a_line_is_printed_as_soon_as_nothing_can_change_it() {
    let mut markdown = Markdown::new(Width::of(21), Preview::Shown);
    assert_eq!(markdown.push("one two three "), "one two three");
    assert_eq!(markdown.push("four five"), "\r\u{1b}[Kone two three four\nfive");
    // It may be the beginning of something.
    assert_eq!(markdown.push(" *six seven eight"), "\r\u{1b}[Keight");
    assert_eq!(markdown.push("*\n\n"), "\r\u{1b}[Kfive \u{1b}[3msix seven eight\u{1b}[0m\n");
    assert_eq!(markdown.push("- a\n"), "\u{1b}[1m• \u{1b}[0ma");
    assert_eq!(markdown.finish(), "\r\u{1b}[K\n\u{1b}[1m• \u{1b}[0ma\n");
}

#[test]
fn a_terminal_that_gets_narrower_is_shown_no_line_that_it_would_break() {
    let mut markdown = Markdown::new(Width::of(31), Preview::Shown);
    assert_eq!(
        markdown.push("one two three four five six seven"),
        "one two three four five six\nseven"
    );
    markdown.resize(Width::of(21));
    // The paragraph continues as it started.
    assert_eq!(markdown.push(" eight nine ten"), "\r\u{1b}[Kseven eight nine ten");
    assert_eq!(markdown.push(" eleven"), "\r\u{1b}[K");
    assert_eq!(markdown.push(" twelve"), "seven eight nine ten eleven\ntwelve");
    assert_eq!(markdown.push("\n\none two three four five"), "\r\u{1b}[Ktwelve\n");
    assert_eq!(markdown.finish(), "\none two three four\nfive\n");
}

#[test]
fn a_terminal_is_not_steered() {
    check("a\u{1b}[31m `\u{7}` b", "a\u{fffd}[31m ‹cyan:\u{fffd}› b\n");
}

#[test]
fn text_with_bars_that_is_no_table_stays_together() {
    for source in
        ["|---|---|\n|--|\n|--|--", "| a | b |\n|--\n|---|---|| c", "|---|---|\n|- \n|---|---|"]
    {
        let mut markdown = Markdown::new(Width::of(40), Preview::Shown);
        let pieces = source.chars().map(|it| markdown.push(it.encode_utf8(&mut [0; 4])));
        let printed = pieces.collect::<String>() + &markdown.finish();
        assert_eq!(seen(&printed), seen(&whole(source, 40)), "{source:?}");
    }
}

/// Puts pieces together as a die would, the same for the same seed.
fn jumble(mut seed: u64) -> String {
    const PIECES: [&str; 26] = [
        "word",
        "word ",
        " ",
        "\n",
        "\n",
        "\n\n",
        "\n\n",
        "*",
        "**",
        "`",
        "```\n",
        "\n```rust\n",
        "- ",
        "1. ",
        "> ",
        "# ",
        "[a](b)",
        "[",
        "|",
        "| a | b |\n",
        "|---|---|\n",
        "---\n",
        "    ",
        "<b>",
        "~~",
        "\t",
    ];
    let mut text = String::new();
    for _ in 0..40 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(seed >> 33).unwrap() % PIECES.len();
        text += PIECES[at];
    }
    text
}

#[test]
fn no_word_is_lost_however_marks_are_mixed() {
    let words = |lines: &[String]| lines.join("\n").matches("word").count();
    for seed in 0..100 {
        let source = jumble(seed);
        let mut markdown = Markdown::new(Width::of(40), Preview::Shown);
        let mut printed = String::new();
        for c in source.chars() {
            printed += &markdown.push(c.encode_utf8(&mut [0; 4]));
        }
        printed += &markdown.finish();
        let expect = seen(&whole(&source, 40));
        assert_eq!(words(&seen(&printed)), words(&expect), "{source:?}\n{printed}");
    }
}
