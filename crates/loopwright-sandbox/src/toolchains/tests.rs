use super::*;

use std::env::join_paths;
use std::fs;

/// A home in which these files are.
struct World(tempfile::TempDir);

impl World {
    fn with(files: &[&str]) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for file in files.iter().chain(&["project/Cargo.toml"]) {
            let path = world.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn found(&self, path: &[&str], variables: &[(&str, PathBuf)]) -> Toolchains {
        let path = join_paths(path.iter().map(|it| self.path(it))).unwrap();
        let variables = variables.iter().map(|(name, it)| ((*name).to_owned(), it.into()));
        let environment = variables.chain([("PATH".to_owned(), path)]).collect();
        Toolchains::found(&environment, Some(&self.path("")), &self.path("project"))
    }
}

#[test]
fn without_toolchains_there_is_the_path_of_the_system() {
    let world = World::with(&[".ssh/id", ".cargo/credentials.toml"]);
    let found = world.found(&["no/such/bin", "/usr/bin"], &[]);
    let read = found.read.iter().filter(|it| it.starts_with(world.path("")));
    assert_eq!(read.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
    assert_eq!(found.path, [PathBuf::from("/usr/bin")]);
}

#[test]
fn rust_is_shown_without_credentials_and_settings() {
    let world = World::with(&[
        ".rustup/toolchains/stable/bin/cargo",
        ".cargo/bin/cargo",
        ".cargo/credentials.toml",
        ".cargo/config.toml",
        ".cargo/registry/src/x/lib.rs",
        ".cargo/registry/cache/x/a.crate",
    ]);
    let found = world.found(&[".cargo/bin", "/usr/bin"], &[]);
    let own = |it: &&PathBuf| it.starts_with(world.path(""));
    let parts = [".rustup", ".cargo/bin", ".cargo/registry/cache", ".cargo/registry/src"];
    let read: Vec<&PathBuf> = found.read.iter().filter(own).collect();
    assert_eq!(read, parts.map(|it| world.path(it)).iter().collect::<Vec<_>>());
    assert_eq!(found.path, [world.path(".cargo/bin"), "/usr/bin".into()]);
    let set = |name: &str| found.variables.get(name).map(PathBuf::from);
    assert_eq!(set("RUSTUP_HOME"), Some(world.path(".rustup")));
    assert_eq!(set("CARGO_HOME"), Some(world.path(".cargo")));
}

#[test]
fn maven_and_gradle_are_shown_with_what_they_have_downloaded_alone() {
    let world = World::with(&[
        ".m2/repository/org/x/x.jar",
        ".m2/settings.xml",
        ".m2/settings-security.xml",
        ".gradle/caches/modules-2/files-2.1/x.jar",
        ".gradle/caches/jars-9/x",
        ".gradle/gradle.properties",
        ".gradle/init.d/a.gradle",
    ]);
    let found = world.found(&[], &[]);
    let own = |it: &&PathBuf| it.starts_with(world.path(""));
    let read: Vec<&PathBuf> = found.read.iter().filter(own).collect();
    let (repository, modules) =
        (world.path(".m2/repository"), world.path(".gradle/caches/modules-2"));
    assert_eq!(read, [&repository, &modules]);
    let repository = repository.display();
    let variables = [
        ("GRADLE_RO_DEP_CACHE", world.path(".gradle/caches").display().to_string()),
        (
            "MAVEN_OPTS",
            format!("-Dmaven.repo.local={repository} -Dmaven.repo.local.tail={repository}"),
        ),
        ("MAVEN_USER_HOME", world.path(".m2").display().to_string()),
    ];
    assert_eq!(found.variables, variables.map(|(name, value)| (name.to_owned(), value)).into());
}

#[test]
fn a_variable_says_where_a_toolchain_is() {
    let world =
        World::with(&["jdk/bin/java", "tools/py/versions/3/bin/python", "tools/py/shims/py"]);
    let named = [("JAVA_HOME", world.path("jdk")), ("PYENV_ROOT", world.path("tools/py"))];
    let found = world.found(&["jdk/bin", "tools/py/shims"], &named);
    assert_eq!(found.path, [world.path("jdk/bin"), world.path("tools/py/shims")]);
    assert!(found.read.contains(&world.path("jdk")));
    assert!(found.read.contains(&world.path("tools/py/versions")));
    assert!(!found.read.contains(&world.path("tools/py")));
    assert_eq!(found.variables["JAVA_HOME"], world.path("jdk").to_str().unwrap());
}

#[test]
fn a_build_has_the_settings_of_the_users_builds() {
    let world = World::with(&[".cargo/bin/cargo"]);
    let value = |text: &str| PathBuf::from(text);
    let set = [
        ("CARGO_INCREMENTAL", value("0")),
        ("CARGO_PROFILE_DEV_DEBUG", value("false")),
        ("RUSTFLAGS", value("-C debuginfo=0")),
        ("CARGO_REGISTRY_TOKEN", value("secret")),
        ("GOFLAGS", value("-mod=mod https://user:word@host")),
    ];
    let found = world.found(&[".cargo/bin"], &set);
    let mut names: Vec<&str> = found.variables.keys().map(String::as_str).collect();
    names.retain(|name| *name != "CARGO_HOME");
    assert_eq!(names, ["CARGO_INCREMENTAL", "CARGO_PROFILE_DEV_DEBUG", "RUSTFLAGS"]);
}

#[test]
fn a_variable_cannot_show_the_home_or_the_project() {
    let world = World::with(&["bin/java", "project/jdk/bin/java", ".ssh/id"]);
    for named in ["", "project/jdk"] {
        let found = world.found(&["bin", "project/jdk/bin"], &[("JAVA_HOME", world.path(named))]);
        assert!(!found.read.iter().any(|it| it.starts_with(world.path(""))), "{:?}", found.read);
        assert_eq!(found.path, Vec::<PathBuf>::new(), "{named}");
    }
}

#[test]
fn a_folder_of_programs_that_is_not_shown_is_not_in_the_path() {
    let world = World::with(&["bin/tool", ".local/bin/uv", ".local/bin/other"]);
    let found = world.found(&["bin", ".local/bin"], &[]);
    assert_eq!(found.path, [world.path(".local/bin")]);
    assert!(found.read.contains(&world.path(".local/bin/uv")));
    assert!(!found.read.contains(&world.path(".local/bin/other")));
}

#[cfg(unix)]
#[test]
fn a_world_writable_folder_is_not_in_the_path() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with(&[".cargo/bin/cargo"]);
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(world.path(".cargo/bin"), open).unwrap();
    assert_eq!(world.found(&[".cargo/bin"], &[]).path, Vec::<PathBuf>::new());
}

#[test]
fn settings_of_a_policy_are_kept() {
    let world = World::with(&[".cargo/bin/cargo"]);
    let found = world.found(&[".cargo/bin"], &[]);
    let policy =
        SandboxPolicy::in_dir("/w").with_env("CARGO_HOME", "/own").read(world.path(".cargo/bin"));
    let extended = found.extend(policy);
    assert_eq!(extended.environment.values["CARGO_HOME"], "/own");
    let bin = world.path(".cargo/bin");
    assert_eq!(extended.read_paths.iter().filter(|it| **it == bin).count(), 1);
    let path = &extended.environment.values["PATH"];
    assert_eq!(path.split(':').next(), bin.to_str());
}

#[test]
fn native_modules_are_built_with_the_headers_that_came_with_node() {
    let node_gyp = "lib/node_modules/npm/node_modules/node-gyp/lib/node-gyp.js";
    let at = |name: &str| format!(".nvm/versions/node/v20/{name}");
    let (node, header, node_gyp) =
        (at("bin/node"), at("include/node/node_version.h"), at(node_gyp));
    let path = [".nvm/versions/node/v20/bin", "/usr/bin"];
    let variables = |world: &World| {
        let names = ["npm_config_nodedir", "npm_package_config_node_gyp_nodedir"];
        let variables = world.found(&path, &[]).variables;
        names.map(|name| variables.get(name).map(PathBuf::from))
    };
    let world = World::with(&[&node, &header]);
    let installed = world.path(".nvm/versions/node/v20");
    assert_eq!(variables(&world), [Some(installed), None]);
    // Newer ones have a name of their own for it.
    let world = World::with(&[&node, &header, &node_gyp]);
    fs::write(world.path(&node_gyp), "/^npm_package_config_node_gyp_/i").unwrap();
    let installed = world.path(".nvm/versions/node/v20");
    assert_eq!(variables(&world), [None, Some(installed)]);
    assert_eq!(variables(&World::with(&[&node])), [None, None]);
}

#[test]
fn caches_of_the_user_are_found_where_package_managers_keep_them() {
    let world = World::with(&[
        ".cargo/bin/cargo",
        ".npm/_cacache/index-v5/a",
        ".cache/pip/http-v2/a",
        "elsewhere/uv/CACHEDIR.TAG",
        ".cache/other/a",
    ]);
    let found = world.found(&[], &[("UV_CACHE_DIR", world.path("elsewhere/uv"))]);
    let cache = |name, folder, variable, lock: Option<&str>| UserCache {
        name,
        folder: world.path(folder),
        variable,
        lock: lock.map(|lock| world.path(lock)),
    };
    let expected = [
        cache("cargo-registry", ".cargo/registry", None, Some(".cargo/.package-cache")),
        cache("cargo-git", ".cargo/git", None, None),
        cache("npm", ".npm", Some("npm_config_cache"), None),
        cache("pip", ".cache/pip", Some("PIP_CACHE_DIR"), None),
        cache("uv", "elsewhere/uv", Some("UV_CACHE_DIR"), None),
    ];
    assert_eq!(found.caches, expected);
}

#[test]
fn a_folder_that_is_no_cache_is_not_taken_for_one() {
    let world = World::with(&["documents/letter", ".npm/a", "project/npm/_cacache/a"]);
    for named in ["documents", "", "project/npm"] {
        let found = world.found(&[], &[("npm_config_cache", world.path(named))]);
        assert_eq!(found.caches, [], "{named}");
    }
}

#[test]
fn the_virtual_environment_of_the_users_shell_is_shown_and_first_in_the_path() {
    let world = World::with(&[
        "venvs/web/pyvenv.cfg",
        "venvs/web/bin/pytest",
        "python/bin/python3",
        "python/lib/python3.12/os.py",
    ]);
    let settings = format!("home = {}\nversion = 3.12\n", world.path("python/bin").display());
    fs::write(world.path("venvs/web/pyvenv.cfg"), settings).unwrap();
    let named = [("VIRTUAL_ENV", world.path("venvs/web"))];
    let found = world.found(&["/usr/bin", "venvs/web/bin"], &named);
    assert_eq!(found.read, [world.path("venvs/web"), world.path("python")]);
    assert_eq!(found.path, [world.path("venvs/web/bin"), "/usr/bin".into()]);
    assert_eq!(found.variables["VIRTUAL_ENV"], world.path("venvs/web").to_str().unwrap());
}

#[test]
fn a_virtual_environment_in_the_project_is_used_and_shows_no_more_than_the_users_path() {
    let world = World::with(&[
        "project/.venv/bin/pytest",
        "python/bin/python3",
        "python/lib/python3.12/os.py",
        "keys/id",
    ]);
    let settings = |home: &str| {
        let text = format!("home = {}\n", world.path(home).display());
        fs::write(world.path("project/.venv/pyvenv.cfg"), text).unwrap();
    };
    settings("python/bin");
    let programs = world.path("project/.venv/bin");
    let found = world.found(&["/usr/bin"], &[]);
    assert_eq!((found.read, found.path), (Vec::new(), vec![programs.clone(), "/usr/bin".into()]));
    let found = world.found(&["python/bin"], &[]);
    assert_eq!(found.path, [programs, world.path("python/bin")]);
    assert_eq!(found.read, [world.path("python")]);
    let active = [("VIRTUAL_ENV", world.path("project/.venv"))];
    let found = world.found(&["/usr/bin"], &active);
    assert_eq!(found.clone().without_inactive_environment(), found);
    // A command that is not confined has only what the user has activated.
    let found = world.found(&["/usr/bin"], &[]).without_inactive_environment();
    assert_eq!((found.found, found.path), (Vec::new(), vec!["/usr/bin".into()]));
    assert_eq!(found.variables.get("VIRTUAL_ENV"), None);
    settings("keys");
    assert_eq!(world.found(&["keys"], &[]).read, Vec::<PathBuf>::new());
}

#[cfg(unix)]
#[test]
fn programs_that_commands_can_change_come_after_those_of_the_system() {
    let world = World::with(&["project/bin/a", "added/bin/a", "kept/a"]);
    for (target, link) in [("added/bin", "link"), ("kept", "project/kept")] {
        std::os::unix::fs::symlink(world.path(target), world.path(link)).unwrap();
    }
    let own = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(|it| world.path(it)).collect() };
    let path = own(&["project/bin", "link", "project/kept", "project/../kept"]);
    let found = Toolchains { path, ..Toolchains::default() };
    let last = found.clone().with_changeable_last(&own(&["project", "added"])).path;
    let system = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
    let expect = [
        own(&["project/../kept"]),
        system.map(PathBuf::from).to_vec(),
        own(&["project/bin", "link", "project/kept"]),
    ];
    assert_eq!(last, expect.concat());
    assert_eq!(found.clone().with_changeable_last(&own(&["other"])), found);
}

#[cfg(unix)]
#[test]
fn a_link_in_the_project_is_no_virtual_environment() {
    let world = World::with(&["keys/pyvenv.cfg"]);
    std::os::unix::fs::symlink(world.path("keys"), world.path("project/.venv")).unwrap();
    let found = world.found(&[], &[]);
    assert_eq!((found.read, found.path), (Vec::new(), Vec::new()));
}

#[cfg(unix)]
#[test]
fn programs_of_shown_tools_are_found_by_the_links_in_the_folder_for_own_programs() {
    use std::os::unix::fs::symlink;
    let world = World::with(&[
        ".local/share/uv/python/a",
        ".local/share/uv/tools/ruff/bin/ruff",
        ".local/share/pipx/venvs/black/bin/black",
        ".local/bin/own",
        "other/program",
    ]);
    let link = |to: &str, at: &str| symlink(world.path(to), world.path(at)).unwrap();
    link(".local/share/uv/tools/ruff/bin/ruff", ".local/bin/ruff");
    link(".local/share/pipx/venvs/black/bin/black", ".local/bin/black");
    link("other/program", ".local/bin/other");
    let found = world.found(&[".local/bin"], &[]);
    let shown = found.read.iter().filter(|it| it.starts_with(world.path(".local/bin")));
    let expected = [world.path(".local/bin/black"), world.path(".local/bin/ruff")];
    assert_eq!(shown.cloned().collect::<Vec<_>>(), expected);
    assert_eq!(found.path, [world.path(".local/bin")]);
}
