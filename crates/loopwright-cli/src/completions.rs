//! The completion script of a shell, as bytes.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;

/// Renders the script into memory, so that a reader that hangs up cannot panic the generator.
pub fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "loopwright", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            assert!(script.contains("loopwright"), "{shell}");
            assert!(script.contains("completions"), "{shell}");
        }
    }
}
