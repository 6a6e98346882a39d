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

/// A server, or a cluster of them, on addresses of this machine only, with its data in a folder. It ends when this is dropped.
pub(crate) struct Engine {
    program: PathBuf,
    nodes: Vec<Node>,
    /// How many nodes were killed.
    kills: usize,
}

/// A node of a cluster, or the only server.
struct Node {
    place: Place,
    server: Child,
}

/// Where a node is.
struct Place {
    folder: PathBuf,
    node: u16,
    ingress: u16,
    admin: u16,
    /// The number of the node, and the addresses of all nodes; `None` for the only server.
    cluster: Option<(usize, String)>,
}

/// The nodes of a cluster. Each entry of its log is on two of them.
const NODES: usize = 3;

impl Engine {
    /// Starts a server, and waits until it responds.
    pub(crate) async fn start(program: &Path, folder: &Path) -> Result<Self, Failure> {
        let [node, ingress, admin] = [free_port()?, free_port()?, free_port()?];
        let place = Place { folder: folder.join("engine"), node, ingress, admin, cluster: None };
        Self::start_all(program, vec![place]).await
    }

    /// Starts a cluster of three nodes, and waits until all respond.
    pub(crate) async fn start_cluster(program: &Path, folder: &Path) -> Result<Self, Failure> {
        let mut ports = Vec::new();
        for _ in 0..NODES {
            ports.push([free_port()?, free_port()?, free_port()?]);
        }
        let addresses = ports.iter().map(|it| format!("http://127.0.0.1:{}", it[0]));
        let addresses = serde_json::to_string(&addresses.collect::<Vec<_>>())?;
        let places = ports.into_iter().enumerate().map(|(index, [node, ingress, admin])| {
            let folder = folder.join(format!("engine-{index}"));
            let cluster = Some((index + 1, addresses.clone()));
            Place { folder, node, ingress, admin, cluster }
        });
        Self::start_all(program, places.collect()).await
    }

    async fn start_all(program: &Path, places: Vec<Place>) -> Result<Self, Failure> {
        let mut engine = Self { program: program.to_owned(), nodes: Vec::new(), kills: 0 };
        for place in places {
            let server = spawn(program, &place)?;
            engine.nodes.push(Node { place, server });
        }
        for node in &engine.nodes {
            ready(node.place.admin).await?;
        }
        Ok(engine)
    }

    /// Kills the next node, and starts it again on its data.
    pub(crate) async fn restart(&mut self) -> Result<(), Failure> {
        let index = self.kills % self.nodes.len();
        self.kills += 1;
        let node = &mut self.nodes[index];
        node.server.kill()?;
        node.server.wait()?;
        node.server = spawn(&self.program, &node.place)?;
        ready(node.place.admin).await
    }

    pub(crate) fn ingress(&self) -> String {
        format!("http://127.0.0.1:{}", self.nodes[0].place.ingress)
    }

    pub(crate) fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.nodes[0].place.admin)
    }

    /// Returns the rows of a query.
    pub(crate) async fn query(&self, sql: &str) -> Result<Vec<Value>, Failure> {
        query(self.nodes[0].place.admin, sql).await
    }
}

async fn query(admin: u16, sql: &str) -> Result<Vec<Value>, Failure> {
    let body = json!({ "query": sql }).to_string();
    let address = format!("127.0.0.1:{admin}");
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

async fn ready(admin: u16) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        match query(admin, "SELECT id FROM sys_invocation LIMIT 1").await {
            Ok(_) => return Ok(()),
            Err(error) if began.elapsed() > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for Node { server, .. } in &mut self.nodes {
            let _killed = server.kill();
            let _waited = server.wait();
        }
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

fn spawn(program: &Path, place: &Place) -> Result<Child, Failure> {
    let Place { folder, node, ingress, admin, cluster } = place;
    let mut server = Command::new(program);
    server
        .arg("--no-logo")
        .env("RESTATE_BASE_DIR", folder)
        .env("RESTATE_LISTEN_MODE", "tcp")
        .env("RESTATE_BIND_IP", "127.0.0.1")
        .env("RESTATE_ADVERTISED_HOST", "127.0.0.1")
        .env("RESTATE_BIND_PORT", node.to_string())
        .env("RESTATE_INGRESS__BIND_PORT", ingress.to_string())
        .env("RESTATE_ADMIN__BIND_PORT", admin.to_string())
        .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
        .env("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256MB")
        .env("RESTATE_DISABLE_TELEMETRY", "true")
        // A worker that hangs is noticed within ten seconds.
        .env("RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL", "5s")
        .env("RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT", "5s")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some((number, addresses)) = cluster {
        let roles = r#"["worker","admin","metadata-server","log-server","http-ingress"]"#;
        server
            .env("RESTATE_CLUSTER_NAME", "survival")
            .env("RESTATE_NODE_NAME", format!("node-{number}"))
            .env("RESTATE_FORCE_NODE_ID", number.to_string())
            .env("RESTATE_ROLES", roles)
            .env("RESTATE_AUTO_PROVISION", (*number == 1).to_string())
            .env("RESTATE_DEFAULT_REPLICATION", "2")
            .env("RESTATE_BIFROST__DEFAULT_PROVIDER", "replicated")
            .env("RESTATE_METADATA_CLIENT__ADDRESSES", addresses);
    }
    Ok(server.spawn()?)
}
