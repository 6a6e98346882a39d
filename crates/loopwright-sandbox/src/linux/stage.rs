//! The first process of a sandbox whose root another program has built.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::exit;

use rustix::process::DumpableBehavior;

use super::confine::{Confinement, Landlock, Processes, Rights, Streams};
use super::filter::Sockets;
use super::fs_view::View;
use super::init_process::{self, InitPipes};
use super::{namespaces, share, sys};
use crate::job::{self, LaunchRequest};
use crate::policy::Network;

/// Takes the job and its descriptors, whose numbers are the arguments, and runs the command. Does not return.
pub(crate) fn main() -> ! {
    // The command runs as the same user and must not access this process, which is not confined.
    if rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err() {
        exit(init_process::FAILED)
    }
    let Ok((job, view, streams, wires)) = take() else { exit(init_process::FAILED) };
    let confinement = Confinement {
        identity: None,
        rights: Rights::Reduced {
            files: namespaces::files(&view),
            sockets: match job.policy.network {
                Network::Host => Sockets::Host,
                Network::Loopback | Network::Domains(_) => Sockets::Namespaced,
                // bwrap has already enabled the loopback interface.
                Network::Off => Sockets::Local,
            },
            // bwrap leaves this process one capability, for this purpose. The command does not get it.
            kernel: share::limit(Path::new("/proc/sys")),
            landlock: Landlock::IfPresent,
        },
        processes: Processes::Limited,
        folder: view.workdir,
    };
    init_process::run(&job, confinement, streams, wires)
}

fn take() -> io::Result<(LaunchRequest, View, Streams, InitPipes)> {
    let missing = || io::Error::other("a descriptor is missing");
    let mut numbers = std::env::args().skip(2);
    let next = |numbers: &mut dyn Iterator<Item = String>| {
        let number = numbers.next().and_then(|number| number.parse().ok()).ok_or_else(missing)?;
        sys::take_descriptor(number)
    };
    let (job, stdin, stdout, stderr, control, reports) = (
        next(&mut numbers)?,
        next(&mut numbers)?,
        next(&mut numbers)?,
        next(&mut numbers)?,
        next(&mut numbers)?,
        next(&mut numbers)?,
    );
    let gate = match numbers.next() {
        Some(number) => Some(sys::take_descriptor(number.parse().map_err(io::Error::other)?)?),
        None => None,
    };
    sys::close_on_exec_from(3)?;
    // The view is passed along, because the original paths are not visible in the sandbox.
    let (job, view) = job::receive(&mut File::from(job))?.ok_or_else(missing)?;
    let streams = Streams { stdin, stdout, stderr, gate: None };
    Ok((job, view, streams, InitPipes { control, reports, gate }))
}
