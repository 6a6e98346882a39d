//! The identity of a machine, which is the one of its root of directories.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use uuid::Uuid;

use super::FolderError;

/// The file in the root of directories that has the ID. Machines that share the root share the directories, and so the ID.
const FILE: &str = ".loopwright-machine";

/// Returns the ID, which is created if the root has none.
pub(super) fn machine_id(root: &Path) -> Result<Arc<str>, FolderError> {
    let path = root.join(FILE);
    if let Some(id) = read(&path)? {
        return Ok(id);
    }
    let id = Uuid::new_v4().to_string();
    let draft = root.join(format!("{FILE}.{id}"));
    let written = create(root, &draft, &id).and_then(|()| match fs::hard_link(&draft, &path) {
        // Another process was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    });
    fs::remove_file(&draft).ok();
    written.map_err(|source| FolderError::Io { path: path.clone(), source })?;
    let gone = || FolderError::Io { path: path.clone(), source: io::ErrorKind::NotFound.into() };
    read(&path)?.ok_or_else(gone)
}

fn create(root: &Path, draft: &Path, id: &str) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(id.as_bytes())?;
    file.sync_all()
}

fn read(path: &Path) -> Result<Option<Arc<str>>, FolderError> {
    let source = match fs::read_to_string(path) {
        Ok(text) if Uuid::try_parse(text.trim()).is_ok() => return Ok(Some(text.trim().into())),
        Ok(_) => io::ErrorKind::InvalidData.into(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => error,
    };
    Err(FolderError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_has_one_id_and_another_root_has_another() {
        let world = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| world.path().join(name));
        let id = machine_id(&one).unwrap();
        assert_eq!(machine_id(&one).unwrap(), id);
        assert_ne!(machine_id(&two).unwrap(), id);
        let files: Vec<_> = fs::read_dir(&one).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(files, [FILE]);
    }
}
