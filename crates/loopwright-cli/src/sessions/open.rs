//! `sessions open`.

use std::net::TcpStream;

use loopwright_sessions::SessionStore;

use crate::args::sessions::OpenArgs;
use crate::console;
use crate::exit::ExitCode;
use crate::render::sanitize_terminal;
use crate::serve::{browse, sign_in_address};
use crate::session::{SessionsError, find};
use crate::tokens::token_file;

/// Opens the page of a session, signed in as the user of this machine.
pub(super) async fn open(
    store: &dyn SessionStore,
    args: &OpenArgs,
) -> Result<ExitCode, SessionsError> {
    let header = find(store, &args.id.id).await?;
    let url = args.url.trim_end_matches('/');
    let host = url.strip_prefix("http://").filter(|it| !it.contains('/'));
    // A token is no business of any other machine.
    let host = host.filter(|it| it.starts_with("127.0.0.1:") || it.starts_with("localhost:"));
    let Some(host) = host else {
        let text = format!(
            "`{}` is not the address of a server on this machine; pass an address, such as `--url http://127.0.0.1:8787`",
            sanitize_terminal(&args.url)
        );
        return Err(SessionsError::Usage(text));
    };
    if let Err(error) = TcpStream::connect(host) {
        let text = format!(
            "no server answers at {}: {error}; start one with `loopwright serve --open`",
            sanitize_terminal(url)
        );
        return Err(SessionsError::Usage(text));
    }
    let tokens = token_file(args.tokens.as_deref())?;
    let path = format!("/sessions/{}", header.id);
    let address = sign_in_address(&tokens, url, &path)
        .map_err(|error| SessionsError::Usage(error.to_string()))?;
    let printed = console::print(format!("{address}\n").as_bytes());
    if !args.print {
        browse(&address);
    }
    Ok(printed)
}
