//! The headers of Node, for packages with native modules.

use std::fs;
use std::path::{Path, PathBuf};

/// Where node-gyp is, from where Node is installed.
const NODE_GYP: &str = "lib/node_modules/npm/node_modules/node-gyp/lib/node-gyp.js";
/// What newer node-gyp reads. The other name makes newer npm print a warning each time.
const NEWER: &str = "npm_package_config_node_gyp_nodedir";
const OLDER: &str = "npm_config_nodedir";

/// Returns the variable by which node-gyp finds the headers that were installed with Node, and where they are. Without
/// it, node-gyp fetches them, or reads them from a cache or settings in a home that commands do not see. `None` means
/// that there is no Node in these folders, or that it came without headers.
pub(super) fn headers(path: &[PathBuf]) -> Option<(&'static str, PathBuf)> {
    let node = path.iter().map(|folder| folder.join("node")).find(|program| program.is_file())?;
    let node = node.canonicalize().ok()?;
    let installed = node.parent().and_then(Path::parent)?;
    if !installed.join("include/node/node_version.h").is_file() {
        return None;
    }
    let node_gyp = fs::read_to_string(installed.join(NODE_GYP)).unwrap_or_default();
    let name = if node_gyp.contains("npm_package_config_node_gyp_") { NEWER } else { OLDER };
    Some((name, installed.to_path_buf()))
}
