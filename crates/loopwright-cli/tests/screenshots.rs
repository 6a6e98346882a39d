//! The pictures of the documentation, made from what the program writes to a terminal.

use std::fs;
use std::path::Path;

use anstyle::{AnsiColor, RgbColor};
use anstyle_svg::{Palette, Term};
use serde_json::json;

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::terminal::{Seen, Terminal};
use crate::world::World;

const COLUMNS: u16 = 80;

/// A terminal over the whole of a wide screen.
const WIDE: u16 = 200;

const ANSWER: &str = "\
## How orders are priced

`price` looks a line up in **prices.txt** and multiplies:

1. unknown goods are an *error*, not a zero
2. totals are rounded once, at the end

```rust
/// What an order costs, in cents.
fn price(order: &Order, prices: &Prices) -> Result<u64, Unknown> {
    let each = prices.get(&order.item).ok_or(Unknown(\"item\"))?;
    Ok(each * 12) // a dozen
}
```

| item   | each | dozen |
|--------|-----:|------:|
| rye    | 4.20 | 50.40 |
| walnut | 5.50 | 66.00 |

> Prices are those of today; see [the list](prices.txt).
";

const COMPARISON: &str = "\
Both ways of pricing give the same for single loaves. They differ for dozens, where the second one rounds \
each loaf before it adds them up, so that a customer who buys twelve pays up to six cents more.

| way | where | what it does with a dozen | what has to change |
|-----|-------|---------------------------|--------------------|
| total first | `src/price.rs` | multiplies, then rounds **once**, at the end | nothing |
| loaf first | `src/till.rs` | rounds *every* loaf, and adds up what was rounded | `sum` has to take amounts that are not rounded yet |

```sh
cargo test --package bakery --test prices -- --exact a_dozen_costs_the_same_at_the_till_as_it_does_in_the_list --nocapture
```
";

const SOURCE: &str =
    "/// What an order costs.\nfn price(order: &Order) -> u64 {\n    order.count * 420\n}\n";

/// A world in which a provider gives these replies.
fn bakery(server: &Server) -> World {
    let config = format!("model = 'local/qwen3'\n[providers.local]\nbase_url = '{}'\n", server.url);
    World::at_terminal()
        .file(".config/loopwright/config.toml", &config)
        .file("project/src/price.rs", SOURCE)
}

fn run(columns: u16, replies: impl IntoIterator<Item = Reply>, prompt: &str) -> Seen {
    let server = Server::start(replies);
    Terminal::new(columns).run(&bakery(&server), &["run", prompt])
}

/// Makes the same of what is not the same each time: times, names of sessions and folders.
fn settled(line: &str) -> String {
    let line = after(line, "--resume ", |it| it.is_ascii_hexdigit(), "7f3a1b2c");
    let line = after(&line, "loopwright-demo-", |it| it.is_ascii_hexdigit(), "7f3a1b2c");
    let line = after(&line, "reloaded\u{1b}[0m (", |it| it.is_ascii_digit(), "4096");
    let line = timed(&line);
    line.replace("/loopwright-demo", "/tmp/loopwright-demo")
        .replace(" /project", " ~/project")
        .replace(" /.local", " ~/.local")
}

/// Makes all times at the end of a line the same.
fn timed(line: &str) -> String {
    let Some((before, time)) = line.rsplit_once("· ") else { return line.to_owned() };
    let unit = time.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
    match unit.strip_prefix(" ms").or(unit.strip_prefix(" s")) {
        Some(rest) => format!("{before}· 8 ms{rest}"),
        None => line.to_owned(),
    }
}

/// Replaces what follows a mark, as far as it consists of these characters.
fn after(line: &str, mark: &str, is_part: impl Fn(char) -> bool, by: &str) -> String {
    let Some((before, rest)) = line.rsplit_once(mark) else { return line.to_owned() };
    let kept = rest.trim_start_matches(&is_part);
    let is_found = kept.len() < rest.len();
    let replaced = if is_found { by } else { "" };
    format!("{before}{mark}{replaced}{kept}")
}

const fn rgb(hex: u32) -> RgbColor {
    let [_, red, green, blue] = hex.to_be_bytes();
    RgbColor(red, green, blue)
}

/// Colours of paper and ink, then red, green, magenta and cyan.
const fn palette([paper, ink, red, green, magenta, cyan]: [u32; 6]) -> Palette {
    let (red, green, magenta, cyan) = (rgb(red), rgb(green), rgb(magenta), rgb(cyan));
    let (paper, ink) = (rgb(paper), rgb(ink));
    Palette([
        paper, red, green, ink, ink, magenta, cyan, ink, //
        paper, red, green, ink, ink, magenta, cyan, ink,
    ])
}

const LIGHT: Palette =
    palette([0x00ff_ffff, 0x001f_2328, 0x00cf_222e, 0x001a_7f37, 0x0082_50df, 0x001b_7c83]);
const DARK: Palette =
    palette([0x000d_1117, 0x00e6_edf3, 0x00ff_7b72, 0x003f_b950, 0x00d2_a8ff, 0x0056_d4dd]);

/// Compares the pictures with what is seen, or makes them.
fn check(name: &str, typed: &str, seen: &Seen) {
    let lines: Vec<String> = seen.styled.iter().map(|it| settled(it)).collect();
    let text = format!("\u{1b}[1m$ {typed}\u{1b}[0m\n{}\n", lines.join("\n"));
    for (shade, palette) in [("light", LIGHT), ("dark", DARK)] {
        let term = Term::new()
            .palette(palette)
            .fg_color(AnsiColor::White.into())
            .bg_color(AnsiColor::Black.into());
        // Parts of a text have no opacity of their own.
        let picture = term.render_svg(&text).replace("{ opacity: 0.4; }", "{ fill-opacity: 0.6; }");
        let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        let path = images.join(format!("{name}-{shade}.svg"));
        if std::env::var_os("LOOPWRIGHT_WRITE").is_some() {
            fs::create_dir_all(&images).unwrap();
            fs::write(&path, &picture).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == picture,
            "docs/images/{name}-{shade}.svg is stale: run scripts/screenshots"
        );
    }
}

#[test]
fn the_picture_of_an_answer_is_what_is_seen() {
    let seen = run(COLUMNS, [streamed(ANSWER, "stop")], "How are orders priced?");
    check("answer", "loopwright run \"How are orders priced?\"", &seen);
}

#[test]
fn the_picture_of_a_wide_terminal_is_what_is_seen() {
    let seen = run(WIDE, [streamed(COMPARISON, "stop")], "Are prices the same everywhere?");
    check("wide", "loopwright run \"Are prices the same everywhere?\"", &seen);
}

#[test]
fn the_picture_of_an_edit_is_what_is_seen() {
    let edit = json!({
        "path": "src/price.rs",
        "old_string": "    order.count * 420\n",
        "new_string": "    let dozens = order.count / 12;\n    order.count * 420 - dozens * 40\n",
    });
    let replies = [
        streamed_tool("Let me look.", "read_file", &json!({"path": "src/price.rs"})),
        streamed_tool("", "edit_file", &edit),
        streamed_call("", "grep -n dozens src/price.rs"),
        streamed("A dozen is now **40 cents cheaper**, in `src/price.rs`.", "stop"),
    ];
    let seen = run(COLUMNS, replies, "Make a dozen cheaper");
    check("edit", "loopwright run \"Make a dozen cheaper\"", &seen);
}

#[test]
fn the_picture_of_a_chat_is_what_is_seen() {
    let server = Server::start([
        streamed("There is `a.txt`, and `src/price.rs`.", "stop"),
        streamed("**One** line changes: the price of a dozen.", "stop"),
    ]);
    let terminal = Terminal::new(COLUMNS)
        .typing("/help for help", "What is here?")
        .typing("tokens in", "And what changes for a dozen?")
        .typing("tokens in", "/quit");
    let seen = terminal.run(&bakery(&server), &["chat"]);
    check("chat", "loopwright chat", &seen);
}

#[test]
#[ignore = "it takes as long as people take to read"]
fn the_picture_of_the_demonstration_is_what_is_seen() {
    // As for a user who has installed it: the program names itself as it can be called.
    let program = Path::new(env!("CARGO_BIN_EXE_loopwright"));
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let world = World::at_terminal().env("PATH", &path);
    let seen = Terminal::new(COLUMNS).run(&world, &["demo"]);
    check("demo", "loopwright demo", &seen);
}

#[test]
#[ignore = "what works is not the same on every machine"]
fn the_picture_of_the_doctor_is_what_is_seen() {
    let models = json!({"object": "list", "data": [{"id": "qwen3"}]});
    let server = Server::start([Reply::Whole(200, models.clone()), Reply::Whole(200, models)]);
    let world = World::at_terminal().env("LM_STUDIO_BASE_URL", &server.url);
    let seen = Terminal::new(COLUMNS).run(&world, &["doctor"]);
    check("doctor", "loopwright doctor", &seen);
}
