use super::*;

#[test]
fn system_errors_have_their_own_kinds() {
    let of = |errno: Errno| FileError::of("a", io::Error::from(errno));
    assert!(matches!(of(Errno::NOENT), FileError::Missing(_)));
    assert!(matches!(of(Errno::NOTDIR), FileError::NotADirectory(_)));
    assert!(matches!(of(Errno::LOOP), FileError::LinkLoop(_)));
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
        assert!(matches!(of(errno), FileError::NoSpace { .. }), "{errno}");
    }
    for errno in [Errno::ACCESS, Errno::PERM, Errno::ROFS] {
        assert!(matches!(of(errno), FileError::Denied { .. }), "{errno}");
    }
    assert!(matches!(of(Errno::IO), FileError::Io { .. }));
}
