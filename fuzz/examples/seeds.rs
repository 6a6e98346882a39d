//! Writes the first inputs of each target: the answers in folders of recorded traffic, and tokens.
//!
//! `seeds CORPUS FOLDER...`: each folder holds scenarios, one JSON file each.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use loopwright_models::WireApi;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let corpus = arguments.next().ok_or("the corpus folder is missing")?;
    let mut written = 0;
    for folder in arguments.filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "json") {
                written += of_scenario(&path, &corpus)?;
            }
        }
    }
    for (number, token) in loopwright_fuzz::tokens::seeds().iter().enumerate() {
        write(&corpus.join("jwt"), &format!("token-{number}"), &[token.as_bytes()])?;
        written += 1;
    }
    println!("{written} inputs written to {}", corpus.display());
    Ok(())
}

fn of_scenario(path: &Path, corpus: &Path) -> Result<usize, Box<dyn Error>> {
    let scenario: Value = serde_json::from_slice(&fs::read(path)?)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut written = 0;
    for (index, exchange) in scenario["exchanges"].as_array().into_iter().flatten().enumerate() {
        let api = exchange.get("api").unwrap_or(&scenario["api"]).as_str().unwrap_or_default();
        let body = exchange["response"]["body"].as_str().unwrap_or_default();
        let body = match exchange["response"]["body_encoding"].as_str() {
            Some("base64") => decode_base64(body),
            _ => body.as_bytes().to_vec(),
        };
        let Some(wire) = WireApi::named(api) else { continue };
        let streamed = exchange["streaming"].as_bool().unwrap_or(false);
        // The first byte is the size of the pieces, the second says whether it is streamed.
        write(
            &corpus.join(wire.name()),
            &format!("{name}-{index}"),
            &[&[7, streamed.into()], &body[..]],
        )?;
        if streamed {
            write(&corpus.join("sse"), &format!("{name}-{index}"), &[&[7], &body[..]])?;
        }
        written += 1;
    }
    Ok(written)
}

fn write(folder: &Path, name: &str, bytes: &[&[u8]]) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name), bytes.concat())?;
    Ok(())
}

fn decode_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| DIGITS.iter().position(|it| *it == byte));
    let (mut held, mut bits, mut bytes) = (0_u32, 0, Vec::new());
    for digit in digits {
        held = held << 6 | digit as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    bytes
}
