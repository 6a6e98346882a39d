//! A disk with blocks of one KiB that has no room left: SQLite maps a file of such a disk into memory, and the system
//! ends a process that touches a page of it for which there is no space.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use loopwright_sessions::{SessionId, SessionQuery};
use loopwright_survival::{
    ledger::Entry,
    open::open,
    task::{Fault, Side, What},
};
use tokio::runtime::Builder;

use crate::{
    faults::{UNAVAILABLE, check_stopped},
    places::Place,
    workers::{Notes, check_end, task},
};

const STEPS: u32 = 9;
const SESSION: &str = "full";

/// How much room is left, in bytes: none, less than what keeps SQLite from harm, and enough for some writes more.
const ROOM: [u64; 4] = [0, 40 << 10, 300 << 10, 1_060 << 10];

/// A disk of its own, at the folder of a store.
struct Disk(PathBuf);

impl Disk {
    /// Makes a disk. Returns `None`, and says so, if this user may not.
    fn mount(place: &Place) -> Option<Self> {
        let (image, at) = (place.folder().join("image"), place.store());
        File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let formatted =
            run("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "1024", "-m", "0"], &[&image]);
        if formatted && run("mount", &["-o", "loop"], &[&image, &at]) {
            return Some(Self(at));
        }
        println!("skipped: a disk is made by `mke2fs` and `mount`, which only root may do");
        None
    }

    /// Leaves so many bytes.
    fn fill(&self, room: u64) {
        let mut file = File::create(self.0.join("filler")).unwrap();
        let block = [0x55; 1 << 10];
        while self.free() > room && file.write_all(&block).is_ok() {}
    }

    fn free(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.0).unwrap();
        assert_eq!(found.f_frsize, 1 << 10);
        found.f_bavail * found.f_frsize
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &[], &[&self.0]);
    }
}

fn run(program: &str, options: &[&str], paths: &[&Path]) -> bool {
    let mut command = Command::new(program);
    let done = command.args(options).args(paths).stderr(Stdio::null()).status();
    done.is_ok_and(|it| it.success())
}

/// Reads what is there, or is told why that cannot be done at present.
fn read(place: &Place) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = match open(place.url()).await {
            Ok(store) => store,
            Err(error) => {
                return assert!(error.to_string().contains("no disk space left"), "{error}");
            }
        };
        let page = store.list(&SessionQuery::first(9)).await.unwrap();
        assert_eq!((page.sessions.len(), page.unreadable), (1, Vec::new()));
        store.load(&SessionId::new(SESSION).unwrap()).await.unwrap().unwrap();
    });
}

/// Lets the disk of a run become full. Returns whether the run noticed.
fn full(place: &Place, room: u64) -> Option<bool> {
    let disk = Disk::mount(place)?;
    let notes = Notes::new(place, SESSION);
    let fault = Fault { write: 14, side: Side::Before, what: What::Waits };
    let mut worker = notes.start(&task(place, SESSION, STEPS, Some(fault)));
    notes.wait_for(|entries| entries.contains(&Entry::Waits));
    disk.fill(room);
    worker.go();
    let status = worker.end();
    let entries = notes.entries();
    let has_stopped = !status.success();
    if has_stopped {
        assert_eq!(status.code(), Some(1), "{room}: {status} {:?}", entries.last());
        check_stopped(&entries, entries.len(), &[UNAVAILABLE]);
    }
    read(place);
    disk.make_room();
    let goes_on = notes.run(&task(place, SESSION, STEPS, None));
    assert!(goes_on.success(), "{room}: {:?}", notes.entries().last());
    check_end(place, SESSION, &notes, STEPS, "after the fault");
    place.with(async |store| assert_eq!(store.check(false).await.unwrap(), [], "{room}"));
    Some(has_stopped)
}

fn at_each_size(place: impl Fn() -> Place) {
    let stopped: Option<Vec<bool>> = ROOM.into_iter().map(|room| full(&place(), room)).collect();
    let Some(stopped) = stopped else { return };
    println!("with {ROOM:?} bytes left: stopped {stopped:?}");
    assert!(stopped[0], "{stopped:?}");
}

#[test]
fn a_run_on_a_full_disk_with_small_blocks_loses_nothing_of_its_files() {
    at_each_size(Place::files);
}

#[test]
fn a_run_on_a_full_disk_with_small_blocks_loses_nothing_of_its_sqlite_file() {
    at_each_size(Place::sqlite);
}
