//! The page of the server in the user's browser.

use std::process::{Command, Stdio};
use std::time::Duration;

use loopwright_server::{Principal, TokenError, TokenFile};

use crate::console;
use crate::session::now;

/// How long an address signs in.
const VALID: Duration = Duration::from_hours(1);

/// Returns an address that signs a browser of the local user in, once, and leads to a page.
pub(crate) fn sign_in_address(
    tokens: &TokenFile,
    url: &str,
    path: &str,
) -> Result<String, TokenError> {
    let token = tokens.create_sign_in(&Principal::local(), now().plus(VALID), now())?;
    let next = if path == "/" { String::new() } else { format!("&next={path}") };
    Ok(format!("{url}/sign-in?token={}{next}", token.secret))
}

/// Opens an address with the program in `BROWSER`, or with that of the desktop.
pub(crate) fn browse(address: &str) {
    let named = std::env::var_os("BROWSER").filter(|it| !it.is_empty());
    let program = named.unwrap_or_else(|| {
        if cfg!(target_os = "macos") { "open".into() } else { "xdg-open".into() }
    });
    let mut command = Command::new(&program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        let program = program.display();
        console::warn(&format!(
            "cannot open a browser with `{program}`: {error}; open the address yourself"
        ));
    }
}
