use super::*;

#[test]
fn a_name_stays_on_its_line() {
    let check = |bytes: &[u8], expect: &str| assert_eq!(name(OsStr::from_bytes(bytes)), expect);
    check(b"a b.txt", "a b.txt");
    check("größe".as_bytes(), "größe");
    check(b"a\nb\x1b[31m", "a\\nb\\u{1b}[31m");
    check(b"caf\xe9.txt", "caf\\xE9.txt");
    assert_eq!(path(Path::new("")), ".");
}

#[test]
fn text_is_cut_between_characters() {
    let text = "aä€😀".as_bytes();
    let cuts: Vec<usize> = (0..=11).map(|at| floor_boundary(text, at)).collect();
    assert_eq!(cuts, [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10]);
    let cuts: Vec<usize> = (0..=11).map(|at| ceil_boundary(text, at)).collect();
    assert_eq!(cuts, [0, 1, 3, 3, 6, 6, 6, 10, 10, 10, 10, 10]);
    assert_eq!(ceil_boundary(&[0x80; 8], 4), 4);
    assert_eq!(floor_boundary(&[0x80; 8], 6), 6, "what is not UTF-8 is cut anywhere");
}

#[test]
fn sizes_read_well() {
    let texts = [0, 1023, 1 << 20, 3 << 19].map(|bytes| Size(bytes).to_string());
    assert_eq!(texts, ["0 bytes", "1023 bytes", "1.0 MiB", "1.5 MiB"]);
}
