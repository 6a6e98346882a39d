//! A server of Restate that can be killed and started again.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use loopwright_survival::Failure;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_mins(2);

/// A server on addresses of this machine only, with its data in a folder. It ends when this is dropped.
pub(crate) struct Engine {
    program: PathBuf,
    folder: PathBuf,
    node: u16,
    ingress: u16,
    admin: u16,
    server: Child,
}

impl Engine {
    /// Starts a server, and waits until it responds.
    pub(crate) async fn start(program: &Path, folder: &Path) -> Result<Self, Failure> {
        let [node, ingress, admin] = [free_port()?, free_port()?, free_port()?];
        let (program, folder) = (program.to_owned(), folder.join("engine"));
        let server = spawn(&program, &folder, [node, ingress, admin])?;
        let engine = Self { program, folder, node, ingress, admin, server };
        engine.ready().await?;
        Ok(engine)
    }

    /// Kills the server, and starts it again on its data.
    pub(crate) async fn restart(&mut self) -> Result<(), Failure> {
        self.server.kill()?;
        self.server.wait()?;
        self.server = spawn(&self.program, &self.folder, [self.node, self.ingress, self.admin])?;
        self.ready().await
    }

    pub(crate) fn ingress(&self) -> String {
        format!("http://127.0.0.1:{}", self.ingress)
    }

    pub(crate) fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin)
    }

    /// Returns the rows of a query.
    pub(crate) async fn query(&self, sql: &str) -> Result<Vec<Value>, Failure> {
        let body = json!({ "query": sql }).to_string();
        let address = format!("127.0.0.1:{}", self.admin);
        let request = format!(
            "POST /query HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: \
             application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        // The body may come in chunks, whose sizes are outside of the JSON text.
        let (first, last) = (response.find("{\"rows\""), response.rfind('}'));
        let (Some(first), Some(last)) = (first, last) else {
            return Err(format!("Restate responded {response:?}").into());
        };
        let rows: Value = serde_json::from_str(&unchunked(&response[first..=last]))?;
        Ok(rows["rows"].as_array().cloned().unwrap_or_default())
    }

    async fn ready(&self) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            match self.query("SELECT id FROM sys_invocation LIMIT 1").await {
                Ok(_) => return Ok(()),
                Err(error) if began.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _killed = self.server.kill();
        let _waited = self.server.wait();
    }
}

/// Leaves out the sizes of chunks, which stand in lines of their own.
fn unchunked(text: &str) -> String {
    let is_size = |line: &&str| !line.is_empty() && line.chars().all(|it| it.is_ascii_hexdigit());
    text.split("\r\n").filter(|line| !is_size(line)).collect()
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn spawn(program: &Path, folder: &Path, ports: [u16; 3]) -> Result<Child, Failure> {
    let [node, ingress, admin] = ports.map(|port| port.to_string());
    let server = Command::new(program)
        .arg("--no-logo")
        .env("RESTATE_BASE_DIR", folder)
        .env("RESTATE_LISTEN_MODE", "tcp")
        .env("RESTATE_BIND_IP", "127.0.0.1")
        .env("RESTATE_ADVERTISED_HOST", "127.0.0.1")
        .env("RESTATE_BIND_PORT", node)
        .env("RESTATE_INGRESS__BIND_PORT", ingress)
        .env("RESTATE_ADMIN__BIND_PORT", admin)
        .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
        .env("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256MB")
        .env("RESTATE_DISABLE_TELEMETRY", "true")
        // A worker that hangs is noticed within ten seconds.
        .env("RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL", "5s")
        .env("RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT", "5s")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(server)
}
