//! A redis-server of the test's own, on a free port, with a temporary directory, stopped on drop.
//! `REDIS_SERVER` names another program to start: another version, or Valkey's.

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A port that is free now, and that no other program of the tests takes as long as this one runs: its server may be away for a
/// while. The system gives out none of these by itself, nor those of a cluster's bus, 10,000 above.
pub fn free_port() -> u16 {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    // The servers speak TCP: whoever has the same number for UDP has reserved it.
    static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    loop {
        // Programs that run at the same time begin with others.
        let begin = std::process::id() as usize * 191;
        let port = 10_000 + ((begin + TAKEN.fetch_add(1, Ordering::Relaxed)) % 10_000) as u16;
        if let Ok(reservation) = UdpSocket::bind(("127.0.0.1", port))
            && TcpListener::bind(("127.0.0.1", port)).is_ok()
        {
            RESERVED.lock().expect("nobody panics with it").push(reservation);
            return port;
        }
    }
}

/// A running redis-server.
pub struct RedisServer {
    process: Option<Child>,
    directory: TempDir,
    port: u16,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Starts a server.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with further arguments.
    pub fn with(arguments: &[&str]) -> Self {
        let mut server = Self {
            process: None,
            directory: tempfile::tempdir().expect("a temporary directory"),
            port: 0,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        };
        // Another process may take the port between our probe and the server's bind.
        for _ in 0..5 {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("redis-server does not start; is it installed? `bash tests/run.sh` installs it");
    }

    /// Starts the process on the port it has; returns whether it answers.
    fn launch(&mut self) -> bool {
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut process = Command::new(program)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .arg("--dir")
            .arg(self.directory.path())
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if process.try_wait().expect("a child of ours").is_some() {
                return false;
            }
            if self.try_connect().is_ok_and(|other| is_served_by(other, process.id())) {
                self.process = Some(process);
                return true;
            }
            // Not a spin: the cores are shared with what is measured meanwhile.
            std::thread::sleep(Duration::from_millis(2));
        }
        process.kill().ok();
        process.wait().ok();
        false
    }

    /// Kills the process at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("a child of ours");
            process.wait().expect("a child of ours");
        }
    }

    /// Stops the process's clock, as a virtual machine that is being moved: connections stay open, and
    /// nothing answers.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.process.as_ref().expect("a running server").id();
        // The shell's own `kill`: a program of that name is not on every machine.
        let kill = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status();
        assert!(kill.expect("a shell").success(), "{name} for {id}");
    }

    /// Starts the process again on the same port and directory.
    pub fn restart(&mut self) {
        self.kill();
        let begun = Instant::now();
        while !self.launch() {
            assert!(begun.elapsed() < Duration::from_secs(20), "redis-server does not come back");
        }
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn try_connect(&self) -> redis::RedisResult<redis::Connection> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(10))?;
        redis::cmd("PING").exec(&mut connection)?;
        Ok(connection)
    }

    /// A connection past the guard.
    pub fn connection(&self) -> redis::Connection {
        self.try_connect().expect("a connection")
    }

    /// Runs one command past the guard.
    pub fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_run(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs one command past the guard, where the server may go away.
    pub fn try_run<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        redis::Cmd::new().arg(words).query(&mut self.try_connect()?)
    }

    /// Has a node of a cluster serve a part of the slots, as one of so many primaries.
    pub fn serves_part(&self, number: usize, of: usize) {
        let slots = (number * 16_384 / of..(number + 1) * 16_384 / of).map(|slot| slot.to_string());
        let slots: Vec<String> = slots.collect();
        let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
        self.run::<()>(&words.collect::<Vec<_>>());
        self.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
    }

    /// Puts the filter "users" where it would be after ages on this server: no insert of before can be recent.
    pub fn age(&self) {
        self.run::<i64>(&["HSET", "bg:{users}:fleet", "since", "1"]);
    }

    /// All keys, sorted.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.run(&["KEYS", "*"]);
        keys.sort();
        keys
    }
}

/// Whether it is this process that answers: the server of another test may have taken the port.
fn is_served_by(mut connection: redis::Connection, process: u32) -> bool {
    let info = redis::cmd("INFO").arg("server").query::<String>(&mut connection);
    info.is_ok_and(|info| info.lines().any(|line| line == format!("process_id:{process}")))
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
