//! What this machine takes for what every agent does, whoever wrote it: copying, JSON, the loopback
//! device, a file that grows. Prints the rows of a table.

use std::{
    env, fs,
    hint::black_box,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use peer_work::{Failure, padding};
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: String,
    tool_call_id: String,
}

fn main() -> Result<(), Failure> {
    let directory = env::args_os().nth(1).map_or_else(env::temp_dir, PathBuf::from);
    println!("| copying 64 MB | {:.1} GB/s |", gigabytes(64 << 20) / copying());
    let history: Vec<_> = (0..400)
        .map(|index| Message {
            role: "tool",
            content: padding(2048),
            tool_call_id: format!("call_{index}"),
        })
        .collect();
    let bytes = serde_json::to_vec(&history)?;
    let (size, wrote) = (gigabytes(bytes.len()), median(21, || serde_json::to_vec(&history)));
    println!("| writing 400 messages of 2 KB as JSON | {:.2} GB/s |", size / wrote);
    let read = median(21, || serde_json::from_slice::<Value>(&bytes));
    println!("| reading them | {:.2} GB/s |", size / read);
    println!("| 512 bytes to this machine and back | {:.1} µs |", round_trip()? * 1e6);
    let [without, with] = appending(&directory)?;
    println!("| adding 2 KB to a file | {:.1} µs |", without * 1e6);
    println!("| and having it on the disk | {:.0} µs |", with * 1e6);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rough figure")]
fn gigabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e9
}

/// The median of the seconds that something takes, dropping what it gives left out.
fn median<T>(times: usize, mut what: impl FnMut() -> T) -> f64 {
    let mut seconds: Vec<f64> = (0..times)
        .map(|_| {
            let began = Instant::now();
            let given = black_box(what());
            let took = began.elapsed();
            drop(given);
            took.as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[times / 2]
}

fn copying() -> f64 {
    let from = vec![7_u8; 64 << 20];
    let mut to = vec![1_u8; 64 << 20];
    median(9, || {
        to.copy_from_slice(black_box(&from));
        black_box(to.last().copied())
    })
}

fn round_trip() -> Result<f64, Failure> {
    const TIMES: u32 = 20_000;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while far.read_exact(&mut buffer).is_ok() && far.write_all(&buffer).is_ok() {}
    });
    let mut buffer = [0; 512];
    let began = Instant::now();
    for _ in 0..TIMES {
        near.write_all(&buffer)?;
        near.read_exact(&mut buffer)?;
    }
    Ok(began.elapsed().as_secs_f64() / f64::from(TIMES))
}

/// Seconds for each piece, without and with waiting for the disk.
fn appending(directory: &Path) -> Result<[f64; 2], Failure> {
    const TIMES: u32 = 20_000;
    let path = directory.join(format!("appending-{}", std::process::id()));
    let mut file = fs::OpenOptions::new().create_new(true).append(true).open(&path)?;
    let piece = padding(2048);
    let began = Instant::now();
    for _ in 0..TIMES {
        file.write_all(piece.as_bytes())?;
    }
    let without = began.elapsed().as_secs_f64() / f64::from(TIMES);
    file.sync_data()?;
    let (began, mut times) = (Instant::now(), 0_u32);
    while began.elapsed() < Duration::from_secs(2) {
        file.write_all(piece.as_bytes())?;
        file.sync_data()?;
        times += 1;
    }
    let with = began.elapsed().as_secs_f64() / f64::from(times);
    fs::remove_file(&path)?;
    Ok([without, with])
}
