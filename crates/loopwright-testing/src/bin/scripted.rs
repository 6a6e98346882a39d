//! Runs a program together with a scripted model.
//!
//! `scripted SCRIPT COMMAND [ARGUMENT …]` starts a provider of chat completions on this machine,
//! points the command to it, and exits with the command's status. The script has one JSON answer
//! per line:
//!
//! | field | means |
//! |---|---|
//! | `say` | the text of the model |
//! | `call`, `with` | the tool that it calls, and the arguments |
//! | `crash` | instead of an answer, the command is killed |
//!
//! Each request gets the next answer; when the script has ended, requests are refused.

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, ExitCode, ExitStatus},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

const USAGE: &str = "usage: scripted SCRIPT COMMAND [ARGUMENT …]";

/// How often it is looked whether the command has ended.
const PATIENCE: Duration = Duration::from_millis(10);

/// The command is to be killed.
struct Crash;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(script), Some(program)) = (arguments.next(), arguments.next()) else {
        return refuse(USAGE);
    };
    let script = match fs::read_to_string(&script) {
        Ok(text) => read(&text),
        Err(error) => Err(error.to_string()),
    };
    let answers = match script {
        Ok(answers) => answers,
        Err(problem) => return refuse(&problem),
    };
    match run(answers, Command::new(program).args(arguments)) {
        Ok(status) => ExitCode::from(status_of(status)),
        Err(error) => refuse(&error.to_string()),
    }
}

fn refuse(problem: &str) -> ExitCode {
    // A caller that does not listen needs no explanation.
    writeln!(io::stderr(), "scripted: {problem}").ok();
    ExitCode::from(2)
}

fn read(script: &str) -> Result<Vec<Value>, String> {
    let lines = (1..).zip(script.lines()).filter(|(_, line)| !line.trim().is_empty());
    let answer = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))
    };
    lines.map(answer).collect()
}

fn run(answers: Vec<Value>, command: &mut Command) -> io::Result<ExitStatus> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}/v1", listener.local_addr()?);
    let (crash, crashes) = channel();
    thread::spawn(move || serve(&listener, answers, &crash));
    let command = command
        .env("LOOPWRIGHT_MODEL", "openai-compatible/script")
        .env("OPENAI_COMPATIBLE_BASE_URL", address);
    wait(command.spawn()?, &crashes)
}

fn wait(mut child: Child, crashes: &Receiver<Crash>) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match crashes.recv_timeout(PATIENCE) {
            Ok(Crash) => child.kill()?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return child.wait(),
        }
    }
}

fn status_of(status: ExitStatus) -> u8 {
    // Without a code it was killed.
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(137)
}

fn serve(listener: &TcpListener, answers: Vec<Value>, crash: &Sender<Crash>) {
    let mut answers = answers.into_iter();
    for stream in listener.incoming().flatten() {
        // A connection that breaks is the command's business, and the next one may be whole.
        answer(stream, || answers.next(), crash).ok();
    }
}

fn answer(
    mut stream: TcpStream,
    next: impl FnOnce() -> Option<Value>,
    crash: &Sender<Crash>,
) -> io::Result<()> {
    let request: Value = serde_json::from_slice(&body(&stream)?)?;
    let Some(step) = next() else {
        let error = json!({ "error": { "message": "the script has ended" } }).to_string();
        return write!(stream, "{}{error}", head("400 Bad Request", "application/json"));
    };
    if step["crash"] == true {
        crash.send(Crash).ok();
        // The end of the command closes the connection.
        return stream.read_to_end(&mut Vec::new()).map(drop);
    }
    if request["stream"] == true {
        write!(stream, "{}", head("200 OK", "text/event-stream"))?;
        for piece in pieces(&step) {
            write!(stream, "data: {piece}\n\n")?;
        }
        return stream.write_all(b"data: [DONE]\n\n");
    }
    let mut message = message(&step);
    message["role"] = "assistant".into();
    let whole = json!({
        "id": "script", "object": "chat.completion", "created": 0, "model": "script",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(&step) }],
        "usage": usage(),
    });
    write!(stream, "{}{whole}", head("200 OK", "application/json"))
}

fn head(status: &str, kind: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n")
}

/// Reads a request and returns its body.
fn body(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn message(step: &Value) -> Value {
    let mut message = json!({ "content": step["say"] });
    if let Some(tool) = step["call"].as_str() {
        let arguments = step.get("with").map_or_else(|| "{}".to_owned(), Value::to_string);
        let function = json!({ "name": tool, "arguments": arguments });
        message["tool_calls"] =
            json!([{ "index": 0, "id": "call_1", "type": "function", "function": function }]);
    }
    message
}

fn finish(step: &Value) -> &'static str {
    if step["call"].is_string() { "tool_calls" } else { "stop" }
}

fn usage() -> Value {
    json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 })
}

/// The pieces of a streamed answer.
fn pieces(step: &Value) -> [Value; 2] {
    let chunk = |delta: Value, finish: Value, usage: Value| {
        json!({
            "id": "script", "object": "chat.completion.chunk", "created": 0, "model": "script",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }], "usage": usage,
        })
    };
    [chunk(message(step), Value::Null, Value::Null), chunk(json!({}), finish(step).into(), usage())]
}
