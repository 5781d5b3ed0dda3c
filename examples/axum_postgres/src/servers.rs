//! The servers: those that the environment names, or the example's own, on sockets in a temporary directory.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// PostgreSQL refuses to run as root. Debian keeps it off the PATH.
const POSTGRES: &str = r#"
    PATH="$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)"
    if [ "$(id -u)" -eq 0 ]; then
        chown 65534 "$0"
        as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
    fi
    cd "$0"
    $as_nobody initdb -D data -U postgres -A trust -N &&
        exec $as_nobody postgres -D data -k "$0" -c listen_addresses= -c fsync=off 2>log"#;
const REDIS: &str = r#"exec redis-server --port 0 --save "" --dir "$0" --unixsocket "$0/redis""#;

/// A server, stopped on drop if it is the example's own.
pub(crate) struct Server {
    pub(crate) url: String,
    process: Option<Child>,
}

impl Server {
    pub(crate) fn postgres(directory: &Path) -> std::io::Result<Self> {
        let url = format!("host={} user=postgres dbname=postgres", directory.display());
        Self::named_or_own("DATABASE_URL", POSTGRES, url, directory)
    }

    pub(crate) fn redis(directory: &Path) -> std::io::Result<Self> {
        let url = format!("redis+unix://{}/redis", directory.display());
        Self::named_or_own("REDIS_URL", REDIS, url, directory)
    }

    fn named_or_own(
        variable: &str,
        script: &str,
        url: String,
        directory: &Path,
    ) -> std::io::Result<Self> {
        if let Ok(url) = std::env::var(variable) {
            return Ok(Self { url, process: None });
        }
        let mut shell = Command::new("sh");
        let process = shell.args(["-c", script]).arg(directory).stdout(Stdio::null()).spawn()?;
        Ok(Self { url, process: Some(process) })
    }

    pub(crate) fn is_own(&self) -> bool {
        self.process.is_some()
    }
}

impl Drop for Server {
    /// By SIGINT, upon which both shut down at once. SIGKILL would leave PostgreSQL's other processes.
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let stop = format!("kill -INT {}", process.id());
            Command::new("sh").args(["-c", &stop]).status().ok();
            process.wait().ok();
        }
    }
}
