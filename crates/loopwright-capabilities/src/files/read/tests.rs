use std::fs;
use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use loopwright_core::messages::{Content, MediaSource};

use super::*;

fn world(content: impl AsRef<[u8]>) -> (tempfile::TempDir, ReadFile) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("f"), content).unwrap();
    let tool = ReadFile::in_dir(home.path());
    (home, tool)
}

fn call(tool: &ReadFile, args: serde_json::Value) -> Result<ToolOutput, FileError> {
    tool.read(&serde_json::from_value(args).unwrap(), &CancellationToken::new())
}

fn said(tool: &ReadFile, args: serde_json::Value) -> String {
    call(tool, args).map_or_else(|error| format!("error: {error}"), |it| it.to_text())
}

fn continuation(text: &str) -> String {
    let rest = text.rsplit_once("continue_from=\"").unwrap().1;
    rest.split('"').next().unwrap().to_owned()
}

use serde_json::json;

#[test]
fn two_hundred_lines_are_a_page_and_the_notice_goes_on() {
    let lines: Vec<String> = (1..=450).map(|it| format!("line {it}")).collect();
    let (_home, tool) = world(lines.join("\n"));
    let first = said(&tool, json!({ "path": "f" }));
    assert!(first.starts_with("     1\tline 1\n") && first.contains("   200\tline 200\n"));
    assert!(!first.contains("line 201"));
    assert!(first.contains("Use offset=200 to continue"), "{first}");
    assert!(first.contains("the file is 3941 bytes long"), "{first}");
    let second = said(&tool, json!({ "path": "f", "continue_from": continuation(&first) }));
    assert_eq!(second.lines().next(), Some("   201\tline 201"));
    let third = said(&tool, json!({ "path": "f", "continue_from": continuation(&second) }));
    assert_eq!(third, said(&tool, json!({ "path": "f", "offset": 400 })));
    assert!(third.ends_with("   450\tline 450\n"));
}

#[test]
fn a_page_that_ends_with_the_file_has_no_notice() {
    let (_home, tool) = world("a\nb\n");
    assert_eq!(said(&tool, json!({ "path": "f", "limit": 2 })), "     1\ta\n     2\tb\n");
    assert_eq!(said(&tool, json!({ "path": "f", "limit": null })), "     1\ta\n     2\tb\n");
}

#[test]
fn numbers_that_make_no_sense_are_the_nearest_that_do() {
    let (_home, tool) = world("a\nb\n");
    assert!(said(&tool, json!({ "path": "f", "limit": 0 })).starts_with("     1\ta\n\n["));
    assert!(said(&tool, json!({ "path": "f", "limit": -5 })).starts_with("     1\ta\n\n["));
    assert!(said(&tool, json!({ "path": "f", "offset": -5 })).starts_with("     1\ta\n"));
    assert!(said(&tool, json!({ "path": "f", "max_bytes": 0 })).starts_with("     1\ta\n\n["));
}

#[test]
fn a_budget_of_two_megabytes_shows_eighty_thousand_lines() {
    let rows: Vec<String> = (0..80_000).map(|it| format!("row {it}\n")).collect();
    let text = rows.concat();
    let (_home, tool) = world(&text);
    let args = json!({ "path": "f", "limit": 80_000, "max_bytes": 2_000_000 });
    let shown = said(&tool, args);
    let plain: String =
        shown.lines().map(|it| it.split_once('\t').unwrap().1.to_owned() + "\n").collect();
    assert!(plain == text, "all of it is shown as it is");
}

#[test]
fn a_line_of_forty_kilobytes_is_shown_in_part() {
    let (_home, tool) = world("x".repeat(40_000));
    let shown = said(&tool, json!({ "path": "f" }));
    assert!(shown.starts_with(&format!("     1\t{}…\n", "x".repeat(4096))));
    assert!(shown.contains("Line 1 is longer than the limit of 32768 bytes"), "{shown}");
    assert!(shown.contains("dd if='f' bs=1 skip=4096 count=4096"), "{shown}");
    let rest = said(
        &tool,
        json!({ "path": "f", "continue_from": continuation(&shown), "max_bytes": 50_000 }),
    );
    assert_eq!(rest, format!("     1\t…{}\n", "x".repeat(40_000 - 4096)));
}

#[test]
fn a_place_after_the_end_is_an_error() {
    let (_home, tool) = world("a\nb\n");
    let error = "error: `f` has 2 lines, none after offset 2; pass a smaller `offset`";
    assert_eq!(said(&tool, json!({ "path": "f", "offset": 2 })), error);
    assert_eq!(
        said(&tool, json!({ "path": "f", "offset": 7 })),
        error.replace("offset 2", "offset 7")
    );
    let (_home, tool) = world("");
    assert_eq!(said(&tool, json!({ "path": "f" })), "(empty file)");
}

#[test]
fn a_file_that_changed_keeps_its_line_numbers() {
    let (home, tool) = world("a\nb\nc\n");
    let first = said(&tool, json!({ "path": "f", "limit": 2 }));
    let args = json!({ "path": "f", "continue_from": continuation(&first) });
    assert_eq!(said(&tool, args.clone()), "     3\tc\n");
    fs::write(home.path().join("f"), "much longer\nthan before\nC\n").unwrap();
    let note = "\n[The file has changed since the previous page was read.]";
    assert_eq!(said(&tool, args.clone()), format!("     3\tC\n{note}"));
    fs::write(home.path().join("f"), "short\n").unwrap();
    assert_eq!(
        said(&tool, args),
        "error: `f` has 1 lines, none after offset 2; pass a smaller `offset`"
    );
    let error = said(&tool, json!({ "path": "f", "continue_from": "page 2" }));
    assert_eq!(
        error,
        "error: `page 2` is not a continuation token; copy the token exactly, or use `offset`"
    );
}

#[test]
fn a_continuation_reads_nothing_of_what_is_before() {
    const LINES: u64 = 1_000_000;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("f");
    let mut file = fs::File::create(&path).unwrap();
    // A hole of a gigabyte without a single line end: whoever read through it would count no lines.
    let byte = 1 << 30;
    file.seek(SeekFrom::Start(byte - 1)).unwrap();
    file.write_all(b"\nlast line\n").unwrap();
    let metadata = path.metadata().unwrap();
    let place = Continuation::new(LINES, byte, &metadata).to_string();
    let mut source =
        Source { path: "f", real: "f".into(), file: fs::File::open(&path).unwrap(), metadata };
    let args =
        ReadFileArgs { path: "f".into(), continue_from: Some(place), ..ReadFileArgs::default() };
    let bounds = Bounds { lines: 10, bytes: 1000 };
    let page = source.page(&args, bounds, &CancellationToken::new()).unwrap();
    assert_eq!(page, "1000001\tlast line\n");
}

/// A PNG of one pixel.
const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x60\x00\x00\x00\x02\x00\x01\x48\xaf\xa4\x71\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

#[test]
fn a_picture_that_is_not_whole_is_refused_with_the_reason() {
    let (_home, tool) = world(&PNG[..40]);
    assert_eq!(
        said(&tool, json!({ "path": "f" })),
        "error: `f` cannot be shown as an image: the PNG image is truncated: its end is missing"
    );
}

#[test]
fn a_picture_is_a_picture() {
    let png = PNG;
    let (_home, tool) = world(png);
    let output = call(&tool, json!({ "path": "f" })).unwrap();
    let [text, image] = &*output.content else { panic!("{output:?}") };
    assert_eq!(text.as_text(), Some("f (image/png, 67 bytes)"));
    let Content::Image(media) = image.content() else { panic!("{image:?}") };
    assert_eq!(
        (&*media.mime, &media.source),
        ("image/png", &MediaSource::Base64(STANDARD.encode(png).into()))
    );
    let error = call(
        &tool.with_media_limits(MediaLimits::default().with_image_bytes(66)),
        json!({ "path": "f" }),
    )
    .unwrap_err();
    assert!(matches!(error, FileError::TooLarge { bytes: Size(67), limit: Size(66), .. }));
}

#[test]
fn a_pdf_is_a_document() {
    let (_home, tool) = world(b"%PDF-1.7 rest of it");
    let output = call(&tool, json!({ "path": "f" })).unwrap();
    let [text, document] = &*output.content else { panic!("{output:?}") };
    assert_eq!(text.as_text(), Some("f (application/pdf, 19 bytes)"));
    let Content::Document(media) = document.content() else { panic!("{document:?}") };
    assert_eq!((&*media.mime, media.name.as_deref()), ("application/pdf", Some("f")));
}

#[test]
fn a_binary_file_is_refused_with_its_type() {
    let (_home, tool) = world(b"\x7fELF\x02\0\0\0");
    assert_eq!(
        said(&tool, json!({ "path": "f" })),
        "error: `f` is a program, not text; inspect it with a command that supports this format"
    );
}

#[test]
fn text_of_another_encoding_is_shown_with_a_note() {
    let (_home, tool) = world(b"caf\xe9, au lait\n");
    assert_eq!(
        said(&tool, json!({ "path": "f" })),
        "     1\tcaf\u{FFFD}, au lait\n\n[Bytes that are not UTF-8 text are shown as \u{FFFD}.]"
    );
}

#[test]
fn a_page_has_as_many_bytes_as_was_set() {
    let (_home, tool) = world("one\ntwo\nthree\n");
    let page = said(&tool.with_bytes(4), json!({ "path": "f" }));
    assert!(page.starts_with("     1\tone\n\n["), "{page}");
}

#[test]
fn a_picture_of_just_the_most_bytes_is_shown() {
    let picture = PNG;
    let read = |most| {
        let (_home, tool) = world(picture);
        call(
            &tool.with_media_limits(MediaLimits::default().with_image_bytes(most)),
            json!({ "path": "f" }),
        )
    };
    let length = picture.len() as u64;
    assert!(read(length).is_ok());
    assert!(matches!(read(length - 1), Err(FileError::TooLarge { .. })));
}
