//! A caller that swaps directories and links while file tools run gains nothing.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use loopwright_capabilities::files::{
    EditFile, EditFileArgs, FileError, Grep, GrepArgs, ListDir, ListDirArgs, ReadFile,
    ReadFileArgs, SearchFiles, SearchFilesArgs, WorkspaceRoot, WriteFile, WriteFileArgs,
};
use rustix::fs::{CWD, RenameFlags};
use tokio_util::sync::CancellationToken;

/// What lies outside and must neither be seen nor changed.
const SECRET: &str = "the secret outside";

const SWAPPERS: usize = 16;

/// Places that are swapped: of four swappers each, two swap directories and two swap files.
const PLACES: usize = 8;

fn how_long() -> Duration {
    if env::var_os("LOOPWRIGHT_LONG").is_some() {
        Duration::from_mins(1)
    } else {
        Duration::from_secs(5)
    }
}

/// A root whose directories and files have doubles that are links to the outside.
fn world(home: &Path) -> (WorkspaceRoot, std::path::PathBuf, std::path::PathBuf) {
    let (base, outside) = (home.join("root"), home.join("outside"));
    for folder in [&base, &outside, &outside.join("sub")] {
        fs::create_dir(folder).unwrap();
    }
    for file in ["file", "sub/file"] {
        fs::write(outside.join(file), SECRET).unwrap();
    }
    for place in 0..PLACES {
        let folder = base.join(format!("d{place}"));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("file"), "fine").unwrap();
        fs::write(folder.join("sub/file"), "fine").unwrap();
        symlink("../outside", base.join(format!("link{place}"))).unwrap();
        fs::write(base.join(format!("f{place}")), "fine").unwrap();
        symlink("../outside/file", base.join(format!("flink{place}"))).unwrap();
    }
    (WorkspaceRoot::new(&base), base, outside)
}

fn swap(base: &Path, number: usize, is_over: &AtomicBool, swaps: &AtomicU64) {
    let place = number / 2 % PLACES;
    let (one, other) = match number % 2 {
        0 => (base.join(format!("d{place}")), base.join(format!("link{place}"))),
        _ => (base.join(format!("f{place}")), base.join(format!("flink{place}"))),
    };
    while !is_over.load(Relaxed) {
        rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        swaps.fetch_add(1, Relaxed);
    }
}

/// Uses every tool on one place, and tells what came back.
fn use_tools(root: &WorkspaceRoot, place: usize) -> Vec<Result<String, FileError>> {
    let stop = CancellationToken::new();
    let paths = [format!("d{place}/file"), format!("d{place}/sub/file"), format!("f{place}")];
    let mut said = Vec::new();
    for path in paths {
        let read = ReadFileArgs { path: path.clone(), ..ReadFileArgs::default() };
        said.push(ReadFile::in_dir(root.clone()).read(&read, &stop).map(|it| it.to_text()));
        let write = WriteFileArgs {
            path: path.clone(),
            content: "fine\nand written".to_owned(),
            overwrite: Some(true),
            create_dirs: Some(true),
        };
        said.push(WriteFile::in_dir(root.clone()).write(&write).map(|it| it.to_text()));
        let edit = EditFileArgs {
            path,
            old_string: Some("fine".to_owned()),
            new_string: Some("fine!".to_owned()),
            replace_all: Some(true),
            ..EditFileArgs::default()
        };
        said.push(EditFile::in_dir(root.clone()).edit(&edit).map(|it| it.to_text()));
    }
    let new = WriteFileArgs {
        path: format!("d{place}/new/deep/file"),
        content: "new".to_owned(),
        overwrite: Some(true),
        create_dirs: Some(true),
    };
    said.push(WriteFile::in_dir(root.clone()).write(&new).map(|it| it.to_text()));
    let list = ListDirArgs { path: Some(format!("d{place}")), ..ListDirArgs::default() };
    said.push(ListDir::in_dir(root.clone()).list(&list, &stop));
    let grep = GrepArgs { pattern: "secret|outside".to_owned(), ..GrepArgs::default() };
    said.push(Grep::in_dir(root.clone()).grep(&grep, &stop));
    let search =
        SearchFilesArgs { pattern: Some("**/file".to_owned()), ..SearchFilesArgs::default() };
    said.push(SearchFiles::in_dir(root.clone()).search(&search, &stop));
    said
}

#[test]
fn nothing_outside_is_read_or_written_while_links_are_swapped() {
    let home = tempfile::tempdir().unwrap();
    let (root, base, outside) = world(home.path());
    let (is_over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut fine, mut refused) = (0_u64, 0_u64);
    std::thread::scope(|scope| {
        for number in 0..SWAPPERS {
            let (base, is_over, swaps) = (&base, &is_over, &swaps);
            scope.spawn(move || swap(base, number, is_over, swaps));
        }
        let began = Instant::now();
        let mut place = 0;
        while began.elapsed() < how_long() {
            for said in use_tools(&root, place % PLACES) {
                match said {
                    Ok(text) => {
                        assert!(!text.contains(SECRET), "{text}");
                        fine += 1;
                    }
                    Err(FileError::Outside(_) | FileError::Changed(_)) => refused += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            place += 1;
        }
        is_over.store(true, Relaxed);
    });
    assert!(fine > 0 && refused > 0, "{fine} fine, {refused} refused");
    assert!(swaps.load(Relaxed) > 1000);
    let mut left: Vec<_> =
        fs::read_dir(&outside).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["file", "sub"]);
    assert_eq!(fs::read_dir(outside.join("sub")).unwrap().count(), 1);
    for file in ["file", "sub/file"] {
        assert_eq!(fs::read_to_string(outside.join(file)).unwrap(), SECRET);
    }
}
