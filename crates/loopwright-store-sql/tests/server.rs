//! A PostgreSQL server of the tests' own.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// A server that was started for these tests.
pub(crate) struct Server {
    folder: PathBuf,
    programs: PathBuf,
    databases: AtomicU32,
    /// It stops the server and removes all of it when its input ends, however this process does.
    _watcher: Child,
}

/// Who owns the databases.
const USER: &str = "loopwright";
/// Somebody who has to show a password.
pub(crate) const GUARDED: &str = "guarded";
pub(crate) const PASSWORD: &str = "correct-horse";

impl Server {
    /// Returns the server of all tests that do nothing to it.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Self::new)
    }

    /// Starts a server.
    pub(crate) fn new() -> Self {
        let programs = programs();
        let folder =
            tempfile::Builder::new().prefix("loopwright-postgres").tempdir().unwrap().keep();
        if let Some((user, group)) = other_user() {
            chown(&folder, Some(user), Some(group)).unwrap();
        }
        let ending = r#"read -r _; "$1/pg_ctl" -D "$2/data" -m immediate stop; rm -rf "$2""#;
        let watcher = as_user("sh")
            .args(["-c", ending, "sh"])
            .args([&programs, &folder])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let server = Self { folder, programs, databases: AtomicU32::new(0), _watcher: watcher };
        let data = server.data();
        server.run("initdb", &["-D", &data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"]);
        let access = fs::read_to_string(Path::new(&data).join("pg_hba.conf")).unwrap();
        let access = format!("local all {GUARDED} scram-sha-256\n{access}");
        fs::write(Path::new(&data).join("pg_hba.conf"), access).unwrap();
        server.start();
        server
    }

    /// Lets it run.
    pub(crate) fn start(&self) {
        let (data, folder) = (self.data(), self.folder.display());
        let options = format!("-F -h '' -k '{folder}' -c max_connections=200");
        let log = format!("{folder}/log");
        self.run("pg_ctl", &["-D", &data, "-w", "-l", &log, "-o", &options, "start"]);
    }

    /// Stops it; who is connected is cut off.
    pub(crate) fn stop(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-m", "fast", "stop"]);
    }

    /// Makes an empty database, and returns its address.
    pub(crate) async fn database(&self) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let make = format!("CREATE DATABASE {name}");
        self.script(&self.address(USER, "postgres"), &make).await;
        self.address(USER, &name)
    }

    /// Runs statements in a database.
    pub(crate) async fn script(&self, address: &str, sql: &str) {
        let mut connection = PgConnection::connect(address).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Returns the address of a database for a user, who may have a password: `name:password`.
    pub(crate) fn address(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@localhost/{database}?host={}", self.folder.display())
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = as_user(self.programs.join(program).to_str().unwrap());
        let log = fs::File::create(self.folder.join(format!("{program}.log"))).unwrap();
        let status = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .status()
            .unwrap();
        let said = || fs::read_to_string(self.folder.join(format!("{program}.log"))).unwrap();
        assert!(status.success(), "{program}: {}", said());
    }
}

/// Finds the programs of a server, where Debian and others put them.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    let has_all = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "postgres"].iter().all(|program| folder.join(program).exists())
    };
    let found = folders.into_iter().find(has_all);
    found.expect("these tests need a PostgreSQL server: `scripts/test` installs it")
}

/// Returns a user and group to run the server as, which refuses to run as root.
fn other_user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").map_or(1, |it| it.uid()) != 0 {
        return None;
    }
    let number = |option, user| {
        let told = Command::new("id").args([option, user]).output().unwrap();
        String::from_utf8(told.stdout).unwrap().trim().parse::<u32>().ok()
    };
    let numbers = |user| number("-u", user).zip(number("-g", user));
    Some(numbers("postgres").or_else(|| numbers("nobody")).unwrap())
}

/// Runs a program as whoever may run a server, and says nothing.
fn as_user(program: &str) -> Command {
    let mut command = match other_user() {
        None => Command::new(program),
        Some((user, group)) => {
            let mut command = Command::new("setpriv");
            let (user, group) = (format!("--reuid={user}"), format!("--regid={group}"));
            command.args([&user, &group, "--clear-groups", program]);
            command
        }
    };
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
