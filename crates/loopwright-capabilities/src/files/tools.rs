//! All file tools as a capability.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::files::{EditFile, Grep, ListDir, ReadFile, SearchFiles, WorkspaceRoot, WriteFile};

/// Adds tools for the files of one directory: `read_file`, `write_file`, `edit_file`, `list_dir`,
/// `search_files` and `grep`.
///
/// ```
/// use loopwright_capabilities::files::{Durability, WorkspaceRoot, UseFileTools};
///
/// let tools = UseFileTools::in_dir("/srv/project");
/// let careful = WorkspaceRoot::new("/srv/project").protect("Cargo.lock").with_durability(Durability::Synced);
/// let readers = UseFileTools::in_dir(careful).read_only();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UseFileTools {
    root: WorkspaceRoot,
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadOnly,
    ReadWrite,
}

/// How many files `search_files` shows: more than it does alone, so that one search is often enough.
const RESULTS: usize = 50;

impl UseFileTools {
    /// Creates the tools for a directory. A [`WorkspaceRoot`] allows more settings than a path.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        Self { root: root.into(), access: Access::ReadWrite }
    }

    /// Omits the tools that change files.
    pub fn read_only(mut self) -> Self {
        self.access = Access::ReadOnly;
        self
    }
}

impl Capability for UseFileTools {
    fn name(&self) -> Cow<'static, str> {
        "use_file_tools".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        self.root.checked(self.name())?;
        let root = || self.root.clone();
        agent.tools.add(ReadFile::in_dir(root()));
        if self.access == Access::ReadWrite {
            agent.tools.add(WriteFile::in_dir(root()));
            agent.tools.add(EditFile::in_dir(root()));
        }
        agent.tools.add(ListDir::in_dir(root()));
        agent.tools.add(SearchFiles::in_dir(root()).with_max_results(RESULTS));
        agent.tools.add(Grep::in_dir(root()));
        Ok(())
    }
}
