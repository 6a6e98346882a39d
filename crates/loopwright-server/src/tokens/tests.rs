use super::*;

fn now() -> Timestamp {
    Timestamp::from_millis(1_000)
}

#[test]
fn tokens_are_kept_as_hashes_and_stand_for_a_principal_until_they_are_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::new(folder.path().join("tokens.json"));
    assert_eq!(file.principal("lwt_x", now()).unwrap(), None);
    let token = file.create("ada", Role::Run, None, now()).unwrap();
    let text = fs::read_to_string(file.path()).unwrap();
    assert!(!text.contains(&token.secret), "{text}");
    assert!(!format!("{token:?}").contains(&token.secret));
    let ada = Some(Principal::new("ada", Role::Run));
    assert_eq!(file.principal(&token.secret, now()).unwrap(), ada);
    assert_eq!(file.principal(&token.secret[1..], now()).unwrap(), None);
    // Another process revokes it.
    TokenFile::new(file.path()).revoke(&token.record.id).unwrap();
    assert_eq!(file.principal(&token.secret, now()).unwrap(), None);
    assert!(matches!(file.revoke("x"), Err(TokenError::Unknown(_))));
}

#[test]
fn a_token_expires() {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::new(folder.path().join("tokens.json"));
    let ends = Timestamp::from_millis(2_000);
    let token = file.create("ada", Role::Run, Some(ends), now()).unwrap();
    assert!(file.principal(&token.secret, now()).unwrap().is_some());
    assert_eq!(file.principal(&token.secret, ends).unwrap(), None);
}

#[cfg(unix)]
#[test]
fn a_token_file_is_readable_for_its_user_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::new(folder.path().join("tokens.json"));
    file.create("ada", Role::Run, None, now()).unwrap();
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_sign_in_token_signs_one_browser_in_which_stays_signed_in_until_it_signs_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::new(folder.path().join("tokens.json"));
    let ends = Timestamp::from_millis(2_000);
    let token = file.create_sign_in(&Principal::local(), ends, now()).unwrap();
    assert_eq!(file.principal(&token.secret, now()).unwrap(), None);
    assert_eq!(file.sign_in(&token.secret, ends).unwrap(), None);
    let token = file.create_sign_in(&Principal::local(), ends, now()).unwrap();
    let browser = file.sign_in(&token.secret, now()).unwrap().unwrap();
    assert_eq!(file.sign_in(&token.secret, now()).unwrap(), None);
    let local = Some(Principal::local());
    // Another process with the same file.
    let again = TokenFile::new(file.path());
    assert_eq!(again.browser(&browser.secret, now()).unwrap(), local);
    assert_eq!(again.principal(&browser.secret, now()).unwrap(), None);
    assert_eq!(again.sign_in(&browser.secret, now()).unwrap(), None);
    let late = now().plus(SIGN_IN);
    assert_eq!(again.browser(&browser.secret, late).unwrap(), None);
    file.sign_out(&browser.secret, now()).unwrap();
    assert_eq!(again.browser(&browser.secret, now()).unwrap(), None);
}

#[test]
fn a_browser_is_signed_out_with_the_token_that_it_signed_in_with() {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::new(folder.path().join("tokens.json"));
    let ends = Timestamp::from_millis(2_000);
    let token = file.create("ada", Role::Run, Some(ends), now()).unwrap();
    let browser = file.sign_in(&token.secret, now()).unwrap().unwrap();
    assert_eq!(browser.record.expires_at, Some(ends));
    let ada = Some(Principal::new("ada", Role::Run));
    assert_eq!(file.browser(&browser.secret, now()).unwrap(), ada);
    file.revoke(&token.record.id).unwrap();
    assert_eq!(file.browser(&browser.secret, now()).unwrap(), None);
}

#[test]
fn tokens_that_are_created_at_once_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.json");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let file = TokenFile::new(&path);
            scope.spawn(move || file.create("ada", Role::Run, None, now()).unwrap());
        }
    });
    assert_eq!(TokenFile::new(path).list().unwrap().len(), 8);
}

#[test]
fn principals_have_names() {
    let file = TokenFile::new("unused");
    for name in ["", "a b", "a\n", &"x".repeat(129)] {
        let refused = file.create(name, Role::Run, None, now());
        assert!(matches!(refused, Err(TokenError::Principal(_))), "{name:?}");
    }
}
