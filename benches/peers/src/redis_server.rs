//! A redis-server of our own on a free port, bounded to 2 GB, stopped on drop. `REDIS_SERVER` names another program.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};
use tempfile::TempDir;

/// Commands queued on a connection before callers wait.
const QUEUE: usize = 1024;

pub struct RedisServer {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl RedisServer {
    /// Starts a server.
    pub fn start() -> Self {
        Self::with_module(None).expect("redis-server starts; is it installed?")
    }

    /// Starts a server with a module; nothing if it does not load.
    pub fn with_module(module: Option<&Path>) -> Option<Self> {
        // Another process may take the port between our probe and the server's bind.
        (0..5).find_map(|_| Self::launch(module))
    }

    fn launch(module: Option<&Path>) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = probe.local_addr().expect("an address").port();
        drop(probe);
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--loglevel", "warning", "--maxmemory", "2gb"]);
        command.arg("--dir").arg(directory.path());
        if let Some(module) = module {
            command.arg("--loadmodule").arg(module);
        }
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server =
            Self { process: process.expect("redis-server"), port, _directory: directory };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10)
            && server.process.try_wait().is_ok_and(|end| end.is_none())
        {
            if server.client().get_connection_with_timeout(Duration::from_secs(1)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn client(&self) -> Client {
        let info = self.url().into_connection_info().expect("a URL");
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        Client::open(info.set_tcp_settings(tcp)).expect("a URL")
    }

    /// Returns a connection for many callers, set up as bloom-guard sets up its own. It has no deadline, which is in
    /// the contenders' favour.
    pub async fn multiplexed(&self) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE)
            .set_concurrency_limit(QUEUE);
        let connection = self.client().get_multiplexed_async_connection_with_config(&config).await;
        connection.expect("a connection")
    }

    /// Runs one command on a connection of its own.
    pub fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = self.client().get_connection().expect("a connection");
        redis::Cmd::new().arg(words).query(&mut connection).expect("an answer")
    }

    /// Returns the processor time that Redis's main thread has used.
    pub fn cpu(&self) -> Duration {
        let info: String = self.run(&["INFO", "cpu"]);
        let seconds = |name| field(&info, name).parse::<f64>().expect("seconds");
        let used = seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread");
        Duration::from_secs_f64(used)
    }

    pub fn version(&self) -> String {
        field(&self.run::<String>(&["INFO", "server"]), "redis_version").to_owned()
    }
}

/// Returns the value of a field of INFO.
fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.lines().find_map(value).expect("the field")
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
