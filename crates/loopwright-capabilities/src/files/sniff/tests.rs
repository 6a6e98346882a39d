use super::*;

#[test]
fn text_is_what_is_mostly_text() {
    assert_eq!(kind(b""), Kind::Empty);
    let check = |head: &[u8]| assert_eq!(kind(head), Kind::Text, "{head:?}");
    check(b"fn main() {}\n");
    check("größe".as_bytes());
    check(b"caf\xe9 cr\xe8me, in Latin-1");
    check(b"\x1b[31mred\x1b[0m\tand a form feed\x0c\r\n");
    check(b"{\"a\": 1}\n{\"a\": 2}\n");
    check(b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>");
}

#[test]
fn text_with_more_than_three_odd_bytes_of_ten_is_none() {
    let odd = |count: usize| [vec![0x01; count], vec![b'a'; 10 - count]].concat();
    assert_eq!(kind(&odd(3)), Kind::Text);
    assert!(matches!(kind(&odd(4)), Kind::Binary("binary data", _)));
    let foreign = |count: usize| [vec![0xE9; count], vec![b'a'; 10 - count]].concat();
    assert_eq!(kind(&foreign(3)), Kind::Text);
    assert!(matches!(kind(&foreign(4)), Kind::Binary("binary data", _)));
}

#[test]
fn pictures_are_known_by_their_beginning() {
    let check = |head: &[u8], mime| assert_eq!(kind(head), Kind::Image(mime));
    check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png");
    check(b"\xFF\xD8\xFF\xE0", "image/jpeg");
    check(b"GIF89a\x01\0", "image/gif");
    check(b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp");
}

#[test]
fn a_pdf_is_a_document() {
    assert_eq!(kind(b"%PDF-1.7"), Kind::Document("application/pdf"));
}

#[test]
fn everything_else_is_named() {
    let check =
        |head: &[u8], name| assert!(matches!(kind(head), Kind::Binary(it, _) if it == name));
    check(b"a\0b", "binary data");
    check(b"\xFF\xFEa\0", "UTF-16");
    check(b"\x7FELF\x02", "a program");
    check(b"PK\x03\x04", "an archive");
    check(&[0x80, 0x81, b'a', 0x01, 0x02], "binary data");
}
