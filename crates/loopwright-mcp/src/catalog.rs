//! The approved tools of servers.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::config::{McpServer, ServerTransport};
use crate::template::Template;
use crate::tools::{ListedTool, Listing};

/// A store of approved tools.
///
/// A client with a store offers approved tools at once, without starting the server. Once the
/// server runs, tools that differ from the approved ones are omitted until they are approved.
pub trait CatalogStore: Send + Sync + fmt::Debug {
    /// Returns the approved tools of a server, or `None` if none were approved.
    fn load(&self, server: &McpServer) -> Option<Catalog>;

    /// Stores the approved tools of a server.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be stored.
    fn save(&self, server: &McpServer, catalog: &Catalog) -> io::Result<()>;
}

/// The approved tools of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Catalog {
    /// The tools, in the order of the server.
    pub tools: Vec<ListedTool>,
    /// Whether the server has resources.
    #[serde(default)]
    pub has_resources: bool,
}

/// The differences between the tools of a server and the approved ones.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CatalogDiff {
    /// Tools that were not approved.
    pub added: Vec<ListedTool>,
    /// Tools whose descriptions have changed: as approved, and as now.
    pub changed: Vec<(ListedTool, ListedTool)>,
    /// Names of approved tools that the server no longer has.
    pub removed: Vec<String>,
}

impl Catalog {
    /// Approves the tools of a listing.
    pub fn of(listing: &Listing) -> Self {
        Self { tools: listing.tools.clone(), has_resources: !listing.resource_tools.is_empty() }
    }

    /// Compares approved tools with those of a server.
    pub fn diff(&self, listing: &Listing) -> CatalogDiff {
        let approved: BTreeMap<&str, &ListedTool> =
            self.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
        let mut diff = CatalogDiff::default();
        for tool in &listing.tools {
            match approved.get(tool.name.as_str()) {
                None => diff.added.push(tool.clone()),
                Some(before) if *before != tool => {
                    diff.changed.push(((*before).clone(), tool.clone()));
                }
                Some(_) => {}
            }
        }
        let is_gone = |tool: &&ListedTool| !listing.tools.iter().any(|it| it.name == tool.name);
        diff.removed = self.tools.iter().filter(is_gone).map(|it| it.name.clone()).collect();
        diff
    }
}

impl CatalogDiff {
    /// Returns `true` if the server has no unapproved tools.
    pub fn is_covered(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty()
    }

    /// Returns the difference as lines for people.
    pub fn to_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for tool in &self.added {
            lines.push(format!(
                "+ {}: {}",
                crate::text::line(&tool.name),
                crate::text::line(&tool.description)
            ));
        }
        for (before, now) in &self.changed {
            lines.push(format!("~ {}", crate::text::line(&now.name)));
            if before.description != now.description {
                lines.extend(before.description.lines().map(|line| format!("  - {line}")));
                lines.extend(now.description.lines().map(|line| format!("  + {line}")));
            }
            if before.input_schema != now.input_schema {
                lines.push(format!("  - arguments {}", before.input_schema));
                lines.push(format!("  + arguments {}", now.input_schema));
            }
            if before.output_schema != now.output_schema {
                lines.push("  the output schema has changed".to_owned());
            }
            if before.hints != now.hints {
                lines.push(format!("  - {:?}", before.hints));
                lines.push(format!("  + {:?}", now.hints));
            }
        }
        lines.extend(self.removed.iter().map(|name| format!("- {}", crate::text::line(name))));
        lines
    }
}

impl Listing {
    /// Leaves the tools out that were not approved, and says so.
    pub(crate) fn keep_approved(&mut self, approved: &Catalog, server: &str) {
        let diff = approved.diff(self);
        if diff.is_covered() {
            return;
        }
        let count = diff.added.len() + diff.changed.len();
        self.tools.retain(|tool| approved.tools.contains(tool));
        self.notes.push(format!(
            "{count} tools are new or have changed since they were approved, and were omitted; \
                review them with `loopwright mcp show {server}` and approve them with \
                `loopwright mcp approve {server}`"
        ));
    }
}

/// Stores approved tools in a folder, one file per server.
#[derive(Clone, Debug)]
pub struct FileCatalogs {
    folder: PathBuf,
}

impl FileCatalogs {
    /// Creates a store in this folder, which is created on the first write.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// A server is identified by the program or address, so that another server of the same name
    /// has nothing approved.
    fn file(&self, server: &McpServer) -> PathBuf {
        let text = |template: &Template| template.as_str().to_owned();
        let identity = match &server.transport {
            ServerTransport::Stdio(stdio) => {
                let args: Vec<String> = stdio.args.iter().map(text).collect();
                json!([server.name, text(&stdio.command), args, server.tools])
            }
            ServerTransport::Http(http) => json!([server.name, text(&http.url), server.tools]),
        };
        let hash = format!("{:x}", Sha256::digest(identity.to_string()));
        let name = crate::names::server_part(&server.name);
        self.folder.join(format!("{name}-{}.json", &hash[..16]))
    }
}

impl CatalogStore for FileCatalogs {
    fn load(&self, server: &McpServer) -> Option<Catalog> {
        let text = fs::read_to_string(self.file(server)).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn save(&self, server: &McpServer, catalog: &Catalog) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let text = serde_json::to_string(catalog).map_err(io::Error::other)?;
        replace(&self.file(server), text.as_bytes())
    }
}

/// Replaces a file as a whole; only the user may read it.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::StdioServer;

    fn tool(name: &str, description: &str) -> ListedTool {
        ListedTool {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: Arc::new(json!({"type": "object"})),
            output_schema: None,
            hints: crate::tools::ToolHints::default(),
        }
    }

    fn listing(tools: impl IntoIterator<Item = ListedTool>) -> Listing {
        let mut listing = Listing::default();
        listing.tools.extend(tools);
        listing
    }

    #[test]
    fn tools_that_are_new_or_have_changed_are_left_out_with_a_diff() {
        let approved =
            Catalog::of(&listing([tool("a", "Reads."), tool("b", "Writes."), tool("c", "")]));
        let mut now =
            listing([tool("a", "Reads."), tool("b", "Writes, and sends."), tool("d", "New.")]);
        let lines = approved.diff(&now).to_lines();
        assert_eq!(lines, ["+ d: New.", "~ b", "  - Writes.", "  + Writes, and sends.", "- c"]);
        now.keep_approved(&approved, "s");
        assert_eq!(now.tools, [tool("a", "Reads.")]);
        assert!(
            now.notes[0].contains("2 tools") && now.notes[0].contains("mcp approve s"),
            "{:?}",
            now.notes
        );
    }

    #[test]
    fn an_approved_catalog_holds_for_the_same_server_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileCatalogs::new(folder.path().join("mcp"));
        let server = |command: &str| McpServer::stdio("s", StdioServer::new(command));
        let catalog = Catalog::of(&listing([tool("a", "Reads.")]));
        assert_eq!(store.load(&server("x")), None);
        store.save(&server("x"), &catalog).unwrap();
        assert_eq!(store.load(&server("x")), Some(catalog));
        assert_eq!(store.load(&server("y")), None);
    }
}
