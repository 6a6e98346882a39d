//! The configuration as a user meets it: files in directories, variables, options.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

mod file_errors;
mod locations;
mod models;
mod precedence;
mod project_rules;
mod providers;
mod secrets;
mod unknown_keys;
mod variables;

/// A home directory, and a repository with a subdirectory in which the run takes place.
struct World {
    root: TempDir,
    sources: ConfigSources,
    flags: Flags,
}

impl World {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let base = root.path().canonicalize().unwrap();
        for directory in ["home/.config/loopwright", "repo/.git", "repo/sub"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        let sources = ConfigSources {
            cwd: base.join("repo/sub"),
            home: Some(base.join("home")),
            ..ConfigSources::default()
        };
        Self { root, sources, flags: Flags::default() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn user(self, text: &str) -> Self {
        self.file("home/.config/loopwright/config.toml", text)
    }

    fn project(self, text: &str) -> Self {
        self.file("repo/loopwright.toml", text)
    }

    fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.sources.environment.insert(name.to_owned(), value.into());
        self
    }

    fn flags(mut self, set: impl FnOnce(&mut Flags)) -> Self {
        set(&mut self.flags);
        self
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        Config::load(self.flags.clone(), &self.sources)
    }

    fn config(&self) -> Config {
        self.load().unwrap().config
    }

    /// Cuts the temporary directory out, so that paths begin at `/home` and `/repo`.
    fn shown(&self, text: &(impl ToString + ?Sized)) -> String {
        text.to_string().replace(self.path("").to_str().unwrap().trim_end_matches('/'), "")
    }

    fn error(&self) -> String {
        self.shown(&self.load().unwrap_err())
    }

    fn warnings(&self) -> Vec<String> {
        let warnings = self.load().unwrap().warnings;
        warnings.into_iter().map(|warning| self.shown(&warning)).collect()
    }

    fn origin_of_the_model(&self) -> String {
        match self.config().model {
            Some(model) => self.shown(&format!("{} from the {}", model.value, model.origin)),
            None => "none".to_owned(),
        }
    }
}

fn parse<T: SettingValue>(text: &str) -> Option<T> {
    T::from_text(text)
}

#[test]
fn without_files_variables_and_options_the_defaults_apply() {
    let world = World::new();
    let config = Config {
        capabilities: CapabilitySettings::new(),
        workdir: world.path("repo/sub"),
        model: None,
        fallback: None,
        base_url: None,
        system_prompt: None,
        output_format: Setting::new(OutputFormat::Text, Origin::Default),
        stream: Setting::new(true, Origin::Default),
        limits: Limits::default(),
        providers: BTreeMap::new(),
        models: BTreeMap::new(),
        timeouts: Timeouts::default(),
        user_file: None,
        project_file: None,
        mcp: McpLayers::default(),
        permissions: PermissionLayers::default(),
        sandbox: SandboxSettings::default(),
        chat: ChatSettings::default(),
        aliases: BTreeMap::new(),
        remote_agents: BTreeMap::new(),
        web_search: None,
        store_url: None,
        worker_roots: None,
        restate: RestateSettings::default(),
        notify: NotifySettings::default(),
    };
    assert_eq!(world.load().unwrap(), Loaded { config, warnings: Vec::new() });
}
