//! The toolchains that are looked for.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::maven::{MAVEN, REPOSITORY};
use crate::environment::holds_password;

/// Variables that choose a version, or that a build depends on: with other values than the user's, everything that the
/// user has built would be built again, or differently.
const SETTINGS: &[&str] = &[
    "RUSTUP_TOOLCHAIN",
    "PYENV_VERSION",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_BUILD_TARGET",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "GOFLAGS",
    "NODE_ENV",
    "SOURCE_DATE_EPOCH",
    "CI",
];

/// Beginnings of the names of such variables.
const SETTINGS_PREFIXES: &[&str] = &["CARGO_PROFILE_"];

/// Returns `true` if a command has the user's value of a variable.
pub(super) fn is_setting(name: &str, value: &OsStr) -> bool {
    let is_named =
        SETTINGS.contains(&name) || SETTINGS_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_named && !holds_password(value)
}

/// A toolchain, and what commands may have of it.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// The variable that says where it is.
    variable: Option<&'static str>,
    /// Where it is otherwise, from the home.
    places: &'static [&'static str],
    /// What is there if it is one.
    proof: &'static str,
    /// What commands may read; nothing means all of it. Never settings, credentials or records of a shell.
    pub(super) parts: &'static [&'static str],
    /// What is set, and to which part.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

const fn known(name: &'static str, place: &'static [&'static str], proof: &'static str) -> Known {
    Known { name, variable: None, places: place, proof, parts: &[""], variables: &[] }
}

impl Known {
    const fn named_by(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }

    const fn parts(self, parts: &'static [&'static str]) -> Self {
        Self { parts, ..self }
    }

    const fn sets(self, variables: &'static [(&'static str, &'static str)]) -> Self {
        Self { variables, ..self }
    }

    /// Finds its folder, without links. `None` means that it is not there.
    pub(super) fn root(
        &self,
        environment: &BTreeMap<String, OsString>,
        home: Option<&Path>,
    ) -> Option<PathBuf> {
        let named = self.variable.and_then(|it| environment.get(it)).map(PathBuf::from);
        let home = home.unwrap_or(Path::new(""));
        let usual = self.places.iter().map(|place| home.join(place));
        let places = named.into_iter().chain(usual).filter(|it| it.is_absolute());
        places.filter_map(|it| it.canonicalize().ok()).find(|it| it.join(self.proof).exists())
    }
}

pub(super) const ALL: &[Known] = &[
    // It makes some of its folders anew unless they are there.
    known("rustup", &[".rustup"], "toolchains")
        .named_by("RUSTUP_HOME")
        .sets(&[("RUSTUP_HOME", "")]),
    // Crates are used where the user's own builds use them: what is built is told apart by the path of its source, and
    // at another one everything would be built again each time.
    known("cargo", &[".cargo"], "bin")
        .named_by("CARGO_HOME")
        .parts(&[
            "bin",
            "registry/cache",
            "registry/index",
            "registry/src",
            "git/checkouts",
            "git/db",
        ])
        .sets(&[("CARGO_HOME", "")]),
    known("nvm", &[".nvm"], "versions")
        .named_by("NVM_DIR")
        .parts(&["nvm.sh", "nvm-exec", "alias", "versions"])
        .sets(&[("NVM_DIR", "")]),
    known("volta", &[".volta"], "bin")
        .named_by("VOLTA_HOME")
        .parts(&["bin", "tools"])
        .sets(&[("VOLTA_HOME", "")]),
    known("fnm", &[".local/share/fnm"], "node-versions")
        .named_by("FNM_DIR")
        .parts(&["aliases", "node-versions"]),
    known("bun", &[".bun"], "bin/bun").named_by("BUN_INSTALL").parts(&["bin"]),
    known("deno", &[".deno"], "bin/deno").named_by("DENO_INSTALL").parts(&["bin"]),
    known("pyenv", &[".pyenv"], "versions")
        .named_by("PYENV_ROOT")
        .parts(&["bin", "libexec", "plugins", "pyenv.d", "shims", "version", "versions"])
        .sets(&[("PYENV_ROOT", "")]),
    known("uv", &[".local/share/uv"], "python")
        .parts(&["python", "tools"])
        .sets(&[("UV_PYTHON_INSTALL_DIR", "python"), ("UV_TOOL_DIR", "tools")]),
    known("pipx", &[".local/share/pipx", ".local/pipx"], "venvs")
        .named_by("PIPX_HOME")
        .parts(&["venvs"]),
    known("uv programs", &[".local/bin"], "uv").parts(&["uv", "uvx"]),
    known("go", &["/usr/local/go"], "bin/go").named_by("GOROOT").sets(&[("GOROOT", "")]),
    known("Go modules", &["go"], "pkg/mod")
        .named_by("GOPATH")
        .parts(&["bin", "pkg/mod"])
        .sets(&[("GOMODCACHE", "pkg/mod")]),
    known("java", &[], "bin/java").named_by("JAVA_HOME").sets(&[("JAVA_HOME", "")]),
    // What was downloaded, and never `settings.xml` and `gradle.properties`, which hold passwords. Neither program writes
    // there: see `toolchains/maven.rs`, and Gradle has a variable for it.
    known(MAVEN, &[".m2"], REPOSITORY)
        .parts(&[REPOSITORY, "wrapper"])
        .sets(&[("MAVEN_USER_HOME", "")]),
    known("gradle", &[".gradle"], "caches/modules-2")
        .named_by("GRADLE_USER_HOME")
        .parts(&["caches/modules-2"])
        .sets(&[("GRADLE_RO_DEP_CACHE", "caches")]),
    known("sdkman", &[".sdkman"], "candidates")
        .named_by("SDKMAN_DIR")
        .parts(&["bin", "candidates", "libexec"])
        .sets(&[("SDKMAN_DIR", "")]),
    known("asdf", &[".asdf"], "installs")
        .named_by("ASDF_DATA_DIR")
        .parts(&["asdf.sh", "bin", "installs", "lib", "libexec", "plugins", "shims"])
        .sets(&[("ASDF_DATA_DIR", "")]),
    known("mise", &[".local/share/mise"], "installs")
        .named_by("MISE_DATA_DIR")
        .parts(&["installs", "shims"])
        .sets(&[("MISE_DATA_DIR", "")]),
    known("mise program", &[".local/bin"], "mise").parts(&["mise"]),
    known("homebrew", &["/home/linuxbrew/.linuxbrew", "/opt/homebrew"], "Cellar")
        .named_by("HOMEBREW_PREFIX")
        .parts(&[
            "Caskroom",
            "Cellar",
            "Frameworks",
            "bin",
            "etc/ca-certificates",
            "etc/openssl@3",
            "include",
            "lib",
            "libexec",
            "opt",
            "sbin",
            "share",
        ]),
];
