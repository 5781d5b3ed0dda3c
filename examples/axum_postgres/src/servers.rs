//! PostgreSQL and Redis of the example's own, on Unix sockets in a temporary directory, stopped on drop.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bloom_guard::BoxError;

/// A server process.
pub(crate) struct Server(Child);

impl Drop for Server {
    /// Stops it by SIGINT, which both shut down at once by: SIGKILL would leave PostgreSQL's other processes.
    fn drop(&mut self) {
        let stop = format!("kill -INT {}", self.0.id());
        if !Command::new("sh").args(["-c", &stop]).status().is_ok_and(|status| status.success()) {
            self.0.kill().ok();
        }
        self.0.wait().ok();
    }
}

/// Starts redis-server; returns its URL.
pub(crate) fn redis(directory: &Path) -> Result<(Server, String), BoxError> {
    let socket = directory.join("redis.socket");
    let server =
        quiet(Command::new("redis-server").args(["--port", "0", "--save", "", "--unixsocket"]))
            .arg(&socket)
            .arg("--dir")
            .arg(directory)
            .spawn()
            .map_err(|error| format!("redis-server: {error}; install it, or set REDIS_URL"))?;
    Ok((Server(server), format!("redis+unix://{}", socket.display())))
}

/// Starts PostgreSQL; returns its connection string.
pub(crate) fn postgres(directory: &Path) -> Result<(Server, String), BoxError> {
    let programs =
        programs().ok_or("install PostgreSQL (initdb, postgres), or set DATABASE_URL")?;
    let data = directory.join("postgres");
    // PostgreSQL refuses to run as root.
    let user = (std::fs::metadata(directory)?.uid() == 0).then(nobody).transpose()?;
    if let Some((user, group)) = user {
        chown(directory, Some(user), Some(group))?;
    }
    let command = |program: &str| {
        let mut command = Command::new(programs.join(program));
        command.current_dir("/").arg("-D").arg(&data);
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        command
    };
    let made = quiet(command("initdb").args(["-U", "postgres", "-A", "trust", "-N"])).status()?;
    if !made.success() {
        return Err("initdb failed".into());
    }
    let mut server = command("postgres");
    let server = quiet(server.args(["-c", "listen_addresses=", "-k"]).arg(directory)).spawn()?;
    let url = format!("host={} user=postgres dbname=postgres", directory.display());
    Ok((Server(server), url))
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

/// Where initdb and postgres are: on the PATH, or where Debian keeps them.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::split_paths(&path)
        .chain(debian.map(|version| version.path().join("bin")))
        .find(|directory| ["initdb", "postgres"].iter().all(|it| directory.join(it).is_file()))
}

/// The user and group to run PostgreSQL as.
fn nobody() -> Result<(u32, u32), BoxError> {
    let id = |option: &str| -> Result<u32, BoxError> {
        let output = Command::new("id").args([option, "nobody"]).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    };
    Ok((id("-u")?, id("-g")?))
}
