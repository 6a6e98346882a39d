//! A `PostgreSQL` server of one's own.

use std::{
    fs::{self, File},
    io,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// A `PostgreSQL` server that no other process knows: it listens on a socket in a folder of its own, and stops
/// when it is dropped.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    safety: Safety,
    server: Option<Child>,
}

/// Whether what is acknowledged survives a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// It does, as it is by default.
    Synced,
    /// It survives the death of clients only, which is faster.
    Unsynced,
}

/// A caller that runs the server where it must not be root.
const NOBODY: u32 = 65_534;

/// How long a server has to answer.
const PATIENCE: Duration = Duration::from_mins(1);

impl Postgres {
    /// Starts a server in an empty folder.
    ///
    /// # Errors
    ///
    /// If the programs of `PostgreSQL` are not there, or do not do it.
    pub fn start(folder: &Path, safety: Safety) -> io::Result<Self> {
        let (folder, programs) = (folder.to_owned(), programs()?);
        if geteuid().is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY))?;
        }
        let mut server = Self { folder, programs, safety, server: None };
        let data = server.data();
        let mut initdb = server.command("initdb");
        initdb.args(["--auth=trust", "--username=loopwright", "--encoding=UTF8", "--locale=C"]);
        initdb.args(["--no-sync", "-D"]).arg(&data).stdout(Stdio::null());
        let output = initdb.output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        server.go_on()?;
        Ok(server)
    }

    /// Returns the address of its database.
    pub fn url(&self) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://loopwright@{folder}/postgres")
    }

    /// Starts the server again after it was stopped.
    ///
    /// # Errors
    ///
    /// If it does not respond in time.
    pub fn go_on(&mut self) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        let mut serve = self.command("postgres");
        serve.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        serve.args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
        if self.safety == Safety::Unsynced {
            serve.args(["-c", "fsync=off"]);
        }
        self.server = Some(serve.stdout(Stdio::null()).stderr(log).spawn()?);
        let began = Instant::now();
        while !self.answers()? {
            if began.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(io::Error::new(io::ErrorKind::TimedOut, log));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Stops the server at once, as if it had crashed: its clients are cut off.
    ///
    /// # Errors
    ///
    /// If it cannot be told.
    pub fn stop(&mut self) -> io::Result<()> {
        if let Some(mut server) = self.server.take() {
            if let Some(process) = i32::try_from(server.id()).ok().and_then(Pid::from_raw) {
                kill_process(process, Signal::QUIT)?;
            }
            server.wait()?;
        }
        Ok(())
    }

    /// Returns the number of the server's first process; nothing while it is stopped.
    pub fn process(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Lets all processes of the server stand still, as if its machine did, or continue.
    ///
    /// # Errors
    ///
    /// If they cannot be told.
    pub fn stand_still(&self, still: bool) -> io::Result<()> {
        let Some(first) = self.process() else { return Ok(()) };
        let signal = if still { Signal::STOP } else { Signal::CONT };
        for entry in fs::read_dir("/proc")?.flatten() {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
            let process = entry.file_name().to_string_lossy().parse::<i32>().ok();
            let is_its = parent == Some(&first.to_string())
                || process.and_then(|it| u32::try_from(it).ok()) == Some(first);
            if let Some(process) = process.and_then(Pid::from_raw).filter(|_| is_its) {
                kill_process(process, signal)?;
            }
        }
        Ok(())
    }

    fn answers(&self) -> io::Result<bool> {
        let mut ask = self.command("pg_isready");
        ask.arg("-q").arg("-h").arg(&self.folder);
        Ok(ask.stderr(Stdio::null()).status()?.success())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).stdin(Stdio::null()).env("LC_ALL", "C");
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _stopped = self.stop();
    }
}

/// Finds the folder of the server's programs: where Debian keeps them, the newest first, or on the path.
fn programs() -> io::Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = versions.map(|it| it.path().join("bin")).collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().rev().chain(std::env::split_paths(&path));
    let mut fit = all.filter(|it| it.join("initdb").is_file() && it.join("postgres").is_file());
    fit.next().ok_or_else(|| {
        let text = "PostgreSQL is not installed: run `scripts/test`, which installs it";
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}
