use super::*;

/// Opens what cannot be opened, and returns what is said.
fn refused(address: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(open(address)).err().unwrap().to_string()
}

#[test]
fn an_address_of_another_kind_is_refused_with_those_that_are_known() {
    let expect = "the URL does not name a known kind of store; write `sqlite:PATH` or \
                  `postgres://USER@HOST/DATABASE`";
    for address in ["", "sessions.db", "mysql://me:secret@host/x", "SQLITE:x", "/var/x:y"] {
        assert_eq!(refused(address), expect);
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn an_address_that_names_no_file_is_refused() {
    for address in ["sqlite:", "sqlite://", "sqlite::memory:"] {
        assert!(refused(address).starts_with("the URL names no file; "), "{address}");
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_file_is_opened_by_its_address() {
    let folder = tempfile::TempDir::new().unwrap();
    for (scheme, name) in [("sqlite:", "a b.db"), ("sqlite://", "c%20d.db")] {
        let path = folder.path().join(name);
        open(&format!("{scheme}{}", path.display())).await.unwrap();
        assert!(path.exists());
    }
}
