//! `loopwright tokens`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use loopwright_core::messages::Cost;
use loopwright_server::{TokenError, TokenFile, TokenRecord};
use serde_json::json;

use crate::args::serve::{TokenCreateArgs, TokensArgs, TokensCommand};
use crate::config::ConfigSources;
use crate::console;
use crate::exit::ExitCode;
use crate::report::SCHEMA_VERSION;
use crate::session::now;
use crate::store::{StoreLocationError, make_private, state_directory};
use crate::table::table_with_head;

/// The length of a day.
const DAY: Duration = Duration::from_hours(24);

/// Creates, lists or revokes tokens.
pub fn tokens(args: &TokensArgs) -> ExitCode {
    let file = match token_file(args.tokens.as_deref()) {
        Ok(file) => file,
        Err(error) => return console::fail(&error, ExitCode::Config),
    };
    let done = match &args.command {
        TokensCommand::Create(args) => create(&file, args),
        TokensCommand::List(args) => list(&file, args.json),
        TokensCommand::Revoke(args) => file.revoke(&args.id).map(|it| {
            console::tell(&format!("token {} of {} is revoked", it.id, it.principal));
            ExitCode::Done
        }),
    };
    done.unwrap_or_else(|error| {
        let exit_code = match error {
            TokenError::Unknown(_) | TokenError::Principal(_) => ExitCode::Usage,
            _ => ExitCode::Internal,
        };
        console::fail(&error, exit_code)
    })
}

/// Returns the file that was typed, or the user's own, whose directory is made.
///
/// # Errors
///
/// Returns an error if there is no place for it.
pub(crate) fn token_file(typed: Option<&Path>) -> Result<TokenFile, StoreLocationError> {
    let path: PathBuf = if let Some(path) = typed {
        path.to_path_buf()
    } else {
        let sources = ConfigSources::from_process().map_err(|_| StoreLocationError::NoHome)?;
        let state = state_directory(&sources).ok_or(StoreLocationError::NoHome)?;
        make_private(&state)?;
        state.join("tokens.json")
    };
    Ok(TokenFile::new(path))
}

fn create(file: &TokenFile, args: &TokenCreateArgs) -> Result<ExitCode, TokenError> {
    let expires_at = args.days.map(|days| now().plus(DAY * days));
    let token = file.create_limited(
        &args.principal,
        args.role.into(),
        args.limits.limits(),
        expires_at,
        now(),
    )?;
    if args.json {
        let mut told = shown(&token.record);
        told["token"] = token.secret.into();
        told["schema_version"] = json!(SCHEMA_VERSION);
        return Ok(console::print_json(&told));
    }
    console::tell(&format!(
        "created token {} for {} with role {}; the token cannot be shown again",
        token.record.id, token.record.principal, token.record.role
    ));
    Ok(console::print(format!("{}\n", token.secret).as_bytes()))
}

fn list(file: &TokenFile, is_json: bool) -> Result<ExitCode, TokenError> {
    let tokens = file.list()?;
    if is_json {
        let tokens: Vec<_> = tokens.iter().map(shown).collect();
        return Ok(console::print_json(
            &json!({ "schema_version": SCHEMA_VERSION, "tokens": tokens }),
        ));
    }
    if tokens.is_empty() {
        console::tell("no tokens; create one: loopwright tokens create --principal NAME");
        return Ok(ExitCode::Done);
    }
    let row = |it: &TokenRecord| {
        let expires = it.expires_at.map_or("never".to_owned(), |at| at.to_string());
        let kind = it.kind.as_str().to_owned();
        vec![it.id.clone(), kind, it.role.to_string(), expires, it.principal.to_string()]
    };
    let head = ["ID", "KIND", "ROLE", "EXPIRES", "PRINCIPAL"];
    Ok(console::print(table_with_head(head, tokens.iter().map(row)).as_bytes()))
}

/// Shows a token without its hash.
fn shown(record: &TokenRecord) -> serde_json::Value {
    let limits = record.limits;
    let mut shown = json!({
        "id": record.id, "principal": record.principal, "role": record.role,
        "kind": record.kind.as_str(), "created_at": record.created_at, "expires_at": record.expires_at,
    });
    if !limits.is_none() {
        shown["limits"] = json!({
            "requests_per_minute": limits.requests_per_minute, "open_runs": limits.open_runs,
            "tokens_per_day": limits.tokens_per_day,
            "cost_usd_per_day": limits.cost_per_day.map(Cost::dollars),
        });
    }
    shown
}
