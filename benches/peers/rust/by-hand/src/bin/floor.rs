//! The least that the work takes. The body of the request is one buffer that only grows, so what a
//! step costs beside the kernel's copying does not depend on the conversation.
//!
//! `FLOOR=reqwest` sends it through `reqwest`, anything else over a bare TCP stream.

use std::{
    borrow::Cow,
    mem,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use memchr::memmem;
use peer_work::{DESCRIPTION, Done, Failure, SYSTEM, TOOL, Work, drive, schema};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    arguments: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Arguments {
    a: i64,
    b: i64,
}

/// A way to the model.
enum Wire {
    Reqwest(reqwest::Client),
    Tcp(Connection),
}

/// A connection, with the buffer of its answers.
struct Connection {
    stream: TcpStream,
    answer: BytesMut,
}

static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();

/// Connections that no run is using.
static IDLE: Mutex<Vec<Connection>> = Mutex::new(Vec::new());

fn main() -> Result<(), Failure> {
    drive(run)
}

async fn run(work: Arc<Work>) -> Result<Done, Failure> {
    let mut wire = Wire::open(&work.base_url).await?;
    let mut body = begin(&work)?;
    let mut calls = 0;
    loop {
        body.put_slice(b"]}");
        let answer = wire.post(&work.base_url, &mut body).await?;
        body.truncate(body.len() - 2);
        let response: Response<'_> = serde_json::from_slice(&answer)?;
        let raw = response.choices.first().ok_or("an answer without a choice")?.message.get();
        let message: Message<'_> = serde_json::from_str(raw)?;
        if message.tool_calls.is_empty() {
            let text = message.content.ok_or("an answer without a text")?;
            wire.close();
            return Ok(Done { text: serde_json::from_str(text.get())?, calls });
        }
        body.put_slice(b",");
        body.put_slice(raw.as_bytes());
        for call in &message.tool_calls {
            let Arguments { a, b } = serde_json::from_str(&call.function.arguments)?;
            calls += 1;
            body.put_slice(br#",{"role":"tool","tool_call_id":"#);
            put(&mut body, &call.id)?;
            body.put_slice(br#","content":"#);
            put(&mut body, &work.sum(a, b))?;
            body.put_slice(b"}");
        }
    }
}

/// The body up to the user's message, without what closes it.
fn begin(work: &Work) -> Result<BytesMut, Failure> {
    let body = json!({
        "model": "mock",
        "stream": false,
        "tools": [{
            "type": "function",
            "function": { "name": TOOL, "description": DESCRIPTION, "parameters": schema() },
        }],
    });
    let mut bytes = BytesMut::with_capacity(4 << 10);
    bytes.put_slice(body.to_string().as_bytes());
    bytes.truncate(bytes.len() - 1);
    bytes.put_slice(br#","messages":[{"role":"system","content":"#);
    put(&mut bytes, SYSTEM)?;
    bytes.put_slice(br#"},{"role":"user","content":"#);
    put(&mut bytes, &work.prompt())?;
    bytes.put_slice(b"}");
    Ok(bytes)
}

fn put(body: &mut BytesMut, text: &str) -> Result<(), Failure> {
    Ok(serde_json::to_writer(body.writer(), text)?)
}

impl Wire {
    async fn open(base_url: &str) -> Result<Self, Failure> {
        if std::env::var("FLOOR").is_ok_and(|floor| floor == "reqwest") {
            return Ok(Self::Reqwest(CLIENT.get_or_init(reqwest::Client::new).clone()));
        }
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(connection) = idle {
            return Ok(Self::Tcp(connection));
        }
        let (host, _) = split(base_url)?;
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(Connection { stream, answer: BytesMut::with_capacity(8 << 10) }))
    }

    /// Sends a body and gives the body of the answer. What is sent is not copied.
    async fn post(&mut self, base_url: &str, body: &mut BytesMut) -> Result<Bytes, Failure> {
        match self {
            Self::Tcp(connection) => connection.post(base_url, body).await,
            Self::Reqwest(client) => {
                let sent = mem::take(body).freeze();
                let request = client
                    .post(format!("{base_url}/chat/completions"))
                    .bearer_auth("sk-mock")
                    .header("content-type", "application/json")
                    .body(sent.clone());
                let answer = request.send().await?.bytes().await?;
                // Nobody else has it by now, so that it grows where it is.
                *body = sent.try_into_mut().unwrap_or_else(|sent| BytesMut::from(&sent[..]));
                Ok(answer)
            }
        }
    }

    /// Leaves the connection to the next run.
    fn close(self) {
        if let Self::Tcp(connection) = self {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

impl Connection {
    async fn post(&mut self, base_url: &str, body: &[u8]) -> Result<Bytes, Failure> {
        let (host, path) = split(base_url)?;
        let head = format!(
            "POST /{path}/chat/completions HTTP/1.1\r\nhost: {host}\r\n\
             authorization: Bearer sk-mock\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all_buf(&mut Buf::chain(head.as_bytes(), body)).await?;
        self.answer.clear();
        loop {
            self.read().await?;
            let Some(end) = memmem::find(&self.answer, b"\r\n\r\n") else { continue };
            let head = std::str::from_utf8(&self.answer[..end])?;
            let length = head.split("content-length: ").nth(1).and_then(|it| it.lines().next());
            let all = end + 4 + length.ok_or("an answer without its length")?.parse::<usize>()?;
            while self.answer.len() < all {
                self.read().await?;
            }
            self.answer.advance(end + 4);
            return Ok(self.answer.split().freeze());
        }
    }

    async fn read(&mut self) -> Result<(), Failure> {
        if self.stream.read_buf(&mut self.answer).await? == 0 {
            return Err("the model hung up".into());
        }
        Ok(())
    }
}

/// The host and the path of an address.
fn split(base_url: &str) -> Result<(&str, &str), Failure> {
    let rest = base_url.strip_prefix("http://").ok_or("not an http address")?;
    Ok(rest.split_once('/').unwrap_or((rest, "")))
}
