//! Ctrl-C and SIGTERM: what runs ends early, and says what it had; what serves ends.

use crate::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Exit status of a command that was interrupted: 128 and the signal's number, as shells have it.
pub(crate) const STATUS: u8 = 128 + SIGINT as u8;

/// The flag, if there is one.
static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the first interrupt sets the flag; another one ends the process at once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::clone(FLAG.get_or_init(Arc::default));
    // In this order: the first interrupt must not find the flag set.
    signal_hook::flag::register_conditional_shutdown(SIGINT, i32::from(STATUS), Arc::clone(&stop))
        .map_err(Failure::input)?;
    signal_hook::flag::register(SIGINT, Arc::clone(&stop)).map_err(Failure::input)?;
    Ok(stop)
}

/// From now on the process ends at once, and well, when it is asked to; the first one of a container, too, which the system does not end by
/// itself. For those that keep what they must as they go.
pub(crate) fn end_when_asked() -> Result<(), Failure> {
    let always = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        let ends = signal_hook::flag::register_conditional_shutdown(signal, 0, Arc::clone(&always));
        ends.map_err(Failure::input)?;
    }
    Ok(())
}

/// The flag that an interrupt sets, once a command has asked for it.
pub(crate) fn current() -> Option<&'static AtomicBool> {
    FLAG.get().map(|flag| &**flag)
}

/// Whether it was set.
pub(crate) fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}
