//! An engine's panic is a fault to report, not a message on somebody's terminal.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// While an engine runs on this thread: what its panic said.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What `run` returns, or what it panics with and where; nothing is printed.
pub fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let inherited = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = CAUGHT.with_borrow_mut(|caught| {
                let ours = caught.is_some();
                if ours {
                    let text = info.payload_as_str().unwrap_or("a panic without a message");
                    let line = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
                    *caught = Some(format!("{text}{}", line.unwrap_or_default()));
                }
                ours
            });
            if !ours {
                inherited(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(run));
    let caught = CAUGHT.take();
    result.map_err(|_| caught.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_is_told_with_its_place() {
        let message = super::catch_panic(|| panic!("seven of {}", 9)).unwrap_err();
        assert!(message.starts_with("seven of 9 (") && message.contains("panics.rs:"), "{message}");
        assert_eq!(super::catch_panic(|| 5), Ok(5));
    }
}
