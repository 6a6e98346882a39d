//! What a server under load costs: sessions that stream at once, sessions that wait, and requests to small routes. Starts
//! a model, `loopwright serve` or another server with the same routes, and the clients on one machine. Prints one line for
//! each figure, and at the end all of them as JSON.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `LOOPWRIGHT` | the program to measure | `target/release/loopwright` |
//! | `SERVER` | a command that starts another server: it reads the model's address from `BASE_URL`, and prints its own and a token as `{"url": …, "token": …}` | none |
//! | `LIVE` | sessions that stream at once | 1000 |
//! | `RATE` | fragments that the model sends to each in a second | 5 |
//! | `SECONDS` | how long it sends them | 10 |
//! | `WAITING` | runs that wait for the model at once, each with an open stream of events | 9000 |
//! | `SMALL` | requests to each small route | 20000 |
//!
//! Each fragment has the time at which the model sent it, and a reader of the session's events takes the difference. All
//! readers are in this program, so that their work counts in the delay. The limit of open files must be four times the
//! number of sessions: `ulimit -n 65536`.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded")]

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::stream::{self, StreamExt as _};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::{sleep, timeout},
};

type Failure = Box<dyn Error + Send + Sync>;

/// Requests that are sent at once.
const CONCURRENT: usize = 32;

/// What is to be done.
#[derive(Clone, Copy)]
struct Work {
    live: usize,
    rate: u64,
    seconds: u64,
    waiting: usize,
    small: usize,
}

fn variable(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

fn count(name: &str, default: u64) -> usize {
    usize::try_from(variable(name, default)).unwrap_or(usize::MAX)
}

/// What readers saw.
#[derive(Default)]
struct Seen {
    fragments: AtomicU64,
    events: AtomicU64,
    lost: AtomicU64,
    waiting: AtomicU64,
    delays: Mutex<Vec<u64>>,
}

/// The server under load.
struct Served {
    child: Child,
    host: String,
    token: String,
    folder: PathBuf,
}

impl Served {
    async fn start(work: Work, model: &str) -> Result<Self, Failure> {
        let folder = env::temp_dir().join(format!("serve-load-{}", std::process::id()));
        fs::create_dir_all(folder.join("project"))?;
        let url = format!("http://{model}/v1");
        let mut command = match env::var("SERVER") {
            Ok(server) => other(&server)?,
            Err(_) => ours(work, &url, &folder)?,
        };
        let mut child = command
            .env_clear()
            .env("BASE_URL", &url)
            .env("HOME", &folder)
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("OPENAI_COMPATIBLE_API_KEY", "none")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("the server has no output")?;
        BufReader::new(output).read_line(&mut line).await?;
        let host = field(&line, "url").and_then(|it| it.strip_prefix("http://").map(str::to_owned));
        let token = field(&line, "token");
        let (Some(host), Some(token)) = (host, token) else { return Err(line.into()) };
        Ok(Self { child, host, token, folder })
    }

    fn head(&self, method: &str, path: &str, body: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            self.token,
            body.len()
        )
    }

    /// Sends a request over a connection, and returns the body of the response.
    async fn send(
        &self,
        stream: &mut BufReader<TcpStream>,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<String, Failure> {
        stream.write_all(self.head(method, path, body).as_bytes()).await?;
        let (mut line, mut length, mut status) = (String::new(), 0, String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Err("the server closed the connection".into());
            }
            let text = line.trim_end().to_ascii_lowercase();
            if status.is_empty() {
                status = text;
            } else if text.is_empty() {
                break;
            } else if let Some(value) = text.strip_prefix("content-length: ") {
                length = value.parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = String::from_utf8(body)?;
        if status.contains(" 2") {
            Ok(body)
        } else {
            Err(format!("{path}: {status}: {body}").into())
        }
    }

    async fn connect(&self) -> Result<BufReader<TcpStream>, Failure> {
        let stream = TcpStream::connect(&self.host).await?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }

    /// Returns the resident memory in KiB.
    fn memory(&self) -> Result<u64, Failure> {
        let id = self.child.id().ok_or("the server has ended")?;
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kib = line.and_then(|it| it.split_whitespace().next()).ok_or("no memory is known")?;
        Ok(kib.parse()?)
    }

    /// Returns the time that the processor spent, in seconds.
    fn processor(&self) -> Result<f64, Failure> {
        let id = self.child.id().ok_or("the server has ended")?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
        let after = stat.rsplit_once(')').ok_or("no times are known")?.1;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / 100.0)
    }

    /// Starts a run, and follows the events of its session until it ends. `None` for runs that wait.
    async fn run(
        self: Arc<Self>,
        text: &str,
        expected: Option<u64>,
        start: Instant,
        seen: Arc<Seen>,
    ) -> Result<(), Failure> {
        let mut stream = self.connect().await?;
        let created = self.send(&mut stream, "POST", "/v1/sessions", "{}").await?;
        let session = field(&created, "id").ok_or("no session")?;
        let path = format!("/v1/sessions/{session}");
        let body = format!(r#"{{"text": "{text}"}}"#);
        self.send(&mut stream, "POST", &format!("{path}/messages"), &body).await?;
        let request = self.head("GET", &format!("{path}/events"), "");
        stream.write_all(request.as_bytes()).await?;
        let (mut line, mut fragments, mut last) = (String::new(), 0, 0);
        let mut delays = Vec::new();
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                break;
            }
            if let Some(id) = line.strip_prefix("id: ") {
                let id: u64 = id.trim().parse()?;
                seen.lost.fetch_add(id.saturating_sub(last + 1), Relaxed);
                last = id;
                seen.events.fetch_add(1, Relaxed);
                if id == 1 && expected.is_none() {
                    seen.waiting.fetch_add(1, Relaxed);
                }
            } else if line.contains("agent.stream.chunk") {
                for sent in line.split("<at:").skip(1) {
                    let sent = sent.split('>').next().unwrap_or_default();
                    let now = u64::try_from(start.elapsed().as_micros())?;
                    delays.push(now.saturating_sub(sent.parse()?));
                    fragments += 1;
                }
            } else if line.starts_with('0') {
                // The last chunk of the response.
                break;
            }
        }
        seen.fragments.fetch_add(fragments, Relaxed);
        if let Some(expected) = expected {
            seen.lost.fetch_add(expected.saturating_sub(fragments), Relaxed);
        }
        seen.delays.lock().unwrap_or_else(PoisonError::into_inner).extend(delays);
        Ok(())
    }
}

/// The command of our server.
fn ours(work: Work, url: &str, folder: &Path) -> Result<Command, Failure> {
    let program = env::var("LOOPWRIGHT").unwrap_or("target/release/loopwright".to_owned());
    let program = fs::canonicalize(&program).map_err(|error| format!("{program}: {error}"))?;
    let runs = (work.live.max(work.waiting) + 1).to_string();
    let mut command = Command::new(program);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--output-format", "json", "-j", &runs])
        .args(["-m", "openai-compatible/test", "--base-url", url, "-C"])
        .arg(folder.join("project"));
    Ok(command)
}

/// The command of another server: a program and its arguments.
fn other(server: &str) -> Result<Command, Failure> {
    let mut words = server.split_whitespace();
    let mut command = Command::new(words.next().ok_or("SERVER is empty")?);
    command.args(words);
    Ok(command)
}

impl Drop for Served {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Returns the first string of this name in a JSON text without escapes in it.
fn field(json: &str, name: &str) -> Option<String> {
    let after = json.split_once(&format!("\"{name}\""))?.1;
    Some(after.split('"').nth(1)?.to_owned())
}

/// Answers requests of chat completions: fragments with the time, or nothing if the message is `wait`.
async fn model(mut stream: TcpStream, work: Work, start: Instant) -> Option<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head.lines().find_map(|it| it.strip_prefix("content-length: "))?;
        let mut body = vec![0; length.trim().parse().ok()?];
        stream.read_exact(&mut body).await.ok()?;
        let waits = body.windows(10).any(|it| it == b"wait here.");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.ok()?;
        if waits {
            stream.read_u8().await.ok()?;
            return None;
        }
        let begun = Instant::now();
        for number in 0..work.rate * work.seconds {
            let due = Duration::from_micros(number * 1_000_000 / work.rate);
            sleep(due.saturating_sub(begun.elapsed())).await;
            let text = format!("<at:{}> ", start.elapsed().as_micros());
            chunk(
                &mut stream,
                &format!(r#"{{"delta":{{"content":"{text}"}},"index":0,"finish_reason":null}}"#),
            )
            .await?;
        }
        chunk(&mut stream, r#"{"delta":{},"index":0,"finish_reason":"stop"}"#).await?;
        let end = "data: [DONE]\n\n";
        let end = format!("{:x}\r\n{end}\r\n0\r\n\r\n", end.len());
        stream.write_all(end.as_bytes()).await.ok()?;
    }
}

async fn chunk(stream: &mut TcpStream, choice: &str) -> Option<()> {
    let data = format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"test\",\"choices\":[{choice}]}}\n\n"
    );
    stream.write_all(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes()).await.ok()
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let work = Work {
        live: count("LIVE", 1000),
        rate: variable("RATE", 5).max(1),
        seconds: variable("SECONDS", 10).max(1),
        waiting: count("WAITING", 9000),
        small: count("SMALL", 20_000),
    };
    let start = Instant::now();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).ok();
            tokio::spawn(model(stream, work, start));
        }
    });
    let served = Arc::new(Served::start(work, &address).await?);
    let mut figures = Figures::default();
    let idle = served.memory()?;
    println!("memory of the idle server: {idle} KiB");
    figures.add("idle_mib", idle as f64 / 1024.0);
    for path in ["/healthz", "/v1/agents", "/v1/sessions"] {
        small(&served, path, work.small, &mut figures).await?;
    }
    live(&served, work, start, &mut figures).await?;
    waiting(&served, work, start, &mut figures).await?;
    println!("{{{}}}", figures.0.join(", "));
    Ok(())
}

/// The figures as the fields of a JSON object.
#[derive(Default)]
struct Figures(Vec<String>);

impl Figures {
    fn add(&mut self, name: &str, value: f64) {
        self.0.push(format!("\"{name}\": {value:.3}"));
    }
}

/// Sends many requests to a route.
async fn small(
    served: &Arc<Served>,
    path: &str,
    requests: usize,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (begun, busy) = (Instant::now(), served.processor()?);
    let senders = (0..CONCURRENT).map(|_| async {
        let mut stream = served.connect().await?;
        for _ in 0..requests / CONCURRENT {
            served.send(&mut stream, "GET", path, "").await?;
        }
        Ok::<_, Failure>(())
    });
    for sent in futures::future::join_all(senders).await {
        sent?;
    }
    let sent = (requests / CONCURRENT * CONCURRENT) as f64;
    // The kernel counts in hundredths of a second.
    let (took, busy) = (begun.elapsed().as_secs_f64(), (served.processor()? - busy).max(0.01));
    println!(
        "GET {path}: {:.0} requests a second, {:.0} for each second of the processor",
        sent / took,
        sent / busy
    );
    let name = path.rsplit('/').next().unwrap_or_default();
    figures.add(&format!("{name}_per_second"), sent / took);
    figures.add(&format!("{name}_per_cpu_second"), sent / busy);
    Ok(())
}

/// Streams to many sessions at once.
async fn live(
    served: &Arc<Served>,
    work: Work,
    start: Instant,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let seen = Arc::new(Seen::default());
    let (begun, busy) = (Instant::now(), served.processor()?);
    let expected = work.rate * work.seconds;
    let runs = (0..work.live)
        .map(|_| Arc::clone(served).run("Count.", Some(expected), start, Arc::clone(&seen)));
    let failed = AtomicU64::new(0);
    stream::iter(runs)
        .for_each_concurrent(None, |run| async {
            if let Err(error) = run.await {
                failed.fetch_add(1, Relaxed);
                println!("a reader failed: {error}");
            }
        })
        .await;
    let (took, busy) = (begun.elapsed().as_secs_f64(), served.processor()? - busy);
    let mut delays = seen.delays.lock().unwrap_or_else(PoisonError::into_inner);
    delays.sort_unstable();
    let at = |part: usize| delays.get(delays.len() * part / 1000).copied().unwrap_or_default();
    let fragments = seen.fragments.load(Relaxed);
    println!(
        "{} sessions at once: {fragments} of {} fragments and {} events in {took:.1} s, {} lost, {} readers failed",
        work.live,
        expected * work.live as u64,
        seen.events.load(Relaxed),
        seen.lost.load(Relaxed),
        failed.load(Relaxed),
    );
    println!(
        "delay of fragments: median {:.1} ms, p99 {:.1} ms, highest {:.1} ms",
        at(500) as f64 / 1000.0,
        at(990) as f64 / 1000.0,
        delays.last().copied().unwrap_or_default() as f64 / 1000.0
    );
    let memory = served.memory()?;
    println!("processor time of the server: {busy:.1} s; memory: {memory} KiB");
    figures.add("fragments_per_cpu_second", fragments as f64 / busy.max(0.01));
    figures.add("fragments_lost", seen.lost.load(Relaxed) as f64);
    figures.add("delay_median_ms", at(500) as f64 / 1000.0);
    figures.add("delay_p99_ms", at(990) as f64 / 1000.0);
    figures.add("live_mib", memory as f64 / 1024.0);
    Ok(())
}

/// Starts runs that wait for the model, and returns what each costs.
async fn waiting(
    served: &Arc<Served>,
    work: Work,
    start: Instant,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (seen, before) = (Arc::new(Seen::default()), served.memory()?);
    let wanted = work.waiting as u64;
    let runs: Vec<_> = (0..work.waiting)
        .map(|_| {
            let run = Arc::clone(served).run("wait here.", None, start, Arc::clone(&seen));
            tokio::spawn(run)
        })
        .collect();
    let all = async {
        while seen.waiting.load(Relaxed) < wanted {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let is_complete = timeout(Duration::from_mins(5), all).await.is_ok();
    // What was needed only to begin is returned.
    sleep(Duration::from_secs(2)).await;
    let memory = served.memory()?;
    let open = seen.waiting.load(Relaxed);
    let each = memory.saturating_sub(before) as f64 / open.max(1) as f64;
    println!(
        "{open} of {wanted} runs wait{}: {each:.1} KiB each; memory: {memory} KiB",
        if is_complete { "" } else { ", after 300 s" },
    );
    figures.add("waiting_runs", open as f64);
    figures.add("waiting_kib", each);
    runs.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}
