use super::*;

#[test]
fn each_failure_names_the_file_and_what_helps() {
    let told = |kind: ErrorKind| {
        let failed: Result<(), StoreError> = Err(io::Error::from(kind)).at(Path::new("/s/log"));
        let StoreError::Unavailable(error) = failed.unwrap_err() else { panic!("{kind}") };
        assert!(error.source().is_some());
        error.to_string()
    };
    assert_eq!(
        told(ErrorKind::StorageFull),
        "`/s/log`: the disk is full; free some space and try again"
    );
    assert_eq!(
        told(ErrorKind::TimedOut),
        "`/s/log`: another process holds the lock; stop that process"
    );
    assert_eq!(
        told(ErrorKind::InvalidData),
        "`/s/log`: invalid data; correct the cause and try again"
    );
}
