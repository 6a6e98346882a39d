use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{FetchError, Robots, WebFetchArgs, WebFetchTool, WebNetwork, WebPolicy};

const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));

/// Names with the addresses that each look-up finds, and a server on this machine that stands for every address.
#[derive(Clone)]
struct Internet {
    server: SocketAddr,
    names: Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>,
    /// Whom a connection was asked for with.
    connected: Arc<Mutex<Vec<IpAddr>>>,
    /// What was requested.
    requested: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl WebNetwork for Internet {
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut names = self.names.lock().unwrap();
        let Some(answers) = names.get_mut(host) else {
            return Ok(vec![SocketAddr::new(PUBLIC, port)]);
        };
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Ok(answer.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.connected.lock().unwrap().push(address.ip());
        TcpStream::connect(self.server).await
    }
}

impl Internet {
    /// Starts a server that answers each path so; head and body, without the length.
    async fn serving(answer: impl Fn(&str) -> (String, Vec<u8>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let internet = Self {
            server: listener.local_addr().unwrap(),
            names: Arc::default(),
            connected: Arc::default(),
            requested: Arc::default(),
        };
        let requested = Arc::clone(&internet.requested);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => request.push(byte),
                        Err(_) => break,
                    }
                }
                let text = String::from_utf8_lossy(&request);
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                requested.lock().unwrap().push(path.clone());
                let (head, body) = answer(&path);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await.ok();
                stream.write_all(&body).await.ok();
            }
        });
        internet
    }

    fn name(&self, name: &str, answers: &[&[&str]]) {
        let parsed = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parsed).collect();
        self.names.lock().unwrap().insert(name.to_owned(), answers);
    }

    fn tool(&self, policy: WebPolicy) -> WebFetchTool {
        WebFetchTool::from_network(policy, self.clone())
    }

    fn requested(&self) -> Vec<String> {
        self.requested.lock().unwrap().clone()
    }
}

fn page(content_type: &str, body: &str) -> (String, Vec<u8>) {
    (format!("200 OK\r\ncontent-type: {content_type}"), body.into())
}

fn redirect(to: &str) -> (String, Vec<u8>) {
    (format!("302 Found\r\nlocation: {to}"), Vec::new())
}

fn eager() -> WebPolicy {
    WebPolicy { robots: Robots::Ignored, ..WebPolicy::default() }
}

async fn get(tool: &WebFetchTool, url: &str) -> Result<String, FetchError> {
    tool.fetch(&WebFetchArgs { url: url.to_owned(), offset: None }).await
}

/// Addresses that are not public.
const ADDRESSES: [&str; 32] = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
];

/// Spellings of such addresses, other ports, and other schemes.
const TRICKS: [&str; 33] = [
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://0/",
    "http://127.0.0.1./",
    "http://%31%32%37.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://127。0。0。1/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
    "http://2852039166/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://public.example@127.0.0.1/",
    "http://user:password@public.example/",
    "http:\\\\127.0.0.1/",
    "http:///127.0.0.1/",
    "http://public.example:22/",
    "http://public.example:6379/",
    "https://public.example:8443/",
    "file:///etc/passwd",
    "ftp://public.example/",
    "gopher://127.0.0.1:6379/_x",
    "data:text/plain,x",
    "javascript:alert(1)",
    "unix:/run/docker.sock",
    "//127.0.0.1/",
    "",
    "127.0.0.1",
];

#[tokio::test]
async fn no_address_and_no_trick_leads_to_this_machine_its_networks_or_metadata() {
    let internet = Internet::serving(|_| page("text/plain", "secret")).await;
    let mut urls: Vec<String> = Vec::new();
    for (at, address) in ADDRESSES.iter().enumerate() {
        internet.name(&format!("name{at}.example"), &[&[address]]);
        urls.push(format!("http://name{at}.example/"));
        let address: IpAddr = address.parse().unwrap();
        urls.push(format!("http://{}/", SocketAddr::new(address, 80)));
        urls.push(format!("https://{}/", SocketAddr::new(address, 443)));
    }
    internet.name("localhost", &[&["127.0.0.1", "::1"]]);
    internet.name("localhost.", &[&["127.0.0.1"]]);
    internet.name("metadata.google.internal", &[&["169.254.169.254"]]);
    urls.extend(TRICKS.map(String::from));
    for policy in [eager(), WebPolicy::default()] {
        let tool = internet.tool(policy);
        for url in &urls {
            assert!(get(&tool, url).await.is_err(), "{url}");
        }
    }
    assert!(urls.len() > 120, "{}", urls.len());
    assert_eq!(*internet.connected.lock().unwrap(), Vec::<IpAddr>::new());
    assert_eq!(internet.requested(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_for_each_connection() {
    let internet = Internet::serving(|path| match path {
        "/again" => redirect("/next"),
        _ => page("text/plain", "hello"),
    })
    .await;
    let tool = internet.tool(eager());
    internet.name("rebinding.example", &[&["93.184.216.34"], &["127.0.0.1"]]);
    let error = get(&tool, "http://rebinding.example/again").await.unwrap_err().to_string();
    assert!(error.contains("127.0.0.1, which is not a public address"), "{error}");
    internet.name("mixed.example", &[&["10.0.0.1", "93.184.216.34", "::1"]]);
    assert!(get(&tool, "http://mixed.example/").await.unwrap().ends_with("hello"));
    assert_eq!(*internet.connected.lock().unwrap(), [PUBLIC, PUBLIC]);
}

#[tokio::test]
async fn redirects_are_followed_within_a_host_and_told_beyond_it() {
    let internet = Internet::serving(|path| match path {
        "/a" => redirect("/b"),
        "/b" => page("text/plain", "here"),
        "/loop" => redirect("/loop"),
        "/away" => redirect("https://other.example/x"),
        "/inside" => redirect("http://169.254.169.254/latest/meta-data/"),
        "/port" => redirect("http://site.example:6379/"),
        "/scheme" => redirect("file:///etc/passwd"),
        _ => ("404 Not Found".to_owned(), Vec::new()),
    })
    .await;
    let tool = internet.tool(eager());
    let text = get(&tool, "http://site.example/a").await.unwrap();
    assert_eq!(text, "http://site.example/b\n\nhere");
    for (path, wanted) in [
        ("loop", "the page redirected more than 5 times"),
        ("away", "https://other.example/x; to follow"),
        ("inside", "the page redirects to another site: http://169.254.169.254"),
        ("port", "port 6379 is not allowed"),
        ("scheme", "only http and https are allowed"),
        ("missing", "status 404"),
    ] {
        let error = get(&tool, &format!("http://site.example/{path}")).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{path}: {error}");
    }
    assert!(internet.connected.lock().unwrap().iter().all(|address| *address == PUBLIC));
}

#[tokio::test]
async fn a_compressed_page_is_read_up_to_the_limit_only() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b'a'; 1024 * 1024];
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let head = "200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip";
    let internet = Internet::serving(move |_| (head.to_owned(), bomb.clone())).await;
    let policy = WebPolicy { max_bytes: 5_000, ..eager() };
    let text = get(&internet.tool(policy), "http://site.example/").await.unwrap();
    let wanted = format!(
        "http://site.example/\n\n{}\n\n[the page is too long: only its beginning was read]",
        "a".repeat(5_000)
    );
    assert_eq!(text, wanted);
}

#[tokio::test]
async fn a_page_is_requested_once_and_given_in_parts() {
    let html = "<html><body><nav>Menu</nav><h1>Title</h1><p>Text</p></body></html>";
    let internet = Internet::serving(move |_| page("text/html; charset=utf-8", html)).await;
    let tool = internet.tool(WebPolicy { max_chars: 8, ..eager() });
    let first = get(&tool, "http://site.example/#top").await.unwrap();
    let more = "[characters 0 to 8 of 13; continue with offset 8]";
    assert_eq!(first, format!("http://site.example/\n\n# Title\n\n\n{more}"));
    let args = WebFetchArgs { url: "http://site.example/".to_owned(), offset: Some(9) };
    assert_eq!(tool.fetch(&args).await.unwrap(), "http://site.example/\n\nText");
    assert_eq!(internet.requested(), ["/"]);
}

#[tokio::test]
async fn pages_that_robots_txt_forbids_are_not_requested_unless_it_is_ignored() {
    let internet = Internet::serving(|path| match path {
        "/robots.txt" => page("text/plain", "User-agent: *\nDisallow: /private"),
        _ => page("text/plain", "text"),
    })
    .await;
    let tool = internet.tool(WebPolicy::default());
    assert!(get(&tool, "http://site.example/open").await.is_ok());
    let error = get(&tool, "http://site.example/private/x").await.unwrap_err().to_string();
    assert!(error.contains("`robots.txt`"), "{error}");
    assert_eq!(internet.requested(), ["/robots.txt", "/open"]);
    assert!(get(&internet.tool(eager()), "http://site.example/private/x").await.is_ok());
}

#[tokio::test]
async fn a_page_that_is_no_text_is_reported_with_its_type() {
    let internet = Internet::serving(|_| page("image/png", "PNG")).await;
    let error = get(&internet.tool(eager()), "http://site.example/").await.unwrap_err();
    assert_eq!(error.to_string(), "the page has the type `image/png`, but only text can be read");
}
