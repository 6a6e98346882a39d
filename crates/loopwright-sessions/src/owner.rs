//! Holders of leases, with names that let other processes check whether the holder still exists.

use std::{fmt, fs, process};

use crate::id::SessionId;

/// The name of a lease holder, from which another process on the same machine can tell whether the
/// holder has exited.
///
/// The name contains the boot ID of the machine, the PID namespace, the process and its start time,
/// and a part that distinguishes two holders in one process. If the machine does not provide these,
/// no process counts as exited, and others wait until its leases expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    place: String,
    process: u32,
    started: String,
    name: String,
}

/// What stands in a name before the session whose run has the session of a sub-agent.
const FOR: &str = " for session ";

impl Owner {
    /// Creates the name of this process.
    pub fn this_process() -> Self {
        let process = process::id();
        let started = started(process).unwrap_or_default();
        let name = SessionId::generate().as_str()[..8].to_owned();
        Self { place: place(), process, started, name }
    }

    /// Writes the name under which a holder has the session of a sub-agent, while it runs another session.
    pub(crate) fn of_subagent(owner: &str, session: &SessionId) -> String {
        match owner.split_once(FOR) {
            // The session that a user knows stays the one of the run.
            Some(_) => owner.to_owned(),
            None => format!("{owner}{FOR}{session}"),
        }
    }

    /// Returns the session whose run has the session of a sub-agent under this name. `None` means that the holder does
    /// not have it for another session.
    pub fn session_of(owner: &str) -> Option<SessionId> {
        SessionId::new(owner.rsplit_once(FOR)?.1).ok()
    }

    /// Parses a name. Returns `None` if it does not have this form.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split_once(FOR).map_or(text, |it| it.0);
        let mut parts = text.split('/');
        let mut part = || parts.next().map(str::to_owned);
        let (place, process, started, name) = (part()?, part()?, part()?, part()?);
        let process = process.parse().ok()?;
        parts.next().is_none().then_some(Self { place, process, started, name })
    }

    /// Returns a readable name of a holder: its process, or the text itself if it does not have
    /// this form.
    pub fn describe(text: &str) -> String {
        Self::parse(text)
            .map_or_else(|| text.to_owned(), |owner| format!("process {}", owner.process))
    }

    /// Returns `true` if the holder is known to have exited: it ran on this machine since the last
    /// boot, and the process no longer exists.
    pub fn is_gone(&self) -> bool {
        let is_here = !self.place.is_empty() && self.place == place();
        is_here && started(self.process).as_ref() != Some(&self.started)
    }

    /// Returns the process ID.
    pub fn process(&self) -> u32 {
        self.process
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.place, self.process, self.started, self.name)
    }
}

/// Names the boot of the machine and the space in which processes are counted; nothing if it is not
/// known.
fn place() -> String {
    let boot = boot_id();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let space = space.to_string_lossy();
    let number = space.trim_start_matches("pid:[").trim_end_matches(']');
    if boot.is_empty() || number.is_empty() {
        return String::new();
    }
    format!("{boot}-{number}")
}

/// Names the boot of the machine; nothing if it is not known.
pub(crate) fn boot_id() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

/// Returns when a process started, in ticks since the boot.
fn started(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may hold anything; what follows its closing bracket may not.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // A process that ended and was not waited for is gone too.
    let state = fields.next()?;
    let is_over = matches!(state, "Z" | "X");
    fields.nth(18).filter(|_| !is_over).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let owner = Owner::this_process();
        assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
        for text in ["", "somebody", "a/b/c/d", "a/1/2", "a/1/2/3/4"] {
            assert_eq!(Owner::parse(text), None);
        }
    }

    #[test]
    fn a_holder_of_a_sub_agents_session_names_the_session_of_the_run() {
        let (owner, run) = (Owner::this_process(), SessionId::new("run").unwrap());
        let name = Owner::of_subagent(&owner.to_string(), &run);
        assert_eq!((Owner::parse(&name), Owner::session_of(&name)), (Some(owner), Some(run)));
        assert_eq!(Owner::session_of(&Owner::this_process().to_string()), None);
    }

    #[test]
    fn this_process_is_there() {
        assert!(!Owner::this_process().is_gone());
        assert_eq!(Owner::this_process().process(), process::id());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_place_is_a_boot_of_a_machine_and_a_space_of_processes() {
        let space = fs::read_link("/proc/self/ns/pid").unwrap();
        let (boot, number) =
            place().rsplit_once('-').map(|it| (it.0.to_owned(), it.1.to_owned())).unwrap();
        assert_eq!(boot, boot_id());
        assert_eq!(format!("pid:[{number}]"), space.to_string_lossy());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_ended_is_gone() {
        let mut child = process::Command::new("true").spawn().unwrap();
        let process = child.id();
        let started = started(process);
        child.wait().unwrap();
        let owner =
            Owner { process, started: started.unwrap_or_default(), ..Owner::this_process() };
        assert!(owner.is_gone());
    }

    #[test]
    fn a_process_of_another_machine_is_not_taken_for_exited() {
        let owner = Owner { place: "elsewhere".to_owned(), process: 1, ..Owner::this_process() };
        assert!(!owner.is_gone());
        let nowhere = Owner { place: String::new(), ..owner };
        assert!(!nowhere.is_gone());
    }

    #[test]
    fn a_number_that_was_given_again_is_another_process() {
        let owner = Owner { started: "1".to_owned(), ..Owner::this_process() };
        assert_eq!(owner.is_gone(), !place().is_empty());
    }
}
