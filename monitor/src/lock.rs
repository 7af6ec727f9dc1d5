//! Mutexes whose owners leave nothing half done: a thread that panicked with one does no harm.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock, also of a mutex that is poisoned.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
