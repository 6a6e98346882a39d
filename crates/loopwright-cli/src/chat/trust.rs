//! `/trust`: a review of the project's settings.

use super::ChatSession;
use super::place::Place;
use crate::console;
use crate::exit::ExitCode;
use crate::folders;
use crate::input::{Input, InputEvent, is_watched};
use crate::project::plain;
use crate::project_settings::ProjectSettings;
use crate::render::sanitize_terminal;
use crate::signals::input_exit_code;
use crate::startup::Startup;
use crate::trust::allowed;

impl ChatSession<'_> {
    /// Shows what the settings of the project may do once it is trusted, and asks. Trusted settings apply from the next message
    /// on. Returns an exit status if the user leaves instead.
    pub(super) async fn trust(&mut self, input: &mut Input) -> Option<ExitCode> {
        if !is_watched() {
            console::tell(
                "cannot ask for confirmation without a terminal; run `loopwright trust --yes`",
            );
            return None;
        }
        let Place { config, sources } = self.place.clone();
        let project = match ProjectSettings::find(&config, &sources) {
            Ok(project) => project,
            Err(error) => {
                console::fail(&error, ExitCode::Config);
                return None;
            }
        };
        let root = project.root.clone();
        let shown = sanitize_terminal(&plain(&root));
        if project.is_trusted() {
            console::tell(&format!("{shown} is already trusted"));
            return None;
        }
        // What is trusted is what is shown, whatever changes meanwhile.
        let fingerprint = match project.fingerprint() {
            Ok(fingerprint) => fingerprint.to_owned(),
            Err(error) => {
                console::fail(error, ExitCode::Config);
                return None;
            }
        };
        for line in allowed(&config, &sources, &project) {
            console::tell(&format!("  {}", sanitize_terminal(&line)));
        }
        console::tell("trust all of this? [y/N]");
        let answer = match input.answer(self.signals.as_mut()).await {
            InputEvent::Text(answer) => answer,
            event @ (InputEvent::End | InputEvent::Signal(_) | InputEvent::Broken(_)) => {
                return Some(input_exit_code(&event, self.failed));
            }
            _ => String::new(),
        };
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            console::tell(&format!("nothing was changed; to trust {shown}, answer `y`"));
            return None;
        }
        if let Err(error) =
            folders::update(&sources, &root, |it| it.trust(fingerprint, project.guards()))
        {
            console::fail(&error, ExitCode::Config);
            return None;
        }
        match Box::pin(Startup::reload(self.cli, self.args, &self.conversation)).await {
            Ok((opening, conversation)) => {
                self.place = Place { config: opening.config, sources: opening.sources };
                self.conversation = conversation;
                console::tell(&format!(
                    "{shown} is trusted from your next message on · {}",
                    self.heading()
                ));
            }
            Err(refusal) => {
                refusal.fail();
                console::tell(&format!("{shown} will be trusted the next time Loopwright starts"));
            }
        }
        None
    }
}
