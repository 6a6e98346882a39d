//! Conversions from configuration values to Rust types.

/// A time, as a number of seconds.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|error| D::Error::custom(format!("{seconds} seconds: {error}")))
    }
}

/// A budget, as definitions write it.
pub(crate) mod budget {
    use std::time::Duration;

    use loopwright_core::{Budget, Timestamp, messages::Cost};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "camelCase")]
    struct Written {
        #[serde(alias = "max_steps", alias = "steps")]
        max_steps: Option<u32>,
        #[serde(alias = "max_tokens", alias = "tokens")]
        max_tokens: Option<u64>,
        #[serde(alias = "max_seconds", alias = "seconds")]
        max_seconds: Option<f64>,
        #[serde(alias = "max_cost", alias = "cost")]
        max_cost: Option<f64>,
        deadline: Option<Timestamp>,
    }

    pub(crate) fn serialize<S: Serializer>(
        budget: &Budget,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let written = Written {
            max_steps: budget.steps,
            max_tokens: budget.tokens,
            max_seconds: budget.time.map(|it| it.as_secs_f64()),
            max_cost: budget.cost.map(Cost::dollars),
            deadline: budget.deadline,
        };
        written.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Budget, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let time = written.max_seconds.map(Duration::try_from_secs_f64).transpose();
        let cost = written.max_cost;
        if cost.is_some_and(|it| !it.is_finite() || it < 0.0) {
            return Err(D::Error::custom("maxCost must be a number of dollars, 0 or more"));
        }
        Ok(Budget {
            steps: written.max_steps,
            tokens: written.max_tokens,
            time: time.map_err(|error| D::Error::custom(format!("maxSeconds: {error}")))?,
            cost: cost.map(Cost::from_dollars),
            deadline: written.deadline,
        })
    }
}

/// A model, as `provider/model` or with its settings.
pub(crate) mod llm {
    use loopwright_core::LlmConfig;
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Name(String),
        Settings(LlmConfig),
    }

    #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(
        llm: &Option<LlmConfig>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        llm.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<LlmConfig>, D::Error> {
        Ok(Option::<Written>::deserialize(deserializer)?.map(|it| match it {
            Written::Name(name) => LlmConfig::named(name.trim()),
            Written::Settings(llm) => llm,
        }))
    }
}
