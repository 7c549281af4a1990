//! Ctrl-C and SIGTERM: temporary files go, then the program does.

use etlink_run::interrupt::remove_temporary_files;

/// Exit code of a program that was interrupted, by convention.
const INTERRUPTED: i32 = 130;

/// Removes temporary files when the program is interrupted.
pub fn install() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        remove_temporary_files();
        #[allow(clippy::exit, reason = "there is no way back from a signal")]
        std::process::exit(INTERRUPTED)
    })
}
