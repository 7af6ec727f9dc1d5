//! Work that may hang in the kernel, on a thread of its own: whoever acts must stay free to act.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::failure::Failure;

/// What takes longer goes on by itself.
const PATIENCE: Duration = Duration::from_millis(300);
/// Enough for a few system calls.
const STACK: usize = 64 << 10;

/// Does `work`, and waits for it a little; `None` if it takes longer.
///
/// # Errors
/// If no thread can be made: nothing was done then.
pub(super) fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(Option<T>, JoinHandle<()>), Failure> {
    let (tell, told) = mpsc::sync_channel(1);
    let work = move || {
        // Nobody listens to what comes too late.
        let _ = tell.send(work());
    };
    let thread = thread::Builder::new().name("act-aside".into()).stack_size(STACK).spawn(work);
    let thread = thread.map_err(|why| Failure::Told(format!("cannot make a thread: {why}")))?;
    Ok((told.recv_timeout(PATIENCE).ok(), thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_is_left_to_itself() {
        assert_eq!(aside(|| 7).unwrap().0, Some(7));
        let (hold, held) = mpsc::channel::<()>();
        let (late, thread) = aside(move || held.recv().is_err()).unwrap();
        assert_eq!(late, None);
        assert!(!thread.is_finished());
        drop(hold);
        thread.join().unwrap();
    }
}
