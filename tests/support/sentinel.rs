//! A redis-server in Sentinel mode of the test's own, stopped on drop.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::eventually;
use crate::redis_server::free_port;

/// How long a Sentinel may take to know the others, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running Sentinel.
pub struct Sentinel {
    process: Child,
    port: u16,
    password: Option<String>,
    _directory: TempDir,
}

impl Sentinel {
    /// Starts a Sentinel that knows the primary at this port of the loopback by a name, needs one other Sentinel to act on it, and
    /// takes it for down after a silence. Further lines of its configuration may follow, with `{port}` for its own.
    pub fn start(name: &str, primary: u16, down_after: Duration, more: &[&str]) -> Self {
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        for _ in 0..5 {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let port = free_port();
            let configuration = directory.path().join("sentinel.conf");
            let text = format!(
                "port {port}\ndir {}\n\
                 sentinel monitor {name} 127.0.0.1 {primary} 2\n\
                 sentinel down-after-milliseconds {name} {}\n\
                 sentinel failover-timeout {name} 3000\n{}\n",
                directory.path().display(),
                down_after.as_millis(),
                more.join("\n").replace("{port}", &port.to_string()),
            );
            let bind = if text.contains("\nbind ") { "" } else { "bind 127.0.0.1\n" };
            std::fs::write(&configuration, format!("{bind}{text}")).expect("a temporary directory");
            let mut process = Command::new(&program)
                .arg(&configuration)
                .arg("--sentinel")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("redis-server is installed");
            if answers(&mut process, port) {
                let password = more.iter().find_map(|line| line.strip_prefix("requirepass "));
                let password = password.map(str::to_owned);
                let sentinel = Self { process, port, password, _directory: directory };
                sentinel.hasten();
                return sentinel;
            }
            process.kill().ok();
            process.wait().ok();
        }
        panic!("redis-server --sentinel does not start");
    }

    /// Sentinels gossip every 2 s, and ask who is a replica every 10 s: tests have no time for that.
    /// What decides when a primary is down, and who may act on it, stays as configured. A busy
    /// machine's pauses are not to stop them for half a minute (TILT) either. Whoever has promoted a replica learns that within a
    /// second, and the others make it a replica again after four times the second of these periods.
    fn hasten(&self) {
        let debug = ["INFO-PERIOD", "100", "PUBLISH-PERIOD", "500", "ASK-PERIOD", "100"];
        let tilt = ["TILT-TRIGGER", "20000", "TILT-PERIOD", "1000"];
        let words: Vec<&str> = ["SENTINEL", "DEBUG"].into_iter().chain(debug).chain(tilt).collect();
        // Redis 6.2 has no such command, and takes its time.
        self.run::<()>(&words).ok();
    }

    /// Waits until this Sentinel knows of so many replicas, and so many Sentinels, itself among them.
    pub async fn knows(&self, replicas: usize, sentinels: usize) {
        let words = format!("slaves={replicas},sentinels={sentinels}");
        eventually("a Sentinel knows all others", PATIENCE, || async {
            let info: String =
                self.run(&["INFO", "sentinel"]).map_err(|error| error.to_string())?;
            if info.contains(&words) { Ok(()) } else { Err(info) }
        })
        .await;
    }

    /// Has it know another primary by a name.
    pub fn name(&self, name: &str, primary: u16) {
        self.run::<()>(&["SENTINEL", "REMOVE", name]).expect("it is known");
        let port = primary.to_string();
        self.run::<()>(&["SENTINEL", "MONITOR", name, "127.0.0.1", &port, "2"]).expect("a primary");
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Runs one command.
    ///
    /// # Errors
    ///
    /// What the Sentinel says, or why it is not reached.
    pub fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let password = self.password.as_ref().map(|word| format!(":{word}@")).unwrap_or_default();
        let client = redis::Client::open(format!("redis://{password}127.0.0.1:{}/", self.port))?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        redis::Cmd::new().arg(words).query(&mut connection)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Whether a process has come to listen on its port.
fn answers(process: &mut Child, port: u16) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if process.try_wait().expect("a child of ours").is_some() {
            return false;
        }
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}
