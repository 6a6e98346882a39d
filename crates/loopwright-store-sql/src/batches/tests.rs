use super::*;

fn batch(first: u64, count: usize, body: Option<&[u8]>) -> Piece<'_> {
    Piece { first, count, body, sum: None }
}

#[test]
fn a_page_is_taken_apart() {
    assert_eq!(pieces(b"").unwrap(), []);
    let page = b"0 1 2 -\n7 20 65536 -\n27 3 0 -\n30 1 4 77\n\n[]\n9 9";
    let expect = [
        batch(0, 1, Some(b"[]")),
        batch(7, 20, None),
        batch(27, 3, Some(b"")),
        Piece { sum: Some(77), ..batch(30, 1, Some(b"\n9 9")) },
    ];
    assert_eq!(pieces(page).unwrap(), expect);
}

#[test]
fn a_page_that_is_damaged_is_told() {
    for page in [
        "x",
        "\n\n",
        "1 2\n\n",
        "0 1 2 -\n\n[",
        "0 1 2 -\n[]",
        "0 1 -2 -\n\n[]",
        "0 1 2 -\n\n[]0",
        "-1 1 0 -\n\n",
        "0 1  -\n\n",
        "0 1 2\n\n[]",
        "0 1 2 -1\n\n[]",
        "0 1 2 4294967296\n\n[]",
    ] {
        let failure = pieces(page.as_bytes()).unwrap_err();
        assert!(matches!(failure, Failure::Form(_)), "{page}: {failure:?}");
    }
}
