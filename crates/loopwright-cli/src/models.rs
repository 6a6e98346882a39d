//! `loopwright models`.

use std::path::Path;

use loopwright_models::{ModelInfo, Price, Prices, ProviderConfig, Providers, SecretRef};
use serde_json::{Value, json};

use crate::args::{Cli, ModelsArgs};
use crate::console;
use crate::exit::ExitCode;
use crate::load_config::configured;
use crate::model;
use crate::table::table_with_head;

/// Lists the providers, or one, with the models that are known.
pub fn models(cli: &Cli, args: &ModelsArgs) -> ExitCode {
    let (sources, config) = match configured(cli, Path::new("."), None) {
        Ok(configured) => configured,
        Err(error) => return console::fail(&error, ExitCode::Config),
    };
    let providers = match model::providers(&config, &sources) {
        Ok(providers) => providers,
        Err(error) => return console::fail(&error, error.exit_code()),
    };
    let names: Vec<&str> = match &args.provider {
        None => providers.names().collect(),
        Some(name) => match model::provider(name, &providers) {
            Ok(()) => vec![name],
            Err(error) => return console::fail(&error, ExitCode::NoModel),
        },
    };
    let lines: Vec<Line<'_>> =
        names.into_iter().filter_map(|name| Line::of(&providers, name)).collect();
    let text = if args.json { in_json(&lines) } else { in_words(&lines) };
    console::print(text.as_bytes())
}

/// A provider and its models.
struct Line<'a> {
    name: &'a str,
    provider: &'a ProviderConfig,
    has_key: bool,
    models: Vec<(&'a str, &'a ModelInfo)>,
}

impl<'a> Line<'a> {
    fn of(providers: &'a Providers, name: &'a str) -> Option<Self> {
        let provider = providers.provider(name).ok()?;
        let models = providers.catalog().models(name).collect();
        Some(Self { name, provider, has_key: providers.has_key(name), models })
    }

    /// Says where the key is expected, and whether it is there.
    fn key(&self) -> String {
        let variable = self.provider.key.as_ref().map(SecretRef::variable);
        match (variable, self.has_key) {
            (None, _) => "-".to_owned(),
            (Some(variable), true) => format!("{variable} (set)"),
            (Some(variable), false) if self.provider.key_required => {
                format!("{variable} (missing)")
            }
            (Some(variable), false) => format!("{variable} (not needed)"),
        }
    }
}

fn in_words(lines: &[Line<'_>]) -> String {
    let head = ["PROVIDER", "WIRE", "KEY", "DEFAULT MODEL"];
    let rows = lines.iter().map(|line| {
        let model = line.provider.model.as_deref().unwrap_or("-").to_owned();
        vec![line.name.to_owned(), line.provider.wire.to_string(), line.key(), model]
    });
    let mut text = table_with_head(head, rows);
    let rows: Vec<_> = lines.iter().flat_map(model_rows).collect();
    if !rows.is_empty() {
        let head = ["MODEL", "WINDOW", "OUTPUT", "$ IN", "$ CACHED", "$ OUT", "CAN"];
        text.push('\n');
        text += &table_with_head(head, rows);
        text += "\nPrices are in $ per million tokens; `+` marks models whose long requests cost more.\n";
    }
    text
}

fn model_rows(line: &Line<'_>) -> Vec<Vec<String>> {
    let row = |(name, info): &(&str, &ModelInfo)| {
        let tokens = |tokens: Option<u64>| tokens.map_or("?".to_owned(), |it| it.to_string());
        let price = |of: fn(&Prices) -> Price| match &info.prices {
            None => "?".to_owned(),
            Some(prices) => {
                let more = if prices.long.is_some() { "+" } else { "" };
                format!("{}{more}", of(prices).dollars_per_million())
            }
        };
        let can = info.capabilities.iter().flatten().map(|it| it.name()).collect::<Vec<_>>();
        vec![
            format!("{}/{name}", line.name),
            tokens(info.context_window),
            tokens(info.max_output),
            price(|prices| prices.input),
            price(|prices| prices.cache_read.unwrap_or(prices.input)),
            price(|prices| prices.output),
            if can.is_empty() { "?".to_owned() } else { can.join(" ") },
        ]
    };
    line.models.iter().map(row).collect()
}

fn in_json(lines: &[Line<'_>]) -> String {
    let provider = |line: &Line<'_>| {
        json!({
            "name": line.name,
            "wire_api": line.provider.wire,
            "key": line.provider.key.as_ref().map(SecretRef::variable),
            "key_is_set": line.has_key,
            "key_required": line.provider.key_required,
            "local": line.provider.local,
            "default_model": line.provider.model,
        })
    };
    let model = |line: &Line<'_>, name: &str, info: &ModelInfo| {
        let mut model = json!({ "provider": line.name, "name": name });
        if let (Value::Object(model), Ok(Value::Object(info))) =
            (&mut model, serde_json::to_value(info))
        {
            model.extend(info);
        }
        model
    };
    let providers: Vec<Value> = lines.iter().map(provider).collect();
    let models = lines.iter().flat_map(|line| line.models.iter().map(move |it| (line, it)));
    let models: Vec<Value> = models.map(|(line, (name, info))| model(line, name, info)).collect();
    format!("{}\n", json!({ "schema_version": 1, "providers": providers, "models": models }))
}
