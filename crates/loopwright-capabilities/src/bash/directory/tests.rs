use super::*;

#[test]
fn a_command_begins_where_the_last_one_ended() {
    let wrapped = Wrapped::marked("make", Some("/it's here"), "mark".to_owned());
    assert_eq!(
        wrapped.command,
        "trap 'printf \"\\nmark%s\\n\" \"$PWD\" >&2' EXIT\ncd -- '/it'\\''s here' 2>/dev/null\nmake"
    );
}

#[test]
fn the_final_directory_is_removed_from_the_output() {
    let wrapped = Wrapped::marked("make", None, "mark".to_owned());
    let mut stderr = CapturedOutput::whole("warning\n\nmark/srv/a b\n");
    assert_eq!(wrapped.unwrap(&mut stderr), Some("/srv/a b".to_owned()));
    assert_eq!(stderr, CapturedOutput::whole("warning\n"));
    assert_eq!(wrapped.unwrap(&mut stderr), None);
    let mut long =
        CapturedOutput { head: "first".into(), tail: "last\nmark/x\n".into(), total: 1000 };
    assert_eq!(wrapped.unwrap(&mut long), Some("/x".to_owned()));
    assert_eq!(long, CapturedOutput { head: "first".into(), tail: "last".into(), total: 992 });
}

#[test]
fn what_tells_the_final_directory_is_no_output_of_the_command() {
    let wrapped = Wrapped::marked("make", None, "mark".to_owned());
    let pieces = ["warning\n", "last\n\nmark/srv\n", "\nmark/srv\n"];
    let seen = pieces.map(|it| wrapped.before_mark(it.as_bytes()));
    assert_eq!(seen, [&b"warning\n"[..], b"last\n", b""]);
}
