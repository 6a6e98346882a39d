//! `/v1/sessions/{session}/files`, `/file` and `/diff`: the folder of a session. No path leads out of it.

use std::{pin::pin, time::Duration};

use axum::{
    body::{Body as HttpBody, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{delete, get, put},
};
use futures::future::{Either, select};
use loopwright_capabilities::files::{DirectoryEntry, FileError, OriginalFile, WorkspaceRoot};
use loopwright_sessions::SessionHeader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use super::{etag, reply_tagged};
use crate::{
    extract::{OwnSession, Params},
    operation::{Content, IF_NONE_MATCH, Operation, Parameter, READ, RUN, empty, json, other},
    problem::Problem,
    server::Server,
};

/// The most entries of a directory that are listed.
const MAX_ENTRIES: usize = 1_000;
/// The largest file that is compared.
const MAX_COMPARED: u64 = 1 << 20;
/// How long a client may take to send a file.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(5);
const BYTES: &str = "application/octet-stream";

/// A directory in the folder of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileList {
    /// Its directories and files, by their names. Links are left out.
    pub entries: Vec<FileView>,
    /// `false` if the list was truncated.
    pub is_complete: bool,
}

/// A directory or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileView {
    /// The name.
    pub name: String,
    /// `true` for a directory.
    pub is_directory: bool,
    /// The size of a file in bytes.
    pub bytes: u64,
}

/// The changes of a session in its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffView {
    /// The files that differ from what they were before the session, by their paths.
    pub files: Vec<FileDiff>,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// The path in the folder.
    pub path: String,
    /// `added`, `removed`, `changed` or `moved`.
    pub change: String,
    /// Where it was before, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The difference in the unified format; absent if it is not known or no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

pub(crate) fn operations() -> Vec<Operation> {
    const FILE: &str = "/v1/sessions/{session}/file";
    const PATH: Parameter = Parameter {
        name: "path",
        place: "query",
        about: "A path in the session's folder; by default, the folder itself.",
        kind: "string",
    };
    let of = |method, path, id, summary| Operation {
        method,
        path,
        id,
        summary,
        security: RUN,
        parameters: &[PATH],
        body: None,
        responses: const { &[empty(204, "The change was made.")] },
        handler: || get(list),
    };
    vec![
        Operation {
            security: READ,
            parameters: &[PATH, IF_NONE_MATCH],
            responses: const { &[json::<FileList>(200, "The directory."), empty(304, "No change.")] },
            ..of(
                "get",
                "/v1/sessions/{session}/files",
                "listFiles",
                "List a directory in the session's folder",
            )
        },
        Operation {
            security: READ,
            responses: const { &[other(200, "The file.", BYTES)] },
            handler: || get(download),
            ..of("get", FILE, "downloadFile", "Read a file in the session's folder")
        },
        Operation {
            body: Some(Content::Other(BYTES)),
            handler: || put(upload),
            ..of("put", FILE, "uploadFile", "Create or replace a file in the session's folder")
        },
        Operation {
            handler: || delete(remove),
            ..of("delete", FILE, "deleteFile", "Delete a file in the session's folder")
        },
        Operation {
            security: READ,
            parameters: &[IF_NONE_MATCH],
            responses: const { &[json::<DiffView>(200, "The changes."), empty(304, "No change.")] },
            handler: || get(changes),
            ..of(
                "get",
                "/v1/sessions/{session}/diff",
                "getDiff",
                "Read the changes that a session made in its folder",
            )
        },
    ]
}

#[derive(Deserialize)]
pub(crate) struct PathParams {
    #[serde(default)]
    path: String,
}

fn root(server: &Server, header: &SessionHeader) -> Result<WorkspaceRoot, Problem> {
    let folder = server.agents().folder(header);
    folder.map(WorkspaceRoot::new).ok_or_else(|| Problem::conflict("the session has no folder"))
}

/// Works with files where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Problem::internal("the session's files cannot be accessed"))?.map_err(problem)
}

fn problem(error: FileError) -> Problem {
    match error {
        FileError::Missing(_) | FileError::NoParent(_) => Problem::not_found("unknown path"),
        FileError::Outside(_) | FileError::NotAPath(_) | FileError::LinkLoop(_) => {
            Problem::invalid("the path leads outside the folder")
        }
        FileError::NotAFile { .. } => Problem::invalid("the path is not a file"),
        FileError::NotADirectory(_) => Problem::invalid("the path is not a directory"),
        FileError::Protected(_) | FileError::NotPermitted { .. } | FileError::ReadOnly { .. } => {
            Problem::forbidden("the path is protected")
        }
        error => {
            tracing::error!(%error, "the files of a session cannot be accessed");
            Problem::internal("the session's files cannot be accessed; see the server log")
        }
    }
}

async fn list(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    Params(PathParams { path }): Params<PathParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    reply_tagged(&headers, &listed(&server, &header, path).await?)
}

/// Lists a directory of a session's folder.
pub(crate) async fn listed(
    server: &Server,
    header: &SessionHeader,
    path: String,
) -> Result<FileList, Problem> {
    let root = root(server, header)?;
    let path = if path.is_empty() { ".".to_owned() } else { path };
    let (entries, is_complete) = blocking(move || root.entries(&path, MAX_ENTRIES)).await?;
    let view = |it: DirectoryEntry| FileView {
        name: it.name,
        is_directory: it.is_directory,
        bytes: it.bytes,
    };
    Ok(FileList { entries: entries.into_iter().map(view).collect(), is_complete })
}

/// Sends a file. Browsers keep it and do not show it.
pub(crate) async fn download(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    Params(PathParams { path }): Params<PathParams>,
) -> Result<Response, Problem> {
    let (root, limit) = (root(&server, &header)?, server.max_file() as u64);
    let bytes = blocking(move || root.read_bytes(&path, limit)).await?;
    let bytes = bytes.ok_or_else(|| Problem::too_large("the file is too large to be sent"))?;
    let tag = etag(&bytes);
    let mut response = HttpBody::from(bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(BYTES));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

async fn upload(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    Params(PathParams { path }): Params<PathParams>,
    request: Request,
) -> Result<Response, Problem> {
    let root = root(&server, &header)?;
    let read = pin!(to_bytes(request.into_body(), server.max_file()));
    let Either::Left((read, _)) = select(read, server.clock().sleep(UPLOAD_TIMEOUT)).await else {
        return Err(Problem::timeout("the file did not arrive in time"));
    };
    let bytes = read.map_err(|_| Problem::too_large("the file is too large or was cut off"))?;
    blocking(move || root.write(&path, &bytes)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn remove(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    Params(PathParams { path }): Params<PathParams>,
) -> Result<Response, Problem> {
    let root = root(&server, &header)?;
    blocking(move || root.remove(&path)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn changes(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    reply_tagged(&headers, &DiffView { files: diffs(&server, &header).await? })
}

/// Returns what a session changed in its folder.
pub(crate) async fn diffs(
    server: &Server,
    header: &SessionHeader,
) -> Result<Vec<FileDiff>, Problem> {
    let root = root(server, header)?;
    let originals = server.runtime().original_files(&header.id, 0, MAX_COMPARED).await?;
    blocking(move || {
        Ok(originals.into_iter().filter_map(|(path, was)| difference(&root, &path, was)).collect())
    })
    .await
}

/// Returns what became of a file; `None` if it is as it was.
fn difference(root: &WorkspaceRoot, path: &str, was: OriginalFile) -> Option<FileDiff> {
    let (now, is_there) = match root.read_text(path, MAX_COMPARED) {
        Ok(now) => (now, true),
        Err(FileError::Missing(_) | FileError::NoParent(_)) => (Some(String::new()), false),
        Err(_) => (None, true),
    };
    let of = |change: &str, from, diff| {
        Some(FileDiff { path: path.to_owned(), change: change.to_owned(), from, diff })
    };
    let (before, word) = match was {
        OriginalFile::Absent if !is_there => return None,
        OriginalFile::Absent => (Some(String::new()), "added"),
        OriginalFile::MovedFrom(from) => return of("moved", Some(from), None),
        OriginalFile::Content(bytes) => {
            (String::from_utf8(bytes).ok(), if is_there { "changed" } else { "removed" })
        }
        _ => (None, if is_there { "changed" } else { "removed" }),
    };
    match before.zip(now) {
        Some((before, now)) if before == now && word == "changed" => None,
        Some((before, now)) => {
            let diff = TextDiff::from_lines(&before, &now);
            let diff = diff.unified_diff().context_radius(3).header(path, path).to_string();
            of(word, None, Some(diff))
        }
        None => of(word, None, None),
    }
}
