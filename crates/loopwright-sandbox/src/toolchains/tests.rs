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
