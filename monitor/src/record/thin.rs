//! What is kept of an old segment once there is no room for all of it: of each chapter the frame of
//! its header, which has everything that its first ticks need. They replay as they did; the ticks
//! between are missing.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};

use super::index::{Begun, begun, frame_end};

/// Writes what is kept, and tells its size. Without frames that is all; a torn one at the end is kept
/// if it begins with a header.
pub(super) fn thin(from: &mut File, to: &mut impl Write) -> io::Result<u64> {
    let all = from.metadata()?.len();
    let (mut at, mut kept) = (0, 0);
    while at < all {
        let end = frame_end(from, at)?.unwrap_or(all);
        from.seek(SeekFrom::Start(at))?;
        if !matches!(begun(from)?, Begun::Mark(_)) {
            from.seek(SeekFrom::Start(at))?;
            kept += io::copy(&mut (&mut *from).take(end - at), to)?;
        }
        at = end;
    }
    Ok(kept)
}
