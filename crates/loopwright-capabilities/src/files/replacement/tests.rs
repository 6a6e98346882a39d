use super::*;

fn one<'a>(old: &'a str, new: &'a str) -> Edit<'a> {
    Edit { old, new, occurrences: Occurrences::One }
}

fn all<'a>(old: &'a str, new: &'a str) -> Edit<'a> {
    Edit { old, new, occurrences: Occurrences::All }
}

#[track_caller]
fn check(text: &str, edits: &[Edit<'_>], expect: Result<(&str, usize), &str>) {
    let applied = apply(text.as_bytes(), edits);
    let applied = applied.map(|(text, count)| (String::from_utf8(text).unwrap(), count));
    let expect = expect.map(|(text, count)| (text.to_owned(), count)).map_err(str::to_owned);
    assert_eq!(applied, expect);
}

#[test]
fn a_text_that_occurs_once_is_replaced() {
    check("a b c", &[one("b", "x")], Ok(("a x c", 1)));
    check("a b c", &[one("a b c", "")], Ok(("", 1)));
    check("aaa", &[all("a", "bb")], Ok(("bbbbbb", 3)));
    check("aaa", &[all("aa", "b")], Ok(("ba", 1)));
    check("größe", &[one("ö", "o")], Ok(("große", 1)));
}

#[test]
fn edits_follow_each_other_and_count_together() {
    check("a b", &[one("a", "b"), all("b", "c")], Ok(("c c", 3)));
    check(
        "a b",
        &[one("a", "x"), one("y", "z")],
        Err(
            "edit 2 of 2: old_string was not found; read the file again and copy the text exactly, without line numbers",
        ),
    );
    check("a", &[one("a", "b"), one("b", "a")], Err("taken together, the edits change nothing"));
}

#[test]
fn a_text_that_is_not_found_is_explained() {
    check("a", &[one("a", "a")], Err("old_string and new_string are identical"));
    check("a", &[one("", "a")], Err("old_string cannot be empty; create files with `write_file`"));
    check(
        "x\na\nx\n",
        &[one("x", "y")],
        Err(
            "old_string was found 2 times (lines 1, 3); add lines around it until it is unique, or pass replace_all=true",
        ),
    );
    check(
        "if x {\n\tgo();\n}\n",
        &[one("    go();\n", "")],
        Err(
            "old_string was not found; line 2 is similar to a line of old_string, but the whitespace or the surrounding lines differ; read the file again and copy the text exactly, without line numbers",
        ),
    );
}

#[test]
fn line_ends_are_those_of_the_file() {
    check("a\r\nb\r\nc\r\n", &[one("a\nb", "x\ny")], Ok(("x\r\ny\r\nc\r\n", 1)));
    check("a\r\nb\r\n", &[one("a\r\nb", "x")], Ok(("x\r\n", 1)));
}

#[test]
fn bytes_that_are_not_text_stay_as_they_are() {
    let (new, count) = apply(b"\xff a \xfe", &[one("a", "b")]).unwrap();
    assert_eq!((new.as_slice(), count), (&b"\xff b \xfe"[..], 1));
}

#[test]
fn an_ambiguous_text_lists_its_first_five_places() {
    let told = |count: usize| {
        let text = "x\n".repeat(count);
        apply(text.as_bytes(), &[one("x", "y")]).unwrap_err()
    };
    assert!(told(5).contains("5 times (lines 1, 2, 3, 4, 5);"), "{}", told(5));
    assert!(told(6).contains("6 times (lines 1, 2, 3, 4, 5, …);"), "{}", told(6));
}
