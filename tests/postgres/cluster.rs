//! A PostgreSQL of the test's own, on a Unix socket in a temporary directory, stopped on drop.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const MISSING: &str = "the tests need PostgreSQL's initdb and postgres, on the PATH or below \
                       /usr/lib/postgresql; `bash tests/run.sh` installs them";

/// A running PostgreSQL.
pub struct Cluster {
    process: Child,
    directory: TempDir,
}

impl Cluster {
    /// Returns the cluster that the tests of this program share for as long as one of them runs.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let user = unprivileged(directory.path());
        if let Some((user, group)) = user {
            chown(directory.path(), Some(user), Some(group)).expect("we are root");
        }
        let programs = programs();
        let data = directory.path().join("data");
        let initdb = command(&programs.join("initdb"), user)
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
            .args(["--no-sync", "--pgdata"])
            .arg(&data)
            .output()
            .unwrap_or_else(|error| panic!("{MISSING} ({error})"));
        let complaint = String::from_utf8_lossy(&initdb.stderr);
        assert!(initdb.status.success(), "initdb: {complaint}");
        let log = std::fs::File::create(directory.path().join("log")).expect("our directory");
        let process = command(&programs.join("postgres"), user)
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path())
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=90"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{MISSING} ({error})"));
        let mut cluster = Self { process, directory };
        cluster.listens();
        cluster
    }

    /// Waits for the socket.
    fn listens(&mut self) {
        let begun = Instant::now();
        let socket = self.socket().join(".s.PGSQL.5432");
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            let ended = self.process.try_wait().expect("a child of ours");
            if ended.is_some() || begun.elapsed() > Duration::from_secs(60) {
                let log = std::fs::read_to_string(self.directory.path().join("log"));
                panic!("postgres does not start: {}", log.unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The directory of the socket: what a connection calls the host.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SIGQUIT ends the server processes too and gives shared memory back; SIGKILL would not. The
        // shell's own `kill`: a program of that name is not on every machine.
        let quit = format!("kill -QUIT {}", self.process.id());
        if !Command::new("sh").args(["-c", &quit]).status().is_ok_and(|status| status.success()) {
            self.process.kill().ok();
        }
        self.process.wait().ok();
    }
}

/// PostgreSQL refuses to run as root: returns the user to run it as, if we are.
fn unprivileged(ours: &Path) -> Option<(u32, u32)> {
    let id = |option: &str, user: &str| {
        let output = Command::new("id").args([option, user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    let root = std::fs::metadata(ours).expect("our directory").uid() == 0;
    root.then(|| {
        let known = ["postgres", "nobody"].into_iter().find_map(|user| {
            let user_and_group: (u32, u32) = (id("-u", user)?, id("-g", user)?);
            Some(user_and_group)
        });
        known.expect("a user called postgres or nobody, as postgres refuses to run as root")
    })
}

fn command(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env("LC_ALL", "C");
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}

/// Where initdb and postgres are: on the PATH, or where Debian keeps them, the newest first.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let version = |directory: &PathBuf| {
        directory.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok())
    };
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut debian: Vec<PathBuf> = installed.flatten().map(|entry| entry.path()).collect();
    debian.sort_by_key(|directory| std::cmp::Reverse(version(directory)));
    on_path
        .into_iter()
        .chain(debian.into_iter().map(|directory| directory.join("bin")))
        .find(|directory| ["initdb", "postgres"].iter().all(|it| directory.join(it).is_file()))
        .unwrap_or_else(|| panic!("{MISSING}"))
}
