//! The caches of package managers that the user has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A cache of a package manager that the user has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserCache {
    /// The name of the cache, which is also the name of a folder.
    pub name: &'static str,
    /// The folder. For some package managers it need not exist.
    pub folder: PathBuf,
    /// The variable that names the folder, if its program needs one in the sandbox.
    pub variable: Option<&'static str>,
    /// The file by which programs wait for each other, if it is not in the folder.
    pub lock: Option<PathBuf>,
}

/// Caches that belong to a toolchain, at a path in its folder.
const OF_TOOLCHAINS: [(&str, &str, &str, Option<&str>); 3] = [
    ("cargo", "registry", "cargo-registry", Some(".package-cache")),
    ("cargo", "git", "cargo-git", None),
    ("Go modules", "pkg/mod", "go-modules", None),
];

/// A cache that is in the folder for caches, or in the home.
struct Known {
    name: &'static str,
    variable: &'static str,
    place: Place,
    /// What is there if it is one.
    proofs: &'static [&'static str],
}

enum Place {
    Home(&'static str),
    Caches(&'static str),
}

const KNOWN: [Known; 3] = [
    Known {
        name: "npm",
        variable: "npm_config_cache",
        place: Place::Home(".npm"),
        proofs: &["_cacache"],
    },
    Known {
        name: "pip",
        variable: "PIP_CACHE_DIR",
        place: Place::Caches("pip"),
        proofs: &["http-v2", "http", "wheels", "selfcheck"],
    },
    Known {
        name: "uv",
        variable: "UV_CACHE_DIR",
        place: Place::Caches("uv"),
        proofs: &["CACHEDIR.TAG"],
    },
];

/// Finds the caches: those of found toolchains, and those of package managers by their variables or in their default
/// locations.
pub(super) fn find(
    toolchains: &[(&'static str, PathBuf)],
    environment: &BTreeMap<String, OsString>,
    home: Option<&Path>,
) -> Vec<UserCache> {
    let of_toolchain = |(toolchain, part, name, lock): (&str, &str, &'static str, Option<&str>)| {
        let (_, root) = toolchains.iter().find(|it| it.0 == toolchain)?;
        let lock = lock.map(|lock| root.join(lock));
        Some(UserCache { name, folder: root.join(part), variable: None, lock })
    };
    let named = |name: &str| environment.get(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let known = |known: Known| {
        let usual = || match known.place {
            Place::Home(name) => Some(home?.join(name)),
            Place::Caches(name) => {
                let caches = named("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
                Some(caches?.join(name))
            }
        };
        let folder = named(known.variable).or_else(usual)?.canonicalize().ok()?;
        let is_one = known.proofs.iter().any(|proof| folder.join(proof).exists());
        let (name, variable) = (known.name, Some(known.variable));
        is_one.then_some(UserCache { name, folder, variable, lock: None })
    };
    let of_toolchains = OF_TOOLCHAINS.into_iter().filter_map(of_toolchain);
    of_toolchains.chain(KNOWN.into_iter().filter_map(known)).collect()
}
