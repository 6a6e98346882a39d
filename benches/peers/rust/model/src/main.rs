//! A model on this machine. It answers chat completions as the first message of the conversation
//! tells it, and prints its address when it listens.
//!
//! | word of the first message | meaning | default |
//! |---|---|---|
//! | `STEPS=` | it calls the tool so many times, and is done then | 0 |
//! | `PAR=` | calls at once | 1 |
//! | `PAD=` | bytes of text beside the calls | 0 |
//! | `LAT=` | milliseconds before it answers | 0 |
//!
//! `GET /stats` tells what it has seen since `POST /reset`. It runs on one thread and reads no JSON,
//! so that it takes little from the programs that are measured.

use tokio::net::TcpListener;

mod answer;
mod connection;
mod plan;
mod seen;

fn main() -> std::io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve())
}

async fn serve() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        seen::connection();
        tokio::spawn(connection::serve(stream));
    }
}
