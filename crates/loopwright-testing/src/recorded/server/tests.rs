use super::*;

fn recording(body: &str, content_type: &str) -> Arc<Recording> {
    let recording = json!({
        "name": "one", "api": "openai-chat",
        "exchanges": [{ "request": {}, "response": {
            "status": 200, "headers": { "content-type": content_type, "content-length": "999" },
            "body": body,
        } }],
    });
    Arc::new(serde_json::from_value(recording).unwrap())
}

/// Sends requests over one connection and returns all that comes back.
fn say(recording: Arc<Recording>, delivery: Delivery, requests: &str) -> (String, Vec<Received>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = ReplayServer::start(recording, delivery).await.unwrap();
        let address = server.url().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(requests.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        (text, server.received())
    })
}

const REQUEST: &str = "POST /v1/chat?x HTTP/1.1\r\nA-Key: k\r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn a_recorded_answer_is_sent_and_the_request_noted() {
    let (text, received) =
        say(recording("{\"a\":1}", "application/json"), Delivery::default(), REQUEST);
    let expect =
        "HTTP/1.1 200 .\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
    assert_eq!(text, expect);
    let Received { exchange, path, headers, body, fault } = &received[0];
    assert_eq!(
        (*exchange, path.as_str(), body.as_slice(), *fault),
        (0, "/v1/chat?x", &b"{}"[..], None)
    );
    assert_eq!(headers["a-key"], "k");
}

#[test]
fn a_stream_is_sent_in_pieces_and_rewritten() {
    let mutation = Some(Mutation::Cr);
    let delivery = Delivery { chunking: Chunking::Whole, mutation, ..Delivery::default() };
    let (text, _) = say(recording("data: 1\n\n", "text/event-stream"), delivery, REQUEST);
    assert!(
        text.ends_with("transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\r\r\r\n0\r\n\r\n"),
        "{text}"
    );
}

#[test]
fn faults_come_first_and_the_recording_ends() {
    let faults = [Fault::Status(429)];
    let delivery = Delivery::default().with_faults(faults).with_retry_after("7");
    let (text, received) = say(recording("{}", "application/json"), delivery, &REQUEST.repeat(3));
    let heads: Vec<_> = text.matches("HTTP/1.1 ").collect();
    assert_eq!(heads.len(), 3);
    assert!(
        text.starts_with("HTTP/1.1 429 .\r\ncontent-type: application/json\r\nretry-after: 7\r\n")
    );
    assert!(text.contains("HTTP/1.1 599"));
    let exchanges: Vec<_> = received.iter().map(|it| (it.exchange, it.fault)).collect();
    assert_eq!(exchanges, [(0, Some(Fault::Status(429))), (0, None), (1, None)]);
}

#[test]
fn an_answer_that_is_cut_is_not_ended() {
    let delivery = Delivery::default().with_faults([Fault::Cut(5)]);
    let (text, _) = say(recording("data: 1\n\n", "text/event-stream"), delivery.clone(), REQUEST);
    assert!(text.ends_with(":\r\n"), "{text}");
    assert!(!text.contains("0\r\n\r\n"));
    let (text, _) = say(recording("{\"a\":1}", "application/json"), delivery, REQUEST);
    assert!(text.ends_with("content-length: 7\r\n\r\n{\"a\":"), "{text}");
    let drop = Delivery::default().with_faults([Fault::Drop]);
    assert_eq!(say(recording("{}", "application/json"), drop, REQUEST).0, "");
}
