//! `loopwright agents`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::{AgentDefinition, Definitions as _};
use loopwright_broadcast::Redactor;
use loopwright_templates::writing::without_secrets;
use loopwright_templates::{
    DefinitionFileError, DefinitionFormat, DefinitionPaths, DefinitionStoreError,
    FileDefinitionStore, LoadedDefinition, OnExisting,
};
use serde_json::{Value, json};

use crate::args::Cli;
use crate::args::agents::{AgentsArgs, AgentsCommand, NewArgs, ShowArgs, ValidateArgs};
use crate::check::Check;
use crate::config::{Config, ConfigSources};
use crate::console;
use crate::definitions::{self, Defined};
use crate::exit::ExitCode;
use crate::project::{plain, shown};
use crate::project_settings::keeping_trust;
use crate::render::{sanitize_terminal, single_line};
use crate::report::SCHEMA_VERSION;
use crate::table::table_with_head;
use crate::tools;

/// The most characters of a description in a list.
const DESCRIPTION: usize = 80;

/// Lists, shows, checks or begins definitions of agents.
pub fn agents(cli: &Cli, args: &AgentsArgs) -> ExitCode {
    let (sources, config, providers, defined) = match definitions::find(cli, &args.workdir) {
        Ok(found) => found,
        Err(error) => return console::fail(&error, error.exit_code()),
    };
    match &args.command {
        AgentsCommand::List(args) => list(&defined, &sources, args.json),
        AgentsCommand::Show(args) => show(&defined, args),
        AgentsCommand::Validate(args) => match tools::workdir(&config.workdir) {
            Ok(workdir) => {
                let (defined, config, providers) = (&defined, &config, &Arc::new(providers));
                validate(&Check { defined, workdir: &workdir, config, providers }, args)
            }
            Err(error) => console::fail(&error, ExitCode::Usage),
        },
        AgentsCommand::New(args) => match new(&defined, &config, &sources, args) {
            Ok(path) => console::print(format!("{}\n", path.display()).as_bytes()),
            Err(error @ (DefinitionStoreError::Name(_) | DefinitionStoreError::Exists(_))) => {
                console::fail(&error, ExitCode::Usage)
            }
            Err(error) => console::fail(&error, ExitCode::Internal),
        },
    }
}

fn list(defined: &Defined, sources: &ConfigSources, is_json: bool) -> ExitCode {
    for error in defined.agents.errors().values() {
        console::warn(error);
    }
    let all = defined.agents.all();
    let source = |name: &str| defined.agents.source(name);
    if is_json {
        let agent = |it: &AgentDefinition| {
            let source = source(&it.name);
            json!({
                "name": it.name, "label": it.label(), "description": it.description,
                "path": source.as_ref().and_then(|it| it.path.clone()),
                "scope": source.and_then(|it| it.scope).map(|it| it.to_string()),
            })
        };
        let agents: Vec<Value> = all.iter().map(|it| agent(it)).collect();
        return console::print_json(&json!({ "schema_version": SCHEMA_VERSION, "agents": agents }));
    }
    if all.is_empty() {
        console::tell("no agents are defined; create one: loopwright agents new NAME");
        return ExitCode::Done;
    }
    let home = sources.home.as_deref();
    let row = |it: &AgentDefinition| {
        let path = source(&it.name).and_then(|it| it.path).unwrap_or_default();
        let path = shown(&path, &defined.root, home);
        vec![it.name.clone(), single_line(&path, 200), single_line(&it.description, DESCRIPTION)]
    };
    let head = ["NAME", "FILE", "DESCRIPTION"];
    console::print(table_with_head(head, all.iter().map(|it| row(it))).as_bytes())
}

fn show(defined: &Defined, args: &ShowArgs) -> ExitCode {
    let definition = match defined.agents.get(&args.name) {
        Ok(definition) => definition,
        Err(error) => {
            console::fail(&error, ExitCode::Usage);
            for error in defined.agents.errors().values() {
                console::warn(error);
            }
            return ExitCode::Usage;
        }
    };
    let source = defined.agents.source(&args.name);
    let path = source.as_ref().and_then(|it| it.path.clone());
    defined.tell_warnings(&args.name);
    let definition = without_secrets(&definition);
    if !args.json {
        let text = DefinitionFormat::Markdown.write(&definition);
        return console::print(sanitize_terminal(&Redactor::default().text(&text)).as_bytes());
    }
    let written = DefinitionFormat::Json.write(&definition);
    let written: Value = serde_json::from_str(&written).unwrap_or_default();
    let written = without_passwords(written);
    let scope = source.and_then(|it| it.scope).map(|it| it.to_string());
    console::print_json(&json!({
        "schema_version": SCHEMA_VERSION, "path": path, "scope": scope, "definition": written,
    }))
}

/// Takes the passwords out of addresses, wherever they stand.
fn without_passwords(value: Value) -> Value {
    match value {
        Value::String(text) => Redactor::default().text(&text).into(),
        Value::Array(items) => items.into_iter().map(without_passwords).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, it)| (name, without_passwords(it))).collect()
        }
        other => other,
    }
}

/// What became of a file.
struct Checked {
    path: PathBuf,
    name: Option<String>,
    errors: Vec<String>,
    warnings: Vec<String>,
}

fn validate(check: &Check<'_>, args: &ValidateArgs) -> ExitCode {
    let defined = check.defined;
    let mut checked: Vec<Checked> = if args.paths.is_empty() {
        found(check)
    } else {
        let loader = defined.agents.loader();
        let of_project = |path: &Path| {
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            DefinitionPaths::PROJECT.iter().any(|it| real.starts_with(defined.root.join(it)))
        };
        let load = |path: &Path| {
            if of_project(path) { loader.load_of_project(path) } else { loader.load(path) }
        };
        args.paths.iter().map(|path| one(path, load(path), check)).collect()
    };
    checked.sort_by(|one, other| one.path.cmp(&other.path));
    let is_fine = checked.iter().all(|it| it.errors.is_empty());
    if checked.is_empty() && !args.json {
        console::tell("no agents are defined; create one: loopwright agents new NAME");
        return ExitCode::Done;
    }
    let told = if args.json {
        let file = |it: &Checked| {
            json!({
                "path": it.path, "name": it.name, "errors": it.errors, "warnings": it.warnings,
            })
        };
        let files: Vec<Value> = checked.iter().map(file).collect();
        console::print_json(
            &json!({ "schema_version": SCHEMA_VERSION, "valid": is_fine, "files": files }),
        )
    } else {
        let text: String = checked.iter().map(Checked::to_text).collect();
        console::print(text.as_bytes())
    };
    match told {
        ExitCode::Done if !is_fine => ExitCode::Config,
        told => told,
    }
}

/// Checks everything that is found.
fn found(check: &Check<'_>) -> Vec<Checked> {
    let defined = check.defined;
    let mut checked: Vec<Checked> = defined
        .agents
        .all()
        .iter()
        .filter_map(|it| {
            let path = defined.agents.source(&it.name)?.path?;
            let loaded = LoadedDefinition { definition: (**it).clone(), warnings: Vec::new() };
            Some(one(&path, Ok(loaded), check))
        })
        .collect();
    let errors = defined.agents.errors().into_iter();
    checked.extend(errors.map(|(path, error)| one(&path, Err(error), check)));
    for warning in defined.agents.warnings() {
        let text = warning.problem.to_string();
        match checked.iter_mut().find(|it| it.path == warning.path) {
            Some(it) => it.warnings.push(text),
            None => checked.push(Checked {
                path: warning.path,
                name: None,
                errors: Vec::new(),
                warnings: vec![text],
            }),
        }
    }
    checked
}

fn one(
    path: &Path,
    loaded: Result<LoadedDefinition, DefinitionFileError>,
    check: &Check<'_>,
) -> Checked {
    let texts = |problems: &[loopwright_templates::Diagnostic]| -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    };
    let (name, errors, warnings) = match loaded {
        Ok(LoadedDefinition { definition, warnings }) => {
            let problems = check.problems_of_file(&definition);
            (Some(definition.name), problems, texts(&warnings))
        }
        Err(error) => (None, texts(&error.problems), Vec::new()),
    };
    Checked { path: path.to_owned(), name, errors, warnings }
}

impl Checked {
    fn to_text(&self) -> String {
        let path = plain(&self.path);
        let errors = self.errors.iter().map(|it| ("error", it));
        let all = errors.chain(self.warnings.iter().map(|it| ("warning", it)));
        let lines =
            all.map(|(kind, text)| format!("{path}: {kind}: {}\n", sanitize_terminal(text)));
        let lines: String = lines.collect();
        if self.errors.is_empty() { format!("{path}: ok\n{lines}") } else { lines }
    }
}

/// Checks that no link leads from a project to where its definitions are written.
fn check_own(root: &Path, directory: &Path) -> Result<(), DefinitionStoreError> {
    let below = directory.ancestors().take_while(|it| *it != root);
    let link = below.into_iter().find(|it| it.is_symlink());
    link.map_or(Ok(()), |link| {
        let source = io::Error::other(
            "the directory is a symbolic link; remove the link, or create the file yourself",
        );
        Err(DefinitionStoreError::Root { path: link.to_owned(), source })
    })
}

/// Begins a file, and returns its path.
fn new(
    defined: &Defined,
    config: &Config,
    sources: &ConfigSources,
    args: &NewArgs,
) -> Result<PathBuf, DefinitionStoreError> {
    let directory = match sources.own_directory().filter(|_| args.user) {
        Some(own) => own.join("agents"),
        None => defined.root.join(DefinitionPaths::OWN),
    };
    if !args.user {
        check_own(&defined.root, &directory)?;
    }
    fs::create_dir_all(&directory)
        .map_err(|source| DefinitionStoreError::Root { path: directory.clone(), source })?;
    let existing = if args.overwrite { OnExisting::Replace } else { OnExisting::Refuse };
    let store = FileDefinitionStore::open(&directory)?.with_existing(existing);
    let name = args.name.as_str();
    let text = |given: &Option<String>, otherwise: String| {
        given.clone().filter(|it| !it.trim().is_empty()).unwrap_or(otherwise)
    };
    let description = text(&args.description, format!("Describe here when to use {name}."));
    let prompt = text(&args.prompt, format!("You are {name}. Describe here how to work."));
    let definition = AgentDefinition::new(name, description, prompt);
    let file = directory.join(format!("{name}.md"));
    let saved = keeping_trust(config, sources, &file, || store.save(&definition))?;
    Ok(saved.path)
}
