//! The folder of a session: changed files, and all files.

use axum::{extract::State, response::Response};
use loopwright_sessions::SessionHeader;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    conversation::{tabs, title},
    layout::{self, Tab, count},
    visitor::Visitor,
};
use crate::{
    extract::{OwnSession, Params},
    problem::Problem,
    routes::files::{FileDiff, diffs, listed},
    server::Server,
};

#[derive(Deserialize)]
pub(crate) struct ListParams {
    #[serde(default)]
    path: String,
}

pub(crate) async fn changes(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
) -> Result<Response, Problem> {
    let files = diffs(&server, &header).await?;
    let main = html! {
        h1 { (title(&header)) }
        (tabs(&header, "Changes"))
        @if files.is_empty() { p { "No files have changed in this session." } }
        @for file in &files { (changed(file)) }
    };
    Ok(layout::page(&format!("Changes in {}", title(&header)), &visitor, Tab::Sessions, &main))
}

fn changed(file: &FileDiff) -> Markup {
    html! {
        section {
            h2 { (file.path) " · " (file.change) @if let Some(from) = &file.from { " from " (from) } }
            @match &file.diff {
                Some(diff) => pre.diff {
                    @for line in diff.lines().skip(2) {
                        @match line.as_bytes().first() {
                            Some(b'+') => ins { (line) "\n" },
                            Some(b'-') => del { (line) "\n" },
                            _ => span { (line) "\n" },
                        }
                    }
                },
                None => p { "The content of this file is not shown." },
            }
        }
    }
}

pub(crate) async fn list(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
    Params(ListParams { path }): Params<ListParams>,
) -> Result<Response, Problem> {
    let folder = path.trim_matches('/').to_owned();
    let listed = listed(&server, &header, folder.clone()).await?;
    let main = html! {
        h1 { (title(&header)) }
        (tabs(&header, "Files"))
        p { (if folder.is_empty() { "The session's folder." } else { &folder }) }
        @if !folder.is_empty() {
            p { a href=(address(&header, "files", folder.rsplit_once('/').map_or("", |it| it.0))) { "Up" } }
        }
        ul.list {
            @for entry in &listed.entries {
                @let path = if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
                li {
                    @if entry.is_directory { a href=(address(&header, "files", &path)) { (entry.name) "/" } }
                    @else {
                        a href=(address(&header, "file", &path)) download=(entry.name) { (entry.name) }
                        span.meta { (count(entry.bytes)) " bytes" }
                    }
                }
            }
        }
        @if !listed.is_complete { p { "Some files are not listed." } }
    };
    Ok(layout::page(&format!("Files of {}", title(&header)), &visitor, Tab::Sessions, &main))
}

fn address(header: &SessionHeader, page: &str, path: &str) -> String {
    let path: String = form_urlencoded::byte_serialize(path.as_bytes()).collect();
    format!("/sessions/{}/{page}?path={path}", header.id)
}
